"""A paper's variants, each with its own keys alone: `extends`, `expand` and `tune` undone.

A variant is merged over what it extends; `expand` and `tune` make a variant of each value.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, did_you_mean
from minbert.spec.grid import Display, GridFile, StageKeys
from minbert.spec.yaml import merge, nested, validated

MAIN = ({"name": "main"},)
"""The stages of a variant that names none."""


@dataclass(frozen=True)
class Body:
    """A template or variant as written; `settings` are what its expansion sets, by dotted key."""

    path: Path
    values: dict[str, Any]
    template: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


def bodies_of(file: GridFile, path: Path) -> Iterator[tuple[str, Body]]:
    """Yield the templates and variants of a file by name, these with `expand` undone."""
    for name, template in file.templates.items():
        yield name, Body(path, template.model_dump(exclude_unset=True), template=True)
    for pattern, variant in file.variants.items():
        values = variant.model_dump(exclude_unset=True)
        axes = values.pop("expand", None) or {}
        last = [key.rpartition(".")[2] for key in axes]
        if sorted(last) != sorted({*re.findall(r"\{(.*?)\}", pattern)}):
            raise UserError(
                f"variant '{pattern}': the name must hold the last word of each key of 'expand' "
                f"once, in braces: {last}"
            )
        for words, settings in _combinations(axes):
            said = dict(zip(last, words, strict=True))
            shown = {k: _filled(values[k], said) for k in Display.model_fields if k in values}
            yield _filled(pattern, said), Body(path, values | shown, settings=settings)


def _combinations(axes: Mapping[str, Any]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Yield of each combination of values its words, and its settings by dotted key.

    An axis is a list, whose values are spelt, or says the word for each value.
    """
    pairs = [
        values.items() if isinstance(values, Mapping) else [(spelt(v), v) for v in values]
        for values in axes.values()
    ]
    for chosen in itertools.product(*pairs):
        settings = dict(zip(axes, (value for _, value in chosen), strict=True))
        yield [word for word, _ in chosen], settings


def _filled(value: Any, said: Mapping[str, str]) -> Any:
    for word, text in said.items() if isinstance(value, str) else ():
        value = value.replace(f"{{{word}}}", text)
    return value


def spelt(value: Any) -> str:
    """Return how a value is spelt in a variant's name: 1e-4 and 0.0001 are both `1e-4`."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and 0 < abs(value) < 1e-3:
        mantissa, _, exponent = f"{value:e}".partition("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    if isinstance(value, list | tuple):
        return "-".join(map(spelt, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def refuse_circle(key: str, graph: Mapping[Any, Iterable[Any]]) -> None:
    """Raise `UserError` if what each node of `graph` comes after by its `key` leads back to it."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = " -> ".join(map(str, reversed(error.args[1])))
        raise UserError(f"'{key}' goes round in a circle: {circle}") from None


def flat(name: str, bodies: Mapping[str, Body]) -> dict[str, Any]:
    """Return the values of a body over those of what it extends, where there is no circle."""
    body, values = bodies[name], dict[str, Any]()
    for parent in body.values.get("extends") or ():
        if parent not in bodies:
            raise UserError(f"'{name}' extends unknown '{parent}'.{did_you_mean(parent, bodies)}")
        kept = () if bodies[parent].template else Display.model_fields
        values = merge(values, {k: v for k, v in flat(parent, bodies).items() if k not in kept})
    values = merge(values, {key: v for key, v in body.values.items() if key != "extends"})
    return _with(values, body.settings)


def _with(values: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with dotted keys set; `stages.NAME.KEY` reaches one stage."""
    for key, value in settings.items():
        first, _, rest = key.partition(".")
        name, _, below = rest.partition(".")
        change = nested(below if first == "stages" else key, value)
        change = validated(StageKeys, change, "expand or tune").model_dump(exclude_unset=True)
        if first != "stages":
            values = merge(values, change)
            continue
        stages = values.get("stages") or MAIN
        if name not in (names := [stage["name"] for stage in stages]):
            known = f"{did_you_mean(name, names)} Known: {', '.join(names)}"
            raise UserError(f"'{key}': there is no stage '{name}'.{known}")
        changed = [merge(stage, change) if stage["name"] == name else stage for stage in stages]
        values = {**values, "stages": changed}
    return values


def candidates_of(name: str, values: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the name, the words and the keys of each combination that `tune` of a variant tries."""
    # A half of dev chooses among the settings, so it chooses their epochs too.
    values = {"selection_split": "half", **values}
    if not (tune := values.pop("tune")):
        raise UserError(
            "'tune' has no values to try; list two or more by dotted key, or say 'tune: null'"
        )
    # As many words from the end of the keys as tell them apart.
    ends = ([".".join(key.split(".")[-n:]) for key in tune] for n in itertools.count(1))
    short = next(found for found in ends if len({*found}) == len(tune))
    for words, settings in _combinations(tune):
        said = [f"{key} {word}" for key, word in zip(short, words, strict=True)]
        end = ".".join(re.sub(r"[^A-Za-z0-9._-]+", "-", each).strip("-.") for each in said)
        yield f"{name}.{end}", ", ".join(said), _with(values, settings)
