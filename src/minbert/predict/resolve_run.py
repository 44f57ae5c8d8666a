"""The training runs that a variant's tasks come from, found in a results folder by name."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from minbert.base.errors import UserError, did_you_mean
from minbert.base.progress import some
from minbert.data.parquet import read_file
from minbert.spec.task import TASKS, use_tasks_of
from minbert.store.job import Job, node_folder
from minbert.store.node import seed_folders
from minbert.store.plans import (
    published_plans,
    read_description,
    read_plan,
    records,
    stage_rows,
)

Row = dict[str, Any]
TEXTS = ("id", "sentence1", "sentence2")


@dataclass(frozen=True)
class ResolvedVariant:
    """A variant as a plan had it, whose `record` it is, as far as it is trained.

    `stages` is {stage: key}, `settings` {stage: settings}, `chosen` {task: {seed: key}} with every
    task. The best of others trains nothing: its stages are those that it was chosen from,
    `VARIANT/STAGE`.
    """

    root: Path
    paper: str
    name: str
    record: Mapping[str, Any]
    stages: Mapping[str, str]
    settings: Mapping[str, Mapping[str, Any]]
    chosen: Mapping[str, Mapping[int, str]]

    def seeds(self, tasks: Sequence[str] = ()) -> list[int]:
        """Return the seeds that `tasks` (default: all) are trained with, in ascending order."""
        return sorted(set.intersection(*({*self.chosen[task]} for task in tasks or self.chosen)))

    def run(self, task: str | None = None, seed: int | None = None) -> TrainedTask:
        """Return the run of a task, or of the only one, as `runs` does."""
        first, *others = self.chosen
        if task is None and others:
            raise UserError(
                f"{self.paper}: variant '{self.name}' has several tasks: {', '.join(self.chosen)}; "
                f'name one (`--task {first}`, in Python `task="{first}"`)'
            )
        task = task or first
        return self.runs([task], seed)[task]

    def runs(self, tasks: Sequence[str] = (), seed: int | None = None) -> dict[str, TrainedTask]:
        """Return the run of each of `tasks`, all with `seed` (default: the smallest trained).

        Raises `UserError` if there is no such task or seed.
        """
        about = f"{self.paper}: variant '{self.name}'"
        tasks = tasks or [*self.chosen]
        for task in tasks:
            if task not in self.chosen:
                known = f"{', '.join(self.chosen)}.{did_you_mean(task, self.chosen)}"
                raise UserError(f"{about} has no task '{task}'; it has {known}")
        seeds = self.seeds(tasks)
        if not seeds or seed not in (None, *seeds):
            raise UserError(
                f"{about} has no such run yet (seeds on {', '.join(tasks)}: {seeds or 'none'}); "
                f"`{_snakemake(self.record)}` (with `seeds` of config.yaml) trains it"
            )
        seed = seeds[0] if seed is None else seed
        return {task: TrainedTask(self, task, seed, self.chosen[task][seed]) for task in tasks}


@dataclass(frozen=True)
class TrainedTask:
    """A finished training, as the source of one task of a variant."""

    variant: ResolvedVariant
    task: str
    seed: int
    key: str

    @property
    def job(self) -> Job:
        """Its job, which names the files that it was made from."""
        root = self.variant.root
        return Job(root, read_description(root, "train", self.key), self.seed, threads=1)

    def file(self, name: str) -> Path:
        """Return the path of a file of it, or one that it needs; `UserError` if it is missing."""
        job = self.job
        path = job.need(name) if name in job.described["needs"] else job.out / name
        if not path.is_file():
            raise UserError(
                f"{path}: there is no such file, which variant '{self.variant.name}' needs: "
                "deleted, perhaps by `keep_weights: false`, or left out of a bundle; "
                f"`{_snakemake(self.variant.record, path)}` makes it"
            )
        return path

    def sentences(self) -> pa.Table:
        """Return its task's examples, by `TEXTS`; no rows if their table was deleted."""
        of = self.variant
        key = of.record["papers"][of.paper]["datasets"][self.task]
        path = node_folder(of.root, "data", key) / "examples.parquet"
        if path.is_file():
            return read_file(path, TEXTS)
        return pa.table({name: pa.array([], pa.string()) for name in TEXTS})


