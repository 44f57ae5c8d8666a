"""Which training run a variant's task comes from, found in a results folder."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from minbert.common.errors import UserError, nearest
from minbert.common.files import read_json
from minbert.grid.job import Job
from minbert.grid.node import description_path, node_folder
from minbert.grid.tasks import TASKS

VARIANTS = "variants.tsv"
SCORES = Path("tables", "scores.parquet")


@dataclass(frozen=True)
class Run:
    """One training run as the source of one task of a variant."""

    root: Path
    paper: str
    variant: str
    task: str
    key: str
    seed: int

    @property
    def folder(self) -> Path:
        """Where its files lie."""
        return node_folder(self.root, "train", self.key, self.seed)

    @cached_property
    def job(self) -> Job:
        """Its description, which names the files that it was made from."""
        return Job(self.root, _description(self.root, self.key), self.seed, threads=1)

    def file(self, name: str) -> Path:
        """Return the path of one of its files; one that is not there raises `UserError`."""
        path = self.folder / name
        if path.is_file():
            return path
        again = f"`snakemake --cores 2 {path}` trains it again"
        if name == "model.safetensors":
            raise UserError(
                f"{path}: the weights of variant '{self.variant}' were let go "
                f"(keep_weights: false); set keep_weights: true in config.yaml, then {again}"
            )
        raise UserError(f"{path}: there is no such file, though the run has ended; {again}")


@dataclass(frozen=True)
class Found:
    """A variant that was found: for each seed that all its tasks have, {task: key}.

    `wanted` is {task: key} as planned, trained or not; None for the best of other variants, whose
    choice may differ by seed (`owners`, {key: variant}, names what was chosen).
    """

    root: Path
    paper: str
    name: str
    wanted: Mapping[str, str] | None
    chosen: Mapping[int, Mapping[str, str]]
    owners: Mapping[str, str]

    @property
    def tasks(self) -> tuple[str, ...]:
        """Its tasks, in the order of the registry."""
        each = [self.wanted] if self.wanted is not None else self.chosen.values()
        return tuple(task for task in TASKS if any(task in keys for keys in each))

    def runs(self, tasks: Sequence[str], seed: int | None = None) -> dict[str, Run]:
        """Return the run that each of `tasks` comes from, all of one seed.

        Without `seed` the smallest that all of them are trained with. Raises `UserError` if there
        is none, saying what to run.
        """
        seeds = self._seeds(tasks)
        if not seeds:
            raise UserError(self._untrained(tasks))
        if seed is None:
            seed = seeds[0]
        if seed not in seeds:
            raise UserError(
                f"{self.paper}: variant '{self.name}' is not trained with seed {seed}; it is with "
                f"{', '.join(map(str, seeds))}. Choose one of these, or add {seed} to `seeds` in "
                "config.yaml and run `snakemake all --cores 2`"
            )
        keys = self.chosen[seed] if self.wanted is None else self.wanted
        return {
            task: Run(self.root, self.paper, self.name, task, keys[task], seed) for task in tasks
        }

    def _seeds(self, tasks: Sequence[str]) -> list[int]:
        if self.wanted is None:
            return sorted(seed for seed, keys in self.chosen.items() if set(tasks) <= keys.keys())
        trained = [set(_trained_seeds(self.root, self.wanted[task])) for task in tasks]
        return sorted(set.intersection(*trained))

    def _untrained(self, tasks: Sequence[str]) -> str:
        about = f"{self.paper}: variant '{self.name}' is not trained yet"
        every = "`snakemake all --cores 2` trains every variant"
        if self.wanted is None:
            return f"{about} for {', '.join(tasks)} with one seed; {every}"
        # What lacks every seed is named; failing that, the seeds of two stages are different ones.
        bare = [t for t in tasks if not list(_trained_seeds(self.root, self.wanted[t]))]
        if not bare:
            return f"{about} with one seed for all of {', '.join(tasks)}; {every}"
        path = node_folder(self.root, "train", self.wanted[bare[0]], 0) / "run.json"
        return f"{about} ({path} is missing); `snakemake --cores 2 {path}` trains it, {every}"


def find(root: Path, variant: str, paper: str | None = None) -> Found:
    """Return what `variant` is under the results folder `root`.

    `paper` decides between papers that have a variant of the same name. A variant that is the
    best of others trains nothing; which runs it took stands in the score table. Raises
    `UserError` for a folder without results, and for an unknown or ambiguous variant or paper.
    """
    rows = _variant_rows(root)
    stages: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        stages.setdefault((row["paper"], row["variant"]), []).append(row["key"])
    best = _best_of(root, stages)
    name = _named([*stages, *best], variant, paper, root)
    # Of variants that share a run the first has its name.
    owners = {row["key"]: row["variant"] for row in reversed(rows) if row["paper"] == name[0]}
    if name in best:
        return Found(root, *name, None, best[name], owners)
    wanted: dict[str, str] = {}
    for key in stages[name]:
        # A later stage takes over the tasks that it has, those it does not train too.
        tasks = _description(root, key)["spec"]["stage"]["tasks"]
        wanted |= dict.fromkeys(tasks, key)
    return Found(root, *name, wanted, {}, owners)


def choose_task(found: Found, task: str | None) -> str:
    """Return `task` if the variant has it, or its only one if None; else raise `UserError`."""
    about = f"{found.paper}: variant '{found.name}'"
    if task is None:
        if len(found.tasks) > 1:
            raise UserError(
                f"{about} has several tasks: {', '.join(found.tasks)}; name one with --task"
            )
        return found.tasks[0]
    if task not in found.tasks:
        raise UserError(
            f"{about} has no task '{task}'; it has {', '.join(found.tasks)}."
            f"{nearest(task, found.tasks)}"
        )
    return task


def _named(
    known: Sequence[tuple[str, str]], variant: str, paper: str | None, root: Path
) -> tuple[str, str]:
    papers = {name for name, _ in known}
    if paper is not None and paper not in papers:
        raise UserError(
            f"{root}: no paper '{paper}'; there are {', '.join(sorted(papers))}."
            f"{nearest(paper, papers)}"
        )
    having = sorted(p for p, v in known if v == variant and paper in (None, p))
    if len(having) > 1:
        raise UserError(
            f"{root}: '{variant}' is a variant of several papers; name one: "
            f"{' or '.join(f'--paper {name}' for name in having)}"
        )
    if having:
        return having[0], variant
    others = sorted(p for p, v in known if v == variant)
    if others:
        raise UserError(
            f"{root}: paper '{paper}' has no variant '{variant}', but {', '.join(others)} has: "
            f"--paper {others[0]}"
        )
    names = [v for p, v in known if paper in (None, p)]
    unscored = (
        ""
        if (root / SCORES).is_file()
        else (f" (one that is the best of others is known once {root / SCORES} is made)")
    )
    raise UserError(
        f"{root}: no variant '{variant}'{unscored}; `cut -f 1,2 {root / VARIANTS}` lists them."
        f"{nearest(variant, names)}"
    )


def _variant_rows(root: Path) -> list[dict[str, str]]:
    path = root / VARIANTS
    if not path.is_file():
        below = [f"--results {p.parent}" for p in sorted(root.glob(f"*/{VARIANTS}"))]
        hint = f" There is {' and '.join(below)}." if below else ""
        raise UserError(
            f"{path}: there is no such file, so no results are there; name their folder with "
            f"--results, or plan them: `snakemake -n all`.{hint}"
        )
    with path.open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle, delimiter="\t"))
    if rows and not {"paper", "variant", "key"} <= rows[0].keys():
        raise UserError(
            f"{path}: expected the columns paper, variant and key, found {', '.join(rows[0])}; "
            "`snakemake -n all` writes it anew"
        )
    return rows


def _best_of(
    root: Path, trained: Mapping[tuple[str, str], object]
) -> dict[tuple[str, str], dict[int, dict[str, str]]]:
    """Return {(paper, variant): {seed: {task: key}}} of scored variants that train nothing."""
    if not (root / SCORES).is_file():
        return {}
    from minbert.evaluate.reading import read_columns

    columns = ("paper", "variant", "seed", "task", "key")
    best: dict[tuple[str, str], dict[int, dict[str, str]]] = {}
    for row in read_columns(root / SCORES, columns, [("split", "=", "dev")]).to_pylist():
        name = (row["paper"], row["variant"])
        if row["task"] in TASKS and row["key"] and name not in trained:
            best.setdefault(name, {}).setdefault(row["seed"], {})[row["task"]] = row["key"]
    return best


def _description(root: Path, key: str) -> dict[str, Any]:
    path = description_path(root, "train", key)
    if not path.is_file():
        raise UserError(
            f"{path}: the description of a stage is missing; `snakemake -n all` writes it anew"
        )
    described: dict[str, Any] = read_json(path)
    return described


def _trained_seeds(root: Path, key: str) -> Iterator[int]:
    for path in (root / "store" / "train" / key).glob("seed*/run.json"):
        number = path.parent.name.removeprefix("seed")
        if number.isdecimal():
            yield int(number)
