"""From YAML to typed values: reading, merging, and errors that say what to change.

PyYAML follows YAML 1.1; scalars here follow the core schema of YAML 1.2 (section 10.3.2), so
`1e-5` is a number and `off` is text. Duplicate keys are refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from minbert.base.errors import UserError, nearest

_TAG = "tag:yaml.org,2002:"
_SCALARS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    "merge": "<<",
}

RENAMED = {
    "also_score": "evaluate_only",
    "least": "min",
    "largest": "max",
    "may_vanish": "allow_duplicates",
}
"""Keys by the names that they had before."""


class _Loader(yaml.SafeLoader):
    """A safe loader with the scalars of YAML 1.2 that refuses duplicate keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012
    yaml_constructors: ClassVar[dict[str | None, Any]] = {**yaml.SafeLoader.yaml_constructors}

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping; its own keys must be text and distinct (`<<` may repeat them)."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        first: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag == f"{_TAG}merge":
                continue
            problem = ""
            if key.tag != f"{_TAG}str":
                found = key.value if isinstance(key, yaml.ScalarNode) else "a list or a mapping"
                problem = f"a key must be text, found {found}; put it in quotes"
            elif key.value in first:
                line = first[key.value]
                problem = f"duplicate key '{key.value}' (first on line {line}); keep one of the two"
            if problem:
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            first[key.value] = key.start_mark.line + 1
        return node


def _whole(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    """Return a whole number; `010` is ten, as YAML 1.2 has it."""
    text = loader.construct_scalar(node)
    return int(text, 0 if text[:2] in {"0o", "0x"} else 10)


for _kind, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(rf"^(?:{_pattern})$"), None)
_Loader.add_constructor(f"{_TAG}int", _whole)


def parse_yaml(text: str, where: str) -> Any:
    """Return the value of `text`; a `UserError` names `where`, line and column."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{where}, line {mark.line + 1}, column {mark.column + 1}" if mark else where
        reason = ": ".join(part for part in (error.context, error.problem) if part)
        if "undefined alias" in reason:
            reason += "; put a value that begins with * into quotes"
        raise UserError(f"{place}: {reason}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{where}: not readable as YAML: {error}") from None


def read_text(path: Path) -> str:
    """Return the text of the file at `path`; a `UserError` says why it cannot be read."""
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        near = nearest(path.name, (p.name for p in path.parent.glob(f"*{path.suffix}")))
        raise UserError(f"{path}: there is no such file.{near}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def load_yaml(path: Path | str) -> dict[str, Any]:
    """Read the YAML mapping at `path`; an empty file is `{}`. Errors name the file and the line."""
    value = parse_yaml(read_text(Path(path)), str(path))
    if value is not None and not isinstance(value, dict):
        raise UserError(
            f"{path}: expected 'key: value' lines at the top level, found {type(value).__name__}"
        )
    return value or {}


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `over` merged into it: mappings recursively, all else replaced.

    `null` is kept, to delete what the result is merged over (`without_nulls`). The key `*` of a
    mapping sets defaults for all its other keys, those in `base` and those added later; within one
    mapping, a key's own values win over `*`.
    """
    result = dict(base)
    star = over.get("*")
    if isinstance(star, Mapping):
        result["*"] = result.get("*") or {}
        for key, value in result.items():
            if isinstance(value, Mapping):
                result[key] = merge(value, star)
    for key, value in over.items():
        if not isinstance(value, Mapping):
            result[key] = value
        elif key != "*":
            start = result.get("*") if result.get(key) is None else result[key]
            result[key] = merge(start if isinstance(start, Mapping) else {}, value)
    return result


def without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` without the keys, at any depth of mappings, whose value is `null`."""
    return {
        key: without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if value is not None
    }


def update(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` updated by `over` as Snakemake does with its configuration files.

    Mappings are updated recursively and all else is replaced; `null` and `*` are not special.
    """
    result = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping):
            before = result.get(key)
            result[key] = update(before if isinstance(before, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def nested(path: str, value: Any) -> dict[str, Any]:
    """Return the mapping that holds `value` at a dotted path."""
    for word in reversed(path.split(".")):
        value = {word: value}
    return dict(value)


def from_words(words: Iterable[str]) -> dict[str, Any]:
    """Return the mapping that `dotted.key=value` words of a command line spell.

    A value that begins with `*` is text: YAML's aliases can mean nothing there.
    """
    result: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not all(key.split(".")):
            raise UserError(f"'{word}': expected KEY=VALUE, such as scale.epochs=0.5")
        if value and not value.startswith("*"):
            result = update(result, nested(key, parse_yaml(value, f"--config {key}")))
        else:
            result = update(result, nested(key, value))
    return result


@contextmanager
def inside(where: str) -> Iterator[None]:
    """Begin each line of the block's `UserError` with `where`."""
    try:
        yield
    except UserError as error:
        lines = str(error).splitlines()
        raise UserError(
            "\n".join(f"{where}: {line}" if where else line for line in lines)
        ) from None


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], values: Mapping[str, Any], where: str = "") -> Model:
    """Return `values` as a `model`; raise one `UserError` with a line for each wrong key."""
    with inside(where):
        try:
            return model.model_validate(values)
        except ValidationError as error:
            problems: dict[str, tuple[list[str], list[Any]]] = {}
            for item in error.errors(include_url=False):
                if item["type"] == "too_short" and len(item["input"]) >= item["ctx"]["min_length"]:
                    continue  # Not by itself, but without the entries that are wrong, each told of.
                path, known = _path(model, item["loc"])
                problems.setdefault(path, (known, []))[1].append(item)
            lines = (_problem(path, *found) for path, found in problems.items())
            raise UserError("\n".join(lines)) from None


def _path(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[str, list[str]]:
    """Return the dotted path of `loc`, without the tags of unions, and the known keys there."""
    words: list[str] = []
    at: Any = model
    known: list[str] = []
    for word in loc:
        while get_origin(at) in {Union, UnionType, Annotated}:
            options = [o for o in get_args(at) if o is not type(None)]
            if get_origin(at) is not Annotated and len(options) != 1:
                break
            at = options[0]
        if word == "[key]":
            break
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
    "string_too_long": "at most {max_length} characters",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping ('key: value' lines)",
    "model_type": "a mapping ('key: value' lines)",
    "list_type": "a list",
    "tuple_type": "a list",
    "too_short": "a list of {min_length} or more",
    "too_long": "at most {max_length} entries",
    "string_pattern_mismatch": "text that matches {pattern}",
}
"""What is said to be expected, by pydantic's name of the error."""


def _problem(path: str, known: list[str], items: list[Any]) -> str:
    # Of the members of a union, the one whose own check refused the value says most.
    item = next((each for each in items if each["type"] == "value_error"), items[0])
    key = path.rpartition(".")[2]
    if item["type"] == "extra_forbidden":
        if key in RENAMED:
            return f"'{path}' is called '{RENAMED[key]}' now"
        return f"unknown key '{path}'.{nearest(key, known)} Known here: {', '.join(known)}"
    if item["type"] == "missing":
        return f"the key '{path}' is missing"
    if item["type"] == "value_error":
        message = item["msg"].partition(", ")[2]
        return f"'{path}': {message}" if path else message
    wanted = dict.fromkeys(
        _WANTED.get(i["type"], i["msg"].partition(" be ")[2]).format(**i.get("ctx", {}))
        for i in items
    )
    found = repr(item["input"])
    found = found if len(found) <= 200 else f"{found[:200]} ..."
    return f"'{path}' is {found}; expected {' or '.join(wanted)}"
