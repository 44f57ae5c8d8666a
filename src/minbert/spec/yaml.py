"""From YAML to typed values: reading, merging, and errors that say what to change.

PyYAML follows YAML 1.1; scalars here follow the core schema of YAML 1.2 (section 10.3.2), so
`1e-5` is a number. Duplicate keys are refused.
"""

import re
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, NoReturn, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from minbert.base.errors import UserError, nearest, no_file

_SCALARS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    "merge": "<<",
}
_TAG = "tag:yaml.org,2002:"

MAX_BYTES, MAX_NODES, MAX_DEPTH, MAX_DIGITS = 1_000_000, 20_000, 50, 18
"""Far more than a grid needs (a thousand values, eight levels), and far less than hurts."""


class _Loader(yaml.SafeLoader):
    """A safe loader with the scalars of YAML 1.2 that refuses duplicate keys.

    Nodes are counted as often as they are referred to: a few aliases can stand for gigabytes.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012
    yaml_constructors: ClassVar[dict[str | None, Any]] = {}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._below = [0]
        """For each open node, how deep the nodes below it go."""
        self._sizes: dict[yaml.Node, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node, if it holds itself nowhere and the document stays small and flat."""
        event, before = self.peek_event(), self._nodes
        self._nodes += 1
        self._below.append(0)
        self._check_size(event)
        node = super().compose_node(parent, index)
        depth = self._below.pop() + 1
        if node is not None and isinstance(event, yaml.AliasEvent):
            if node not in self._sizes:
                raise _error(f"'*{event.anchor}' refers to what it stands in", event)
            nodes, depth = self._sizes[node]
            self._nodes = before + nodes
        elif node is not None:
            self._sizes[node] = self._nodes - before, depth
        self._below[-1] = max(self._below[-1], depth)
        self._check_size(event)
        return node

    def _check_size(self, event: Any) -> None:
        if len(self._below) + self._below[-1] > MAX_DEPTH:
            raise _error(f"more than {MAX_DEPTH} levels of lists and mappings", event)
        if self._nodes > MAX_NODES:
            raise _error(f"more than {MAX_NODES:,} values, counted at each alias", event)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping; its own keys must be text and distinct (`<<` may repeat them)."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        first: dict[Hashable, int] = {}
        for key, _ in node.value:
            if key.tag == f"{_TAG}merge":
                continue
            if key.tag != f"{_TAG}str":
                found = key.value if isinstance(key, yaml.ScalarNode) else "a list or a mapping"
                raise _error(f"a key must be text, found {found}; put it in quotes", key)
            if key.value in first:
                raise _error(
                    f"duplicate key '{key.value}' (first on line {first[key.value]}); "
                    "keep one of the two",
                    key,
                )
            first[key.value] = key.start_mark.line + 1
        return node


def _error(problem: str, at: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


def _unknown(_: Any, node: yaml.Node) -> NoReturn:
    raise _error(f"unknown tag '{node.tag.replace(_TAG, '!!')}'; leave it out", node)


def _scalar(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    """Return the value of a scalar, whether its kind was found or given by a tag (`!!int`)."""
    text, kind = loader.construct_scalar(node), node.tag.removeprefix(_TAG)
    if kind == "str":
        if re.search("[\ud800-\udfff]", text):
            raise _error(f"{text!r} has half a character (a lone surrogate)", node)
        return text
    if not re.fullmatch(_SCALARS[kind], text):
        raise _error(f"{text!r} is tagged !!{kind} and is none", node)
    if kind != "int":
        return getattr(loader, f"construct_yaml_{kind}")(node)
    if (digits := len(text.lstrip("+-"))) > MAX_DIGITS:
        raise _error(f"a whole number of {digits:,} digits; at most {MAX_DIGITS}", node)
    return int(text, 0 if text[:2] in {"0o", "0x"} else 10)


for _kind, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(rf"^(?:{_pattern})$"), None)
for _kind in ("null", "bool", "int", "float", "str"):
    _Loader.add_constructor(f"{_TAG}{_kind}", _scalar)
for _kind in ("seq", "map"):
    _Loader.add_constructor(f"{_TAG}{_kind}", getattr(_Loader, f"construct_yaml_{_kind}"))
_Loader.add_constructor(None, _unknown)


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


def load_yaml(path: Path | str) -> dict[str, Any]:
    """Read the YAML mapping at `path`; an empty file is `{}`. Errors name the file and the line."""
    path = Path(path)
    try:
        if wrong := no_file(path):
            raise UserError(f"{path}: cannot be read: it {wrong}")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UserError(f"{path}: has more than {MAX_BYTES:,} bytes; is it a configuration?")
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        near = nearest(path.name, (p.name for p in path.parent.glob("*.y*ml")))
        raise UserError(f"{path}: there is no such file.{near}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{path}: cannot be read: {why}") from None
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
        before = result.get(key)
        if isinstance(value, Mapping):
            result[key] = update(before if isinstance(before, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def from_words(words: Iterable[str]) -> dict[str, Any]:
    """Return the mapping that `dotted.key=value` words of a command line spell.

    A value that begins with `*` is text: YAML's aliases can mean nothing there.
    """
    result: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        path = key.split(".")
        if not equals or not all(path) or len(path) > MAX_DEPTH:
            raise UserError(f"'{word[:100]}': expected KEY=VALUE, such as scale.epochs=0.5")
        parsed: Any = value
        if value and not value.startswith("*"):
            parsed = parse_yaml(value, f"--config {key}")
        result = update(result, nested(key, parsed))
    return result


def nested(path: str, value: Any) -> dict[str, Any]:
    """Return the mapping that holds `value` at a dotted path."""
    for word in reversed(path.split(".")):
        value = {word: value}
    return dict(value)


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], values: Mapping[str, Any], where: str) -> Model:
    """Return `values` as a `model`; raise one `UserError` with a line for each wrong key."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems: dict[str, tuple[list[str], list[Any]]] = {}
        for item in error.errors(include_url=False):
            if item["type"] == "too_short" and len(item["input"]) >= item["ctx"]["min_length"]:
                continue  # Not by itself, but without the entries that are wrong, each told of.
            path, known = _path(model, item["loc"])
            problems.setdefault(path, (known, []))[1].append(item)
        lines = [f"{where}: {_problem(path, *found)}" for path, found in problems.items()]
        raise UserError("\n".join(lines)) from None
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


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
    "tuple_type": "a list",
    "too_short": "a list of {min_length} or more",
    "too_long": "at most {max_length} entries",
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
    found = repr(item["input"])
    found = found if len(found) <= 200 else f"{found[:200]} ..."
    return f"'{path}' is {found}; expected {' or '.join(wanted)}"
