"""From grid files and a configuration to typed stages, each with the stage it starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
    """A stage, and the one whose weights it starts from; None means the backbone."""

    ref: StageRef
    spec: StageSpec
    start: StageRef | None


@dataclass(frozen=True)
class Variant:
    """A row of a paper's grid. `test` says whether it is scored on test."""

    paper: str
    name: str
    label: str
    row: str
    note: str
    test: bool
    stages: tuple[Stage, ...]

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

    A bare name such as `hybrid-bert` means `workflow/grids/hybrid-bert.yaml`. `config.scale` and
    then `config.override` are applied to every stage. Raises `UserError` naming file, variant,
    stage and key for anything unknown, impossible, there twice, or cyclic.
    """
    problems = unknown_keys(config.override, StageSpec, "override.")
    if text := "\n".join(f"config: {problem}" for problem in problems):
        raise UserError(text)
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
            _check_sharing(stage, stages[stage.start], where)
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


def _where(raw: RawVariant, ref: StageRef) -> str:
    return f"{raw.path}: variant '{ref.variant}', stage '{ref.stage}'"


def _variant(name: str, grid: RawGrid, config: Config) -> Variant:
    raw = grid.variants[name]
    stages = []
    for stage, values in raw.stages:
        ref = StageRef(grid.head.paper, name, stage)
        where = _where(raw, ref)
        spec = validated(StageSpec, {"select": grid.head.overall, **values}, where)
        stages.append(Stage(ref, _adjusted(spec, config, where), None))
    looks = raw.looks
    return Variant(
        grid.head.paper,
        name,
        looks.label or name,
        looks.row or name,
        looks.note,
        looks.test,
        tuple(stages),
    )


def _adjusted(spec: StageSpec, config: Config, where: str) -> StageSpec:
    """Return `spec` scaled, then overridden, then validated again."""
    values: dict[str, Any] = spec.model_dump()
    lr = values["optimiser"]["lr"] * config.scale.learning_rate
    # Twelve digits, so that 3 x 1e-5 is the same stage as 3e-5.
    values["optimiser"] |= {"lr": float(f"{lr:.12g}")}
    values["epochs"] = max(1, int(values["epochs"] * config.scale.epochs + 0.5))
    over = dict(config.override)
    if isinstance(tasks := over.get("tasks"), Mapping):
        over["tasks"] = {name: v for name, v in tasks.items() if name == "*" or name in spec.tasks}
    values = merge(values, over)
    if isinstance(values.get("tasks"), dict):
        values["tasks"].pop("*", None)
    return validated(StageSpec, values, f"{where}, after scale and override of the config")


def _linked(variant: Variant, variants: Mapping[str, Variant], path: Path) -> tuple[Stage, ...]:
    """Return the stages of `variant` with `start` found."""
    names = [stage.ref.stage for stage in variant.stages]
    result = []
    for number, stage in enumerate(variant.stages):
        where = f"{path}: variant '{variant.name}', stage '{stage.ref.stage}'"
        start = stage.spec.start
        first, slash, rest = start.partition("/")
        own = rest if slash and first == variant.name else start
        if start == BACKBONE:
            target = None
        elif own in names[:number]:
            target = replace(stage.ref, stage=own)
        elif own in names or own == variant.name:
            raise UserError(
                f"{where}: 'start: {start}' is this stage or a later one of the same variant; "
                f"a stage starts from '{BACKBONE}', an earlier stage, or another variant"
            )
        else:
            target = _other(start, where, names[:number], variants)
        result.append(replace(stage, start=target))
    return tuple(result)


def _other(start: str, where: str, earlier: list[str], variants: Mapping[str, Variant]) -> StageRef:
    """Return the stage that `VARIANT` (its last) or `VARIANT/STAGE` names."""
    name, slash, stage = start.partition("/")
    if name not in variants:
        known = [BACKBONE, *earlier, *variants]
        raise UserError(
            f"{where}: 'start' is unknown: '{start}'.{nearest(name, known)} "
            f"Known: {', '.join(known)}, or VARIANT/STAGE"
        )
    refs = {s.ref.stage: s.ref for s in variants[name].stages}
    if not slash:
        return list(refs.values())[-1]
    if stage not in refs:
        raise UserError(
            f"{where}: 'start: {start}': variant '{name}' has no stage '{stage}'."
            f"{nearest(stage, refs)} Known: {', '.join(refs)}"
        )
    return refs[stage]


def _check_cycle(stage: Stage, stages: Mapping[StageRef, Stage], where: str) -> None:
    chain = [stage.ref]
    start = stage.start
    while start is not None:
        chain.append(start)
        if start in chain[:-1]:
            circle = " -> ".join(str(ref) for ref in chain[chain.index(start) :])
            raise UserError(f"{where}: 'start' goes round in a circle: {circle}")
        start = stages[start].start


def _check_sharing(stage: Stage, earlier: Stage, where: str) -> None:
    """Refuse a start whose weights do not cover what this stage needs."""
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
