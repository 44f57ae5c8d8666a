"""From YAML to typed values: reading, merging, and errors that say what to change.

PyYAML follows YAML 1.1; scalars here follow the core schema of YAML 1.2 (section 10.3.2) without
its octal and hexadecimal numbers, so `1e-5` is a number, `010` is ten and `off` is text. Duplicate
keys are refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from minbert.base.errors import UserError, did_you_mean, no_file

_SCALARS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+",
    "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    "merge": "<<",
}


class _Loader(yaml.SafeLoader):
    """A safe loader with the scalars of YAML 1.2 that refuses duplicate keys."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping; its own keys must be distinct (`<<` may repeat them)."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set[str]()
        for key, _ in node.value:
            if (name := str(key.value)) in seen and name != "<<":
                problem = f"duplicate key '{name}'; keep one of them"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(name)
        return node


for _kind, _pattern in _SCALARS.items():
    _scalar = re.compile(rf"^(?:{_pattern})$")
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", _scalar, None)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))


def parse_yaml(text: str, where: str) -> Any:
    """Return the value of `text`; a `UserError` names `where`, line and column."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}, line {mark.line + 1}, column {mark.column + 1}" if mark else where
        raise UserError(f"{place}: {getattr(error, 'problem', error)}") from None


def read_text(path: Path) -> str:
    """Return the text of the file at `path`; `UserError` if there is none, or it is not UTF-8."""
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise no_file(path) from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from None


def load_yaml(path: Path | str) -> dict[str, Any]:
    """Read the YAML mapping at `path`; an empty file is `{}`. Errors name the file and the line."""
    value = parse_yaml(read_text(Path(path)), str(path)) or {}
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected 'key: value' lines, found {value!r:.80}")
    return value


def merge(base: Mapping[str, Any], over: Mapping[str, Any], star: str = "*") -> dict[str, Any]:
    """Return `base` with `over` merged into it: mappings recursively, all else replaced.

    `null` is kept, to delete what the result is merged over (`without_nulls`). The key `star` of a
    mapping sets defaults for all its other keys, those in `base` and those added later; within one
    mapping, a key's own values win over it.
    """
    result = dict(base)
    if isinstance(for_all := over.get(star), dict):
        result[star] = result.get(star) or {}
        for key, value in result.items():
            if isinstance(value, dict):
                result[key] = merge(value, for_all, star)
    for key, value in over.items():
        if not isinstance(value, dict):
            result[key] = value
        elif key != star:
            start = result.get(star) if result.get(key) is None else result[key]
            result[key] = merge(start if isinstance(start, dict) else {}, value, star)
    return result


def update(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` updated by `over` as Snakemake does: `null` and `*` are not special."""
    return merge(base, over, star="")


def without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` without the keys, at any depth of mappings, whose value is `null`."""
    return {
        key: without_nulls(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if value is not None
    }


def nested(path: str, value: Any) -> dict[str, Any]:
    """Return the mapping that holds `value` at a dotted path."""
    first, _, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}


def from_words(words: Iterable[str]) -> dict[str, Any]:
    """Return the mapping of `dotted.key=value` words; a value that begins with `*` is text."""
    result: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise UserError(f"'{word}': expected KEY=VALUE, such as scale.epochs=0.5")
        text = value[:1] in ("", "*")
        said = value if text else parse_yaml(value, f"--config {key}")
        result = update(result, nested(key, said))
    return result


@contextmanager
def inside(where: str) -> Iterator[None]:
    """Begin each line of the block's `UserError` with `where`, if it says something."""
    try:
        yield
    except UserError as error:
        before = f"{where}: " if where else ""
        lines = [before + line for line in str(error).splitlines()]
        raise UserError("\n".join(lines)) from None


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], values: Mapping[str, Any], where: str = "") -> Model:
    """Return `values` as a `model`; raise one `UserError` with a line for each wrong key."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        found: dict[str, list[Any]] = {}  # each member of a union has its own error
        for item in error.errors(include_url=False):
            # Without its wrong members a list may be too short, too.
            if not found or item["type"] != "too_short":
                found.setdefault(".".join(_place(values, item)), []).append(item)
        with inside(where):
            raise UserError("\n".join(_problem(*of) for of in found.items())) from None


def _place(values: Any, item: Any) -> Iterator[str]:
    """Yield the keys in an error's place, without the names that pydantic has for types."""
    for word in item["loc"]:
        try:
            values = values[word]
        except (LookupError, TypeError):
            if item["type"] != "missing":
                continue
        yield str(word)
    if item["type"] == "unknown_key":
        yield item["ctx"]["key"]


def _problem(path: str, items: list[Any]) -> str:
    """Return what is wrong at `path`."""
    kinds = {item["type"]: item for item in items}
    if unknown := kinds.get("unknown_key"):
        return f"unknown key '{path}'{unknown['msg']}"
    if "missing" in kinds:
        return f"the key '{path}' is missing"
    if own := kinds.get("value_error"):  # a member's own check says most
        return f"'{path}': {own['ctx']['error']}" if path else str(own["ctx"]["error"])
    # A union says the same of each of its members.
    told = " or ".join(dict.fromkeys(item["msg"] for item in items))
    told = re.sub("[A-Z][a-z]+ should (be|have|match)", "expected", told)
    told = re.sub(" or instance of [A-Za-z]+| after validation, not [0-9]+", "", told)
    told = told.replace("valid tuple", "list").replace("valid dictionary", "mapping")
    near = did_you_mean(str(items[0]["input"]), re.findall("'(.*?)'", told))
    return f"'{path}' is {items[0]['input']!r:.200}; {told}{near and '.'}{near}"
