"""What a person changes: config.yaml, as a typed value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from minbert.common.environment import DEPENDENCIES
from minbert.common.errors import UserError, nearest
from minbert.grid.pretraining import Pretraining, Rate, Whole, no_bool
from minbert.grid.task_spec import Spec
from minbert.grid.tasks import TASKS
from minbert.grid.yaml_loader import from_text, from_words, load_yaml, scalars_from_text, update

BACKBONE = "google-bert/bert-base-uncased"
REVISION = "86b5e0934494bd15c9632b12f734a8a67f723594"
COURSE = (
    "https://raw.githubusercontent.com/gpoesia/minbert-default-final-project/"
    "7ac8260577fc12a86c7aaf38918056c30054ef39/data"
)
LMRD = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"


def _to_list(value: Any) -> Any:
    """Take one value for a list of one."""
    value = from_text(value)
    return [value] if isinstance(value, str | int) else value


def _seed(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    raise ValueError(f"seed {value!r} is not a whole number of 0 or more")


def _seeds(values: Any) -> Any:
    values = _to_list(values)
    return [_seed(value) for value in values] if isinstance(values, list | tuple) else values


class Sizes(Spec):
    """Examples in each split of a task of the built-in corpus."""

    train: Whole
    dev: Whole
    test: Whole


class Corpus(Spec):
    """The built-in corpus: its seed, and its sizes where they differ from the usual ones."""

    seed: Annotated[int, Field(ge=0), BeforeValidator(no_bool)] = 0
    sizes: dict[str, Sizes] | None = None

    @field_validator("sizes")
    @classmethod
    def _known(cls, sizes: dict[str, Sizes] | None) -> dict[str, Sizes] | None:
        for name in sizes or {}:
            _check_task_name(name)
        return sizes


class HeadScale(Spec):
    """The factors of stages that train heads alone: on cached features an epoch costs nothing."""

    learning_rate: Rate = 1.0
    epochs: Rate = 1.0


class Scale(Spec):
    """Factors on what every stage trains, for other backbones or data.

    `examples` is for samplers whose `examples` are given; the other two are not for stages that
    train heads alone, which have their own.
    """

    learning_rate: Rate = 1.0
    epochs: Rate = 1.0
    examples: Rate = 1.0
    heads: HeadScale = HeadScale()


class Tracking(Spec):
    """MLflow: whether runs are followed into the store."""

    enabled: bool = True


Seeds = Annotated[
    tuple[int, ...],
    BeforeValidator(_seeds),
    Field(min_length=1),
    WithJsonSchema({"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}),
]
Strings = Annotated[
    tuple[str, ...],
    Field(min_length=1),
    BeforeValidator(_to_list),
]
FromText = BeforeValidator(from_text)
StageKeys = Annotated[dict[str, Any], BeforeValidator(scalars_from_text)]


class Config(Spec):
    """config.yaml. `results`, `grids` and folders are relative to the working directory.

    `course` is a folder or a base URL, `lmrd` a folder, a tar.gz or its URL; `backbone` is
    `builtin`, a folder, or a hub name with its `revision`. `processes` is one number, or numbers
    by patterns of PAPER/VARIANT. `dependencies` are packages of which another version trains
    anew. `defaults` is what every stage has where its grid says nothing else; `override` is
    merged into every stage after its grid's settings and `scale`. In the `tasks` of both the key
    `*` means every task.
    """

    results: Annotated[str, Field(min_length=1)] = "results"
    grids: Strings
    seeds: Seeds = (0,)
    data: Literal["real", "builtin"] = "real"
    corpus: Annotated[Corpus, FromText] = Corpus()
    course: Annotated[str, Field(min_length=1)] = COURSE
    lmrd: Annotated[str, Field(min_length=1)] = LMRD
    backbone: Annotated[str, Field(min_length=1)] = BACKBONE
    revision: str | None = None
    pretraining: Annotated[Pretraining, FromText] = Pretraining()
    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    cuda_graphs: bool = False
    threads: Whole | Literal["auto"] = "auto"
    processes: Annotated[Whole | dict[str, Whole], FromText] = 1
    keep_weights: bool = True
    dependencies: Annotated[tuple[str, ...], BeforeValidator(_to_list)] = ()
    checkpoint_seconds: Rate = 300.0
    scale: Annotated[Scale, FromText] = Scale()
    defaults: StageKeys = Field(default_factory=dict)
    override: StageKeys = Field(default_factory=dict)
    tracking: Annotated[Tracking, FromText] = Tracking()

    @model_validator(mode="before")
    @classmethod
    def _pin(cls, values: Any) -> Any:
        default = isinstance(values, Mapping) and values.get("backbone", BACKBONE) == BACKBONE
        return {"revision": REVISION, **values} if default else values

    @field_validator("dependencies")
    @classmethod
    def _recorded(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in DEPENDENCIES:
                raise ValueError(
                    f"'{name}' is not recorded of runs; known: {', '.join(DEPENDENCIES)}."
                    f"{nearest(name, DEPENDENCIES)}"
                )
        return names

    @field_validator("seeds", "grids", "dependencies")
    @classmethod
    def _distinct(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        twice = [value for i, value in enumerate(values) if value in values[:i]]
        if twice:
            raise ValueError(f"{twice[0]!r} is there twice; name each once")
        return values

    @model_validator(mode="after")
    def _one_device_each(self) -> Self:
        counts = [self.processes] if isinstance(self.processes, int) else self.processes.values()
        if max(counts, default=1) > 1 and (self.device == "mps" or ":" in self.device):
            raise ValueError(
                f"'processes' is more than 1 with device '{self.device}', which is one device; "
                "set 'device' to auto, cuda or cpu, or 'processes' to 1"
            )
        return self

    @field_validator("defaults", "override")
    @classmethod
    def _no_start(cls, keys: dict[str, Any]) -> dict[str, Any]:
        for key in ("start", "fuse"):
            if key in keys:
                raise ValueError(f"'{key}' cannot be set here: stages would start from themselves")
        return keys


def _check_task_name(name: str) -> None:
    if name not in TASKS:
        raise ValueError(f"unknown task '{name}'; known: {', '.join(TASKS)}.{nearest(name, TASKS)}")


def load_config(
    source: Mapping[str, Any] | Path | str,
    overrides: Mapping[str, Any] | Iterable[str] = (),
    where: str = "config",
) -> Config:
    """Return the configuration of a file or a parsed mapping, with `overrides` written into it.

    `overrides` is a mapping, or `dotted.key=value` words of a command line. Values that arrive as
    text are read as a person means them. Raises one `UserError` that lists every problem with its
    key, what was found, what is expected, and the nearest known word.
    """
    if isinstance(source, Path | str):
        where, values = str(source), load_yaml(source)
    else:
        values = dict(source)
    if not isinstance(overrides, Mapping):
        overrides = from_words(overrides)
    return validated(Config, update(values, overrides), where)


Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], values: Mapping[str, Any], where: str) -> Model:
    """Return `values` as a `model`; else raise one `UserError` with all that is wrong."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UserError(explain(error, where, model)) from None
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def explain(error: ValidationError, where: str, model: type[BaseModel]) -> str:
    """Return a line for each wrong key of `where`: what was found and what `model` expects."""
    problems: dict[str, list[Any]] = {}
    choices: dict[str, list[str]] = {}
    for item in error.errors(include_url=False):
        path, known = _path(model, item["loc"])
        problems.setdefault(path, []).append(item)
        choices[path] = known
    return "\n".join(f"{where}: {_problem(p, choices[p], i)}" for p, i in problems.items())


def _path(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[str, list[str]]:
    """Return the dotted path of `loc`, without the tags of unions, and the keys known there."""
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
