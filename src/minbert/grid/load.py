"""Grid files: a paper's variants as data, with inheritance and expansion undone.

What comes out is one mapping a stage, checked for its keys and names; `resolve` gives it types.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minbert.common.errors import UserError, nearest
from minbert.grid.config import validated
from minbert.grid.schema import STRUCTURE, Figure, GridFile, Looks, unknown_keys
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
    grids: dict[str, RawGrid] = {}
    bodies: dict[str, dict[str, _Body]] = {}
    for path in paths:
        file = validated(GridFile, load_yaml(path), str(path))
        grid = grids.setdefault(file.paper, RawGrid(file, path))
        if (file.title, file.overall) != (grid.head.title, grid.head.overall):
            raise UserError(
                f"{path}: paper '{file.paper}' has another title or overall rule in {grid.path}; "
                "make them the same, or name another paper"
            )
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
    return list(grids.values())


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
        for name, own, settings in _expand(pattern, values, where):
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
        rest = {key: value for key, value in stage.items() if key != "name"}
        problems += unknown_keys(rest, StageSpec, f"stages.{stage['name']}.")
    if problems:
        raise UserError("\n".join(f"{body.where}: {problem}" for problem in problems))


def _expand(
    pattern: str, values: dict[str, Any], where: str
) -> Iterator[tuple[str, dict[str, Any], tuple[tuple[str, Any], ...]]]:
    """Yield (name, own keys, settings) for each combination of the values of `expand`."""
    own = {key: value for key, value in values.items() if key != "expand"}
    axes = values.get("expand") or {}
    if not isinstance(axes, Mapping):
        raise UserError(f"{where}: 'expand' is a mapping of keys to values, found {axes!r}")
    words = [path.rpartition(".")[2] for path in axes]
    placeholders = re.findall(r"\{(.*?)\}", pattern)
    if sorted(words) != sorted(set(placeholders)):
        wanted = ", ".join(f"{{{word}}}" for word in words) or "no placeholder"
        raise UserError(
            f"{where}: the name must hold {wanted}, one for the last word of each key of 'expand' "
            f"(all different), found {', '.join(placeholders) or 'none'}"
        )
    options: list[list[tuple[str, Any]]] = []
    for path, choices in axes.items():
        if not isinstance(choices, list | Mapping) or not choices:
            raise UserError(
                f"{where}: 'expand.{path}' is {choices!r}; expected a list of values, or a "
                "mapping of words for the name to values"
            )
        if path.partition(".")[0] != "stages":
            for problem in unknown_keys(_nested(path, {}), StageSpec):
                raise UserError(f"{where}: 'expand': {problem}")
        pairs = (
            choices.items() if isinstance(choices, Mapping) else ((_word(c), c) for c in choices)
        )
        options.append(list(pairs))
    for combination in itertools.product(*options):
        spelt = dict(zip(words, (word for word, _ in combination), strict=True))
        named = {
            key: _fill(value, spelt) if key in Looks.model_fields else value
            for key, value in own.items()
        }
        settings = zip(axes, (value for _, value in combination), strict=True)
        yield _fill(pattern, spelt), named, tuple(settings)


def _fill(value: Any, spelt: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for word, text in spelt.items():
            value = value.replace(f"{{{word}}}", text)
    return value


def _word(value: Any) -> str:
    """Return how a value is spelt in a variant's name: 1e-4 and 0.0001 are both `1e-4`."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, float):
        mantissa, _, exponent = f"{value:e}".partition("e")
        small = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
        return small if abs(value) < 1e-3 and value else f"{value:g}"
    if isinstance(value, list):
        return "-".join(_word(each) for each in value)
    return str(value)


def _flatten_all(grid: RawGrid, bodies: Mapping[str, _Body]) -> None:
    """Fill `grid.variants` with `bodies`, what they extend merged in."""
    done: dict[str, dict[str, Any]] = {}
    for name, body in bodies.items():
        values = _flatten(name, bodies, done, ())
        if body.template:
            continue
        looks = {key: values.pop(key) for key in Looks.model_fields if key in values}
        grid.variants[name] = RawVariant(
            body.path, validated(Looks, looks, body.where), _stages(values, body.where)
        )
    for name, figure in grid.figures.items():
        for variant in figure.variants:
            if variant not in grid.variants:
                raise UserError(
                    f"{grid.path}: figure '{name}': unknown variant '{variant}'."
                    f"{nearest(variant, grid.variants)}"
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
            values = _set(values, path, value, body.where)
        done[name] = values
    return dict(done[name])


def _nested(path: str, value: Any) -> Any:
    for word in reversed(path.split(".")):
        value = {word: value}
    return value


def _set(values: dict[str, Any], path: str, value: Any, where: str) -> dict[str, Any]:
    """Return `values` with the key at a dotted path set; `stages.NAME.KEY` reaches one stage."""
    first, _, rest = path.partition(".")
    if first != "stages":
        return merge(values, _nested(path, value))
    name, _, key = rest.partition(".")
    stages = values.get("stages", [])
    if name not in (stage["name"] for stage in stages):
        raise UserError(f"{where}: 'expand.{path}': there is no stage '{name}'")
    for problem in unknown_keys(_nested(key, {}), StageSpec):
        raise UserError(f"{where}: 'expand.{path}': {problem}")
    changed = [merge(s, _nested(key, value)) if s["name"] == name else s for s in stages]
    return {**values, "stages": changed}


def _stages(values: dict[str, Any], where: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return each stage's name and keys; a variant's own keys are the defaults of its stages."""
    listed: Sequence[dict[str, Any]] = values.pop("stages", None) or [{"name": MAIN}]
    result: dict[str, dict[str, Any]] = {}
    for stage in listed:
        name = stage["name"]
        if name in result:
            raise UserError(f"{where}: two stages are called '{name}'; rename one")
        keys = merge(values, {key: value for key, value in stage.items() if key != "name"})
        tasks = keys.get("tasks")
        if isinstance(tasks, dict):
            keys["tasks"] = {task: spec for task, spec in tasks.items() if task != "*"}
        result[name] = keys
    return tuple(result.items())
