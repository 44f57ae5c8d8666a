"""From YAML to typed values: reading, merging, and errors that say what to change.

PyYAML follows YAML 1.1; scalars here follow the core schema of YAML 1.2 (section 10.3.2), so
`1e-5` is a number. Duplicate keys are refused.
"""

import re
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from minbert.base.errors import UserError, nearest

_SCALARS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    "merge": "<<",
}


class _Loader(yaml.SafeLoader):
    """A safe loader with the scalars of YAML 1.2 that refuses duplicate keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping; its own keys must be text and distinct (`<<` may repeat them)."""
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
    return int(node.value, 0 if node.value[:2] in {"0o", "0x"} else 10)


for _tag, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), None
    )
_Loader.add_constructor("tag:yaml.org,2002:int", _to_int)


def parse_yaml(text: str, where: str) -> Any:
    """Return the value of `text`; a `UserError` names `where`, line and column."""
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
    """Read the YAML mapping at `path`; an empty file is `{}`. Errors name the file and the line."""
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
    """Return `base` with `over` merged into it: mappings recursively, all else replaced.

    `null` in `over` deletes a key. The key `*` of a mapping sets defaults for all its other keys,
    those in `base` and those added later; within one mapping, a key's own values win over `*`.
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
    """Return `base` updated by `over` as Snakemake does with its configuration files.

    Mappings are updated recursively and all else is replaced; `null` and `*` are not special.
    """
    result = dict(base)
    for key, value in over.items():
        before = result.get(key)
        if isinstance(value, Mapping):
            result[key] = update(before if isinstance(before, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def from_text(value: Any) -> Any:
    """Parse a list or mapping that a command line passed as text; other values stay."""
    if isinstance(value, str) and value.lstrip()[:1] in {"[", "{"}:
        return parse_yaml(value, f"the value {value!r}")
    return value


def scalars_from_text(value: Any) -> Any:
    """Parse what a command line passed as text, leaves included; other values stay."""
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
    """Return the mapping that `dotted.key=value` words of a command line spell."""
    result: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not all(key.split(".")):
            raise UserError(f"'{word}': expected KEY=VALUE, such as scale.epochs=0.5")
        result = update(result, nested(key, parse_yaml(value, word) if value else ""))
    return result


def nested(path: str, value: Any) -> dict[str, Any]:
    """Return the mapping that holds `value` at a dotted path."""
    for word in reversed(path.split(".")):
        value = {word: value}
    return dict(value)


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], values: Mapping[str, Any], where: str) -> Model:
    """Return `values` as a `model`; raise one `UserError` that lists all that is wrong."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UserError(explain(error, where, model)) from None
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def explain(error: ValidationError, where: str, model: type[BaseModel]) -> str:
    """Return a line for each wrong key: `where`, what was found, and what `model` expects."""
    problems: dict[str, tuple[list[str], list[Any]]] = {}
    for item in error.errors(include_url=False):
        path, known = _path(model, item["loc"])
        problems.setdefault(path, (known, []))[1].append(item)
    return "\n".join(f"{where}: {_problem(path, *found)}" for path, found in problems.items())


def _path(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[str, list[str]]:
    """Return the dotted path of `loc`, without the tags of unions, and the known keys there."""
    words: list[str] = []
    at: Any = model
    known: list[str] = []
    for word in loc:
        options = [o for o in get_args(at) if o is not type(None)]
        if get_origin(at) in {Union, UnionType} and len(options) == 1:
            at = options[0]
        fields = getattr(at, "model_fields", None)
        if fields is not None:
            known = list(fields)
            at = fields[word].annotation if word in fields else None
        elif get_origin(at) in {dict, tuple}:
            known = []
            at = get_args(at)[get_origin(at) is dict]
        else:
            break
        words.append(str(word))
    return ".".join(words), known


_WANTED = {
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping ('key: value' lines)",
    "model_type": "a mapping ('key: value' lines)",
    "tuple_type": "a list",
    "too_short": "at least one entry",
    "string_pattern_mismatch": "text that matches {pattern}",
}


def _problem(path: str, known: list[str], items: list[Any]) -> str:
    item = items[0]
    if item["type"] == "extra_forbidden":
        near = nearest(path.rpartition(".")[2], known)
        return f"unknown key '{path}'.{near} Known here: {', '.join(known)}"
    if item["type"] == "missing":
        return f"the key '{path}' is missing"
    if item["type"] in {"value_error", "assertion_error"}:
        message = item["msg"].partition(", ")[2]
        return f"'{path}': {message}" if path else message
    wanted = dict.fromkeys(
        _WANTED.get(i["type"], i["msg"].partition(" be ")[2]).format(**i.get("ctx", {}))
        for i in items
    )
    return f"'{path}' is {item['input']!r}; expected {' or '.join(wanted)}"
