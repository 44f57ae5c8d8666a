"""The training run that a variant's task comes from, found in a results folder by name."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, did_you_mean
from minbert.base.progress import some
from minbert.data.parquet import read_file
from minbert.spec.task import TASKS, use_tasks_of
from minbert.store.job import Job, node_folder
from minbert.store.node import seed_folders
from minbert.store.plans import (
    PUBLISHED,
    describe_job,
    description_path,
    published_plans,
    read_description,
    read_plan,
    records,
    score_tables,
    stage_rows,
)

Names = tuple[str, str]
"""A paper and a variant of it."""

Variants = dict[Names, list[dict[str, str]]]


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
        if not path.is_file():
            raise UserError(
                f"{path}: there is no such file of variant '{self.variant}': it was deleted "
                "(`keep_weights: false`), or the run came in a bundle without weights. With "
                "`keep_weights: true`, which is the default, "
                f"`{_snakemake(self.root, self.paper, path)}` trains it again"
            )
        return path


@dataclass(frozen=True)
class ResolvedVariant:
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
        found = {*(self.wanted or ()), *chain(*self.chosen.values())}
        return tuple(task for task in TASKS if task in found)

    def runs(self, tasks: Sequence[str], seed: int | None = None) -> dict[str, Run]:
        """Return the run of each of `tasks`, all with `seed` (default: the smallest trained).

        Raises `UserError` if there is no such seed, naming what to run.
        """
        seeds = sorted(seed for seed, keys in self.chosen.items() if set(tasks) <= keys.keys())
        seed = seeds[0] if seed is None and seeds else seed
        if seed not in seeds:
            wanted = "one seed for all of them" if seed is None else f"seed {seed}"
            raise UserError(
                f"{self.paper}: variant '{self.name}' is not trained yet on {', '.join(tasks)} "
                f"with {wanted}, but with {', '.join(map(str, seeds)) or 'none'}; choose one, or "
                f"run `{_snakemake(self.root, self.paper)}` (with `seeds` of config.yaml)"
            )
        keys = self.chosen[seed]
        of = (self.root, self.paper, self.name)
        return {task: Run(*of, task, keys[task], seed) for task in tasks}

    def choose_task(self, task: str | None) -> str:
        """Return `task`, or the only task if None; `UserError` if there is no such task."""
        about, tasks = f"{self.paper}: variant '{self.name}'", ", ".join(self.tasks)
        if task is None and len(self.tasks) > 1:
            raise UserError(
                f"{about} has several tasks: {tasks}; name one (`--task {self.tasks[0]}`, in "
                f'Python `task="{self.tasks[0]}"`)'
            )
        task = task or self.tasks[0]
        if task not in self.tasks:
            near = did_you_mean(task, self.tasks)
            raise UserError(f"{about} has no task '{task}'; it has {tasks}.{near}")
        return task


def find(root: Path, variant: str) -> ResolvedVariant:
    """Return the variant that `VARIANT`, `PAPER/VARIANT`, or either with `@KEY`, names.

    It is that of `variants`, or one that only an earlier plan had; with `@KEY` as it was when KEY,
    or what begins so, was one of its trainings. The score table names the runs of a variant that is
    the best of others. The tasks of this process are then those of its paper. Raises `UserError`
    for a folder without results, and for an unknown or ambiguous variant or key.
    """
    named, _, key = variant.partition("@")
    known = variants(root)
    every = {**known}
    for record in plans(root):
        every = {**_variants(record), **every}
    best = _best_of(root, every)
    names = _named(root, named, [*known, *best]) or _named(root, named, every)
    if not names:
        there = [word for paper, name in (*every, *best) for word in (f"{paper}/{name}", name)]
        raise UserError(
            f"{root}: no variant '{named}'; there are {some(there[::2])}."
            f"{did_you_mean(named, there)}"
        )
    if record := plan_of(root, names[0]):
        use_tasks_of(record)
    if names in best:
        used = {key for of_seed in best[names].values() for key in of_seed.values()}
        rows = [row for row in chain(*every.values()) if row["key"] in used]
        others = {row["key"]: f"{row['variant']}/{row['stage']}" for row in reversed(rows)}
        stages = {name: key for key, name in reversed(others.items())}
        found = ResolvedVariant(root, *names, None, best[names], stages)
    else:
        before = None if names in known else next(_versions(root, names), None)
        found = before or _trained(root, names, _stages(every[names]))
    return _with_key(found, key) if key else found


def earlier(found: ResolvedVariant) -> Iterator[ResolvedVariant]:
    """Yield the variant as other plans had it, the newest first, as far as any of it is trained."""
    for each in _versions(found.root, (found.paper, found.name)):
        if each.stages != found.stages:
            yield each


def _versions(root: Path, names: Names) -> Iterator[ResolvedVariant]:
    """Yield what the plans had under these names, the newest first, as far as trained."""
    seen: list[Mapping[str, str]] = []
    for _, record in records(root):
        stages = _stages(_variants(record).get(names, ()))
        if stages and stages not in seen:
            seen.append(stages)
            with suppress(UserError):  # Its descriptions were deleted, and so its results.
                if (found := _trained(root, names, stages)).chosen:
                    yield found


def variants(root: Path) -> Variants:
    """Return the stages of every variant, each a row by `VARIANT_COLUMNS`.

    They are those published of whole grids, then those of a part alone; before the first
    publication, those of the newest plan.
    """
    published = len(published_plans(root)) or 1
    found = list(islice(filter(None, map(_variants, plans(root))), published))
    if not found:
        below = [shlex.quote(str(p.parent)) for p in sorted(root.glob(f"*/{PUBLISHED}"))]
        hint = f" Did you mean --results {' or --results '.join(below)}?" if below else ""
        raise UserError(
            f"{root}: the folder has no results; give another one (`--results ROOT`, in Python "
            f"`minbert.open(ROOT)`), or make results with `snakemake --cores 2 all`.{hint}"
        )
    return {**found[0], **found[-1], **found[0]}


def plans(root: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of the plans that are published, then of the others, the newest first."""
    published = published_plans(root)
    yield from (read_plan(root, plan) for plan in published)
    yield from (record for plan, record in records(root) if plan not in published)


