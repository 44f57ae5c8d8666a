"""YAML as people expect it: no duplicate keys, `1e-5` is a number; and how mappings merge.

PyYAML follows YAML 1.1; scalars here follow the core schema of YAML 1.2 (section 10.3.2).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from minbert.common.errors import UserError, nearest

_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_NULL = re.compile(r"~|null|Null|NULL|")


class _Loader(yaml.SafeLoader):
    """A safe loader with the scalars of YAML 1.2, which refuses keys that are twice there."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping; its own keys must be text and distinct (`<<` may add others)."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        first: dict[Hashable, int] = {}
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.tag != "tag:yaml.org,2002:str":
                raise yaml.MarkedYAMLError(
                    problem=f"a key must be text, found {_shown(key)}; put it in quotes",
                    problem_mark=key.start_mark,
                )
            if key.value in first:
                raise yaml.MarkedYAMLError(
                    problem=f"duplicate key '{key.value}' (first on line {first[key.value]}); "
                    "keep one of the two",
                    problem_mark=key.start_mark,
                )
            first[key.value] = key.start_mark.line + 1
        return node


def _shown(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else "a list or a mapping"


def _to_int(_: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = node.value
    return int(text, 0) if text[:2] in {"0o", "0x"} else int(text, 10)


def _to_float(_: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    return float(re.sub(r"\.(?=inf|nan)", "", node.value.lower()))


def _add(tag: str, pattern: re.Pattern[str]) -> None:
    full = re.compile(rf"^(?:{pattern.pattern})$")
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", full, None)


_add("null", _NULL)
_add("bool", _BOOL)
_add("int", _INT)
_add("float", _FLOAT)
_add("merge", re.compile("<<"))
_Loader.add_constructor("tag:yaml.org,2002:int", _to_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _to_float)


def parse_yaml(text: str, where: str) -> Any:
    """Return the value that `text` spells; `UserError` names `where`, line and column."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{where}, line {mark.line + 1}, column {mark.column + 1}" if mark else where
        reason = ": ".join(part for part in (error.context, error.problem) if part)
        raise UserError(f"{place}: {reason}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{where}: not readable as YAML: {error}") from None


def load_yaml(path: Path | str) -> dict[str, Any]:
    """Read the YAML mapping at `path`, keys in the file's order; an empty file is `{}`.

    Raises `UserError` naming the file, and the line where there is one, for a missing file, a
    syntax error, a duplicate key, a key that is not text, or a top level that is no mapping.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        near = nearest(path.name, (p.name for p in path.parent.glob("*.y*ml")))
        raise UserError(f"{path}: there is no such file.{near}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    value = parse_yaml(text, str(path))
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UserError(
            f"{path}: expected 'key: value' lines at the top level, found {type(value).__name__}"
        )
    return value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `over` merged into it: mappings deeply, all else replaced.

    `null` in `over` deletes a key. The key `*` of a mapping speaks of all its other keys: of those
    that `base` has, and of those that come later; a key's own words beat it within one mapping.
    """
    result = dict(base)
    star = over.get("*")
    if isinstance(star, Mapping):
        result.setdefault("*", {})
        for key, value in result.items():
            if isinstance(value, Mapping):
                result[key] = merge(value, star)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif not isinstance(value, Mapping):
            result[key] = value
        elif key != "*":
            start = result.get(key, result.get("*", {}))
            result[key] = merge(start if isinstance(start, Mapping) else {}, value)
    return result


def update(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `over` written into it as Snakemake does with its configuration files.

    Mappings are updated deeply and all else is replaced; `null` and `*` mean nothing yet.
    """
    result = dict(base)
    for key, value in over.items():
        before = result.get(key)
        deep = isinstance(value, Mapping)
        result[key] = (
            update(before if isinstance(before, Mapping) else {}, value) if deep else value
        )
    return result


def from_text(value: Any) -> Any:
    """Parse a list or mapping that a command line passed as text."""
    if isinstance(value, str) and value.lstrip()[:1] in {"[", "{"}:
        return parse_yaml(value, f"the value {value!r}")
    return value


def scalars_from_text(value: Any) -> Any:
    """Give the leaves that a command line passed as text the types that YAML gives them."""
    value = from_text(value)
    if isinstance(value, Mapping):
        return {key: scalars_from_text(leaf) for key, leaf in value.items()}
    if isinstance(value, list):
        return [scalars_from_text(leaf) for leaf in value]
    if isinstance(value, str):
        try:
            return parse_yaml(value, "")
        except UserError:
            return value
    return value


def from_words(words: Iterable[str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not all(key.split(".")):
            raise UserError(f"'{word}': expected KEY=VALUE, such as scale.epochs=0.5")
        nested: Any = parse_yaml(value, word) if value else ""
        for part in reversed(key.split(".")):
            nested = {part: nested}
        result = update(result, nested)
    return result
