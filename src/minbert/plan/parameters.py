"""Parameters counted from shapes alone, so that a plan needs neither torch nor weights."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from minbert.base.errors import UserError
from minbert.plan.plan import Plan
from minbert.spec.architecture import BERT_BASE, Architecture, linear, shared_parts
from minbert.spec.resolve import Stage, Variant
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS

Counts = dict[str, int]  # of a model: its `total`, `encoder`, `heads`, and the `trainable` ones


def count(spec: StageSpec, arch: Architecture, fused_widths: Sequence[int] = ()) -> Counts | None:
    """Count the parameters of the model that `spec` trains on a backbone of the given shapes.

    What is shared is there once, the rest once per task; all copies count. `encoder` has the
    pooler, without the pretraining heads (`bert-base-uncased` has 109,482,240), and in two
    sublayers of each layer adapters, LoRA's changes, or a fusion; `fused_widths` are those of the
    adapters that a fusion fuses, which are not trained. `heads` has convolutions, too; `total` is
    both, and `trainable` those that the stage's trained tasks may change. None: there is a head
    whose parameters are not known here. Raises `UserError` for more shared layers than there are.
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
    heads = {}
    for name, task in spec.tasks.items():
        sizes = [hidden] + [task.head.width] * task.head.depth
        if task.head.name == "mlp":
            sizes = [hidden * len(task.features or ("u",)), *sizes[2:], TASKS[name].classes]
        heads[name] = sum(linear(a, b) for a, b in pairwise(sizes))
        if task.convolution:
            heads[name] += task.convolution.kernel * hidden * hidden + hidden
    return {
        "total": encoder + sum(heads.values()),
        "trainable": tuned + sum(heads[name] for name in spec.trained_tasks),
        "encoder": encoder,
        "heads": sum(heads.values()),
    }


def _adapter(hidden: int, width: int) -> int:
    return linear(hidden, width) + linear(width, hidden)


def stage_parameters(plan: Plan, stage: Stage, base_shapes: bool = False) -> Counts | None:
    """Return the parameters of a stage's model by part; None: shapes or a head are not known.

    `base_shapes` counts at BERT-base, whatever the backbone; None: it has too few layers.
    """
    if shapes := BERT_BASE if base_shapes else plan.sources.architecture:
        adapters = [plan.every[ref].spec.adapter for ref in stage.fused]
        with suppress(UserError):  # which the stage's training words
            return count(stage.spec, shapes, [of.width for of in adapters if of])
    return None


def variant_parameters(plan: Plan, variant: Variant, base_shapes: bool = False) -> int | None:
    """Return the parameters of the models that a variant is scored with.

    None: those of one are not known (`stage_parameters`), the variant is the best of others, or a
    tuned one whose candidates differ.
    """
    if variant.tried:
        others = (plan.variants[variant.paper, name] for name in variant.tried)
        found = {variant_parameters(plan, other, base_shapes) for other in others}
        return found.pop() if len(found) == 1 else None
    stages = {stage.ref: stage for stage in variant.scored.values()}
    counted = [stage_parameters(plan, stage, base_shapes) for stage in stages.values()]
    known = [found["total"] for found in counted if found]
    return sum(known) if known and len(known) == len(counted) else None
