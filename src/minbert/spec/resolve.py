"""From grid files and a configuration to typed stages, each with the stages it starts from."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from minbert.base.errors import UserError, nearest
from minbert.spec.config import Config
from minbert.spec.grid import Figure, RawGrid, RawVariant, load_grids
from minbert.spec.protocol import Rule
from minbert.spec.published import Claim, check_claim
from minbert.spec.settings import unknown_keys
from minbert.spec.stage import ONE_TASK, StageSpec
from minbert.spec.task import TASKS, Task, TaskSpec, overall_tasks
from minbert.spec.yaml import MAX_DEPTH, merge, nested, validated, without_nulls

BACKBONE = "backbone"
"""What `start` says for the pretrained weights."""


@dataclass(frozen=True, order=True)
class StageRef:
    """The name of a stage."""

    paper: str
    variant: str
    stage: str

    def __str__(self) -> str:
        return f"{self.variant}/{self.stage}"


@dataclass(frozen=True)
class Stage:
    """A stage, the one that it starts from (None: the backbone), and those that it fuses.

    `plain` is what its grid says, without the configuration's `defaults`, `scale` and `override`.
    """

    ref: StageRef
    spec: StageSpec
    plain: StageSpec
    start: StageRef | None = None
    fused: tuple[StageRef, ...] = ()


@dataclass(frozen=True)
class Variant:
    """A row of a paper's grid; see `Looks`. If it is the best of others, it has no stages.

    A tuned variant is the best of its candidates, `tried`: {candidate: its settings in words}.
    These are variants too, `tuned_for` it, and no rows.
    """

    paper: str
    name: str
    label: str
    row: str
    note: str
    test: bool
    stages: tuple[Stage, ...]
    best_of: tuple[str, ...] = ()
    best_by: Literal["overall", "task"] = "overall"
    tried: Mapping[str, str] = field(default_factory=dict)
    tuned_for: str = ""

    @property
    def scored(self) -> dict[str, Stage]:
        """The stage that each task is scored by, the last that has it."""
        found = {task: stage for stage in self.stages for task in stage.spec.tasks}
        return {task: found[task] for task in TASKS if task in found}


@dataclass(frozen=True)
class Grid:
    """A paper's variants, figures and claims; `path` is its (first) grid file.

    `drawn_in` is the file of each figure.
    `single` is the variant that trains each task alone, empty if there is none. `tasks` are all
    that its variants are scored on, in the order of `TASKS`, `overall_tasks` those of the overall
    score.
    """

    paper: str
    title: str
    overall: Rule
    description: str
    variants: dict[str, Variant]
    figures: dict[str, Figure]
    drawn_in: Mapping[str, Path]
    parameter_ratios: tuple[tuple[str, str], ...]
    claims: tuple[Claim, ...]
    single: str
    path: Path
    tasks: tuple[str, ...]
    overall_tasks: tuple[str, ...]

    @property
    def rows(self) -> dict[str, Variant]:
        """The variants that are shown: all but the candidates of tuned ones."""
        return {name: v for name, v in self.variants.items() if not v.tuned_for}


def resolve(config: Config, base: Path) -> list[Grid]:
    """Return the grids that `config` names, relative to the folder `base`.

    A bare name such as `hybrid-bert` means `workflow/grids/hybrid-bert.yaml`. Every stage's keys
    are merged over `config.defaults`; `config.scale` and then `config.override` follow. From here
    on the tasks of this process are those of `config`. Raises `UserError` naming file, variant,
    stage and key.
    """
    TASKS.use(Task.of(name, entry) for name, entry in config.tasks.items())
    problems = [*unknown_keys(config.defaults, "defaults.")]
    problems += unknown_keys(config.override, "override.")
    tasks = config.override.get("tasks")
    problems += (
        f"'override.tasks.{name}' is null, which takes no task out of a stage; expected a mapping "
        "('key: value' lines)"
        for name, keys in (tasks.items() if isinstance(tasks, Mapping) else ())
        if keys is None
    )
    for name in config.may_vanish:
        problems += (f"may_vanish: {problem}" for problem in unknown_keys(nested(name, None)))
    if problems:
        raise UserError("\n".join(f"config: {problem}" for problem in problems))
    paths = [
        base / (name if name.endswith((".yaml", ".yml")) else f"workflow/grids/{name}.yaml")
        for name in config.grids
    ]
    files: dict[Path, str] = {}
    for name, path in zip(config.grids, paths, strict=True):
        if path.stem == name and not os.path.lexists(path):
            near = nearest(name, (each.stem for each in path.parent.glob("*.yaml")))
            raise UserError(f"config: grids: '{name}' is {path}: there is no such file.{near}")
        if (other := files.setdefault(path.resolve(), name)) != name:
            raise UserError(f"config: grids '{other}' and '{name}' are one file, {path}; name one")
    return [_grid(raw, config) for raw in load_grids(paths)]


def _grid(raw: RawGrid, config: Config) -> Grid:
    typed = {name: _variant(name, raw, config) for name in raw.variants}
    variants = {name: _linked(v, typed, raw.variants[name]) for name, v in typed.items()}
    stages = {stage.ref: stage for variant in variants.values() for stage in variant.stages}
    for ref, stage in stages.items():
        where = _where(raw.variants[ref.variant], ref)
        _check_stage(stage, stages, where)
        if variants[ref.variant].tuned_for:
            _check_half(stage, stages, where)
    rows = {name: variant for name, variant in variants.items() if not variant.tuned_for}
    for name, variant in rows.items():
        _check_choice(variant, variants, f"{raw.variants[name].path}: variant '{name}'")
    head = raw.head
    for path, pair in raw.ratios:
        for name in pair:
            if name not in variants:
                raise UserError(
                    f"{path}: parameter_ratios: no variant '{name}'.{nearest(name, variants)}"
                )
    has = {task for variant in variants.values() for task in variant.scored}
    tasks = tuple(task for task in TASKS if task in has)
    for name in head.overall_tasks:
        if name not in tasks:
            raise UserError(
                f"{raw.given['overall_tasks']}: overall_tasks: no variant has the task '{name}'."
                f"{nearest(name, tasks)} They have {', '.join(tasks)}"
            )
    whole = head.overall_tasks or overall_tasks(tasks)
    if head.single:
        _check_single(head.single, variants, whole, f"{raw.given['single']}: single")
    scored = {
        name: {task for one in (name, *variant.best_of) for task in variants[one].scored}
        for name, variant in rows.items()
    }
    first: dict[Claim, str] = {}
    for where, claim in raw.claims:
        for name in claim.variants:
            if name in variants and (of := variants[name].tuned_for):
                raise UserError(
                    f"{where}: variant '{name}' is one of the settings that '{of}' tries, which "
                    f"have no scores of their own; name '{of}'"
                )
        check_claim(claim, scored, whole, where)
        if (other := first.setdefault(claim, where)) != where:
            raise UserError(f"{where}: is the same as {other}; take one of them out")
    return Grid(
        paper=head.paper,
        title=head.title,
        overall=head.overall,
        description=head.description,
        variants=variants,
        figures=raw.figures,
        drawn_in=raw.drawn_in,
        parameter_ratios=tuple(pair for _, pair in raw.ratios),
        claims=tuple(claim for _, claim in raw.claims),
        single=head.single,
        path=raw.path,
        tasks=tasks,
        overall_tasks=whole,
    )


def _where(raw: RawVariant, ref: StageRef) -> str:
    return f"{raw.path}: variant '{ref.variant}', stage '{ref.stage}'"


def _variant(name: str, grid: RawGrid, config: Config) -> Variant:
    """Return a variant with typed stages; what they start from is not found yet."""
    raw, head = grid.variants[name], grid.head
    stages = []

    def spec_of(values: Mapping[str, Any], where: str) -> StageSpec:
        return validated(StageSpec, {"select": head.overall, **values}, where)

    for stage, values in raw.stages:
        ref = StageRef(head.paper, name, stage)
        where = _where(raw, ref)
        plain = spec_of(values, where)
        # Merged into nothing first: their `*` is for the tasks that they name too.
        known = _merged(merge({}, config.defaults), values, values)
        spec = spec_of(known, where) if config.defaults else plain
        after = f"{where}, after scale and override of the config"
        stages.append(Stage(ref, spec_of(_adjusted(spec, config), after), plain))
    looks = raw.looks.model_dump()
    looks |= {"label": looks["label"] or name, "row": looks["row"] or name}
    looks |= {"tried": raw.tried, "tuned_for": raw.tuned_for}
    return Variant(paper=head.paper, name=name, stages=tuple(stages), **looks)


def _merged(
    base: Mapping[str, Any], over: Mapping[str, Any], stage: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `over` merged into `base` without nulls, with only those tasks that `stage` has."""
    values = without_nulls(merge(base, over))
    if isinstance(tasks := values.get("tasks"), Mapping):
        known = stage.get("tasks") or {}
        values["tasks"] = {name: value for name, value in tasks.items() if name in known}
    return values


