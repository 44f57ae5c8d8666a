"""A paper's variants, each with its own keys alone: `extends`, `expand` and `tune` undone.

A variant is merged over what it extends; `expand` and `tune` make a variant of each value.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, nearest
from minbert.spec.grid import GridFile, Looks, StageKeys, check_name
from minbert.spec.yaml import inside, merge, nested, validated, without_nulls


@dataclass(frozen=True)
class Body:
    """A template or variant as written; `settings` are what its expansion sets, by dotted key."""

    name: str
    path: Path
    values: dict[str, Any]
    template: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


def bodies_of(file: GridFile, path: Path) -> Iterator[Body]:
    """Yield the templates and variants of a file, these with `expand` undone."""
    for name, template in file.templates.items():
        yield Body(name, path, template.model_dump(exclude_unset=True), template=True)
    for pattern, variant in file.variants.items():
        values = variant.model_dump(exclude_unset=True)
        axes = values.pop("expand", None) or {}
        words = [key.rpartition(".")[2] for key in axes]
        if sorted(words) != sorted({*re.findall(r"\{(.*?)\}", pattern)}):
            wanted = ", ".join(f"{{{word}}}" for word in words) or "no placeholder"
            raise UserError(
                f"{path}: variant '{pattern}': the name must hold {wanted}, one for the last word "
                "of each key of 'expand', and these all different"
            )
        options = [
            [*choices.items()] if isinstance(choices, dict) else [(spelt(c), c) for c in choices]
            for choices in axes.values()
        ]
        for combination in itertools.product(*options):
            said = dict(zip(words, (word for word, _ in combination), strict=True))
            looks = {key: _fill(values[key], said) for key in Looks.model_fields if key in values}
            settings = dict(zip(axes, (value for _, value in combination), strict=True))
            with inside(str(path)):
                name = check_name(_fill(pattern, said))
            yield Body(name, path, values | looks, settings=settings)


def _fill(value: Any, said: Mapping[str, str]) -> Any:
    for word, text in said.items() if isinstance(value, str) else ():
        value = value.replace(f"{{{word}}}", text)
    return value


def spelt(value: Any) -> str:
    """Return how a value is spelt in a variant's name: 1e-4 and 0.0001 are both `1e-4`."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value):
        mantissa, _, exponent = f"{value:e}".partition("e")
        small = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
        return small if abs(value) < 1e-3 and value else f"{value:g}"
    if isinstance(value, list | tuple):
        return "-".join(map(spelt, value))
    return str(value)


def _flat(name: str, bodies: Mapping[str, Body], *below: str) -> dict[str, Any]:
    """Return the values of a body over those that it extends; `below` is what extends it."""
    if name in below:
        circle = " -> ".join([*below[below.index(name) :], name])
        raise UserError(f"'extends' goes round in a circle: {circle}")
    values: dict[str, Any] = {}
    for parent in bodies[name].values.get("extends") or ():
        if parent not in bodies:
            raise UserError(f"'{name}' extends unknown '{parent}'.{nearest(parent, bodies)}")
        looks = () if bodies[parent].template else Looks.model_fields
        inherited = _flat(parent, bodies, *below, name)
        values = merge(values, {key: v for key, v in inherited.items() if key not in looks})
    own = bodies[name].values
    values = merge(values, {key: value for key, value in own.items() if key != "extends"})
    for key, value in bodies[name].settings.items():
        values = _with(values, key, value)
    return values


def _with(values: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return `values` with a dotted key set; `stages.NAME.KEY` reaches one stage."""
    first, _, rest = key.partition(".")
    name, _, below = rest.partition(".")
    changed = validated(StageKeys, nested(below if first == "stages" else key, value))
    change = changed.model_dump(exclude_unset=True)
    if first != "stages":
        return merge(values, change)
    stages = values.get("stages") or ({"name": "main"},)
    known = [stage["name"] for stage in stages]
    if name not in known:
        raise UserError(
            f"'{key}': there is no stage '{name}'.{nearest(name, known)} Known: {', '.join(known)}"
        )
    return {**values, "stages": [merge(s, change) if s["name"] == name else s for s in stages]}


def variants_of(
    body: Body, bodies: Mapping[str, Body]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield what a variant is but for its stages, and the keys of these; then its candidates."""
    name = body.name
    with inside(f"{body.path}: variant '{name}'"):
        values = without_nulls(_flat(name, bodies))
        looks = {key: values.pop(key) for key in Looks.model_fields if key in values}
        looks = {"name": name, "label": name, "row": name, **looks}
        if looks.get("best_of") and values:
            raise UserError(f"'best_of' trains nothing, so '{next(iter(values))}' does not apply")
        tune = values.pop("tune", {})
        tried: dict[str, str] = {}
        candidates = []
        for combination in itertools.product(*tune.values()) if tune else ():
            # A half of dev chooses among the settings, so it chooses their epochs too.
            changed: dict[str, Any] = {"select_on": "half", **values}
            for key, value in zip(tune, combination, strict=True):
                changed = _with(changed, key, value)
            pairs = list(zip(_short([*tune]), map(spelt, combination), strict=True))
            words = [re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(pair)).strip("-.") for pair in pairs]
            candidate = check_name(".".join([name, *words]))
            said = tried[candidate] = ", ".join(map(" ".join, pairs))
            row = {"label": f"{looks['label']}, {said}", "row": candidate}
            candidates.append(({"name": candidate, "tuned_for": name, **row}, changed))
    yield looks | ({"best_of": tuple(tried), "tried": tried} if tried else {}), values
    yield from candidates


def _short(keys: Sequence[str]) -> list[str]:
    """Return the last words of dotted keys, as many as tell them apart."""
    for count in itertools.count(1):
        found = [".".join(key.split(".")[-count:]) for key in keys]
        if len({*found}) == len(found):
            return found
    raise AssertionError
