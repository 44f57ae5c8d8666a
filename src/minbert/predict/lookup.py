"""The training run that a variant's task comes from, found in a results folder."""

import itertools
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, nearest
from minbert.evaluate.text import read_csv
from minbert.spec.grid import ALL
from minbert.spec.task import TASKS, use_tasks_of
from minbert.store.job import Job, node_folder
from minbert.store.node import seed_folders
from minbert.store.plans import (
    ONLY,
    SCORES,
    VARIANTS,
    check_root,
    describe_job,
    description_path,
    held_of,
    plan_path,
    read_description,
    read_plan,
    records,
    score_tables,
    stage_rows,
)


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
                f"{path}: the weights of variant '{self.variant}' are not there: they were deleted "
                "(`keep_weights: false`), or the run came in a bundle without them. With "
                f"`keep_weights: true`, which is the default, {again}"
            )
        raise UserError(f"{path}: there is no such file, although the run has ended; {again}")


@dataclass(frozen=True)
class Found:
    """A variant and the stages that its tasks come from.

    `chosen` is {seed: {task: key}} as far as trained, `wanted` {task: key} as planned; `wanted` is
    None for the best of other variants, which train nothing. `stages` is {stage: key}; the stages
    of others are `VARIANT/STAGE`, those of the first variant if several share them.
    """

    root: Path
    paper: str
    name: str
    wanted: Mapping[str, str] | None
    chosen: Mapping[int, Mapping[str, str]]
    stages: Mapping[str, str]

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


def find(root: Path, variant: str) -> Found:
    """Return a variant of the results folder `root`, as it was published last.

    `variant` is `VARIANT` or, if several papers have one of that name, `PAPER/VARIANT`.
    If only an earlier part had it, it is the one that was trained last.
    `VARIANT@KEY` is the variant as an earlier plan had it, when KEY, or what begins so, was one of
    its trainings. The score table names the runs of a variant that is the best of others. The
    tasks of this process are then those of its paper. Raises `UserError` for a folder without
    results, and for an unknown or ambiguous variant, paper or key.
    """
    named, _, key = variant.partition("@")
    before, slash, named = named.rpartition("/")
    paper = before if slash else None
    rows = variant_rows(root)
    stages = _by_variant(rows)
    best = {} if (paper, named) in stages else _best_of(root, stages)
    if not any(v == named and paper in (None, p) for p, v in (*stages, *best)):
        stages |= _replaced(root, named, paper)
    name = _named([*stages, *best], named, paper, root)
    _use_tasks_of(root, name[0])
    if name in best:
        used = {key for of_seed in best[name].values() for key in of_seed.values()}
        others: dict[str, str] = {}
        for row in rows:
            if row["paper"] == name[0] and row["key"] in used - {*others.values()}:
                others[f"{row['variant']}/{row['stage']}"] = row["key"]
        found = Found(root, *name, None, best[name], others)
    else:
        found = _trained(root, *name, stages[name])
    return _with_key(found, key) if key else found


def earlier(found: Found) -> Iterator[Found]:
    """Yield the variant as other plans had it, the newest first, as far as any of it is trained."""
    seen = [found.stages]
    for _, record in records(found.root):
        rows = stage_rows(record.get("variants", ()))
        names = (found.paper, found.name)
        stages = {r["stage"]: r["key"] for r in rows if (r["paper"], r["variant"]) == names}
        if stages and stages not in seen:
            seen.append(stages)
            with suppress(UserError):  # Its descriptions were deleted, and so its results.
                other = _trained(found.root, *names, stages)
                if other.chosen:
                    yield other


def variant_rows(root: Path) -> list[dict[str, str]]:
    """Return every stage of every variant, by `VARIANT_COLUMNS`.

    They are those published of whole grids, then those of a part alone; before the first
    publication, those of the newest plan.
    """
    check_root(root)
    paths = _lists(root)
    if not any(path.exists() for path in paths):
        for _, record in records(root):
            if rows := record.get("variants"):
                return stage_rows(rows)
    found: list[dict[str, str]] = []
    for path in paths:
        known = {(row["paper"], row["variant"]) for row in found}
        rows = _rows_of(root, path)
        found += [row for row in rows if (row["paper"], row["variant"]) not in known]
    return found


def _lists(root: Path) -> list[Path]:
    """Return the published lists of variants; if there is none, where the first will be."""
    paths = [root / VARIANTS, root / ONLY / VARIANTS]
    return [path for path in paths if path.exists()] or paths[:1]


def plan_of(root: Path, paper: str) -> dict[str, Any]:
    """Return the record of the plan that a paper was published by; empty if there is none.

    Before the first publication it is the newest plan that has the paper.
    """
    plan = held_of(root, paper, "plans")
    if plan and plan_path(root, plan).exists():
        return read_plan(root, plan)
    newest = (record for _, record in records(root) if paper in record.get("papers", ()))
    return {} if plan else next(newest, {})


def _by_variant(rows: Iterable[Mapping[str, str]]) -> dict[tuple[str, str], dict[str, str]]:
    """Return {(paper, variant): {stage: key}}."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        found.setdefault((row["paper"], row["variant"]), {})[row["stage"]] = row["key"]
    return found


def _replaced(root: Path, name: str, paper: str | None) -> dict[tuple[str, str], dict[str, str]]:
    """Return trained variants of this name that earlier plans had, as the newest of them did."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for _, record in records(root):
        for of, stages in _by_variant(stage_rows(record.get("variants", ()))).items():
            if of[1] == name and paper in (None, of[0]) and of not in found:
                with suppress(UserError):  # Its descriptions were deleted, and so its results.
                    if _trained(root, *of, stages).chosen:
                        found[of] = stages
    return found


