"""User settings: config.yaml, as a typed value."""

from collections.abc import Mapping, Sequence
from functools import reduce
from os.path import expanduser
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictInt

from minbert.spec.model import Count, Distinct, Location, Names, OneOrMore, Positive, Spec, to_list
from minbert.spec.protocol import COURSE_URL, LMRD_URL
from minbert.spec.task import OwnName, TaskEntry
from minbert.spec.yaml import from_words, load_yaml, update, validated

BACKBONE = "google-bert/bert-base-uncased"
REVISION = "86b5e0934494bd15c9632b12f734a8a67f723594"
PUBLISHED = "workflow/published.csv"

Seed = Annotated[StrictInt, Field(ge=0, lt=2**32)]  # that all generators of random numbers take

Checksum = Annotated[
    str, Field(pattern="^(sha256:[0-9a-f]{64}|git:[0-9a-f]{40}|md5:[0-9a-f]{32})$")
]
"""The digest of a file by its kind (`minbert.data.identity`)."""


class Factors(Spec):
    """Factors on what a grid says; stages that train heads alone have theirs, and no others."""

    learning_rate: Positive = 1.0
    """Factor on `optimiser.lr`."""
    epochs: Positive = 1.0
    """Factor on `epochs`; rounded, at least 1."""


class Steps(Spec):
    """The optimiser steps of a stage."""

    per_epoch: Count | None = None
    """Optimiser steps for each epoch that a stage has in its grid, whatever the size of the data.
    Their sum is divided among the stage's epochs. If a stage's steps have one task each, as in a
    sequential one, it is multiplied by the number of tasks, and divided as `sampler.steps` are."""
    min: Count = 1
    """The fewest optimiser steps of a stage; only with `scale.steps.per_epoch`."""
    epochs: Count | None = None
    """The epochs into which those steps are divided, instead of the stage's; dev is scored after
    each. Only with `scale.steps.per_epoch`."""


class BatchSizes(Spec):
    """What batches shrink to: a step of two examples is mostly noise."""

    max: Count | None = None
    """If a stage's largest batch is larger than this, all its batches shrink by the same factor."""
    min: Count = 1
    """No batch becomes smaller than this."""


class Scale(Factors):
    """What every stage may cost, and what a different backbone needs."""

    steps: Steps = Steps()
    batch_size: BatchSizes = BatchSizes()
    heads: Factors = Factors()


class Tracking(Spec):
    """Whether runs are logged to MLflow's store."""

    enabled: bool = True
    """Whether measurements are copied into MLflow."""


def _to_tasks(value: Any) -> Any:
    """Take a text as the name of a file with the tasks."""
    return load_yaml(expanduser(value)) if isinstance(value, str) else value


class Config(Spec):
    """config.yaml. `docs/configuration.md` lists its keys with the texts below them here."""

    grids: Annotated[tuple[Location, ...], Field(min_length=1), OneOrMore, Distinct]
    """Grid files: NAME is `workflow/grids/NAME.yaml`; a path ending in `.yaml` is relative to the
    Snakefile."""
    published: Location = PUBLISHED
    """The scores that the papers report, shown beside ours; relative to the Snakefile."""
    only: Names = ()
    """Patterns of papers, variants, or PAPER/VARIANT, with `*`, `?` and `[...]`: runs only this
    part of the grids; an empty list means everything."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1), BeforeValidator(to_list), Distinct] = (
        0,
    )
    """Whole numbers from 0 to 4294967295. Each distinct stage is trained once per seed."""
    results: Location = "results"
    """The results folder; the tables and figures in one belong to one set of config files."""
    data: Literal["real", "builtin"] = "real"
    """`real`, the course's files and LMRD, or `builtin`, the built-in corpus."""
    course: Location = COURSE_URL
    """The files of SST, para, STS and CFIMDB: a folder, or a URL, whose files must have the pinned
    checksums. Default: the course's repository, at a pinned commit."""
    lmrd: Location = LMRD_URL
    """The movie reviews, read only if a variant uses the task `lmrd`: a tar.gz, or the publisher's
    URL, the default."""
    labels: Location | None = None
    """A folder with labels of the course's test rows, with which every variant is scored on test
    too; only with `data: real`."""
    tasks: Annotated[
        dict[OwnName, TaskEntry],
        BeforeValidator(_to_tasks, json_schema_input_type=str | dict[str, TaskEntry]),
    ] = Field(default_factory=dict)
    """Your own tasks by name, or the YAML file that has them."""
    limit: Count | None = None
    """Take that many examples of each task and split, evenly spaced, for small runs."""
    checksums: dict[Location, Checksum] = Field(default_factory=dict)
    """Checksums of files of `course`, `lmrd`, `labels`, `tasks` and `backbone`, by their paths as
    the configuration gives them; see below."""
    backbone: Location = BACKBONE
    """Pretrained weights with their tokenizer: `builtin`, a folder or a hub name."""
    revision: str | None = REVISION
    """The hub's commit, 40 hex digits, of a hub name. The default is that of the default
    backbone."""
    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:[0-9]{1,2})?)$")] = "auto"
    """Where training runs: `cpu`, `mps`, `cuda` or `cuda:N`; `auto` is a CUDA GPU if there is one,
    else the CPU."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """`fp32` or `bf16`; `auto` is `bf16` on an AMD GPU, on NVIDIA's since Ampere, and on a CPU with
    AMX or AVX-512 bf16 where a short probe finds it faster."""
    threads: Count | Literal["auto"] = "auto"
    """CPU threads of a job that trains or caches features."""
    keep_weights: bool = True
    """False: weights are deleted once no later stage needs them; scores, histories and predictions
    stay."""
    checkpoint_seconds: Positive = 300.0
    """How often a training job saves its state, besides after each epoch."""
    tracking: Tracking = Tracking()
    scale: Scale = Scale()
    defaults: dict[str, Any] = Field(default_factory=dict)
    """A stage's keys: values for every stage, where its grid sets none."""
    override: dict[str, Any] = Field(default_factory=dict)
    """A stage's keys, merged into every stage, after its paper's settings and `scale`."""


def config_files(given: Sequence[Path], default: Path) -> list[Path]:
    """Return the files of a configuration: `default`, which others make optional, then `given`."""
    return [*([default] if default.exists() or not given else []), *given]


def load_config(source: Mapping[str, Any] | Sequence[Path], words: Sequence[str] = ()) -> Config:
    """Return the configuration of files, later ones over earlier, or of a parsed mapping.

    `words` such as `scale.epochs=0.5` go over it. Raises one `UserError` that lists every problem
    with its key, what was found and what is expected.
    """
    given = {"config": source} if isinstance(source, Mapping) else {p: load_yaml(p) for p in source}
    values = reduce(update, [*given.values(), from_words(words)], dict[str, Any]())
    return validated(Config, values, ", ".join(map(str, given)) + ", --config" * bool(words))
