"""The tasks (what is predicted, how it is scored) and how a stage encodes, heads and trains each.

A task is an entry in `tasks.yaml` beside this file, or under `tasks` in config.yaml: both have the
same keys, and their files the same reader (`minbert.data.dataset`). Tasks of one's own come with a
configuration, and reach a job with the record of its plan (docs/adding.md).
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt

from minbert.base.errors import UserError, did_you_mean
from minbert.spec.model import (
    URLS,
    Count,
    Distinct,
    Location,
    OneOrMore,
    Positive,
    Probability,
    Spec,
    Text,
    one_of,
)
from minbert.spec.parts import PARTS
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.yaml import load_yaml, validated

Kind = Literal["classification", "binary", "regression"]

Metric = Literal["accuracy", "macro_f1", "f1", "matthews", "pearson", "spearman"]

METRICS: dict[Kind, tuple[Metric, ...]] = {
    "classification": ("accuracy", "macro_f1", "matthews"),
    "binary": ("accuracy", "f1", "macro_f1", "matthews"),
    "regression": ("pearson", "spearman"),
}
"""The metrics that fit each kind of task, its default first."""

# Files often have 1, 2, 3 for the names of classes.
Name = Annotated[Text, BeforeValidator(str, json_schema_input_type=str | int)]
ClassNames = Annotated[tuple[Name, ...], Distinct]


class DataFile(Spec):
    """A file: its path, or a URL with the checksum of what is there.

    The checksum is its SHA-256, or what its publisher gives: git's blob id, or MD5.
    """

    path: Location | None = None
    url: Annotated[str, Field(pattern=f"^({'|'.join(URLS)})")] | None = None
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    git: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None = None
    md5: Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None = None

    def mistakes(self) -> Iterator[str]:
        if (self.path is None) == (self.url is None):
            yield "a file is a 'path', or a 'url' with its 'sha256'; give one of them"
        if self.url and not self.checksum:
            yield f"{self.url!r} needs the checksum of what is there, as {{url: ..., sha256: ...}}"

    @property
    def checksum(self) -> str | None:
        """Its checksum with the kind before it, such as `git:9cb7...`, if it is given."""
        for kind in ("sha256", "git", "md5"):
            if value := getattr(self, kind):
                return f"{kind}:{value}"
        return None


def _to_file(value: Any) -> Any:
    """Take a text as a path or a URL."""
    given = isinstance(value, str)
    return {"url" if value.startswith(URLS) else "path": value} if given else value


SplitFile = Annotated[DataFile, BeforeValidator(_to_file, json_schema_input_type=str | DataFile)]


Files = dict[Annotated[str, one_of(("train", "dev", "test", "folder"))], SplitFile]
"""A file for each split, or a `folder` with them (or one file, which is train)."""


def _to_files(value: Any) -> Any:
    """Take a path as that of a folder or of train, and a URL as that of train."""
    if isinstance(value, str):
        return {"train" if value.startswith(URLS) else "folder": value}
    if not isinstance(value, dict):
        return value
    # An overlay takes a file out by `null`.
    return {"train": value} if "url" in value else {n: of for n, of in value.items() if of}


Share = Annotated[float, Field(gt=0, le=0.5)]


class TaskEntry(Spec):
    """What is predicted, how it is scored, and where its examples are.

    `classes` are the names of the classes, in their order, or how many there are; of a binary task
    the names of 0 and 1, if they have any. `range` bounds the label of a regression. `metric`
    chooses epochs and stands in tables (default: accuracy, or Pearson r). `sentence1`, `sentence2`,
    `label` and `id` are names of columns; without `sentence2` the task has single sentences,
    without `id` a row is known by its split and place. `format` is by default that of a file's
    ending. `dev` and `test` are shares of train's rows that become these splits, by a hash of the
    text. Rows with a label of `ignore` are left out, such as SNLI's `-`. With `controls` texts may
    have control characters from U+0080 to U+009F, otherwise taken for a mistake in decoding.
    """

    title: str = ""
    kind: Kind
    classes: ClassNames | int | None = None
    range: tuple[int | float, int | float] | None = None
    metric: Metric | None = None
    sentence1: Text
    sentence2: Text | None = None
    label: Text
    id: Text | None = None
    files: Annotated[
        Files, BeforeValidator(_to_files, json_schema_input_type=str | Files | DataFile)
    ]
    format: Literal["tsv", "csv", "jsonl", "parquet"] | None = None
    controls: bool = False
    dev: Share | None = None
    test: Share | None = None
    ignore: ClassNames = ()

    def mistakes(self) -> Iterator[str]:
        fits, needed = {
            "classification": (2 <= self.count <= 1000, "'classes': their names, or 2 to 1000"),
            "binary": (self.classes is None or len(self.names) == 2, "no 'classes', or two names"),
            "regression": (
                self.range is not None and self.range[0] < self.range[1],
                "a 'range', the lowest and highest label such as [0, 5]",
            ),
        }[self.kind]
        if not fits or (self.range and self.kind != "regression"):
            found = f"'classes: {self.classes}' and 'range: {self.range}'"
            yield f"kind {self.kind} needs {needed}; found {found}"
        if self.metric not in (None, *METRICS[self.kind]):
            known = ", ".join(METRICS[self.kind])
            yield f"metric '{self.metric}' is not for kind {self.kind}, which has {known}"
        folder, splits = self.files.get("folder"), self.files.keys() - {"folder"}
        if splits if folder else "train" not in splits:
            yield "give 'files.train', perhaps 'files.dev' and 'files.test'; or a folder with them"
        if folder and (folder.url or folder.checksum):
            yield "'files.folder' is a path alone: checksums and URLs are of single files"
        for split in self.derived_splits:
            if split in self.files:
                yield f"'{split}' is both a file and a share of train; give one of them"
        if "train" in self.files and not ("dev" in self.files or self.dev):
            yield (
                "has no dev examples to choose the best epoch by: add a file, 'files.dev', or make "
                "the split: 'dev: 0.1'"
            )

    @property
    def count(self) -> int:
        """How many classes it has, as far as that is given."""
        return self.classes if isinstance(self.classes, int) else len(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its classes, if they have any."""
        return self.classes if isinstance(self.classes, tuple) else ()

    @property
    def derived_splits(self) -> dict[str, float]:
        """The splits that are made of train, and their shares."""
        return {split: of for split, of in (("dev", self.dev), ("test", self.test)) if of}

    @property
    def reading(self) -> dict[str, Any]:
        """All that decides how its files are read, beside their forms."""
        columns = ("sentence1", "sentence2", "label", "id")  # by those of the example table
        return {
            "columns": {ours: theirs for ours in columns if (theirs := getattr(self, ours))},
            "names": list(self.names),
            "ignore": list(self.ignore),
            "made": self.derived_splits,
            "controls": self.controls,
        }


NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
RESERVED = ("overall", "normalised", "plain", "delta_m", "other", "all", "majority", "selection")
"""Names that mean something else in tables, figures or grids."""


class Task(Spec):
    """One task. `low` and `high` bound the label; `classes` is the number of logits.

    `names` are those of its classes, if they have any. `sentences` are the columns of the text in
    its files, `id` that of the ids, if there is one.
    """

    name: str
    kind: Kind
    classes: int
    pair: bool
    low: int | float  # as it is given: a whole bound is the same in every key
    high: int | float
    metric: Metric
    title: str
    names: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    id: str = ""

    @classmethod
    def of(cls, name: str, entry: TaskEntry) -> Self:
        """Return the task that an entry describes."""
        low, high = entry.range or (0, (entry.count or 2) - 1)
        return cls(
            name=name,
            kind=entry.kind,
            classes=entry.count if entry.kind == "classification" else 1,
            pair=entry.sentence2 is not None,
            low=low,
            high=high,
            metric=entry.metric or METRICS[entry.kind][0],
            title=entry.title or name,
            names=entry.names,
            sentences=tuple(filter(None, (entry.sentence1, entry.sentence2))),
            id=entry.id or "",
        )


class Tasks(dict[str, Task]):
    """All tasks by name: the built-in ones in their order, then those in use, by name.

    A process has one configuration, or one job; the tasks of its own are those `used` last. An
    unknown name raises `UserError` with the nearest one.
    """

    own: tuple[Task, ...] = ()

    def __missing__(self, name: str) -> Task:
        known = f"{', '.join(self)}.{did_you_mean(name, self)}"
        raise UserError(f"unknown task '{name}'; known: {known}")

    def use(self, own: Iterable[Task]) -> None:
        """Make `own` the only tasks besides the built-in ones."""
        chosen = tuple(sorted(own, key=lambda task: task.name))
        for task in self.own:
            del self[task.name]
        self.own = chosen
        self.update((task.name, task) for task in self.own)


OWN_FILES = "own files"  # the source of the data if no task is built in


class BuiltIn(TaskEntry):
    """A built-in task. Its files are below `course`, unless it has an `archive` (`data.lmrd`)."""

    archive: DataFile | None = None


_FILE = Path(__file__).with_name("tasks.yaml")
BUILT_IN: dict[str, BuiltIn] = {
    name: validated(BuiltIn, entry, f"{_FILE}: task '{name}'")
    for name, entry in load_yaml(_FILE).items()
}
TASKS = Tasks((name, Task.of(name, entry)) for name, entry in BUILT_IN.items())


def _to_own_name(name: str) -> str:
    """Refuse a name that is taken, or that no table column and module of a model can have."""
    if name in (*BUILT_IN, *RESERVED) or not NAME.fullmatch(name):
        raise ValueError(
            f"'{name}' cannot name a task: up to 40 small letters, digits and '_', a letter first, "
            "and no name that means something else, such as that of a built-in task"
        )
    return name


OwnName = Annotated[str, AfterValidator(_to_own_name)]


def _to_known(name: str) -> str:
    return TASKS[name].name