def plan_of(root: Path, paper: str) -> dict[str, Any]:
    """Return the record of the first of `plans` that has a paper; empty if there is none."""
    return next((record for record in plans(root) if paper in record.get("papers", ())), {})


def _variants(record: Mapping[str, Any]) -> Variants:
    found: Variants = {}
    for row in stage_rows(record.get("variants", ())):
        found.setdefault((row["paper"], row["variant"]), []).append(row)
    return found


def _stages(rows: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {row["stage"]: row["key"] for row in rows}


def _trained(root: Path, names: Names, stages: Mapping[str, str]) -> ResolvedVariant:
    """Return a variant with these stages, as far as they are trained."""
    wanted: dict[str, str] = {}
    for key in stages.values():
        if not description_path(root, "train", key).exists():
            raise UserError(
                f"{names[0]}: variant '{names[1]}' is not there any more, as after `minbert gc "
                f"--delete`, which deletes the weights too; `{_snakemake(root, names[0])}` trains "
                "it again if its grid still has it"
            )
        # A later stage takes over all its tasks, even those that it does not train.
        tasks = read_description(root, "train", key)["spec"]["stage"]["tasks"]
        wanted |= dict.fromkeys(tasks, key)
    chosen: dict[int, dict[str, str]] = {}
    for task, key in wanted.items():
        for seed, folder in seed_folders(root / "store" / "train" / key).items():
            if (folder / "run.json").exists():
                chosen.setdefault(seed, {})[task] = key
    return ResolvedVariant(root, *names, wanted, chosen, stages)


def _with_key(found: ResolvedVariant, wanted: str) -> ResolvedVariant:
    keys: list[str] = []
    for each in [found, *earlier(found)] if found.wanted is not None else ():
        if any(key.startswith(wanted) for key in each.stages.values()):
            return each
        keys += each.stages.values()
    raise UserError(
        f"{found.paper}: variant '{found.name}' has no training of key '{wanted}'; those with "
        f"results are {', '.join(keys) or 'of the variants that it is the best of'}."
        f"{did_you_mean(wanted, keys)}"
    )


def _named(root: Path, named: str, known: Iterable[Names]) -> Names | None:
    """Return the one of `known` that a name means; `UserError` if they are several."""
    found = sorted({of for of in known if named in (of[1], "/".join(of))})
    if len(found) > 1:
        choices = " or ".join(map("/".join, found))
        raise UserError(f"{root}: '{named}' is a variant of several papers; choose one: {choices}")
    return found[0] if found else None


def _best_of(root: Path, trained: Mapping[Names, object]) -> dict[Names, dict[int, dict[str, str]]]:
    """Return {(paper, variant): {seed: {task: key}}} of scored variants that train nothing."""
    papers = chain(*(record.get("papers", {}).values() for record in plans(root)))
    keyed = (node_folder(root, "scores", of.get("scores", "")) / "scores.parquet" for of in papers)
    best: dict[Names, dict[int, dict[str, str]]] = {}
    columns = ("paper", "variant", "seed", "task", "key")
    for path in dict.fromkeys([*score_tables(root), *filter(Path.is_file, keyed)]):
        found: dict[Names, dict[int, dict[str, str]]] = {}
        for row in read_file(path, columns, {"split": "dev"}).to_pylist():
            names = row["paper"], row["variant"]
            if row["key"] and names not in trained:
                found.setdefault(names, {}).setdefault(row["seed"], {})[row["task"]] = row["key"]
        best = found | best
    return best


def _snakemake(root: Path, paper: str, target: Path | str = "all") -> str:
    """Return the command that makes `target` by the configuration that a paper was published by."""
    options = plan_of(root, paper).get("options", "")
    return f"snakemake --cores 2 {shlex.quote(str(target))} {options}".rstrip()
