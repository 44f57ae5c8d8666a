"""Typed specs of one task in a stage: its embedding, head, loss and batches."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, field_validator, model_validator

from minbert.common.errors import UserError, nearest
from minbert.grid.parts import part_module
from minbert.grid.tasks import TASKS

Probability = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[StrictInt, Field(ge=1)]


class Spec(BaseModel):
    """Base of all specs: unknown keys are refused, instances cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def known_part(kind: str, name: str) -> str:
    """Return `name` if it is a part of `kind`; else raise `ValueError` with the nearest name."""
    try:
        part_module(kind, name)
    except UserError as error:
        raise ValueError(str(error)) from None
    return name


_LOSSES = {
    "classification": {"cross_entropy"},
    "binary": {"binary_cross_entropy", "cosine_embedding"},
    "regression": {"mse", "cosine_mse"},
}
_OF_COSINES = {"cosine_embedding", "cosine_mse"}


class Head(Spec):
    """A task's head: `depth` linear layers, `width` wide inside, with dropout before each.

    `mlp` ends in the task's logits. `cosine` ends in the cosine of u and v, each sent through the
    same `depth` layers with ReLU (0: none, the embeddings as they are).
    """

    name: str = "mlp"
    depth: Annotated[StrictInt, Field(ge=0, le=8)] = 1
    width: Count = 256
    dropout: Probability = 0.3

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        return known_part("head", name)

    @model_validator(mode="after")
    def _deep_enough(self) -> Self:
        if self.name == "mlp" and self.depth == 0:
            raise ValueError("an mlp head has a 'depth' of 1 or more, found 0")
        return self


class Convolution(Spec):
    """A 1-D convolution with ReLU over a task's token outputs, before pooling (Kim, 2014).

    `kernel` tokens wide, as many filters as the encoder is wide; with `residual` its input is
    added to its output.
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
    """How one task is encoded, headed, weighed and batched.

    `pairing` and `features` are for tasks of two sentences: `cross` encodes the pair as one
    sequence; `siamese` encodes each alone and joins `features` of the embeddings u and v.
    A task that is not `trained` is scored with the weights that the others leave it. `head_from`
    starts the head as that task's head in the stage that this one starts from (default: its own).
    `start_at_prior` starts the head's output bias at the best constant prediction (mean label,
    log odds, log class shares), so that the first steps need not bend the encoder to learn it;
    the papers do not, and a small encoder at a high rate does not survive without.
    """

    pooling: str = "cls"
    convolution: Convolution | None = None
    pairing: Literal["siamese", "cross"] | None = None
    features: tuple[Feature, ...] | None = None
    head: Head = Head()
    head_from: str | None = None
    loss: str
    weight: Positive = 1.0
    batch_size: Count = 16
    start_at_prior: bool = False
    trained: bool = True

    @field_validator("pooling")
    @classmethod
    def _pooling_known(cls, name: str) -> str:
        return known_part("pooling", name)

    @field_validator("loss")
    @classmethod
    def _loss_known(cls, name: str) -> str:
        return known_part("loss", name)


def check_task(name: str, task: TaskSpec) -> None:
    """Raise `ValueError` if `task` does not fit what is known of the task called `name`."""
    if name not in TASKS:
        raise ValueError(f"unknown task '{name}'; known: {', '.join(TASKS)}.{nearest(name, TASKS)}")
    known = TASKS[name]
    if known.pair and task.pairing is None:
        raise ValueError(f"task '{name}' has two sentences: 'pairing' must be siamese or cross")
    if not known.pair and (task.pairing or task.features):
        raise ValueError(f"task '{name}' has one sentence: 'pairing' and 'features' do not apply")
    if task.pairing == "cross" and task.features:
        raise ValueError(f"task '{name}': 'features' need two embeddings, 'pairing: cross' has one")
    if task.pairing == "siamese" and not task.features:
        raise ValueError(f"task '{name}': 'pairing: siamese' needs 'features', such as [u, v]")
    if task.loss not in _LOSSES[known.kind]:
        raise ValueError(
            f"task '{name}' is {known.kind}: its loss is one of {sorted(_LOSSES[known.kind])}, "
            f"not '{task.loss}'"
        )
    if task.head.name == "cosine" and task.features != ("u", "v"):
        raise ValueError(
            f"task '{name}': 'head: cosine' compares two embeddings: it needs "
            "'pairing: siamese' and 'features: [u, v]'"
        )
    if task.loss in _OF_COSINES and task.head.name == "mlp":
        raise ValueError(f"task '{name}': loss '{task.loss}' reads a cosine: 'head.name: cosine'")
