"""Grid files: a paper's variants as data, with inheritance and expansion undone.

What comes out is one mapping a stage, checked for its keys and names; `resolve` gives it types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minbert.common.errors import UserError, nearest
from minbert.grid.config import validated
from minbert.grid.expand import expansions, with_setting
from minbert.grid.figure_reads import READS
from minbert.grid.schema import CHOICE, STRUCTURE, Figure, GridFile, Looks, unknown_keys
from minbert.grid.spec import StageSpec
from minbert.grid.yaml_loader import load_yaml, merge

MAIN = "main"
"""The name of the stage of a variant that has just one."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class RawVariant:
    """A variant with nothing left to inherit; `stages` are (name, keys of a `StageSpec`)."""

    path: Path
    looks: Looks
    stages: tuple[tuple[str, dict[str, Any]], ...]


@dataclass
class RawGrid:
    """All that the grid files say of one paper."""

    head: GridFile
    path: Path
    variants: dict[str, RawVariant] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class _Body:
    """A template or variant as written; `settings` are what its expansion sets."""

    where: str
    path: Path
    template: bool
    values: dict[str, Any]
    settings: tuple[tuple[str, Any], ...] = ()


def load_grids(paths: Iterable[Path]) -> list[RawGrid]:
    """Read grid files; those of one paper become one grid.

    Raises `UserError` naming file, variant and key for what is unknown, there twice, cyclic, or
    of the wrong shape.
    """
    files = [(path, validated(GridFile, load_yaml(path), str(path))) for path in paths]
    grids = {file.paper: _head(file.paper, files) for _, file in files}
    bodies: dict[str, dict[str, _Body]] = {}
    for path, file in files:
        grid = grids[file.paper]
        known = bodies.setdefault(file.paper, {})
        for name, body in _bodies(file, path):
            if name in known:
                raise UserError(
                    f"{body.where}: the name '{name}' is taken by {known[name].where}; "
                    "rename one of the two"
                )
            known[name] = body
        for name, figure in file.figures.items():
            _check_name(name, f"{path}: figure '{name}'")
            if name in grid.figures:
                raise UserError(f"{path}: figure '{name}' is in {grid.path} too; rename one")
            grid.figures[name] = figure
    for paper, grid in grids.items():
        _flatten_all(grid, bodies[paper])
        if not grid.variants:
            raise UserError(
                f"{grid.path}: paper '{paper}' has no variant, so there is nothing to train; add "
                "one under 'variants', or take the file out of `grids`"
            )
    return list(grids.values())


def _head(paper: str, files: Sequence[tuple[Path, GridFile]]) -> RawGrid:
    """Return the grid of the file that gives the paper's title and rule; others may leave them."""
    of_paper = [(path, file) for path, file in files if file.paper == paper]
    path, head = next((f for f in of_paper if f[1].title), of_paper[0])
    for key in ("title", "overall"):
        if key not in head.model_fields_set:
            raise UserError(f"{path}: the key '{key}' is missing; no file of '{paper}' gives it")
    for other, file in of_paper:
        for key in ("title", "overall", "description"):
            said, first = getattr(file, key), getattr(head, key)
            if key in file.model_fields_set and said != first:
                raise UserError(
                    f"{other}: paper '{paper}' has another '{key}' in {path}: {first!r}; "
                    "leave it out here, or name another paper"
                )
    return RawGrid(head, path)


def _bodies(file: GridFile, path: Path) -> Iterator[tuple[str, _Body]]:
    for name, values in file.templates.items():
        body = _Body(f"{path}: template '{name}'", path, True, values)
        if "expand" in values:
            raise UserError(f"{body.where}: 'expand' belongs to variants, not to templates")
        _check_keys(body)
        yield name, body
    for pattern, values in file.variants.items():
        where = f"{path}: variant '{pattern}'"
        _check_keys(_Body(where, path, False, values))
        for name, own, settings in expansions(pattern, values, where):
            body = _Body(f"{path}: variant '{name}'", path, False, own, settings)
            _check_name(name, body.where)
            yield name, body


def _check_name(name: str, where: str) -> None:
    if name == "backbone" or not _NAME.fullmatch(name):
        raise UserError(
            f"{where}: a name has letters, digits, '.', '_' and '-', begins with a letter or "
            "digit, and is not 'backbone'"
        )


def _check_keys(body: _Body) -> None:
    fields = {n: f.annotation for n, f in StageSpec.model_fields.items()}
    known = [*Looks.model_fields, *STRUCTURE, *fields]
    problems: list[str] = []
    for key, value in body.values.items():
        if key in fields:
            problems += unknown_keys({key: value}, StageSpec)
        elif key not in known:
            problems.append(f"unknown key '{key}'.{nearest(key, known)} Known: {', '.join(known)}")
    stages = body.values.get("stages")
    if stages is not None and not isinstance(stages, list):
        problems.append("'stages' is a list of stages, each with a name")
    for number, stage in enumerate(stages if isinstance(stages, list) else [], 1):
        if not isinstance(stage, Mapping) or not isinstance(stage.get("name"), str):
            problems.append(f"stage {number}: expected a mapping with a 'name', found {stage!r}")
            continue
        _check_name(stage["name"], f"{body.where}, stage '{stage['name']}'")
        rest = {key: value for key, value in stage.items() if key not in ("name", *CHOICE)}
        problems += unknown_keys(rest, StageSpec, f"stages.{stage['name']}.")
    if problems:
        raise UserError("\n".join(f"{body.where}: {problem}" for problem in problems))


