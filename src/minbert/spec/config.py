"""What a person changes: config.yaml, as a typed value."""

from collections.abc import Mapping, Sequence
from functools import reduce
from os.path import expanduser
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from minbert.base.errors import reraise_as
from minbert.spec.entry import TaskEntry
from minbert.spec.model import (
    Count,
    Distinct,
    Location,
    Names,
    OneOrMore,
    Positive,
    Spec,
    to_list,
)
from minbert.spec.protocol import COURSE_URL, LMRD_URL
from minbert.spec.task import OwnName
from minbert.spec.yaml import from_words, load_yaml, update, validated

BACKBONE = "google-bert/bert-base-uncased"
REVISION = "86b5e0934494bd15c9632b12f734a8a67f723594"
PUBLISHED = "workflow/published.csv"

MAX_SEED = 2**32 - 1
"""The largest seed that all generators of random numbers take."""

MAX_THREADS = 1024
"""More would exhaust a machine's processes."""


Checksum = Annotated[
    str, Field(pattern=r"^(sha256:[0-9a-f]{64}|git:[0-9a-f]{40}|md5:[0-9a-f]{32})$")
]
"""The digest of a file by its kind (`minbert.data.identity`)."""


Factor = Annotated[Positive, Field(le=1e6)]


class Factors(Spec):
    """Factors on what a grid says."""

    learning_rate: Factor = 1.0
    epochs: Factor = 1.0


class Steps(Spec):
    """The optimiser steps of a stage: `per_epoch` for each epoch of its grid, `min` at least.

    A stage whose steps have one task each has as many for each of its tasks. The steps are divided
    into `epochs`, each of which ends with dev scores (default: as many as the stage has).
    """

    per_epoch: Count | None = None
    min: Count = 1
    epochs: Count | None = None


class BatchSizes(Spec):
    """What batches shrink to: a stage's largest to `max`, the others by as much.

    None becomes smaller than `min`: a step of two examples is mostly noise.
    """

    max: Count | None = None
    min: Count = 1


class Scale(Factors):
    """What every stage may cost, and what another backbone needs.

    With `steps.per_epoch` the epochs divide those instead of passing over the data. Stages that
    train `heads` alone have factors of their own, and no more: on cached features an epoch costs
    little.
    """

    steps: Steps = Steps()
    batch_size: BatchSizes = BatchSizes()
    heads: Factors = Factors()


class Tracking(Spec):
    """Whether runs are logged to MLflow's store."""

    enabled: bool = True


Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


def _to_tasks(value: Any) -> Any:
    """Take a text as the name of a file with the tasks."""
    if not isinstance(value, str):
        return value
    with reraise_as(ValueError):
        return load_yaml(expanduser(value))


class Config(Spec):
    """config.yaml; docs/configuration.md explains its keys. Paths are relative to where one runs,
    those of `grids` and of `published`, the papers' scores, to the Snakefile.

    `tasks` are one's own beside the built-in ones, or the YAML file that has them.

    `course` is a folder or a base URL, `lmrd` a tar.gz or its URL; `labels` is a folder with a file
    of labels of test rows by task, which nothing but scores on test reads.
    `limit` keeps that many examples of each task and split, evenly spaced, for small runs.
    `backbone` is `builtin`, a folder, or a hub name with its `revision`. `checksums` are those of
    files by path: a file that is there must have its own, and finished results that were made of
    just these stand for a source that is not. With `verify`, data is read again even if size and
    time of its files are as they were. `defaults` are merged under a stage's settings, `override`
    over them, after `scale`. What these make equal although a grid has it different is refused.
    `only` asks for a part of the grids: patterns of papers, variants and PAPER/VARIANT.
    """

    results: Location = "results"
    grids: Annotated[tuple[Location, ...], Field(min_length=1), OneOrMore, Distinct]
    published: Location = PUBLISHED
    seeds: Annotated[
        tuple[Seed, ...], Field(min_length=1, max_length=1000), BeforeValidator(to_list), Distinct
    ] = (0,)
    data: Literal["real", "builtin"] = "real"
    limit: Count | None = None
    course: Location = COURSE_URL
    lmrd: Location = LMRD_URL
    labels: Location | None = None
    tasks: Annotated[
        dict[OwnName, TaskEntry],
        BeforeValidator(_to_tasks, json_schema_input_type=str | dict[str, TaskEntry]),
    ] = Field(default_factory=dict)
    backbone: Location = BACKBONE
    revision: str | None = None
    checksums: dict[Location, Checksum] = Field(default_factory=dict)
    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:[0-9]{1,2})?)$")] = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    threads: Annotated[Count, Field(le=MAX_THREADS)] | Literal["auto"] = "auto"
    keep_weights: bool = True
    checkpoint_seconds: Positive = 300.0
    scale: Scale = Scale()
    defaults: dict[str, Any] = Field(default_factory=dict)
    override: dict[str, Any] = Field(default_factory=dict)
    only: Names = ()
    tracking: Tracking = Tracking()
    verify: bool = False

    @model_validator(mode="before")
    @classmethod
    def _pin(cls, values: Any) -> Any:
        default = isinstance(values, Mapping) and values.get("backbone", BACKBONE) == BACKBONE
        return {"revision": REVISION, **values} if default else values


def config_files(given: Sequence[Path], default: Path) -> list[Path]:
    """Return the files of a configuration: `default`, which others make optional, then `given`."""
    return [*([default] if default.exists() or not given else []), *given]


def load_config(
    source: Mapping[str, Any] | Path | Sequence[Path],
    overrides: Mapping[str, Any] | Sequence[str] = (),
) -> Config:
    """Return the configuration of files, later ones over earlier, or of a parsed mapping.

    `overrides` go over it: a mapping, or `dotted.key=value` words of a command line. Raises one
    `UserError` that lists every problem with its key, what was found and what is expected.
    """
    more = overrides if isinstance(overrides, Mapping) else from_words(overrides)
    if isinstance(source, Mapping):
        return validated(Config, update(source, more), "config")
    files = [source] if isinstance(source, Path) else source
    values = reduce(update, [*map(load_yaml, files), more], dict[str, Any]())
    where = ", ".join([*map(str, files), *(["--config"] if overrides else [])])
    return validated(Config, values, where)
