"""The training run that a variant's task comes from, found in a results folder."""

import itertools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from minbert.base.errors import UserError, nearest
from minbert.evaluate.text import read_csv
from minbert.spec.grid import ALL
from minbert.spec.task import TASKS
from minbert.store.job import Job, node_folder
from minbert.store.node import seed_folders
from minbert.store.plans import describe_job, held, read_description

VARIANTS = "variants.tsv"
SCORES = Path("tables", "scores.parquet")


@dataclass(frozen=True)
class Run:
    """A training run as the source of one task of a variant."""

    root: Path
    paper: str
    variant: str
    task: str
    key: str
    seed: int

    @cached_property
    def job(self) -> Job:
        """Its job, which names the files that it was made from."""
        described = describe_job(self.root, "train", self.key)
        return Job(self.root, described, self.seed, threads=1)

    def file(self, name: str) -> Path:
        """Return the path of one of its files; a missing one raises `UserError`."""
        path = node_folder(self.root, "train", self.key, self.seed) / name
        if path.is_file():
            return path
        again = f"`{_snakemake(self.root, self.paper, path)}` trains it again"
        if name == "model.safetensors":
            raise UserError(
                f"{path}: the weights of variant '{self.variant}' were deleted "
                f"(keep_weights: false); set keep_weights: true in config.yaml, then {again}"
            )
        raise UserError(f"{path}: there is no such file, although the run has ended; {again}")


@dataclass(frozen=True)
class Found:
    """A variant and the stages that its tasks come from.

    `chosen` is {seed: {task: key}} as far as trained, `wanted` {task: key} as planned; `wanted` is
    None for the best of other variants, which train nothing. `owners` is {key: variant}.
    """

    root: Path
    paper: str
    name: str
    wanted: Mapping[str, str] | None
    chosen: Mapping[int, Mapping[str, str]]
    owners: Mapping[str, str]

    @property
    def tasks(self) -> tuple[str, ...]:
        """Its tasks, in the order of `TASKS`."""
        found = {*(self.wanted or ()), *itertools.chain(*self.chosen.values())}
        return tuple(task for task in TASKS if task in found)

    def runs(self, tasks: Sequence[str], seed: int | None = None) -> dict[str, Run]:
        """Return the run of each of `tasks`, all with `seed` (default: the smallest trained).

        Raises `UserError` if there is no such seed, naming what to run.
        """
        seeds = sorted(seed for seed, keys in self.chosen.items() if set(tasks) <= keys.keys())
        if not seeds:
            raise UserError(self._untrained(tasks))
        if seed is None:
            seed = seeds[0]
        if seed not in seeds:
            raise UserError(
                f"{self.paper}: variant '{self.name}' is not trained with seed {seed}, but with "
                f"{', '.join(map(str, seeds))}. Choose one of these, or add {seed} to `seeds` in "
                f"config.yaml and run `{_snakemake(self.root, self.paper)}`"
            )
        keys = self.chosen[seed]
        about = (self.root, self.paper, self.name)
        return {task: Run(*about, task, keys[task], seed) for task in tasks}

    def _untrained(self, tasks: Sequence[str]) -> str:
        about = f"{self.paper}: variant '{self.name}' is not trained yet"
        every = f"`{_snakemake(self.root, self.paper)}` trains every variant"
        bare = [t for t in tasks if not any(t in keys for keys in self.chosen.values())]
        if not self.wanted or not bare:  # then the tasks have runs, but not of the same seed
            return f"{about} with one seed for all of {', '.join(tasks)}; {every}"
        path = node_folder(self.root, "train", self.wanted[bare[0]], 0) / "run.json"
        one = _snakemake(self.root, self.paper, path)
        return f"{about} ({path} is missing); `{one}` trains it, {every}"


