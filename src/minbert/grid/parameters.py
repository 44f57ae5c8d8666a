"""Parameters counted from shapes alone, so that a plan or a table needs neither torch nor weights.

The layout is BERT's (Devlin et al., 2019, section 3), with the pooler, without the pretraining
heads; `bert-base-uncased` has 109,482,240.
"""

from __future__ import annotations

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
    """Parameters of a stage's model. `total` is `encoder` + `heads`, all copies counted;
    `trainable` is those that the stage's trained tasks may change."""

    total: int
    trainable: int
    encoder: int
    heads: int


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


def count(spec: StageSpec, arch: Architecture) -> Counts:
    """Count the parameters of the model that `spec` trains on a backbone of the given shapes.

    With all layers shared there is one encoder. With k < L shared, the embeddings and k layers are
    there once, the layers above and the pooler once a task. With `none`, everything is there once
    a task. Raises `UserError` if k > L.
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
    heads = {name: _head(name, spec.tasks[name], arch.hidden) for name in spec.ordered_tasks}
    encoder = shared + own * len(heads)
    trained = spec.trained_tasks
    trainable = sum(heads[name] for name in trained)
    if spec.trainable != "heads":
        trainable += shared + own * len(trained)
    total_heads = sum(heads.values())
    return {
        "total": encoder + total_heads,
        "trainable": trainable,
        "encoder": encoder,
        "heads": total_heads,
    }


def _linear(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs


def _head(name: str, task: TaskSpec, hidden: int) -> int:
    """Count a head of `depth` linear layers on `features` (or one embedding) of `hidden` units."""
    inside = [task.head.width] * (task.head.depth - 1)
    sizes = [hidden * len(task.features or ("u",)), *inside, TASKS[name].classes]
    return sum(_linear(a, b) for a, b in pairwise(sizes))
