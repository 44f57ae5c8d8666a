"""Typed specs of what a stage trains. Whatever can change a result is a field here.

A stage is the unit of training: where the weights come from, which tasks, what is trainable,
heads, losses, sampler, optimiser, epochs. Labels, notes and devices are not here: they affect
only looks and speed, and change no key.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, field_validator

from minbert.spec.model import (
    Count,
    Distinct,
    Names,
    NonNegative,
    Positive,
    Probability,
    Spec,
    one_of,
)
from minbert.spec.parts import PARTS
from minbert.spec.protocol import Rule
from minbert.spec.task import COSINE_RANGE, TASKS, TaskSpec, misfits

# A setting that came later: a spec without it is written, and has the key, as before.
LeftOut: Any = Field(default=None, exclude_if=lambda value: value is None)
Share = Annotated[float, Field(gt=0, le=1, strict=True)]
SelectionSplit = Literal["dev", "half"]

# Samplers whose steps have one task each.
ONE_TASK = frozenset({"sequential", "alternating", "temperature", "annealed"})
INSERTED = {"adapters": "adapter", "lora": "lora", "fusion": "fuse"}
"""Ways to train what is inserted into a frozen encoder, and the key that each needs."""


class Sampler(Spec):
    """Which batches an epoch has.

    `unified`: each step has one batch of each task; an epoch has `examples` of each task (default:
    as many as the smallest task has). `recycled`: the same steps, but an epoch is one pass over
    the largest task, or `examples` of it drawn afresh, and smaller tasks are repeated.
    `alternating`: what `unified` draws, one batch per step, of each task in turn.
    `sequential`: one pass over each task in `order`, one batch per step; `examples` caps each pass.
    `temperature`: as many steps, each with one batch of a task that is drawn with a probability in
    proportion to its size ** (1 / `temperature`), or to its pass if that is capped. `annealed`: the
    same with an exponent that falls from 1 in the first epoch to 0.2 in the last.

    With `share`, a pass is that share of a task, drawn afresh. With `steps`, an epoch has that many
    optimiser steps instead, however large the tasks are; `alternating` rounds them up to as many
    for each task.
    """

    name: Annotated[str, one_of(PARTS["sampler"])] = "unified"
    examples: Count | None = None
    share: Share | None = None
    steps: Count | None = None
    order: Annotated[tuple[str, ...], Distinct] | None = None
    temperature: Positive | None = LeftOut


class Schedule(Spec):
    """The learning rate over a stage's steps; it rises from 0 during the share `warmup` of them."""

    name: Annotated[str, one_of(PARTS["schedule"])] = "constant"
    warmup: Probability = 0.0


class Optimiser(Spec):
    """AdamW (Loshchilov and Hutter, 2019), on every trainable parameter."""

    lr: Positive = 1e-5
    betas: tuple[Annotated[float, Field(ge=0, le=0.97)], Probability] = (0.9, 0.999)
    """The first is at most 0.97: on a CPU, a row of embeddings that is not read keeps its first
    moment for 512 steps, after which 0.97 ** 512 = 2e-7 of it is left."""
    eps: Positive = 1e-6
    weight_decay: NonNegative = 0.0
    schedule: Schedule = Schedule()


class Dropout(Spec):
    """Dropout in the encoder: on the embeddings, the sublayers' outputs, the attention weights."""

    embedding: Probability = 0.1
    sublayer: Probability = 0.1
    attention: Probability = 0.1