def _adjusted(spec: StageSpec, config: Config) -> dict[str, Any]:
    """Return the values of `spec` scaled, then overridden."""
    values: dict[str, Any] = spec.model_dump()
    scale = config.scale
    factors = scale.heads if spec.trainable == "heads" else scale
    lr = spec.optimiser.lr * factors.learning_rate
    # Twelve digits, so that 3 x 1e-5 is the same stage as 3e-5.
    values["optimiser"] |= {"lr": float(f"{lr:.12g}")}
    values["epochs"] = max(1, int(spec.epochs * factors.epochs + 0.5))
    if spec.trainable != "heads":
        if scale.steps.per_epoch:
            steps = max(scale.steps.per_epoch * spec.epochs, scale.steps.least)
            tasks = len(spec.trained_tasks) if spec.sampler.name in ONE_TASK else 1
            values["epochs"] = scale.steps.epochs or values["epochs"]
            values["sampler"] |= {"steps": -(-steps * tasks // values["epochs"])}
        if to := scale.batch_size.largest:
            largest = max(spec.tasks[task].batch_size for task in spec.trained_tasks)
            share = min(1.0, to / largest)
            for task in values["tasks"].values():
                size = task["batch_size"]
                task["batch_size"] = max(min(size, scale.batch_size.least), int(size * share + 0.5))
    return _merged(values, config.override, values)


def _linked(variant: Variant, variants: Mapping[str, Variant], raw: RawVariant) -> Variant:
    """Return `variant` with the stages found that `start` and `fuse` name."""
    linked: list[Stage] = []
    for stage in variant.stages:
        where, spec = _where(raw, stage.ref), stage.spec
        start = None
        if spec.start != BACKBONE:
            start = _find("start", spec.start, stage, variants, where)
        fused = tuple(_find("fuse", name, stage, variants, where) for name in spec.fuse or ())
        linked.append(replace(stage, start=start, fused=fused))
    return replace(variant, stages=tuple(linked))


def _find(
    key: str, said: str, stage: Stage, variants: Mapping[str, Variant], where: str
) -> StageRef:
    """Return the stage that `key` of `stage` means: an own one, `VARIANT` or `VARIANT/STAGE`."""
    own = {s.ref.stage: s.ref for s in variants[stage.ref.variant].stages}
    earlier = list(own)[: list(own).index(stage.ref.stage)]
    first, slash, rest = said.partition("/")
    name = rest if slash and first == stage.ref.variant else said
    if name in earlier:
        return own[name]
    if name == stage.ref.variant or name in own:
        raise UserError(
            f"{where}: '{key}: {said}' is this stage or a later one of the same variant; "
            f"a stage starts from '{BACKBONE}', an earlier stage, or another variant"
        )
    if first not in variants:
        known = [BACKBONE, *earlier, *variants]
        raise UserError(
            f"{where}: '{key}' is unknown: '{said}'.{nearest(first, known)} "
            f"Known: {', '.join(known)}, or VARIANT/STAGE"
        )
    refs = {s.ref.stage: s.ref for s in variants[first].stages}
    if not refs:
        others = ", ".join(variants[first].best_of)
        raise UserError(
            f"{where}: '{key}: {said}': variant '{first}' is the best of others: it has no stage, "
            f"and which it is becomes known after training; name one of those: {others}"
        )
    if slash and rest not in refs:
        raise UserError(
            f"{where}: '{key}: {said}': variant '{first}' has no stage '{rest}'."
            f"{nearest(rest, refs)} Known: {', '.join(refs)}"
        )
    return refs[rest] if slash else list(refs.values())[-1]


def _check_stage(stage: Stage, stages: Mapping[StageRef, Stage], where: str) -> None:
    """Refuse a stage that comes after itself, or starts from or fuses what does not fit."""
    chain = [stage.ref]
    while before := stages[chain[-1]].start:
        if before in chain:
            circle = " -> ".join(map(str, (*chain[chain.index(before) :], before)))
            raise UserError(f"{where}: 'start' goes round in a circle: {circle}")
        if len(chain) == MAX_DEPTH:
            raise UserError(f"{where}: 'start': comes after {MAX_DEPTH} other stages or more")
        chain.append(before)
    if stage.start:
        _check_start(stage, stages[stage.start], where)
    for ref in stage.fused:
        if stages[ref].spec.trainable != "adapters":
            raise UserError(
                f"{where}: 'fuse' names '{ref}', which trains no adapters "
                f"('trainable: {stages[ref].spec.trainable}')"
            )


def _check_half(stage: Stage, stages: Mapping[StageRef, Stage], where: str) -> None:
    """Refuse a candidate if all of dev chose its epoch, or that of a stage it comes after."""
    if stage.spec.select_on != "half":
        raise UserError(
            f"{where}: 'select_on: {stage.spec.select_on}' with 'tune': a half of dev chooses "
            "among the settings and is not reported, so it must choose the epochs too; take "
            "'select_on' out of the variant, or of 'override' in the configuration"
        )
    for ref in (*([stage.start] if stage.start else []), *stage.fused):
        if stages[ref].spec.select_on != "half":
            raise UserError(
                f"{where}: comes after '{ref}', whose epoch all of dev chose, and is tuned on a "
                f"half of it; give '{ref.variant}' 'select_on: half'"
            )
        _check_half(stages[ref], stages, where)


def _check_start(stage: Stage, earlier: Stage, where: str) -> None:
    """Refuse a start whose weights do not cover what this stage needs."""
    if earlier.spec.trainable in {"adapters", "lora", "fusion"}:
        raise UserError(
            f"{where}: starts from '{earlier.ref}', which trains {earlier.spec.trainable} and "
            "leaves no encoder of its own; start from a stage with 'trainable: all', or 'fuse' it"
        )
    for name, task in stage.spec.tasks.items():
        if task.head_from is None:
            continue
        if task.head_from not in earlier.spec.tasks:
            raise UserError(
                f"{where}: 'head_from: {task.head_from}': '{earlier.ref}' has no such task; it "
                f"has {', '.join(earlier.spec.ordered_tasks)}"
            )
        if _head(name, task) != _head(task.head_from, earlier.spec.tasks[task.head_from]):
            raise UserError(
                f"{where}: 'head_from: {task.head_from}': that head has another shape in "
                f"'{earlier.ref}'; give both tasks the same head, features and number of classes"
            )
    if earlier.spec.shared_layers == "all":
        return
    for key in ("shared_layers", "shared_end"):
        theirs, ours = getattr(earlier.spec, key), getattr(stage.spec, key)
        if theirs != ours:
            raise UserError(
                f"{where}: '{key}: {ours}' cannot start from '{earlier.ref}', which has "
                f"'{key}: {theirs}'; give both the same value, or share all in the earlier one"
            )
    missing = [task for task in stage.spec.ordered_tasks if task not in earlier.spec.tasks]
    if missing:
        raise UserError(
            f"{where}: starts from '{earlier.ref}', where each task has layers of its own, but "
            f"task '{missing[0]}' has none there; start from a stage that has it"
        )


def _head(name: str, task: TaskSpec) -> tuple[object, ...]:
    """Return what determines the shapes of a task's head."""
    head = task.head
    return head.name, head.depth, head.width, len(task.features or ("u",)), TASKS[name].classes


def _check_choice(variant: Variant, variants: Mapping[str, Variant], where: str) -> None:
    """Refuse candidates that do not exist, or are themselves the best of others."""
    for name in variant.best_of:
        if name not in variants:
            raise UserError(f"{where}: 'best_of' names unknown '{name}'.{nearest(name, variants)}")
        if variants[name].tried:
            raise UserError(
                f"{where}: 'best_of' names '{name}', which is tuned and so chooses already; name "
                "variants without 'tune'"
            )
        if variants[name].best_of:
            raise UserError(
                f"{where}: 'best_of' names '{name}', which is itself the best of others; name "
                f"those: {', '.join(variants[name].best_of)}"
            )
        if variants[name].tuned_for not in ("", variant.name):
            raise UserError(
                f"{where}: 'best_of' names '{name}', one of the settings that "
                f"'{variants[name].tuned_for}' tries; make it a variant of its own"
            )


def _check_single(
    name: str, variants: Mapping[str, Variant], tasks: Sequence[str], where: str
) -> None:
    """Refuse a reference that does not train each task of the overall score alone."""
    if name not in variants:
        raise UserError(f"{where}: no variant '{name}'.{nearest(name, variants)}")
    if variants[name].best_of:
        raise UserError(f"{where}: variant '{name}' is the best of others; name one that trains")
    if of := variants[name].tuned_for:
        raise UserError(
            f"{where}: variant '{name}' is one of the settings that '{of}' tries; make it a "
            "variant of its own, and name that"
        )
    for task in tasks:
        stage = variants[name].scored.get(task)
        if stage is None or stage.spec.trained_tasks != (task,):
            raise UserError(
                f"{where}: variant '{name}' needs a stage that trains '{task}' alone and is the "
                "last that scores it"
            )
