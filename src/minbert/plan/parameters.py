"""Parameters counted from shapes alone, so that a plan or a table needs neither torch nor weights.

Encoders are counted with the pooler, without the pretraining heads; `bert-base-uncased` has
109,482,240.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import TypedDict

from minbert.spec.architecture import Architecture, linear, shared_parts
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS


class Counts(TypedDict):
    """Parameters of a stage's model, all copies counted: `total` is `encoder` + `heads`.

    Adapters count with the encoder, convolutions with the heads. `trainable` is those that the
    stage's trained tasks may change.
    """

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
