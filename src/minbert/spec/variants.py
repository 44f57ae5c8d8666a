"""A paper's variants, each with its own keys alone: `extends`, `expand` and `tune` undone.

A variant is merged over what it extends; `expand` and `tune` make a variant of each value.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from minbert.base.errors import UserError, did_you_mean
from minbert.spec.grid import Display, Template, VariantKeys
from minbert.spec.yaml import inside, merge, nested, without_nulls

MAIN = ({"name": "main"},)
"""The stages of a variant that names none."""


class Setting(NamedTuple):
    """One value of an axis: the dotted key that it is for, and how it is called in names."""

    key: str
    word: str
    value: Any

    @property
    def last(self) -> str:
        """The last word of the key."""
        return self.key.rpartition(".")[2]


class Body(NamedTuple):
    """A template or variant as written, and what its expansion sets."""

    values: dict[str, Any]
    settings: Sequence[Setting] = ()
    template: bool = False


def variants_of(
    templates: Mapping[str, Template], variants: Mapping[str, VariantKeys]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield how each variant is shown, and the keys of its stages: none if it has no stages.

    What `tune` tries follows the variant, which is the best of these.
    """
    bodies = {
        name: Body(template.model_dump(exclude_unset=True), template=True)
        for name, template in templates.items()
    }
    for pattern, variant in variants.items():
        values = variant.model_dump(exclude_unset=True)
        for settings in _combinations(values.pop("expand", None) or {}):
            own = {key: _filled(value, settings) for key, value in values.items()}
            name = _filled(pattern, settings)
            if bodies.setdefault(name, body := Body(own, settings)) is not body:
                raise UserError(
                    f"two variants or templates are called '{name}'; rename one, or put the last "
                    "word of each key of 'expand' into the name, in braces"
                )
    for name, body in bodies.items():
        if not body.template:
            with inside(f"variant '{name}'"):
                yield from _tuned(name, without_nulls(_flat(name, bodies)))


def _combinations(axes: Mapping[str, Any]) -> Iterator[tuple[Setting, ...]]:
    """Yield each combination of the axes' values: an axis is a list, or a mapping with words."""
    return itertools.product(
        *(
            [Setting(key, *of) for of in values.items()]
            if isinstance(values, dict)
            else [Setting(key, spelt(value), value) for value in values]
            for key, values in axes.items()
        )
    )


def spelt(value: Any) -> str:
    """Return how a value is spelt in a variant's name: 1e-4 and 0.0001 are both `1e-4`."""
    if isinstance(value, list | tuple):
        return "-".join(map(spelt, value))
    if isinstance(value, float):
        return f"{Decimal(repr(value)):e}" if 0 < abs(value) < 1e-3 else f"{value:g}"
    return value if isinstance(value, str) else str(value).lower()


def _filled(value: Any, settings: Sequence[Setting]) -> Any:
    """Return a text with the words of settings in place of their keys' last words, in braces."""
    for setting in settings if isinstance(value, str) else ():
        value = value.replace(f"{{{setting.last}}}", setting.word)
    return value


def _flat(name: str, bodies: Mapping[str, Body], *below: str) -> dict[str, Any]:
    """Return the values of a body over those of what it extends."""
    if name in below:
        raise UserError(f"'extends' goes round in a circle: {' -> '.join([*below, name])}")
    body, values = bodies[name], dict[str, Any]()
    for parent in body.values.get("extends") or ():
        if parent not in bodies:
            raise UserError(f"'{name}' extends unknown '{parent}'.{did_you_mean(parent, bodies)}")
        found = _flat(parent, bodies, *below, name)
        kept = () if bodies[parent].template else Display.model_fields
        values = merge(values, {k: v for k, v in found.items() if k not in kept})
    values = merge(values, {k: v for k, v in body.values.items() if k != "extends"})
    return _with(values, body.settings)


def _with(values: dict[str, Any], settings: Sequence[Setting]) -> dict[str, Any]:
    """Return `values` with dotted keys set; `stages.NAME.KEY` reaches one stage."""
    for key, _, value in settings:
        if not key.startswith("stages."):
            values = merge(values, nested(key, value))
            continue
        _, name, below = key.split(".", 2)
        stages = {stage["name"]: stage for stage in values.get("stages") or MAIN}
        if name not in stages:
            raise UserError(f"'{key}': no stage '{name}'; there are {', '.join(stages)}")
        stages[name] = merge(stages[name], nested(below, value))
        values = {**values, "stages": tuple(stages.values())}
    return values


def _tuned(name: str, keys: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield a variant, and what it tries if it is tuned."""
    shown: dict[str, Any] = {"name": name, "label": name, "row": name}
    shown |= {key: keys.pop(key) for key in Display.model_fields if key in keys}
    if shown.get("best_of") and keys:
        raise UserError(f"'best_of' trains nothing, so '{next(iter(keys))}' does not apply")
    if not (tune := keys.pop("tune", None)):
        yield shown, keys
        return
    # A half of dev chooses among the settings, so it chooses their epochs too.
    keys = {"selection_split": "half", **keys}
    tried: dict[str, str] = {}
    candidates = []
    for settings in _combinations(tune):
        alike = len({setting.last for setting in settings}) < len(settings)
        said = [f"{of.key if alike else of.last} {of.word}" for of in settings]
        end = ".".join(re.sub(r"[^A-Za-z0-9._-]+", "-", each).strip("-.") for each in said)
        candidate, words = f"{name}.{end}", ", ".join(said)
        tried[candidate] = words
        own = {"name": candidate, "label": f"{shown['label']}, {words}", "row": candidate}
        candidates.append(({**own, "tuned_for": name}, _with(keys, settings)))
    yield {**shown, "tried": tried, "best_of": tuple(tried)}, {}
    yield from candidates