class Smart(Spec):
    """SMART's smoothness penalty (Jiang et al., 2020, section 3.1), `weight` times in the loss.

    The embeddings are moved by normal noise of deviation `noise`, then `ascents` times by `step`
    along the gradient of the divergence from the clean output. `normalise: token`, as in the
    authors' library: each token's move is divided by its largest entry. `row`, algorithm 1 as
    published: a row's gradient is so divided, and each entry of the move stays within `radius`. The
    divergence is the symmetrised KL for classes, and `regression` for numbers; or `divergence` for
    all. With `reduction: sum` the penalty is the sum over the batch, not the mean; that with
    `divergence: detached_kl` is what the library smart-pytorch computes.
    """

    weight: NonNegative
    noise: Positive = 1e-5
    step: Positive = 1e-3
    ascents: Count = 1
    normalise: Literal["token", "row"] = "token"
    radius: Positive | None = None
    regression: Annotated[str, one_of(PARTS["divergence"])] = "squared_error"
    divergence: Annotated[str, one_of(PARTS["divergence"])] | None = LeftOut
    reduction: Literal["sum"] | None = LeftOut

    def mistakes(self) -> Iterator[str]:
        if (self.normalise == "row") != (self.radius is not None):
            yield (
                "'radius' and 'normalise: row' go together (the paper's radius is 1e-5); "
                f"found 'radius: {self.radius}' with 'normalise: {self.normalise}'"
            )


class Adapter(Spec):
    """Bottlenecks, `width` wide, two per layer (Houlsby et al., 2019, section 2.1)."""

    width: Count = 64


class Lora(Spec):
    """Changes of `rank` to query and value maps, times alpha / rank (Hu et al., 2022, sec. 4)."""

    rank: Count = 8  # as the paper has it for RoBERTa, too
    alpha: Positive = 8.0


