"""The tasks (what is predicted, how it is scored) and how a stage encodes, heads and trains each.

A new task is an entry in `TASKS` and a data set that fills its table (docs/adding.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StrictInt,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from minbert.base.errors import UserError, nearest
from minbert.spec.parts import PARTS, part_module


@dataclass(frozen=True)
class Task:
    """One task. `low` and `high` bound the label; `classes` is the number of logits."""

    name: str
    kind: Literal["classification", "binary", "regression"]
    classes: int
    pair: bool
    low: float
    high: float
    metric: Literal["accuracy", "pearson"]
    title: str


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("sst", "classification", 5, False, 0, 4, "accuracy", "SST"),
        Task("para", "binary", 1, True, 0, 1, "accuracy", "Paraphrase"),
        Task("sts", "regression", 1, True, 0, 5, "pearson", "STS"),
        Task("cfimdb", "classification", 2, False, 0, 1, "accuracy", "CFIMDB"),
        Task("lmrd", "classification", 5, False, 0, 4, "accuracy", "LMRD"),
    )
}


def known_task(name: str) -> Task:
    """Return the task called `name`; raise `UserError` with the nearest name if there is none."""
    if name not in TASKS:
        raise UserError(f"unknown task '{name}'; known: {', '.join(TASKS)}.{nearest(name, TASKS)}")
    return TASKS[name]


def task_facts(name: str) -> list[str | float | bool]:
    """Return what decides a task's results, for the keys of its data and runs (no title)."""
    task = TASKS[name]
    return [task.kind, task.classes, task.pair, task.low, task.high, task.metric]


Probability = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[StrictInt, Field(ge=1, le=10**9)]
Width = Annotated[StrictInt, Field(ge=1, le=65_536)]


def distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse what is named twice."""
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise ValueError(f"{twice[0]!r} is there twice; name each once")
    return values


Distinct = AfterValidator(distinct)


def _types(annotation: Any) -> Iterator[Any]:
    """Yield the types that a value or its parts may have."""
    yield annotation
    for inner in get_args(annotation):
        yield from _types(inner)


class Spec(BaseModel):
    """Base of all specs: unknown keys are refused, instances cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_written_as_such(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `true` and `"1_0"` where numbers are meant: Python takes them for 1 and 10."""
        kinds = set(_types(cls.model_fields[str(info.field_name)].annotation))
        if kinds & {int, float} and bool not in kinds:
            for each in value if isinstance(value, list | tuple) else [value]:
                if isinstance(each, bool):
                    raise ValueError("expected a number, not true or false")
                if isinstance(each, str) and "_" in each and str not in kinds:
                    raise ValueError(f"expected a number, found {each!r}")
        return value


@dataclass(frozen=True)
class Part:
    """Annotates a string that names a part of `kind`; other names are refused."""

    kind: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._known, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "enum": sorted(PARTS[self.kind])}

    def _known(self, name: str) -> str:
        try:
            part_module(self.kind, name)
        except UserError as error:
            raise ValueError(str(error)) from None
        return name


class Head(Spec):
    """A task's head: `depth` linear layers, `width` wide inside, with dropout before each.

    `mlp` returns the task's logits. `cosine` returns the cosine of u and v after both went
    through the same `depth` layers with ReLU (0: the embeddings as they are).
    """

    name: Annotated[str, Part("head")] = "mlp"
    depth: Annotated[StrictInt, Field(ge=0, le=8)] = 1
    width: Width = 256
    dropout: Probability = 0.3

    @model_validator(mode="after")
    def _deep_enough(self) -> Self:
        if self.name == "mlp" and self.depth == 0:
            raise ValueError("an mlp head has a 'depth' of 1 or more, found 0")
        return self


class Convolution(Spec):
    """A 1-D convolution with ReLU over a task's token outputs, before pooling (Kim, 2014).

    It is `kernel` tokens wide and has as many filters as the encoder has hidden units. With
    `residual` its input is added to its output.
    """

    kernel: Annotated[StrictInt, Field(ge=1, le=15)] = 3
    residual: bool = False

    @field_validator("kernel")
    @classmethod
    def _centred(cls, kernel: int) -> int:
        if kernel % 2 == 0:
            raise ValueError(f"a kernel is centred on its token: an odd width, found {kernel}")
        return kernel


Feature = Literal["u", "v", "u*v", "|u-v|"]


class TaskSpec(Spec):
    """How one task is encoded, headed, weighted and batched.

    `pairing` and `features` are for tasks of two sentences: `cross` encodes the pair as one
    sequence; `siamese` encodes each sentence and joins `features` of the embeddings u and v.
    A task that is not `trained` is scored with the weights that training the others leaves.
    `head_from` starts the head from that task's head in the stage that this one starts from
    (default: its own). `start_at_prior` starts the head's output bias at the best constant
    prediction (mean label, log odds, log class shares), so that the first steps need not change
    the encoder to learn it; a cosine that tells paraphrases from others gets the threshold that
    the share of the label 1 in train gives, in place of 0. The papers do not do this; without it a
    small encoder diverges at a high learning rate, or its cosines do not get as far as 0.
    """

    pooling: Annotated[str, Part("pooling")] = "cls"
    convolution: Convolution | None = None
    pairing: Literal["siamese", "cross"] | None = None
    features: Annotated[tuple[Feature, ...], Distinct] | None = None
    head: Head = Head()
    head_from: str | None = None
    loss: Annotated[str, Part("loss")]
    weight: Positive = 1.0
    batch_size: Count = 16
    start_at_prior: bool = False
    trained: bool = True


_LOSSES = {
    "classification": {"cross_entropy"},
    "binary": {"binary_cross_entropy", "cosine_embedding"},
    "regression": {"mse", "cosine_mse"},
}


def mistakes(name: str, task: TaskSpec) -> Iterator[str]:
    """Yield how `task` does not fit the task called `name`, as what follows its name."""
    known = known_task(name)
    if known.pair and task.pairing is None:
        yield "has two sentences: 'pairing' must be siamese or cross"
    if not known.pair and (task.pairing or task.features):
        yield "has one sentence: 'pairing' and 'features' do not apply"
    if task.pairing == "cross" and task.features:
        yield "has 'pairing: cross', so one embedding: 'features' need two"
    if task.pairing == "siamese" and not task.features:
        yield "has 'pairing: siamese', which needs 'features', such as [u, v]"
    if task.loss not in (losses := _LOSSES[known.kind]):
        yield f"is {known.kind}: its loss is one of {sorted(losses)}, not '{task.loss}'"
    if task.head.name == "cosine" and task.features != ("u", "v"):
        yield (
            "has 'head: cosine', which compares two embeddings: it needs 'pairing: siamese' and "
            "'features: [u, v]'"
        )
    if task.loss in {"cosine_embedding", "cosine_mse"} and task.head.name == "mlp":
        yield f"has loss '{task.loss}', which reads a cosine: it needs 'head.name: cosine'"
