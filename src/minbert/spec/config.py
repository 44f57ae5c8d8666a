"""What a person changes: config.yaml, as a typed value."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from minbert.base.environment import DEPENDENCIES
from minbert.base.errors import UserError, nearest
from minbert.spec.pretraining import Pretraining, Rate, Whole, no_bool
from minbert.spec.protocol import COURSE_URL, LMRD_URL
from minbert.spec.task import Spec, known_task
from minbert.spec.yaml import from_text, from_words, load_yaml, scalars_from_text, update, validated

BACKBONE = "google-bert/bert-base-uncased"
REVISION = "86b5e0934494bd15c9632b12f734a8a67f723594"


def _to_list(value: Any) -> Any:
    """Take one value as a list of one."""
    value = from_text(value)
    return [value] if isinstance(value, str | int) else value


def _to_seed(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    raise ValueError(f"seed {value!r} is not a whole number of 0 or more")


class Sizes(Spec):
    """Examples in each split of a task of the built-in corpus."""

    train: Whole
    dev: Whole
    test: Whole


class Corpus(Spec):
    """The built-in corpus: its seed, and sizes of tasks where they differ from the default."""

    seed: Annotated[int, Field(ge=0), BeforeValidator(no_bool)] = 0
    sizes: dict[str, Sizes] | None = None

    @field_validator("sizes")
    @classmethod
    def _known(cls, sizes: dict[str, Sizes] | None) -> dict[str, Sizes] | None:
        try:
            for name in sizes or {}:
                known_task(name)
        except UserError as error:
            raise ValueError(str(error)) from None
        return sizes


class HeadScale(Spec):
    """Factors for stages that train heads alone: on cached features an epoch costs little."""

    learning_rate: Rate = 1.0
    epochs: Rate = 1.0


class Scale(Spec):
    """Factors on what every stage trains, for other backbones or data.

    `examples` applies to samplers whose `examples` are given. `learning_rate` and `epochs` do not
    apply to stages that train heads alone, which have their own.
    """

    learning_rate: Rate = 1.0
    epochs: Rate = 1.0
    examples: Rate = 1.0
    heads: HeadScale = HeadScale()


class Tracking(Spec):
    """Whether runs are logged to MLflow's store."""

    enabled: bool = True


Text = Annotated[str, Field(min_length=1)]
Seed = Annotated[int, Field(ge=0), BeforeValidator(_to_seed)]
FromText = BeforeValidator(from_text)
StageKeys = Annotated[dict[str, Any], BeforeValidator(scalars_from_text)]


class Config(Spec):
    """config.yaml; docs/configuration.md explains its keys. Paths are relative to where one runs.

    `course` is a folder or a base URL, `lmrd` a folder, a tar.gz or its URL; `backbone` is
    `builtin`, a folder, or a hub name with its `revision`. Another version of one of
    `dependencies` means training again. With `verify`, data is read again even if size and time of
    its files are as they were. `defaults` are merged under a stage's settings, `override`
    over them, after `scale`.
    """

    results: Text = "results"
    grids: Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(_to_list)]
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1), BeforeValidator(_to_list)] = (0,)
    data: Literal["real", "builtin"] = "real"
    corpus: Annotated[Corpus, FromText] = Corpus()
    course: Text = COURSE_URL
    lmrd: Text = LMRD_URL
    backbone: Text = BACKBONE
    revision: str | None = None
    pretraining: Annotated[Pretraining, FromText] = Pretraining()
    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    threads: Whole | Literal["auto"] = "auto"
    keep_weights: bool = True
    dependencies: Annotated[tuple[str, ...], BeforeValidator(_to_list)] = ()
    checkpoint_seconds: Rate = 300.0
    scale: Annotated[Scale, FromText] = Scale()
    defaults: StageKeys = Field(default_factory=dict)
    override: StageKeys = Field(default_factory=dict)
    tracking: Annotated[Tracking, FromText] = Tracking()
    verify: bool = False

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
                    f"the version of '{name}' is not recorded; known: {', '.join(DEPENDENCIES)}."
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

    @field_validator("defaults", "override")
    @classmethod
    def _no_start(cls, keys: dict[str, Any]) -> dict[str, Any]:
        for key in ("start", "fuse"):
            if key in keys:
                raise ValueError(f"'{key}' cannot be set here: stages would start from themselves")
        return keys


def load_config(
    source: Mapping[str, Any] | Path | str,
    overrides: Mapping[str, Any] | Iterable[str] = (),
    where: str = "config",
) -> Config:
    """Return the configuration of a file or a parsed mapping, updated by `overrides`.

    `overrides` is a mapping, or `dotted.key=value` words of a command line. Raises one `UserError`
    that lists every problem with its key, what was found and what is expected.
    """
    if isinstance(source, Path | str):
        where, values = str(source), load_yaml(source)
    else:
        values = dict(source)
    if not isinstance(overrides, Mapping):
        overrides = from_words(overrides)
    return validated(Config, update(values, overrides), where)