class StageSpec(Spec):
    """One training job: the identity of its result, with the seed.

    `start` is `backbone`, a stage of the same variant, or `VARIANT` or `VARIANT/STAGE` of any.
    `trainable`: `all`, or heads alone (`heads`) and, in the frozen encoder, bottlenecks
    (`adapters`), low-rank changes (`lora`) or a `fusion` of the adapters of the stages in `fuse`.
    `shared_layers`: `all` (one encoder), `none` (one for each task, embeddings apart too), a whole
    number k (embeddings and the first k layers), or a fraction of the backbone's layers; with
    `shared_end: top`, the last k layers and the pooler. `reduction`: a step's loss is the weighted
    `sum` of its tasks' losses, or that divided by their number (`mean`). A `weighting` multiplies
    losses by factors before `surgery` combines their gradients. The epoch with the best score by
    the rule `select` is kept: on `dev`, or on a `half` of it by a hash of the examples' ids, which
    then counts for nothing else.
    """

    start: str = "backbone"
    tasks: dict[str, TaskSpec] = Field(min_length=1)
    trainable: Annotated[str, one_of(PARTS["trainable"])] = "all"
    adapter: Adapter | None = None
    lora: Lora | None = LeftOut
    fuse: Annotated[Names, Field(min_length=2)] | None = None
    shared_layers: Annotated[StrictInt, Field(ge=0)] | Share | Literal["all", "none"] = "all"
    shared_end: Literal["bottom", "top"] = "bottom"
    dropout: Dropout = Dropout()
    sampler: Sampler = Sampler()
    reduction: Literal["sum", "mean"] = "sum"
    surgery: Annotated[str, one_of(PARTS["surgery"])] | None = None
    weighting: Annotated[str, one_of(PARTS["weighting"])] | None = LeftOut
    smart: Smart | None = None
    optimiser: Optimiser = Optimiser()
    epochs: Count = 10
    max_length: Annotated[StrictInt, Field(ge=8, le=512)] = 512
    select: Rule = "normalised"
    selection_split: SelectionSplit = "dev"

    @field_validator("smart")
    @classmethod
    def _smart_if_any(cls, smart: Smart | None) -> Smart | None:
        """A weight of 0 is no penalty: the same stage as one without."""
        return smart if smart and smart.weight else None

    @property
    def trained_tasks(self) -> tuple[str, ...]:
        """The tasks that this stage trains, in the order of the registry."""
        return tuple(t for t in self.ordered_tasks if self.tasks[t].trained)

    @property
    def ordered_tasks(self) -> tuple[str, ...]:
        """All tasks of this stage in the order of the registry, however the YAML listed them."""
        return tuple(t for t in TASKS if t in self.tasks)

    def mistakes(self) -> Iterator[str]:
        trained, how, sampler = self.trained_tasks, self.trainable, self.sampler
        for name, task in self.tasks.items():
            yield from (f"task '{name}' {mistake}" for mistake in misfits(name, task))
            if task.init_head_from is not None and self.start == "backbone":
                yield f"task '{name}' has 'init_head_from', which needs a stage to start from"
            if how == "heads" and (task.convolution or self.smart):
                yield "'trainable: heads' caches pooled features: no 'convolution', no 'smart'"
            flat = task.head.name == "cosine" and task.head.depth == 0
            if how == "heads" and flat and task.trained:
                yield f"task '{name}' has nothing to train: its cosine has a 'depth' of 0"
            used = divergence(self.smart, name) if self.smart and task.trained else ""
            numbers, bounds = TASKS[name].kind == "regression", (TASKS[name].low, TASKS[name].high)
            if used == "symmetric_kl" and numbers and bounds != COSINE_RANGE:
                yield f"task '{name}' needs 'smart.regression: squared_error': labels beyond 0 to 5"
            if used == "squared_error" and not numbers:
                yield f"task '{name}' has classes: 'smart.divergence: squared_error' is for numbers"
        if not trained:
            yield "no task has 'trained: true': the stage would train nothing"
        if self.surgery or self.weighting:
            if len(trained) < 2 or sampler.name in ONE_TASK:
                yield "'surgery' and 'weighting' need two or more tasks in each step"
            if self.surgery and (self.shared_layers == "none" or how == "heads"):
                yield "'surgery' needs trained parameters that tasks share; here are none"
            if self.weighting and self.reduction == "mean":
                yield "'weighting' and 'reduction: mean' both say how losses are combined; drop one"
        if how != "all" and self.shared_layers != "all":
            yield f"'shared_layers' with 'trainable: {how}': a frozen encoder is one"
        if how != "all" and self.start != "backbone":
            yield f"'trainable: {how}' starts from the backbone, found '{self.start}'"
        for kind, key in INSERTED.items():
            if (how == kind) != (getattr(self, key) is not None):
                yield f"'{key}' and 'trainable: {kind}' go together"
        if (sampler.name == "temperature") != (sampler.temperature is not None):
            yield "'sampler.temperature' and 'sampler.name: temperature' go together"
        if sampler.order and (sampler.name != "sequential" or {*sampler.order} != {*trained}):
            yield "'sampler.order' names each trained task once, for 'sampler.name: sequential'"

    def parts(self) -> dict[str, str]:
        """Return the place of each part this stage uses, as {`kind:name`: `module:object`}."""
        chosen = {
            ("trainable", self.trainable),
            ("sampler", self.sampler.name),
            ("schedule", self.optimiser.schedule.name),
            ("surgery", self.surgery),
            ("weighting", self.weighting),
        }
        for name, task in self.tasks.items():
            chosen |= {("pooling", task.pooling), ("head", task.head.name), ("loss", task.loss)}
            if task.convolution:
                chosen.add(("token_layer", "convolution"))
            if self.smart and task.trained:
                chosen |= {("penalty", "smart"), ("divergence", divergence(self.smart, name))}
        return {f"{kind}:{name}": PARTS[kind][name] for kind, name in sorted(chosen) if name}

    def derived(self) -> dict[str, Any]:
        """Return, as JSON-able data, what training takes from code here and not from a field.

        This module and those of tasks and parts are outside the code digest, so a key must hold
        what they decide: the order of tasks, and which class or function each part is.
        """
        trained = self.trained_tasks
        return {
            "tasks": list(self.ordered_tasks),
            "trained": list(trained),
            "divergences": {t: divergence(self.smart, t) for t in trained if self.smart},
            "parts": self.parts(),
        }


def divergence(smart: Smart, task: str) -> str:
    """Return the name of the divergence that `smart` uses for `task`."""
    usual = smart.regression if TASKS[task].kind == "regression" else "symmetric_kl"
    return smart.divergence or usual
