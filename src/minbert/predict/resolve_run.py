"""The training run that a variant's task comes from, found in a results folder by name."""

import itertools
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, did_you_mean
from minbert.plan.difference import some
from minbert.spec.task import TASKS, use_tasks_of
from minbert.store.job import Job, node_folder
from minbert.store.node import seed_folders
from minbert.store.plans import (
    PUBLISHED,
    SCORES,
    check_root,
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
        found = {*(self.wanted or ()), *itertools.chain(*self.chosen.values())}
        return tuple(task for task in TASKS if task in found)

    def runs(self, tasks: Sequence[str], seed: int | None = None) -> dict[str, Run]:
        """Return the run of each of `tasks`, all with `seed` (default: the smallest trained).

        Raises `UserError` if there is no such seed, naming what to run.
        """
        about = f"{self.paper}: variant '{self.name}' is not trained"
        every = f"`{_snakemake(self.root, self.paper)}` trains every variant"
        seeds = sorted(seed for seed, keys in self.chosen.items() if set(tasks) <= keys.keys())
        if not seeds:
            bare = [t for t in tasks if not any(t in keys for keys in self.chosen.values())]
            if not self.wanted or not bare:  # then the tasks have runs, but not of the same seed
                raise UserError(f"{about} yet with one seed for all of {', '.join(tasks)}; {every}")
            path = node_folder(self.root, "train", self.wanted[bare[0]], 0) / "run.json"
            one = _snakemake(self.root, self.paper, path)
            raise UserError(f"{about} yet ({path} is missing); `{one}` trains it, {every}")
        if seed is None:
            seed = seeds[0]
        if seed not in seeds:
            raise UserError(
                f"{about} with seed {seed}, but with {', '.join(map(str, seeds))}. Choose one of "
                f"these, or add {seed} to `seeds` in config.yaml and run "
                f"`{_snakemake(self.root, self.paper)}`"
            )
        keys = self.chosen[seed]
        of = (self.root, self.paper, self.name)
        return {task: Run(*of, task, keys[task], seed) for task in tasks}

    def choose_task(self, task: str | None) -> str:
        """Return `task`, or the only task if None; `UserError` if there is no such task."""
        about = f"{self.paper}: variant '{self.name}'"
        if task is None:
            if len(self.tasks) > 1:
                raise UserError(
                    f"{about} has several tasks: {', '.join(self.tasks)}; name one (`--task "
                    f'{self.tasks[0]}`, in Python `task="{self.tasks[0]}"`)'
                )
            return self.tasks[0]
        if task not in self.tasks:
            raise UserError(
                f"{about} has no task '{task}'; it has {', '.join(self.tasks)}."
                f"{did_you_mean(task, self.tasks)}"
            )
        return task


def find(root: Path, variant: str) -> ResolvedVariant:
    """Return a variant of the results folder `root`, as it was published last.

    `variant` is `VARIANT` or, if several papers have one of that name, `PAPER/VARIANT`. If only
    earlier plans had it, it is the one that was trained last. `VARIANT@KEY` is the variant as an
    earlier plan had it, when KEY, or what begins so, was one of its trainings. The score table
    names the runs of a variant that is the best of others. The tasks of this process are then those
    of its paper. Raises `UserError` for a folder without results, and for an unknown or ambiguous
    variant, paper or key.
    """
    named, _, key = variant.partition("@")
    before, slash, name = named.rpartition("/")
    paper = before if slash else None
    known = variants(root)
    best = {} if (paper, name) in known else _best_of(root, known)
    there = dict.fromkeys([*known, *best])
    names, found = _named(there, name, paper), None
    if names is None:
        there |= dict.fromkeys(of for record in plans(root) for of in _variants(record))
        if names := _named(there, name, paper):
            found = next(_versions(root, names), None)
    if names is None or (found is None and names not in {*known, *best}):
        raise _unknown(root, [*there], name, paper)
    _use_tasks_of(root, names[0])
    if names in best:
        used = {key for of_seed in best[names].values() for key in of_seed.values()}
        others: dict[str, str] = {}
        for row in itertools.chain(*known.values()):
            if row["paper"] == names[0] and row["key"] in used - {*others.values()}:
                others[f"{row['variant']}/{row['stage']}"] = row["key"]
        found = ResolvedVariant(root, *names, None, best[names], others)
    elif found is None:
        found = _trained(root, names, _stages(known[names]))
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
    check_root(root)
    published = len(published_plans(root)) or 1
    found = list(itertools.islice(filter(None, map(_variants, plans(root))), published))
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
        if not (path := description_path(root, "train", key)).exists():
            raise UserError(
                f"{names[0]}: variant '{names[1]}' is not there any more: {path} is missing, as "
                "after `minbert gc --delete`, which deletes the weights too; "
                f"`{_snakemake(root, names[0])}` trains the variant again if its grid still has it"
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
    versions = [] if found.wanted is None else [found, *earlier(found)]
    for each in versions:
        if any(key.startswith(wanted) for key in each.stages.values()):
            return each
    keys = [key for each in versions for key in each.stages.values()]
    said = f"those with results are {', '.join(keys)}" if keys else "it is the best of others"
    raise UserError(
        f"{found.paper}: variant '{found.name}' has no training of key '{wanted}'; {said}."
        f"{did_you_mean(wanted, keys)}"
    )


def _named(known: Iterable[Names], name: str, paper: str | None) -> Names | None:
    """Return the only one of `known` with a variant's name, and paper if given, or else None."""
    having = {names for names in known if names[1] == name and paper in (None, names[0])}
    return having.pop() if len(having) == 1 else None


def _unknown(root: Path, known: Sequence[Names], name: str, paper: str | None) -> UserError:
    papers = {of for of, _ in known}
    if paper is not None and paper not in papers:
        return UserError(
            f"{root}: no paper '{paper}'; there are {', '.join(sorted(papers))}."
            f"{did_you_mean(paper, papers)}"
        )
    if having := sorted(f"{of}/{name}" for of, variant in known if variant == name):
        several = f"'{name}' is a variant of several papers"
        elsewhere = f"paper '{paper}' has no variant '{name}'"
        return UserError(
            f"{root}: {elsewhere if paper else several}; choose one: {' or '.join(having)}"
        )
    unscored = ""
    if not score_tables(root):
        unscored = f" (the best of other variants is known once {root / SCORES} exists)"
    names = [variant for of, variant in known if paper in (None, of)]
    return UserError(
        f"{root}: no variant '{name}'{unscored}; there are {some(names)}."
        f"{did_you_mean(name, names)}"
    )


def _use_tasks_of(root: Path, paper: str) -> None:
    """Use the tasks of the plan by which a paper was published."""
    if record := plan_of(root, paper):
        use_tasks_of(record)


def _best_of(root: Path, trained: Mapping[Names, object]) -> dict[Names, dict[int, dict[str, str]]]:
    """Return {(paper, variant): {seed: {task: key}}} of scored variants that train nothing."""
    best: dict[Names, dict[int, dict[str, str]]] = {}
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
    options = plan_of(root, paper).get("options", "")
    return f"snakemake --cores 2 {shlex.quote(str(target))} {options}".rstrip()