def _flatten_all(grid: RawGrid, bodies: Mapping[str, _Body]) -> None:
    """Fill `grid.variants` with `bodies`, what they extend merged in."""
    done: dict[str, dict[str, Any]] = {}
    for name, body in bodies.items():
        values = _flatten(name, bodies, done, ())
        if body.template:
            continue
        looks = {key: values.pop(key) for key in Looks.model_fields if key in values}
        shown = validated(Looks, looks, body.where)
        if shown.best_of and values:
            raise UserError(
                f"{body.where}: 'best_of' trains nothing, so '{next(iter(values))}' does not apply"
            )
        stages = () if shown.best_of else _stages(values, body.where)
        grid.variants[name] = RawVariant(body.path, shown, stages)
    for name, figure in grid.figures.items():
        for variant in figure.variants:
            if variant not in grid.variants:
                raise UserError(
                    f"{grid.path}: figure '{name}': unknown variant '{variant}'."
                    f"{nearest(variant, grid.variants)}"
                )
            if grid.variants[variant].looks.best_of and READS[figure.kind].runs:
                raise UserError(
                    f"{grid.path}: figure '{name}': variant '{variant}' is the best of others and "
                    "trains nothing that could be shown; name one of those"
                )


def _flatten(
    name: str,
    bodies: Mapping[str, _Body],
    done: dict[str, dict[str, Any]],
    below: tuple[str, ...],
) -> dict[str, Any]:
    """Return the values of a body with all that it extends; `below` is what extends it."""
    body = bodies[name]
    if name in below:
        cycle = " -> ".join([*below[below.index(name) :], name])
        raise UserError(f"{body.where}: 'extends' goes round in a circle: {cycle}")
    if name not in done:
        parents = body.values.get("extends") or []
        parents = [parents] if isinstance(parents, str) else parents
        if not isinstance(parents, list):
            raise UserError(f"{body.where}: 'extends' is a name or a list of names: {parents!r}")
        values: dict[str, Any] = {}
        for parent in parents:
            if parent not in bodies:
                raise UserError(
                    f"{body.where}: extends unknown '{parent}'.{nearest(str(parent), bodies)} "
                    f"Known: {', '.join(other for other in bodies if other != name)}"
                )
            inherited = _flatten(parent, bodies, done, (*below, name))
            looks = () if bodies[parent].template else Looks.model_fields
            values = merge(values, {k: v for k, v in inherited.items() if k not in looks})
        own = {key: value for key, value in body.values.items() if key != "extends"}
        values = merge(values, own)
        for path, value in body.settings:
            values = with_setting(values, path, value, body.where)
        done[name] = values
    return dict(done[name])


def _stages(values: dict[str, Any], where: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return each stage's name and keys; a variant's own keys are the defaults of its stages."""
    listed: Sequence[dict[str, Any]] = values.pop("stages", None) or [{"name": MAIN}]
    result: dict[str, dict[str, Any]] = {}
    for stage in listed:
        name = stage["name"]
        if name in result:
            raise UserError(f"{where}: two stages are called '{name}'; rename one")
        keys = merge(values, {key: value for key, value in stage.items() if key != "name"})
        chosen = {key: keys.pop(key) for key in CHOICE if key in keys}
        tasks = keys.get("tasks")
        if isinstance(tasks, dict):
            tasks = {task: spec for task, spec in tasks.items() if task != "*"}
            keys["tasks"] = _chosen(tasks, chosen, f"{where}, stage '{name}'")
        result[name] = keys
    return tuple(result.items())


def _chosen(tasks: dict[str, Any], chosen: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the tasks that `train` names (all, if it is not given) and `also_score` carries."""
    if not chosen:
        return tasks
    named = {key: [value] if isinstance(value, str) else value for key, value in chosen.items()}
    for key, names in named.items():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UserError(f"{where}: '{key}' is a task or a list of tasks, found {names!r}")
        for name in names:
            if name not in tasks:
                raise UserError(
                    f"{where}: '{key}' names '{name}', which is not among its 'tasks': "
                    f"{', '.join(tasks)}.{nearest(name, tasks)}"
                )
    carried = named.get("also_score", [])
    trained = named.get("train") or [task for task in tasks if task not in carried]
    if both := [task for task in carried if task in trained]:
        raise UserError(f"{where}: task '{both[0]}' is in 'train' and in 'also_score'")
    kept = {task: merge(tasks[task] or {}, {"trained": True}) for task in trained}
    return kept | {task: merge(tasks[task] or {}, {"trained": False}) for task in carried}
