"""Parameters counted from shapes alone, so that a plan or a table needs neither torch nor weights.

The layout is BERT's (Devlin et al., 2019, section 3), with the pooler, without the pretraining
heads; `bert-base-uncased` has 109,482,240.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypedDict

from minbert.grid.architecture import Architecture
from minbert.grid.depth import shared_depth
from minbert.grid.spec import StageSpec
from minbert.grid.task_spec import TaskSpec
from minbert.grid.tasks import TASKS


class EncoderParameters(NamedTuple):
    """Parameters of an encoder's parts; `layer` is those of one layer."""

    embeddings: int
    layer: int
    pooler: int


class Counts(TypedDict):
    """Parameters of a stage's model. `total` is `encoder` + `heads`, all copies counted, adapters
    with the encoder and convolutions with the heads; `trainable` is those that the stage's trained
    tasks may change. None: there is a head whose parameters are not known here."""

    total: int | None
    trainable: int | None
    encoder: int
    heads: int | None


def encoder_parameters(arch: Architecture) -> EncoderParameters:
    """Count the parts of one encoder of the given shapes."""
    norm = 2 * arch.hidden
    rows = arch.vocab_size + arch.positions + arch.types
    attention = 4 * _linear(arch.hidden, arch.hidden)
    inner = _linear(arch.hidden, arch.intermediate) + _linear(arch.intermediate, arch.hidden)
    return EncoderParameters(
        embeddings=rows * arch.hidden + norm,
        layer=attention + inner + 2 * norm,
        pooler=_linear(arch.hidden, arch.hidden),
    )


def count(spec: StageSpec, arch: Architecture, fused_widths: Sequence[int] = ()) -> Counts:
    """Count the parameters of the model that `spec` trains on a backbone of the given shapes.

    With all layers shared there is one encoder. With k < L shared, the embeddings and k layers are
    there once, the layers above and the pooler once a task. With `none`, everything is there once
    a task. `fused_widths` are those of the adapters that a fusion fuses. Raises `UserError` if
    k > L.
    """
    depth = shared_depth(spec.shared_layers, arch.layers)
    parts = encoder_parameters(arch)
    whole = parts.embeddings + arch.layers * parts.layer + parts.pooler
    if depth is None:
        shared = 0
    elif depth == arch.layers:
        shared = whole
    else:
        shared = parts.embeddings + depth * parts.layer
    own = whole - shared
    tasks = spec.ordered_tasks
    heads = {name: _head(name, spec.tasks[name], arch.hidden) for name in tasks}
    inserted, tuned = _inserted(spec, arch, fused_widths)
    encoder = shared + own * len(heads) + inserted
    if spec.trainable == "all":
        tuned = shared + own * len(spec.trained_tasks)
    known = {name: number for name, number in heads.items() if number is not None}
    if len(known) < len(heads):
        return {"total": None, "trainable": None, "encoder": encoder, "heads": None}
    total_heads = sum(known.values())
    return {
        "total": encoder + total_heads,
        "trainable": tuned + sum(known[name] for name in spec.trained_tasks),
        "encoder": encoder,
        "heads": total_heads,
    }


def _inserted(spec: StageSpec, arch: Architecture, fused: Sequence[int]) -> tuple[int, int]:
    """Count what stands in the two sublayers of each layer, and how much of it is trained."""
    hidden, places = arch.hidden, 2 * arch.layers
    if spec.adapter:
        adapters = places * _bottleneck(hidden, spec.adapter.width)
        return adapters, adapters
    if spec.fuse:
        fusion = places * (2 * _linear(hidden, hidden) + hidden * hidden)
        return fusion + places * sum(_bottleneck(hidden, width) for width in fused), fusion
    return 0, 0


def _bottleneck(hidden: int, width: int) -> int:
    return _linear(hidden, width) + _linear(width, hidden)


def _linear(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs


def _head(name: str, task: TaskSpec, hidden: int) -> int | None:
    """Count a task's head and convolution; None for a head that is not known here."""
    if task.head.name == "mlp":
        inside = [task.head.width] * (task.head.depth - 1)
        sizes = [hidden * len(task.features or ("u",)), *inside, TASKS[name].classes]
    elif task.head.name == "cosine":
        sizes = [hidden, *[task.head.width] * task.head.depth]
    else:
        return None
    convolution = task.convolution.kernel * hidden * hidden + hidden if task.convolution else 0
    return convolution + sum(_linear(a, b) for a, b in pairwise(sizes))
