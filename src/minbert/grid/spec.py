"""Typed specs of what a stage trains. Whatever can change a result is a field here.

A stage is the unit of training: where the weights come from, which tasks, what is trainable,
heads, losses, sampler, optimiser, epochs. Labels, notes and devices are not here: they are looks
and speed, and change no key.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictInt, field_validator, model_validator

from minbert.grid.parts import part_module
from minbert.grid.task_spec import (
    Count,
    NonNegative,
    Positive,
    Probability,
    Spec,
    TaskSpec,
    check_task,
    known_part,
)
from minbert.grid.tasks import TASKS

Rule = Literal["normalised", "plain"]


class Sampler(Spec):
    """Which batches an epoch has.

    `unified`: steps of one batch of each task; `examples` a task and epoch (default: as many as
    the smallest task has). `recycled`: the same steps, but an epoch is one pass over the largest
    task, or `examples` of it drawn anew, and the smaller tasks come round again. `sequential`: one
    pass over each task in `order`, a batch a step; `examples` caps each pass.
    """

    name: str = "unified"
    examples: Count | None = None
    order: tuple[str, ...] | None = None

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        return known_part("sampler", name)


class Schedule(Spec):
    """The learning rate over a stage's steps; `warmup` is the share of steps that rise from 0."""

    name: str = "constant"
    warmup: Probability = 0.0

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        return known_part("schedule", name)


class Optimiser(Spec):
    """AdamW (Loshchilov and Hutter, 2019), on every trainable parameter."""

    lr: Positive = 1e-5
    betas: tuple[Probability, Probability] = (0.9, 0.999)
    eps: Positive = 1e-6
    weight_decay: NonNegative = 0.0
    schedule: Schedule = Schedule()


class Dropout(Spec):
    """Dropout inside the encoder: on the embeddings, the sublayers' output, attention weights."""

    embedding: Probability = 0.1
    sublayer: Probability = 0.1
    attention: Probability = 0.1


class Smart(Spec):
    """SMART's smoothness penalty (Jiang et al., 2020, section 3.1), `weight` times in the loss.

    The embeddings are moved by normal noise of deviation `noise`, then `ascents` times by `step`
    along the gradient (divided by its largest entry) of the divergence from the clean output, and
    kept within `radius` of where they were, entry by entry. Classifiers diverge by symmetrised
    KL; `regression` names the divergence of tasks whose label is a number.
    """

    weight: NonNegative
    noise: Positive = 1e-5
    step: Positive = 1e-3
    radius: Positive = 1e-5
    ascents: Count = 1
    regression: str = "squared_error"

    @field_validator("regression")
    @classmethod
    def _known(cls, name: str) -> str:
        return known_part("divergence", name)


class Adapter(Spec):
    """Houlsby bottlenecks, `width` wide, two a layer (Houlsby et al., 2019, section 2.1)."""

    width: Count = 64


_FROZEN = {"heads", "adapters", "fusion"}


class StageSpec(Spec):
    """One training job: the identity of its result, with the seed.

    `start` is `backbone`, an earlier stage of the same variant, or `VARIANT` / `VARIANT/STAGE`
    of any variant. `trainable`: `all`, `heads` (the encoder is frozen), `adapters` (bottlenecks
    in the frozen encoder, and heads) or `fusion` (of the adapters of the stages that `fuse`
    names, and heads). `shared_layers`: `all` (one encoder), `none` (an encoder for each task,
    embeddings apart too), a whole number k (embeddings and the first k layers shared), or a
    fraction of the backbone's layers. `reduction`: a step's loss is the weighted `sum` of its
    tasks' losses, or that divided by the number of tasks (`mean`).
    """

    start: str = "backbone"
    tasks: dict[str, TaskSpec] = Field(min_length=1)
    trainable: str = "all"
    adapter: Adapter | None = None
    fuse: tuple[str, ...] | None = None
    shared_layers: StrictInt | float | Literal["all", "none"] = "all"
    dropout: Dropout = Dropout()
    sampler: Sampler = Sampler()
    reduction: Literal["sum", "mean"] = "sum"
    surgery: str | None = None
    smart: Smart | None = None
    optimiser: Optimiser = Optimiser()
    epochs: Count = 10
    max_length: Annotated[StrictInt, Field(ge=8, le=512)] = 512
    select: Rule = "normalised"

    @field_validator("trainable")
    @classmethod
    def _trainable_known(cls, name: str) -> str:
        return known_part("trainable", name)

    @field_validator("surgery")
    @classmethod
    def _surgery_known(cls, name: str | None) -> str | None:
        return name if name is None else known_part("surgery", name)

    @field_validator("smart")
    @classmethod
    def _smart_if_any(cls, smart: Smart | None) -> Smart | None:
        """A weight of 0 is no penalty: the same stage as one without."""
        return smart if smart and smart.weight else None

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
            check_task(name, task)
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
        self._check_frozen()
        for name, task in self.tasks.items():
            if task.head_from is not None and self.start == "backbone":
                raise ValueError(
                    f"task '{name}': 'head_from: {task.head_from}' needs a stage to start from"
                )
        if self.sampler.order is not None:
            if self.sampler.name != "sequential":
                raise ValueError("'sampler.order' belongs to the sequential sampler")
            if sorted(self.sampler.order) != sorted(self.trained_tasks):
                raise ValueError(
                    f"'sampler.order' {list(self.sampler.order)} must name each trained task once: "
                    f"{list(self.trained_tasks)}"
                )
        return self

    def _check_frozen(self) -> None:
        how = self.trainable
        if how in _FROZEN and self.shared_layers != "all":
            raise ValueError(f"'shared_layers' with 'trainable: {how}': a frozen encoder is one")
        if how in {"adapters", "fusion"} and self.start != "backbone":
            raise ValueError(f"'trainable: {how}' starts from the backbone, found '{self.start}'")
        if how == "heads" and self.smart:
            raise ValueError("'smart' with 'trainable: heads': its noise is for the encoder")
        for name, task in self.tasks.items():
            if how == "heads" and task.convolution:
                raise ValueError(
                    f"task '{name}': 'convolution' with 'trainable: heads': a frozen encoder's "
                    "features are cached pooled, without their tokens"
                )
        if (how == "adapters") != (self.adapter is not None):
            raise ValueError("'adapter' (its width) and 'trainable: adapters' go together")
        if (how == "fusion") != (self.fuse is not None):
            raise ValueError("'fuse' (stages with adapters) and 'trainable: fusion' go together")
        if self.fuse is not None and len(set(self.fuse)) < max(2, len(self.fuse)):
            raise ValueError(f"'fuse' names two or more different stages, found {list(self.fuse)}")

    def parts(self) -> dict[str, str]:
        """Return the modules of the parts this stage uses, as {`kind:name`: module}."""
        chosen = {("trainable", self.trainable), ("sampler", self.sampler.name)}
        chosen.add(("schedule", self.optimiser.schedule.name))
        if self.surgery:
            chosen.add(("surgery", self.surgery))
        for name, task in self.tasks.items():
            chosen |= {("pooling", task.pooling), ("head", task.head.name), ("loss", task.loss)}
            if task.convolution:
                chosen.add(("token_layer", "convolution"))
            if self.smart and task.trained:
                chosen |= {("penalty", "smart"), ("divergence", divergence(self.smart, name))}
        return {f"{kind}:{name}": part_module(kind, name) for kind, name in sorted(chosen)}


def divergence(smart: Smart, task: str) -> str:
    """Return the name of the divergence that `smart` uses for `task`."""
    return smart.regression if TASKS[task].kind == "regression" else "symmetric_kl"