def _trained(root: Path, paper: str, name: str, stages: Mapping[str, str]) -> Found:
    """Return a variant with these stages, as far as they are trained."""
    wanted: dict[str, str] = {}
    for key in stages.values():
        if not (path := description_path(root, "train", key)).exists():
            raise UserError(
                f"{paper}: variant '{name}' is not there any more: {path} is missing, as after "
                "`minbert gc --delete`, which deletes the weights too; "
                f"`{_snakemake(root, paper)}` trains the variant again if its grid still has it"
            )
        # A later stage takes over all its tasks, even those that it does not train.
        tasks = read_description(root, "train", key)["spec"]["stage"]["tasks"]
        wanted |= dict.fromkeys(tasks, key)
    chosen: dict[int, dict[str, str]] = {}
    for task, key in wanted.items():
        for seed, folder in seed_folders(root / "store" / "train" / key).items():
            if (folder / "run.json").exists():
                chosen.setdefault(seed, {})[task] = key
    return Found(root, paper, name, wanted, chosen, stages)


def _with_key(found: Found, wanted: str) -> Found:
    versions = [] if found.wanted is None else [found, *earlier(found)]
    for each in versions:
        if any(key.startswith(wanted) for key in each.stages.values()):
            return each
    keys = [key for each in versions for key in each.stages.values()]
    said = f"those with results are {', '.join(keys)}" if keys else "it is the best of others"
    raise UserError(
        f"{found.paper}: variant '{found.name}' has no training of key '{wanted}'; {said}."
        f"{nearest(wanted, keys)}"
    )


def choose_task(found: Found, task: str | None) -> str:
    """Return `task`, or the only task if None; `UserError` if the variant has no such task."""
    about = f"{found.paper}: variant '{found.name}'"
    if task is None:
        if len(found.tasks) > 1:
            raise UserError(
                f"{about} has several tasks: {', '.join(found.tasks)}; name one (`--task "
                f'{found.tasks[0]}`, in Python `task="{found.tasks[0]}"`)'
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
            f"{' or '.join(f'{name}/{variant}' for name in having)}"
        )
    if having:
        return having[0], variant
    others = sorted(p for p, v in known if v == variant)
    if others:
        raise UserError(
            f"{root}: paper '{paper}' has no variant '{variant}', but {', '.join(others)} has: "
            f"{others[0]}/{variant}"
        )
    names = [v for p, v in known if paper in (None, p)]
    unscored = ""
    if not score_tables(root):
        unscored = f" (the best of other variants is known once {root / SCORES} exists)"
    lists = shlex.join(["cut", "-f", "1,2", *map(str, _lists(root))])
    raise UserError(
        f"{root}: no variant '{variant}'{unscored}; `{lists}` lists them.{nearest(variant, names)}"
    )


def _rows_of(root: Path, path: Path) -> list[dict[str, str]]:
    if path.is_dir():
        raise UserError(
            f"{path}: expected a file, found a folder; move it away: "
            f"`{_snakemake(root, ALL)}` writes it"
        )
    if not path.is_file():
        below = [shlex.quote(str(p.parent)) for p in sorted(root.glob(f"*/{VARIANTS}"))]
        hint = f" Did you mean --results {' or --results '.join(below)}?" if below else ""
        raise UserError(
            f"{path}: there is no such file, so the folder has no results; give another one "
            "(`--results ROOT`, in Python `minbert.open(ROOT)`), or make results with "
            f"`snakemake --cores 2 all`.{hint}"
        )
    rows = read_csv(path, delimiter="\t")
    if not rows or not {"paper", "variant", "stage", "key"} <= rows[0].keys():
        found = ", ".join(rows[0]) if rows else "no row"
        raise UserError(
            f"{path}: expected rows of the columns paper, variant, stage and key, found {found}; "
            f"delete it: `{_snakemake(root, ALL)}` writes it again"
        )
    return rows


def _use_tasks_of(root: Path, paper: str) -> None:
    """Use the tasks of the plan by which a paper was published."""
    if record := plan_of(root, paper):
        use_tasks_of(record)


def _best_of(
    root: Path, trained: Mapping[tuple[str, str], object]
) -> dict[tuple[str, str], dict[int, dict[str, str]]]:
    """Return {(paper, variant): {seed: {task: key}}} of scored variants that train nothing."""
    best: dict[tuple[str, str], dict[int, dict[str, str]]] = {}
    for path in score_tables(root):
        from minbert.evaluate.reading import read_scores

        known = {*trained, *best}
        for paper in dict.fromkeys(paper for paper, _ in trained):
            _use_tasks_of(root, paper)
            for of, by_seed in read_scores(path, paper).items():
                name = (paper, of.variant)
                if of.split == "dev" and of.measure in TASKS and name not in known:
                    for seed, score in by_seed.items():
                        best.setdefault(name, {}).setdefault(seed, {})[of.measure] = score.key
    return best


def _snakemake(root: Path, paper: str, target: Path | str = "all") -> str:
    """Return the command that makes `target` by the configuration that a paper was published by."""
    options = held_of(root, paper, "options") or ""
    return f"snakemake --cores 2 {shlex.quote(str(target))} {options}".rstrip()