def find(root: Path, variant: str) -> ResolvedVariant:
    """Return the first of `versions`."""
    return versions(root, variant)[0]


def versions(root: Path, variant: str) -> list[ResolvedVariant]:
    """Return what is `VARIANT`, or `PAPER/VARIANT`, in each of `plans` that has it.

    With `@KEY`, only those of which KEY, or what begins so, is a training. The tasks of this
    process are then those of the first. Raises `UserError` for a name that is unknown or in several
    papers, for an unknown KEY, and for what was deleted.
    """
    wanted, _, start = variant.partition("@")
    known: dict[str, list[Row]] = {}
    for record in plans(root):
        rows = [*stage_rows(record["variants"]), *scores_of(root, record)]
        for name in dict.fromkeys(map(_name, rows)):
            known.setdefault(name, []).append(record)
    named = [name for name in known if f"/{name}".endswith(f"/{wanted}")]
    if len(named) != 1:
        near = did_you_mean(wanted, [*known, *(name.partition("/")[2] for name in known)])
        said = "several papers have the" if named else "there is no"
        raise UserError(f"{root}: {said} variant '{wanted}', but {some(named or known)}.{near}")
    found, problem = [], f"has no training of key '{start}'"
    for record in known[named[0]]:
        try:
            each = _resolved(root, record, named[0])
            if any(key.startswith(start) for key in each.stages.values()):
                found.append(each)
        except UserError as error:
            problem = str(error)
    if not found:
        raise UserError(f"variant '{wanted}': {problem}")
    use_tasks_of(found[0].record)
    return found


def plans(root: Path) -> list[dict[str, Any]]:
    """Return the records of the plans that are published, then of the others, the newest first."""
    published = {plan: read_plan(root, plan) for plan in published_plans(root)}
    if every := published | dict(records(root)):
        return [*every.values()]
    raise UserError(
        f"{root}: the folder has no results; name one that has, such as results/demo (`--results "
        "ROOT`, in Python `minbert.open(ROOT)`), or make results with `snakemake --cores 2 all`"
    )


def scores_of(root: Path, record: Mapping[str, Any]) -> list[Row]:
    """Return the rows of the score tables of a plan's papers, as far as they are made."""
    keys = (facts["scores"] for facts in record["papers"].values())
    paths = (node_folder(root, "scores", key) / "scores.parquet" for key in keys)
    return [row for path in paths if path.is_file() for row in _rows(path)]


@cache
def _rows(path: Path) -> list[Row]:
    return list(read_file(path).to_pylist())


def _name(row: Row) -> str:
    """Return the paper and variant of a stage, or of a score."""
    return f"{row['paper']}/{row['variant']}"


def _resolved(root: Path, record: Mapping[str, Any], name: str) -> ResolvedVariant:
    use_tasks_of(record)
    rows = stage_rows(record["variants"])
    own = {row["stage"]: row["key"] for row in rows if _name(row) == name}
    scores = [] if own else [of for of in scores_of(root, record) if _name(of) == name]
    titles = {row["key"]: f"{row['variant']}/{row['stage']}" for row in reversed(rows)}
    stages = own | {titles[of["key"]]: of["key"] for of in scores if of["key"]}
    settings = {
        stage: read_description(root, "train", key)["spec"]["stage"]
        for stage, key in stages.items()
    }
    chosen: dict[str, dict[int, str]] = {}
    for stage, key in own.items():
        folders = seed_folders(root / "store" / "train" / key).items()
        trained = {seed: key for seed, folder in folders if (folder / "run.json").exists()}
        # A later stage takes over all its tasks, even those that it does not train.
        chosen |= dict.fromkeys(settings[stage]["tasks"], trained)
    for of in scores:
        chosen.setdefault(of["task"], {})[of["seed"]] = of["key"]
    ordered = {task: chosen[task] for task in TASKS if task in chosen}
    paper, _, variant = name.partition("/")
    return ResolvedVariant(root, paper, variant, record, stages, settings, ordered)


def _snakemake(record: Mapping[str, Any], target: object = "all") -> str:
    """Return the command that makes `target` by the configuration of a plan."""
    return f"snakemake --cores 2 {shlex.quote(str(target))} {record['options']}".rstrip()