KnownTask = Annotated[str, AfterValidator(_to_known)]
KnownTasks = Annotated[tuple[KnownTask, ...], Distinct, OneOrMore]


def data_facts(name: str) -> list[str | float | bool]:
    """Return what decides which rows are examples of a task, for the keys of its data."""
    task = TASKS[name]
    return [task.kind, task.classes, task.pair, task.low, task.high]


def task_facts(name: str) -> list[str | float | bool]:
    """Return what decides a task's results, for the keys of its runs and scores (no title)."""
    return [*data_facts(name), TASKS[name].metric]


def overall_tasks(tasks: Collection[str]) -> tuple[str, ...]:
    """Return the tasks of the overall score of a paper, or a stage, that has `tasks`.

    They are SST, para and STS; with a task that is not built in, all that it has.
    """
    if any(task.name in tasks for task in TASKS.own):
        return tuple(name for name in TASKS if name in tasks)
    return OVERALL_TASKS


def use_tasks_of(told: Mapping[str, Any]) -> None:
    """Use the `tasks` of a plan's record, or of a job that was described by one, if it has any."""
    TASKS.use(map(Task.model_validate, told.get("tasks", [])))


class Head(Spec):
    """A task's head: `depth` linear layers, `width` wide inside, with dropout before each.

    `mlp` returns the task's logits. `cosine` returns the cosine of u and v after both went
    through the same `depth` layers with ReLU (0: the embeddings as they are).
    """

    name: Annotated[str, one_of(PARTS["head"])] = "mlp"
    depth: Annotated[StrictInt, Field(ge=0, le=8)] = 1
    width: Count = 256
    dropout: Probability = 0.3

    def mistakes(self) -> Iterator[str]:
        if self.name == "mlp" and self.depth == 0:
            yield "an mlp head has a 'depth' of 1 or more, found 0"


class Convolution(Spec):
    """A 1-D convolution with ReLU over a task's token outputs, before pooling (Kim, 2014).

    It is `kernel` tokens wide, centred on its token, and has as many filters as the encoder has
    hidden units. With `residual` its input is added to its output.
    """

    kernel: Literal[1, 3, 5, 7, 9, 11, 13, 15] = 3
    residual: bool = False


Feature = Literal["u", "v", "u*v", "|u-v|"]


class TaskSpec(Spec):
    """How one task is encoded, headed, weighted and batched.

    `pairing` and `features` are for tasks of two sentences: `cross` encodes the pair as one
    sequence; `siamese` encodes each sentence and joins `features` of the embeddings u and v.
    A task that is not `trained` is scored with the weights that training the others leaves.
    `init_head_from` starts the head from that task's head in the stage that this one starts from
    (default: its own). `init_bias_to_prior` starts the head's output bias at the best constant
    prediction (mean label, log odds, log class shares), a binary task's cosine at the threshold
    that the share of the label 1 in train gives. The papers do not do this; without it a small
    encoder diverges at a high learning rate, or its cosines do not get as far as 0.
    """

    pooling: Annotated[str, one_of(PARTS["pooling"])] = "cls"
    convolution: Convolution | None = None
    pairing: Literal["siamese", "cross"] | None = None
    features: Annotated[tuple[Feature, ...], Distinct] | None = None
    head: Head = Head()
    init_head_from: str | None = None
    loss: Annotated[str, one_of(PARTS["loss"])]
    weight: Positive = 1.0
    batch_size: Count = 16
    init_bias_to_prior: bool = False
    trained: bool = True


COSINE_RANGE = (0, 5)
"""The labels that a cosine, and a coin in SMART's penalty, are scaled to: those of STS."""

_LOSSES = {
    "classification": {"cross_entropy"},
    "binary": {"binary_cross_entropy", "cosine_embedding"},
    "regression": {"mse", "cosine_mse"},
}


def misfits(name: str, task: TaskSpec) -> Iterator[str]:
    """Yield how `task` does not fit the task called `name`, as what follows its name."""
    known, cosine = TASKS[name], task.head.name == "cosine"
    if known.pair != (task.pairing is not None):
        yield "needs 'pairing', siamese or cross, if it has two sentences, and only then"
    if (task.pairing == "siamese") != (task.features is not None):
        yield "needs 'features', such as [u, v], with 'pairing: siamese', and only then"
    if task.loss not in (losses := _LOSSES[known.kind]):
        yield f"is {known.kind}: its loss is one of {sorted(losses)}, not '{task.loss}'"
    if task.loss == "cosine_mse" and (known.low, known.high) != COSINE_RANGE:
        yield "has loss 'cosine_mse', which is for labels from 0 to 5; take 'mse', or scale them"
    if cosine and known.kind == "classification":
        yield "is classification: 'head: cosine' gives one number; take 'mlp'"
    if cosine and task.features != ("u", "v"):
        yield "has 'head: cosine', which needs 'pairing: siamese' and 'features: [u, v]'"
    if task.loss in ("cosine_embedding", "cosine_mse") and not cosine:
        yield f"has loss '{task.loss}', which reads a cosine: it needs 'head.name: cosine'"
