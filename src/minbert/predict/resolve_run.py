"""The training runs that a variant's tasks come from, found in a results folder by name."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class ResolvedVariant:
    """A variant as a plan had it, whose `record` it is, as far as it is trained.

    `stages` is {stage: key}, `chosen` {seed: {task: key}}. The best of others trains nothing: its
    stages are those that it was chosen from, `VARIANT/STAGE`.
    """

    root: Path
    paper: str
    name: str
    record: Mapping[str, Any]
    stages: Mapping[str, str]
    tasks: Sequence[str]
    chosen: Mapping[int, Mapping[str, str]]

    def run(self, task: str | None = None, seed: int | None = None) -> Run:
        """Return the run of a task, or of the only one, as `runs` does."""
        if task is None and len(self.tasks) > 1:
            raise UserError(
                f"{self.paper}: variant '{self.name}' has several tasks: {', '.join(self.tasks)}; "
                f'name one (`--task {self.tasks[0]}`, in Python `task="{self.tasks[0]}"`)'
            )
        task = task or self.tasks[0]
        return self.runs([task], seed)[task]

    def runs(self, tasks: Sequence[str], seed: int | None = None) -> dict[str, Run]:
        """Return the run of each of `tasks`, all with `seed` (default: the smallest trained).

        Raises `UserError` if there is no such task or seed.
        """
        about = f"{self.paper}: variant '{self.name}'"
        for task in tasks:
            if task not in self.tasks:
                known = f"{', '.join(self.tasks)}.{did_you_mean(task, self.tasks)}"
                raise UserError(f"{about} has no task '{task}'; it has {known}")
        seeds = sorted(n for n, keys in self.chosen.items() if keys.keys() >= {*tasks})
        if not seeds or seed not in (None, *seeds):
            wanted = "one seed for all of them" if seed is None else f"seed {seed}"
            raise UserError(
                f"{about} is not trained yet on {', '.join(tasks)} with {wanted}, but with "
                f"{seeds}; choose one, or run `{_snakemake(self.record)}` (with `seeds` of "
                "config.yaml)"
            )
        return {task: Run(self, task, seeds[0] if seed is None else seed) for task in tasks}


@dataclass(frozen=True)
class Run:
    """A finished training, as the source of one task of a variant."""

    variant: ResolvedVariant
    task: str
    seed: int

    @property
    def key(self) -> str:
        """The key of the training."""
        return self.variant.chosen[self.seed][self.task]

    @property
    def job(self) -> Job:
        """Its job, which names the files that it was made from."""
        root = self.variant.root
        return Job(root, read_description(root, "train", self.key), self.seed, threads=1)

    def file(self, name: str) -> Path:
        """Return the path of one of its files; a missing one raises `UserError`."""
        path = node_folder(self.variant.root, "train", self.key, self.seed) / name
        if not path.is_file():
            raise UserError(
                f"{path}: there is no such file of variant '{self.variant.name}': deleted by "
                "`keep_weights: false`, or left out of a bundle; "
                f"`{_snakemake(self.variant.record, path)}` trains it again"
            )
        return path


def find(root: Path, variant: str) -> ResolvedVariant:
    """Return the variant that `VARIANT`, `PAPER/VARIANT`, or either with `@KEY`, names.

    It is the first of `versions`, which raises `UserError`, of which KEY, or what begins so, is a
    training.
    """
    name, _, key = variant.partition("@")
    every = versions(root, name)
    for found in every:
        if any(each.startswith(key) for each in found.stages.values()):
            return found
    keys = some(key for found in every for key in found.stages.values())
    raise UserError(f"{root}: '{name}' has no training of key '{key}', but {keys}")


def versions(root: Path, variant: str) -> list[ResolvedVariant]:
    """Return what is `VARIANT`, or `PAPER/VARIANT`, in each of `plans` that has it.

    The tasks of this process are then those of the first. Raises `UserError` for a name that is
    unknown or in several papers, and for what was deleted.
    """
    known: dict[str, list[Row]] = {}
    for record in plans(root):
        rows = [*stage_rows(record["variants"]), *scores_of(root, record)]
        for name in dict.fromkeys(map(_name, rows)):
            known.setdefault(name, []).append(record)
    named = [name for name in known if f"/{name}".endswith(f"/{variant}")]
    if len(named) != 1:
        near = did_you_mean(variant, [*known, *(name.partition("/")[2] for name in known)])
        said = "several papers have the" if named else "there is no"
        raise UserError(f"{root}: {said} variant '{variant}', but {some(named or known)}.{near}")
    found, problem = [], None
    for record in known[named[0]]:
        try:
            found.append(_resolved(root, record, named[0]))
        except UserError as error:
            problem = error
    if not found:
        raise UserError(f"variant '{variant}': {problem}")
    use_tasks_of(found[0].record)
    return found


def variants(root: Path) -> dict[str, list[Row]]:
    """Return the stages of every variant that trains any, each a row by `VARIANT_COLUMNS`.

    They are those published of whole grids, then those of a part alone; before the first
    publication, those of the newest plan.
    """
    found: dict[str, list[Row]] = {}
    for record in plans(root)[: len(published_plans(root)) or 1]:
        rows = groupby(stage_rows(record["variants"]), _name)
        found = {**found, **{name: [*of] for name, of in rows}, **found}
    return found


def plans(root: Path) -> list[dict[str, Any]]:
    """Return the records of the plans that are published, then of the others, the newest first."""
    published = published_plans(root)
    others = [record for plan, record in records(root) if plan not in published]
    if found := [*(read_plan(root, plan) for plan in published), *others]:
        return found
    raise UserError(
        f"{root}: the folder has no results; give another one, such as results/demo (`--results "
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
    paper, _, variant = name.partition("/")
    rows = stage_rows(record["variants"])
    stages = {row["stage"]: row["key"] for row in rows if _name(row) == name}
    chosen: dict[int, dict[str, str]] = {}
    last: dict[str, str] = {}
    for key in stages.values():
        # A later stage takes over all its tasks, even those that it does not train.
        stage = read_description(root, "train", key)["spec"]["stage"]
        last |= dict.fromkeys(stage["tasks"], key)
    for task, key in last.items():
        for seed, folder in seed_folders(root / "store" / "train" / key).items():
            if (folder / "run.json").exists():
                chosen.setdefault(seed, {})[task] = key
    if not stages:
        titles = {row["key"]: f"{row['variant']}/{row['stage']}" for row in reversed(rows)}
        for row in scores_of(root, record):
            if _name(row) == name and row["key"]:
                last[row["task"]] = key = row["key"]
                chosen.setdefault(row["seed"], {})[row["task"]] = key
                stages[titles[key]] = key
    tasks = [task for task in TASKS if task in last]
    return ResolvedVariant(root, paper, variant, record, stages, tasks, chosen)


def _snakemake(record: Mapping[str, Any], target: object = "all") -> str:
    """Return the command that makes `target` by the configuration of a plan."""
    return f"snakemake --cores 2 {shlex.quote(str(target))} {record['options']}".rstrip()
