"""Variants that stand for many: `expand` lists values, and each combination is a variant."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from minbert.common.errors import UserError
from minbert.grid.schema import CHOICE, Looks, unknown_keys
from minbert.grid.spec import StageSpec
from minbert.grid.yaml_loader import merge


def expansions(
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
        if path.partition(".")[0] not in {"stages", *CHOICE}:
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


def _nested(path: str, value: Any) -> Any:
    for word in reversed(path.split(".")):
        value = {word: value}
    return value


def with_setting(values: dict[str, Any], path: str, value: Any, where: str) -> dict[str, Any]:
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
