"""From grid files and a configuration to typed stages, each with the stage it starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from minbert.common.errors import UserError, nearest
from minbert.grid.config import Config, validated
from minbert.grid.load import RawGrid, RawVariant, load_grids
from minbert.grid.schema import Figure, unknown_keys
from minbert.grid.spec import Rule, StageSpec
from minbert.grid.yaml_loader import merge

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
    """A stage, the one whose weights it starts from (None: the backbone), those that it fuses."""

    ref: StageRef
    spec: StageSpec
    start: StageRef | None = None
    fused: tuple[StageRef, ...] = ()


@dataclass(frozen=True)
class Variant:
    """A row of a paper's grid. `test` says whether it is scored on test.

    One that is the best of others names them in `best_of` and has no stages.
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

    def stage_for(self, task: str) -> Stage | None:
        """Return the last stage that has `task`, which its score comes from; None if none has."""
        return next((s for s in reversed(self.stages) if task in s.spec.tasks), None)


@dataclass(frozen=True)
class Grid:
    """A paper's variants and figures; `path` is its (first) grid file."""

    paper: str
    title: str
    overall: Rule
    description: str
    variants: dict[str, Variant]
    figures: dict[str, Figure]
    parameter_ratios: tuple[tuple[str, str], ...]
    path: Path


def resolve(config: Config, base: Path) -> list[Grid]:
    """Return the grids that `config` names, relative to the folder `base`.

    A bare name such as `hybrid-bert` means `workflow/grids/hybrid-bert.yaml`. Every stage's keys
    are merged over `config.defaults`; `config.scale` and then `config.override` follow. Raises
    `UserError` naming file, variant, stage and key for anything unknown, impossible, there twice,
    or cyclic.
    """
    problems = [*unknown_keys(config.defaults, StageSpec, "defaults.")]
    problems += unknown_keys(config.override, StageSpec, "override.")
    if problems:
        raise UserError("\n".join(f"config: {problem}" for problem in problems))
    return [_grid(raw, config) for raw in load_grids(_path(base, name) for name in config.grids)]


def _path(base: Path, name: str) -> Path:
    if name.endswith((".yaml", ".yml")):
        return base / name
    return base / "workflow" / "grids" / f"{name}.yaml"


def _grid(raw: RawGrid, config: Config) -> Grid:
    variants = {name: _variant(name, raw, config) for name in raw.variants}
    linked = {
        name: replace(variant, stages=_linked(variant, variants, raw.variants[name].path))
        for name, variant in variants.items()
    }
    stages = {stage.ref: stage for variant in linked.values() for stage in variant.stages}
    for stage in stages.values():
        where = _where(raw.variants[stage.ref.variant], stage.ref)
        _check_cycle(stage, stages, where)
        if stage.start:
            _check_start(stage, stages[stage.start], where)
        for ref in stage.fused:
            if stages[ref].spec.trainable != "adapters":
                raise UserError(
                    f"{where}: 'fuse' names '{ref}', which trains no adapters "
                    f"('trainable: {stages[ref].spec.trainable}')"
                )
    for name, variant in linked.items():
        _check_choice(variant, linked, f"{raw.variants[name].path}: variant '{name}'")
    head = raw.head
    for name in (name for pair in head.parameter_ratios for name in pair):
        if name not in linked:
            raise UserError(
                f"{raw.path}: parameter_ratios: no variant '{name}'.{nearest(name, linked)}"
            )
    return Grid(
        head.paper,
        head.title,
        head.overall,
        head.description,
        linked,
        raw.figures,
        head.parameter_ratios,
        raw.path,
    )


def _check_choice(variant: Variant, variants: Mapping[str, Variant], where: str) -> None:
    for name in variant.best_of:
        if name not in variants:
            raise UserError(f"{where}: 'best_of' names unknown '{name}'.{nearest(name, variants)}")
        if variants[name].best_of:
            raise UserError(
                f"{where}: 'best_of' names '{name}', which is itself the best of others; name "
                f"those: {', '.join(variants[name].best_of)}"
            )


def _where(raw: RawVariant, ref: StageRef) -> str:
    return f"{raw.path}: variant '{ref.variant}', stage '{ref.stage}'"


def _variant(name: str, grid: RawGrid, config: Config) -> Variant:
    raw = grid.variants[name]
    stages = []
    for stage, values in raw.stages:
        ref = StageRef(grid.head.paper, name, stage)
        where = _where(raw, ref)
        known = {"select": grid.head.overall, **_merged(config.defaults, values, values)}
        spec = validated(StageSpec, known, where)
        stages.append(Stage(ref, _adjusted(spec, config, where)))
    looks = raw.looks
    return Variant(
        grid.head.paper,
        name,
        looks.label or name,
        looks.row or name,
        looks.note,
        looks.test,
        tuple(stages),
        looks.best_of,
        looks.best_by,
    )


