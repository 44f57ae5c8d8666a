"""From YAML to typed values: reading, merging, and errors that say what to change.

PyYAML follows YAML 1.1; scalars here follow the core schema of YAML 1.2 (section 10.3.2) without
its octal and hexadecimal numbers, so `1e-5` is a number, `010` is ten and `off` is text. Duplicate
keys are refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from minbert.base.errors import UserError, did_you_mean
from minbert.spec.model import types_of

_TAG = "tag:yaml.org,2002:"
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

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012
    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        **yaml.SafeLoader.yaml_constructors,
        f"{_TAG}int": lambda loader, node: int(loader.construct_scalar(node)),  # 010 is ten
    }

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping; its own keys must be distinct (`<<` may repeat them)."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        first: dict[str, Any] = {}
        for key, _ in node.value:
            if first.setdefault(str(key.value), key) is not key and key.tag != f"{_TAG}merge":
                line = first[str(key.value)].start_mark.line + 1
                raise yaml.MarkedYAMLError(
                    problem=f"duplicate key '{key.value}' (first on line {line}); keep one of them",
                    problem_mark=key.start_mark,
                )
        return node


for _kind, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(rf"^(?:{_pattern})$"), None)


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
    """Return the text of the file at `path`; `UserError` if there is none, or it is not UTF-8."""
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        near = did_you_mean(path.name, (p.name for p in path.parent.glob(f"*{path.suffix}")))
        raise UserError(f"{path}: there is no such file.{near}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from None


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
        result[key] = value
        if isinstance(value, Mapping):
            before = base.get(key)
            result[key] = update(before if isinstance(before, Mapping) else {}, value)
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
        parsed = value and not value.startswith("*")
        said = parse_yaml(value, f"--config {key}") if parsed else value
        result = update(result, nested(key, said))
    return result


@contextmanager
def inside(where: str) -> Iterator[None]:
    """Begin each line of the block's `UserError` with `where`."""
    try:
        yield
    except UserError as error:
        lines = str(error).splitlines()
        before = f"{where}: " if where else ""
        raise UserError("\n".join(before + line for line in lines)) from None


Model = TypeVar("Model", bound=BaseModel)


def validated(
    model: type[Model],
    values: Mapping[str, Any],
    where: str = "",
    names: Mapping[str, str] | None = None,
) -> Model:
    """Return `values` as a `model`; raise one `UserError` with a line for each wrong key.

    `names` are what the reader of the message calls the keys, if not as the model does.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        found: dict[str, tuple[Any, list[Any]]] = {}
        for item in error.errors(include_url=False):
            if item["type"] == "too_short" and len(item["input"]) >= item["ctx"]["min_length"]:
                continue  # Not by itself, but without the entries that are wrong, each told of.
            words, owner = _place(model, values, item)
            path = ".".join((names or {}).get(word, word) for word in words)
            found.setdefault(path, (owner, []))[1].append(item)
        with inside(where):
            raise UserError("\n".join(_problem(path, *of) for path, of in found.items())) from None


def _place(model: Any, values: Any, item: Any) -> tuple[list[str], Any]:
    """Return the keys in an error's place, without pydantic's types, and the last one's model."""
    words, owner = [], model
    for word in item["loc"]:
        here = values if isinstance(values, Mapping) else {}
        if isinstance(values, list | tuple):
            here = dict(enumerate(values))
        if word in here or (item["type"], word) == ("missing", item["loc"][-1]):
            values, owner = here.get(word), model
            words.append(str(word))
            if word in model.model_fields:
                types = types_of(model.model_fields[word].annotation)
                model = next((t for t in types if hasattr(t, "model_fields")), model)
    return words, owner


_EXPECTED = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "dict": "a mapping ('key: value' lines)",
    "model": "a mapping ('key: value' lines)",
    "list": "a list",
    "tuple": "a list",
    "too_short": "{min_length} or more entries",
    "too_long": "{max_length} or fewer entries",
    "string_too_short": "text that is not empty",
    "string_too_long": "text of at most {max_length} characters",
    "string_pattern_mismatch": "text that matches {pattern}",
}
"""What is expected, by pydantic's name of the error; otherwise its own words say it."""

RENAMED = {
    "select_on": "selection_split",
    "start_at_prior": "init_bias_to_prior",
    "head_from": "init_head_from",
}
"""Settings of a stage by the names that earlier versions gave them, and their names now."""

_NOW = {"also_score": "evaluate_only", "least": "min", "largest": "max"}
CHANGED = {
    **{
        old: f"it is called '{new}' now"
        for old, new in {**RENAMED, **_NOW, "may_vanish": "allow_duplicates"}.items()
    },
    "system_metrics": "it is gone; `nvidia-smi` and `htop` show what a machine does",
    "corpus": "the built-in corpus is the files in workflow/builtin; for a small run `limit: N` "
    "takes N examples of each split",
    "pretraining": "the built-in backbone is the folder workflow/backbone; give another encoder as "
    "`backbone: DIR`",
    "kind: loss-curves": "it is called 'curves' now",
    "kind: dev-curves": "it is kind 'curves' with 'options: {show: scores}' now",
    "kind: run-curves": "it is kind 'curves' with 'options: {show: runs}' now",
    "kind: run-pairs": "it is kind 'curves' with 'options: {show: runs, pairs: ...}' now",
    "kind: epoch-tables": "it is kind 'curves' with 'options: {show: tables, tables: ...}' now",
    "kind: gradient-cosines": "it is kind 'curves' with 'options: {show: cosines}' now",
    "kind: dev-test": "it is kind 'published-reproduced' with 'options: {against: dev}' now",
    "kind: leakage": "the report has what it showed; take the figure out",
    **dict.fromkeys(
        ("validation", "valid", "val", "eval", "development"), "that split is called 'dev' here"
    ),
}
"""What to write in place of keys, or `KEY: VALUE`, that there were or that others have."""


def _problem(path: str, owner: Any, items: list[Any]) -> str:
    """Return what is wrong at `path`, where each member of a union has an error of its own."""
    # The member whose own check refused the value says most.
    item = next((each for each in items if each["type"] == "value_error"), items[0])
    key = path.rpartition(".")[2]
    if item["type"] == "extra_forbidden":
        if key in CHANGED:
            return f"unknown key '{path}': {CHANGED[key]}"
        known = list(owner.model_fields)
        return f"unknown key '{path}'.{did_you_mean(key, known)} Known here: {', '.join(known)}"
    if item["type"] == "missing":
        kind = "key" if isinstance(item["loc"][-1], str) else "entry"
        return f"the {kind} '{path}' is missing"
    if item["type"] == "value_error":
        message = item["msg"].partition(", ")[2]
        return f"'{path}': {message}" if path else message
    wanted = dict.fromkeys(
        _EXPECTED.get(
            re.sub("_(type|parsing|from_float)$", "", each["type"]),
            each["msg"].partition(" be ")[2] or each["msg"],
        ).format(**each.get("ctx", {}))
        for each in items
    )
    names = [name for text in wanted for name in re.findall("'(.*?)'", text)]
    near = did_you_mean(item["input"], names) if isinstance(item["input"], str) else ""
    if said := CHANGED.get(f"{key}: {item['input']}"):
        return f"'{path}' is {item['input']!r}: {said}"
    found = repr(item["input"])
    found = found if len(found) <= 200 else f"{found[:200]} ..."
    return f"'{path}' is {found}; expected {' or '.join(wanted)}{near and '.'}{near}"
