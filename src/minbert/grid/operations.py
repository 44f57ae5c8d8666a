"""What a training job computes, counted from its spec, the backbone's shapes and its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from minbert.grid.architecture import Architecture
from minbert.grid.parameters import encoder_parameters
from minbert.grid.spec import StageSpec

TOKENS = {"sst": 25, "para": 30, "sts": 28, "cfimdb": 224, "lmrd": 300}
"""Mean tokens of an example, special ones included, in the real data sets."""

HEAD = 2e4
"""Operations on an example whose features are cached: nothing beside any encoder."""


class Rows(NamedTuple):
    """Examples of each split."""

    train: int
    dev: int
    test: int


def operations(spec: StageSpec, arch: Architecture, rows: Mapping[str, Rows]) -> float:
    """Count multiplications and additions of a whole job, by weight and token.

    Forward takes 2 a weight and token, backward 2 for the activations and 2 for the weights, the
    latter not where they are frozen. Weights are those of layers, pooler, and what is inserted
    into them: looking up an embedding costs nothing, heads next to nothing. Trained tasks are
    scored on dev after each epoch; all are scored on dev and test at the end.
    """
    drawn = examples(spec, {task: rows[task].train for task in spec.trained_tasks})
    if spec.trainable == "heads":
        return HEAD * spec.epochs * sum(drawn.values())
    parts = encoder_parameters(arch)
    backbone = parts.layer * arch.layers + parts.pooler
    total = 0.0
    for task, how in spec.tasks.items():
        inserted = _inserted(spec, arch)
        if how.convolution:
            inserted += how.convolution.kernel * arch.hidden**2
        weights = backbone + inserted
        scored = rows[task].dev + rows[task].test
        cost = 2.0 * weights * scored
        if how.trained:
            trained = weights if spec.trainable == "all" else inserted
            step = 4.0 * weights + 2.0 * trained
            if spec.smart is not None:
                # A second pass on the perturbed input; an ascent needs no gradient of weights.
                step = 2 * step + 4.0 * weights * spec.smart.ascents
            cost += spec.epochs * (step * drawn[task] + 2.0 * weights * rows[task].dev)
        total += min(TOKENS[task], spec.max_length) * cost
    return total


def batches(spec: StageSpec, rows: Mapping[str, Rows]) -> float:
    """Count the batches that a whole job goes forward and backward through."""
    drawn = examples(spec, {task: rows[task].train for task in spec.trained_tasks})
    return spec.epochs * sum(n / spec.tasks[task].batch_size for task, n in drawn.items())


def feature_operations(task: str, max_length: int, arch: Architecture, rows: Rows) -> float:
    """Count the operations of encoding all sentences of a task once."""
    parts = encoder_parameters(arch)
    tokens = min(TOKENS[task], max_length) * sum(rows)
    return 2.0 * (parts.layer * arch.layers + parts.pooler) * tokens


def examples(spec: StageSpec, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return how many examples of each trained task an epoch draws, of `sizes` there are."""
    batch = {task: spec.tasks[task].batch_size for task in sizes}
    cap = spec.sampler.examples
    if spec.sampler.name == "sequential":
        return {task: min(size, cap or size) for task, size in sizes.items()}
    if spec.sampler.name == "recycled":
        largest = max(sizes, key=lambda task: sizes[task])
        passed = min(cap or sizes[largest], sizes[largest])
        steps = -(-passed // batch[largest])
        return {task: passed if task == largest else steps * batch[task] for task in sizes}
    passed, smallest = cap or min(sizes.values()), min(batch.values())
    return {task: passed * batch[task] // smallest for task in sizes}


def _inserted(spec: StageSpec, arch: Architecture) -> int:
    """Count the weights that a token meets in the sublayers, beside the backbone's.

    A fusion maps the query once, keys and values once an adapter; the adapters themselves are a
    few per cent of that.
    """
    hidden, places = arch.hidden, 2 * arch.layers
    if spec.adapter:
        return places * 2 * hidden * spec.adapter.width
    if spec.fuse:
        return places * (1 + 2 * len(spec.fuse)) * hidden**2
    return 0