def _merged(
    base: Mapping[str, Any], over: Mapping[str, Any], stage: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `over` merged into `base`, of tasks only those that `stage` has."""
    values = merge(base, over)
    if isinstance(tasks := values.get("tasks"), Mapping):
        known = stage.get("tasks") or {}
        values["tasks"] = {name: value for name, value in tasks.items() if name in known}
    return values


def _adjusted(spec: StageSpec, config: Config, where: str) -> StageSpec:
    """Return `spec` scaled, then overridden, then validated again."""
    values: dict[str, Any] = spec.model_dump()
    factors = config.scale.heads if spec.trainable == "heads" else config.scale
    lr = values["optimiser"]["lr"] * factors.learning_rate
    # Twelve digits, so that 3 x 1e-5 is the same stage as 3e-5.
    values["optimiser"] |= {"lr": float(f"{lr:.12g}")}
    values["epochs"] = max(1, int(values["epochs"] * factors.epochs + 0.5))
    if examples := values["sampler"]["examples"]:
        values["sampler"] |= {"examples": max(1, int(examples * config.scale.examples + 0.5))}
    changed = _merged(values, config.override, values)
    return validated(StageSpec, changed, f"{where}, after scale and override of the config")


def _linked(variant: Variant, variants: Mapping[str, Variant], path: Path) -> tuple[Stage, ...]:
    """Return the stages of `variant` with `start` and `fuse` found."""
    result = []
    for number, stage in enumerate(variant.stages):
        where = f"{path}: variant '{variant.name}', stage '{stage.ref.stage}'"

        def find(key: str, said: str, number: int = number, where: str = where) -> StageRef:
            return _find(f"{key}: {said}", said, number, variant, variants, where)

        start = stage.spec.start
        target = None if start == BACKBONE else find("start", start)
        fused = tuple(find("fuse", name) for name in stage.spec.fuse or ())
        result.append(replace(stage, start=target, fused=fused))
    return tuple(result)


def _find(
    key: str,
    said: str,
    number: int,
    variant: Variant,
    variants: Mapping[str, Variant],
    where: str,
) -> StageRef:
    """Return the stage that stage `number` of `variant` calls `said`."""
    names = [stage.ref.stage for stage in variant.stages]
    first, slash, rest = said.partition("/")
    own = rest if slash and first == variant.name else said
    if own in names[:number]:
        return variant.stages[names.index(own)].ref
    if own in names or own == variant.name:
        raise UserError(
            f"{where}: '{key}' is this stage or a later one of the same variant; "
            f"a stage starts from '{BACKBONE}', an earlier stage, or another variant"
        )
    return _other(key, said, where, names[:number], variants)


def _other(
    key: str, said: str, where: str, earlier: list[str], variants: Mapping[str, Variant]
) -> StageRef:
    """Return the stage that `VARIANT` (its last) or `VARIANT/STAGE` names."""
    name, slash, stage = said.partition("/")
    if name not in variants:
        known = [BACKBONE, *earlier, *variants]
        raise UserError(
            f"{where}: '{key.partition(':')[0]}' is unknown: '{said}'.{nearest(name, known)} "
            f"Known: {', '.join(known)}, or VARIANT/STAGE"
        )
    refs = {s.ref.stage: s.ref for s in variants[name].stages}
    if not refs:
        raise UserError(
            f"{where}: '{key}': variant '{name}' is the best of others: it has no stage"
        )
    if not slash:
        return list(refs.values())[-1]
    if stage not in refs:
        raise UserError(
            f"{where}: '{key}': variant '{name}' has no stage '{stage}'."
            f"{nearest(stage, refs)} Known: {', '.join(refs)}"
        )
    return refs[stage]


def _check_cycle(stage: Stage, stages: Mapping[StageRef, Stage], where: str) -> None:
    waiting: list[tuple[StageRef, ...]] = [(stage.ref,)]
    while waiting:
        chain = waiting.pop()
        at = stages[chain[-1]]
        for before in (*([at.start] if at.start else []), *at.fused):
            if before in chain:
                circle = " -> ".join(str(ref) for ref in (*chain[chain.index(before) :], before))
                raise UserError(f"{where}: 'start' goes round in a circle: {circle}")
            waiting.append((*chain, before))


def _check_start(stage: Stage, earlier: Stage, where: str) -> None:
    """Refuse a start whose weights do not cover what this stage needs."""
    if earlier.spec.trainable in {"adapters", "fusion"}:
        raise UserError(
            f"{where}: starts from '{earlier.ref}', which trains {earlier.spec.trainable} and "
            "leaves no encoder of its own; start from a stage with 'trainable: all', or 'fuse' it"
        )
    for task in stage.spec.tasks.values():
        if task.head_from is not None and task.head_from not in earlier.spec.tasks:
            raise UserError(
                f"{where}: 'head_from: {task.head_from}': '{earlier.ref}' has no such task; it "
                f"has {', '.join(earlier.spec.ordered_tasks)}"
            )
    theirs, ours = earlier.spec.shared_layers, stage.spec.shared_layers
    if theirs == "all":
        return
    if theirs != ours:
        raise UserError(
            f"{where}: 'shared_layers: {ours}' cannot start from '{earlier.ref}', which has "
            f"'shared_layers: {theirs}'; give both the same value, or 'all' to the earlier one"
        )
    missing = [task for task in stage.spec.ordered_tasks if task not in earlier.spec.tasks]
    if missing:
        raise UserError(
            f"{where}: starts from '{earlier.ref}', where each task has layers of its own, but "
            f"task '{missing[0]}' has none there; start from a stage that has it"
        )
