"""Parameters counted from shapes alone, so that a plan or a table needs neither torch nor weights.

Encoders are counted with the pooler, without the pretraining heads; `bert-base-uncased` has
109,482,240.
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TypedDict

from minbert.base.errors import UserError
from minbert.plan.experiment import Experiment
from minbert.spec.architecture import BERT_BASE, Architecture, linear, shared_parts
from minbert.spec.resolve import Stage, Variant
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS, TaskSpec


class Counts(TypedDict):
    """Parameters of a stage's model. `total` is `encoder` + `heads`, all copies counted, adapters
    with the encoder and convolutions with the heads; `trainable` is those that the stage's trained
    tasks may change."""

    total: int
    trainable: int
    encoder: int
    heads: int


def count(spec: StageSpec, arch: Architecture, fused_widths: Sequence[int] = ()) -> Counts | None:
    """Count the parameters of the model that `spec` trains on a backbone of the given shapes.

    What is shared is there once, the rest once per task. Adapters, LoRA's changes, or a fusion are
    in two sublayers of each layer; `fused_widths` are those of the adapters that a fusion fuses,
    which are not trained. None: there is a head whose parameters are not known here.
    Raises `UserError` for more shared layers than there are.
    """
    once = shared_parts(spec.shared_layers, spec.shared_end, arch.layers)
    parts = arch.parameters()
    shared = (
        once.embeddings * parts.embeddings
        + sum(parts.layers[number] for number in once.layers)
        + once.pooler * parts.pooler
    )
    own, hidden, sublayers = parts.total - shared, arch.hidden, 2 * arch.layers
    inserted = kept = 0
    if spec.adapter:
        inserted = _adapter(hidden, spec.adapter.width)
    elif spec.lora:
        inserted = 2 * hidden * spec.lora.rank
    elif spec.fuse:
        inserted = linear(hidden, hidden) + 2 * hidden * hidden
        kept = sum(_adapter(hidden, width) for width in fused_widths)
    encoder = shared + own * len(spec.tasks) + sublayers * (inserted + kept)
    tuned = sublayers * inserted
    if spec.trainable == "all":
        tuned = shared + own * len(spec.trained_tasks)
    if {task.head.name for task in spec.tasks.values()} - {"mlp", "cosine"}:
        return None
    heads = {name: _head(name, task, hidden) for name, task in spec.tasks.items()}
    return {
        "total": encoder + sum(heads.values()),
        "trainable": tuned + sum(heads[name] for name in spec.trained_tasks),
        "encoder": encoder,
        "heads": sum(heads.values()),
    }


def _adapter(hidden: int, width: int) -> int:
    return linear(hidden, width) + linear(width, hidden)


def _head(name: str, task: TaskSpec, hidden: int) -> int:
    """Count a task's head and convolution."""
    sizes = [hidden] + [task.head.width] * task.head.depth
    if task.head.name == "mlp":
        sizes = [hidden * len(task.features or ("u",)), *sizes[2:], TASKS[name].classes]
    convolution = task.convolution.kernel * hidden * hidden + hidden if task.convolution else 0
    return convolution + sum(linear(a, b) for a, b in pairwise(sizes))


def counts(experiment: Experiment, stage: Stage, base_shapes: bool = False) -> Counts | None:
    """Return the parameters of a stage's model by part; None: shapes or a head are not known.

    `base_shapes` counts at BERT-base, whatever the backbone; None: it has too few layers to share.
    """
    shapes = BERT_BASE if base_shapes else experiment.sources.architecture
    if shapes is None:
        return None
    adapters = [experiment.every[ref].spec.adapter for ref in stage.fused]
    with suppress(UserError):  # which the stage's training words
        return count(stage.spec, shapes, [adapter.width for adapter in adapters if adapter])
    return None


def parameters(experiment: Experiment, variant: Variant, base_shapes: bool = False) -> int | None:
    """Return the parameters of the models that a variant is scored with, counted from shapes.

    None: shapes not known yet, a head that cannot be counted, a variant that is the best of
    others, or a tuned one whose candidates differ.
    """
    if variant.tried:
        others = (experiment.variants[variant.paper, name] for name in variant.tried)
        found = {parameters(experiment, other, base_shapes) for other in others}
        return found.pop() if len(found) == 1 else None
    stages = {id(stage): stage for stage in variant.scored.values()}
    counted = [counts(experiment, stage, base_shapes) for stage in stages.values()]
    known = [found["total"] for found in counted if found]
    return sum(known) if known and len(known) == len(counted) else None
