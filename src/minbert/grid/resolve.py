"""From grid files and a configuration to typed stages, each with the stage it starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minbert.common.errors import UserError, nearest
from minbert.grid.claims import Claim, check_claim
from minbert.grid.config import Config, validated
from minbert.grid.links import (
    Stage,
    StageRef,
    Variant,
    check_choice,
    check_cycle,
    check_start,
    linked_stages,
)
from minbert.grid.load import RawGrid, RawVariant, load_grids
from minbert.grid.schema import Figure, unknown_keys
from minbert.grid.spec import Rule, StageSpec
from minbert.grid.yaml_loader import merge


@dataclass(frozen=True)
class Grid:
    """A paper's variants, figures and claims; `path` is its (first) grid file."""

    paper: str
    title: str
    overall: Rule
    description: str
    variants: dict[str, Variant]
    figures: dict[str, Figure]
    parameter_ratios: tuple[tuple[str, str], ...]
    claims: tuple[Claim, ...]
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
        name: replace(variant, stages=linked_stages(variant, variants, raw.variants[name].path))
        for name, variant in variants.items()
    }
    stages = {stage.ref: stage for variant in linked.values() for stage in variant.stages}
    for stage in stages.values():
        where = _where(raw.variants[stage.ref.variant], stage.ref)
        check_cycle(stage, stages, where)
        if stage.start:
            check_start(stage, stages[stage.start], where)
        for ref in stage.fused:
            if stages[ref].spec.trainable != "adapters":
                raise UserError(
                    f"{where}: 'fuse' names '{ref}', which trains no adapters "
                    f"('trainable: {stages[ref].spec.trainable}')"
                )
    for name, variant in linked.items():
        check_choice(variant, linked, f"{raw.variants[name].path}: variant '{name}'")
    head = raw.head
    for name in (name for pair in head.parameter_ratios for name in pair):
        if name not in linked:
            raise UserError(
                f"{raw.path}: parameter_ratios: no variant '{name}'.{nearest(name, linked)}"
            )
    for where, claim in raw.claims:
        check_claim(claim, linked, where)
    return Grid(
        head.paper,
        head.title,
        head.overall,
        head.description,
        linked,
        raw.figures,
        head.parameter_ratios,
        tuple(claim for _, claim in raw.claims),
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