def find(root: Path, variant: str, paper: str | None = None) -> Found:
    """Return the variant in the results folder `root`; `paper` is needed if several have the name.

    The score table names the runs of a variant that is the best of others. Raises `UserError` for
    a folder without results, and for an unknown or ambiguous variant or paper.
    """
    rows = _variant_rows(root)
    stages: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        stages.setdefault((row["paper"], row["variant"]), []).append(row["key"])
    best = _best_of(root, stages)
    name = _named([*stages, *best], variant, paper, root)
    # A run that several variants share is named after the first.
    owners = {row["key"]: row["variant"] for row in reversed(rows) if row["paper"] == name[0]}
    if name in best:
        return Found(root, *name, None, best[name], owners)
    wanted: dict[str, str] = {}
    for key in stages[name]:
        # A later stage takes over all its tasks, even those that it does not train.
        tasks = read_description(root, "train", key)["spec"]["stage"]["tasks"]
        wanted |= dict.fromkeys(tasks, key)
    chosen: dict[int, dict[str, str]] = {}
    for task, key in wanted.items():
        for seed, folder in seed_folders(root / "store" / "train" / key).items():
            if (folder / "run.json").exists():
                chosen.setdefault(seed, {})[task] = key
    return Found(root, *name, wanted, chosen, owners)


def choose_task(found: Found, task: str | None) -> str:
    """Return `task`, or the only task if None; `UserError` if the variant has no such task."""
    about = f"{found.paper}: variant '{found.name}'"
    if task is None:
        if len(found.tasks) > 1:
            raise UserError(
                f"{about} has several tasks: {', '.join(found.tasks)}; choose one with --task"
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
            f"{root}: '{variant}' is a variant of several papers; choose one: "
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
    unscored = ""
    if not (root / SCORES).is_file():
        unscored = f" (the best of other variants is known once {root / SCORES} exists)"
    raise UserError(
        f"{root}: no variant '{variant}'{unscored}; `cut -f 1,2 {root / VARIANTS}` lists them."
        f"{nearest(variant, names)}"
    )


def _variant_rows(root: Path) -> list[dict[str, str]]:
    path = root / VARIANTS
    if path.is_dir():
        raise UserError(
            f"{path}: expected a file, found a folder; move it away: "
            f"`{_snakemake(root, ALL)}` writes it"
        )
    if not path.is_file():
        below = [f"--results {p.parent}" for p in sorted(root.glob(f"*/{VARIANTS}"))]
        hint = f" There is {' and '.join(below)}." if below else ""
        raise UserError(
            f"{path}: there is no such file, so the folder has no results; give another one with "
            f"--results, or make results with `snakemake --cores 2 all`.{hint}"
        )
    rows = read_csv(path, delimiter="\t")
    if not rows or not {"paper", "variant", "key"} <= rows[0].keys():
        found = ", ".join(rows[0]) if rows else "no row"
        raise UserError(
            f"{path}: expected rows of the columns paper, variant and key, found {found}; "
            f"delete it: `{_snakemake(root, ALL)}` writes it again"
        )
    return rows


def _best_of(
    root: Path, trained: Mapping[tuple[str, str], object]
) -> dict[tuple[str, str], dict[int, dict[str, str]]]:
    """Return {(paper, variant): {seed: {task: key}}} of scored variants that train nothing."""
    if not (root / SCORES).is_file():
        return {}
    from minbert.evaluate.reading import read_scores

    best: dict[tuple[str, str], dict[int, dict[str, str]]] = {}
    for paper in dict.fromkeys(paper for paper, _ in trained):
        for of, by_seed in read_scores(root / SCORES, paper).items():
            name = (paper, of.variant)
            if of.split == "dev" and of.measure in TASKS and name not in trained:
                for seed, score in by_seed.items():
                    best.setdefault(name, {}).setdefault(seed, {})[of.measure] = score.key
    return best


def _snakemake(root: Path, paper: str, target: Path | str = "all") -> str:
    """Return the command that makes `target` by the configuration that a paper was published by."""
    options = held(root).get("options", {}).get(paper, "")
    return f"snakemake --cores 2 {shlex.quote(str(target))} {options}".rstrip()
