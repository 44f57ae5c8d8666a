"""Typed specs of what a stage trains. Whatever can change a result is a field here.

A stage is the unit of training: where the weights come from, which tasks, what is trainable,
heads, losses, sampler, optimiser, epochs. Labels, notes and devices are not here: they are looks
and speed, and change no key.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, field_validator, model_validator

from minbert.common.errors import UserError, nearest
from minbert.grid.parts import part_module
from minbert.grid.tasks import TASKS

Rule = Literal["normalised", "plain"]
Probability = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[StrictInt, Field(ge=1)]


class Spec(BaseModel):
    """Base of all specs: unknown keys are refused, instances cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _part(kind: str, name: str) -> str:
    try:
        part_module(kind, name)
    except UserError as error:
        raise ValueError(str(error)) from None
    return name


class Head(Spec):
    """A task's head: `depth` linear layers, `width` wide inside, with dropout before each."""

    name: str = "mlp"
    depth: Annotated[StrictInt, Field(ge=1, le=8)] = 1
    width: Count = 256
    dropout: Probability = 0.3

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        return _part("head", name)


Feature = Literal["u", "v", "u*v", "|u-v|"]


class TaskSpec(Spec):
    """How one task is encoded, headed, weighed and batched.

    `pairing` and `features` are for tasks of two sentences: `cross` encodes the pair as one
    sequence; `siamese` encodes each alone and joins `features` of the embeddings u and v.
    `start_at_prior` starts the head's output bias at the best constant prediction (mean label,
    log odds, log class shares), so that the first steps need not bend the encoder to learn it;
    the papers do not, and a small encoder at a high rate does not survive without.
    """

    pooling: str = "cls"
    pairing: Literal["siamese", "cross"] | None = None
    features: tuple[Feature, ...] | None = None
    head: Head = Head()
    loss: str
    weight: Positive = 1.0
    batch_size: Count = 16
    start_at_prior: bool = False
    trained: bool = True

    @field_validator("pooling")
    @classmethod
    def _pooling_known(cls, name: str) -> str:
        return _part("pooling", name)

    @field_validator("loss")
    @classmethod
    def _loss_known(cls, name: str) -> str:
        return _part("loss", name)


class Sampler(Spec):
    """Which batches an epoch has.

    `unified`: steps of one batch of each task; `examples` a task and epoch (default: as many as
    the smallest task has). `sequential`: one pass over each task in `order`, a batch a step;
    `examples` caps each pass.
    """

    name: str = "unified"
    examples: Count | None = None
    order: tuple[str, ...] | None = None

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        return _part("sampler", name)


class Schedule(Spec):
    """The learning rate over a stage's steps; `warmup` is the share of steps that rise from 0."""

    name: str = "constant"
    warmup: Probability = 0.0

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        return _part("schedule", name)


class Optimiser(Spec):
    """AdamW (Loshchilov and Hutter, 2019), on every trainable parameter."""

    lr: Positive = 1e-5
    betas: tuple[Probability, Probability] = (0.9, 0.999)
    eps: Positive = 1e-6
    weight_decay: NonNegative = 0.0
    schedule: Schedule = Schedule()


class Dropout(Spec):
    """Dropout inside the encoder: on embeddings and sublayer outputs, and on attention weights."""

    hidden: Probability = 0.1
    attention: Probability = 0.1


_LOSSES = {
    "classification": {"cross_entropy"},
    "binary": {"binary_cross_entropy"},
    "regression": {"mse"},
}


class StageSpec(Spec):
    """One training job: the identity of its result, with the seed.

    `start` is `backbone`, an earlier stage of the same variant, or `VARIANT` / `VARIANT/STAGE`
    of any variant. `shared_layers`: `all` (one encoder), `none` (an encoder for each task,
    embeddings apart too), a whole number k (embeddings and the first k layers shared), or a
    fraction of the backbone's layers.
    """

    start: str = "backbone"
    tasks: dict[str, TaskSpec] = Field(min_length=1)
    trainable: str = "all"
    shared_layers: StrictInt | float | Literal["all", "none"] = "all"
    dropout: Dropout = Dropout()
    sampler: Sampler = Sampler()
    surgery: str | None = None
    optimiser: Optimiser = Optimiser()
    epochs: Count = 10
    max_length: Annotated[StrictInt, Field(ge=8, le=512)] = 512
    select: Rule = "normalised"

    @field_validator("trainable")
    @classmethod
    def _trainable_known(cls, name: str) -> str:
        return _part("trainable", name)

    @field_validator("surgery")
    @classmethod
    def _surgery_known(cls, name: str | None) -> str | None:
        return name if name is None else _part("surgery", name)

    @field_validator("shared_layers")
    @classmethod
    def _sharing_possible(cls, value: Any) -> Any:
        if isinstance(value, float) and not 0 < value <= 1:
            raise ValueError(f"a fraction of layers lies in (0, 1], found {value}")
        if isinstance(value, int) and value < 0:
            raise ValueError(f"a number of shared layers is 0 or more, found {value}")
        return value

    @property
    def trained_tasks(self) -> tuple[str, ...]:
        """The tasks that this stage trains, in the order of the registry."""
        return tuple(t for t in self.ordered_tasks if self.tasks[t].trained)

    @property
    def ordered_tasks(self) -> tuple[str, ...]:
        """All tasks of this stage in the order of the registry, however the YAML listed them."""
        return tuple(t for t in TASKS if t in self.tasks)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for name, task in self.tasks.items():
            _check_task(name, task)
        if not self.trained_tasks:
            raise ValueError("no task has 'trained: true': the stage would train nothing")
        if self.surgery and len(self.trained_tasks) < 2:
            raise ValueError(f"surgery '{self.surgery}' needs two or more trained tasks")
        if self.surgery and self.shared_layers == "none":
            raise ValueError(
                f"surgery '{self.surgery}' with 'shared_layers: none': no parameter is shared, "
                "so there is no gradient to operate on; drop one of the two"
            )
        if self.surgery and self.trainable == "heads":
            raise ValueError(f"surgery '{self.surgery}' with a frozen encoder: none is shared")
        if self.surgery and self.sampler.name == "sequential":
            raise ValueError(f"surgery '{self.surgery}' with one task a step (sequential sampler)")
        if self.trainable == "heads" and self.shared_layers != "all":
            raise ValueError("'shared_layers' with 'trainable: heads': a frozen encoder is one")
        if self.sampler.order is not None:
            if self.sampler.name != "sequential":
                raise ValueError("'sampler.order' belongs to the sequential sampler")
            if sorted(self.sampler.order) != sorted(self.trained_tasks):
                raise ValueError(
                    f"'sampler.order' {list(self.sampler.order)} must name each trained task once: "
                    f"{list(self.trained_tasks)}"
                )
        return self

    def parts(self) -> dict[str, str]:
        """Return the modules of the parts this stage uses, as {`kind:name`: module}."""
        chosen = {("trainable", self.trainable), ("sampler", self.sampler.name)}
        chosen.add(("schedule", self.optimiser.schedule.name))
        if self.surgery:
            chosen.add(("surgery", self.surgery))
        for task in self.tasks.values():
            chosen |= {("pooling", task.pooling), ("head", task.head.name), ("loss", task.loss)}
        return {f"{kind}:{name}": part_module(kind, name) for kind, name in sorted(chosen)}


def _check_task(name: str, task: TaskSpec) -> None:
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
