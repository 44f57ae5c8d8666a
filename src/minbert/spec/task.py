"""The tasks (what is predicted, how it is scored) and how a stage encodes, heads and trains each.

The built-in tasks are those of `tasks.yaml` beside this file. Tasks of one's own come with a
configuration, and reach a job with the record of its plan (docs/adding.md).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StrictInt

from minbert.base.errors import UserError, did_you_mean, reraise_as
from minbert.spec.entry import METRICS, NAME, RESERVED, DataFile, Kind, Metric, TaskEntry
from minbert.spec.model import Count, Distinct, OneOrMore, Positive, Probability, Spec, one_of
from minbert.spec.parts import PARTS
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.yaml import load_yaml, validated


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

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and highest label."""
        return self.low, self.high

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

    def __missing__(self, name: str) -> Task:
        known = f"{', '.join(self)}.{did_you_mean(name, self)}"
        raise UserError(f"unknown task '{name}'; known: {known}")

    def __init__(self, built_in: Iterable[Task]) -> None:
        self.built_in = {task.name: task for task in built_in}
        self.use(())

    def use(self, own: Iterable[Task]) -> None:
        """Make `own` the only tasks besides the built-in ones."""
        self.own = tuple(sorted(own, key=lambda task: task.name))
        self.clear()
        self.update(self.built_in)
        self.update((task.name, task) for task in self.own)


OWN_FILES = "own files"
"""The source of the data if no task is built in."""

_FILE = Path(__file__).with_name("tasks.yaml")


class BuiltIn(TaskEntry):
    """A built-in task. Its files are below what the configuration calls `course`.

    A task that has an `archive` is read from that instead (`minbert.data.lmrd`).
    """

    archive: DataFile | None = None


BUILT_IN: dict[str, BuiltIn] = {
    name: validated(BuiltIn, entry, f"{_FILE}: task '{name}'")
    for name, entry in load_yaml(_FILE).items()
}
"""The entries of the built-in tasks."""

TASKS = Tasks(Task.of(name, entry) for name, entry in BUILT_IN.items())


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
    with reraise_as(ValueError):
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


def shown_tasks(tasks: Collection[str]) -> dict[str, list[list[str]]]:
    """Return {"shown": what `tasks` are called, [name, title, names of classes ...], in order}.

    For the keys of what people read. All else that is said of a task is in the keys of its runs.
    """
    return {"shown": [[t.name, t.title, *t.names] for t in TASKS.values() if t.name in tasks]}


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
    if task.loss == "cosine_mse" and known.range != COSINE_RANGE:
        yield "has loss 'cosine_mse', which is for labels from 0 to 5; take 'mse', or scale them"
    if cosine and task.features != ("u", "v"):
        yield "has 'head: cosine', which needs 'pairing: siamese' and 'features: [u, v]'"
    if task.loss in ("cosine_embedding", "cosine_mse") and not cosine:
        yield f"has loss '{task.loss}', which reads a cosine: it needs 'head.name: cosine'"
