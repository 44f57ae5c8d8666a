"""Gradient surgery: weights out of the Gramian, and the gradient that they make."""

from __future__ import annotations

import pytest
import torch
from stepping import generator, projected
from torch import Tensor
from torchjd.aggregation import PCGradWeighting

from minbert.model.sharing import SharedEncoder
from minbert.spec.architecture import Architecture, shared_parts
from minbert.spec.stage import Dropout
from minbert.train.surgery.gradients import (
    cosine_rows,
    inner_products,
    layer_groups,
)
from minbert.train.surgery.pcgrad import PCGrad
from minbert.train.surgery.pytorch_pcgrad import PytorchPCGrad

OPPOSED = torch.tensor([[1.0, 0.0], [-1.0, 1.0]])


def pcgrad(gramian: Tensor, draw: torch.Generator) -> Tensor:
    return PCGrad(len(gramian))(gramian, draw)


def jacobian(tasks: int, seed: int, width: int = 4) -> Tensor:
    """Return random gradients [tasks, width], double; in few dimensions, so that many conflict."""
    return torch.randn(tasks, width, generator=generator(seed), dtype=torch.float64)


@pytest.mark.parametrize("tasks", [2, 3, 4, 5])
def test_pcgrad_is_torchjds_and_algorithm_1_on_the_gradients(tasks: int) -> None:
    conflicts = 0
    for seed in range(12):
        rows = jacobian(tasks, seed)
        products = rows @ rows.T
        torch.manual_seed(seed)
        expected = PCGradWeighting()(products)
        before = torch.get_rng_state()
        weights = pcgrad(products, generator(seed))
        torch.testing.assert_close(weights, expected, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(weights @ rows, projected(rows, generator(seed)).sum(0))
        single = pcgrad(products.float(), generator(seed))
        torch.testing.assert_close(single.double(), expected, rtol=1e-4, atol=1e-5)
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.equal(products, rows @ rows.T)
        conflicts += bool((weights != 1).any())
    assert conflicts > 3


def test_pytorch_pcgrad_projects_a_gradient_onto_its_own_plane_too() -> None:
    # Of each first gradient, what is left after the second and the third conflicts with it.
    angles = torch.deg2rad(torch.tensor([0, 170, 185], dtype=torch.float64))
    rows = torch.stack([angles.cos(), angles.sin()], 1)
    differ = 0
    for seed in range(20):
        update = PytorchPCGrad(3)(rows @ rows.T, generator(seed)) @ rows
        torch.testing.assert_close(update, projected(rows, generator(seed), itself=True).sum(0))
        differ += not torch.allclose(update, projected(rows, generator(seed)).sum(0))
    assert 0 < differ < 20


def test_nothing_counts_as_zero_in_a_gramian() -> None:
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0])
    found = inner_products([[a, b], [a, None], [None, None]])
    assert found[1].tolist() == [[9.0, 0.0, 0.0], [0.0] * 3, [0.0] * 3]
    assert found.sum(0).tolist() == [[14.0, 5.0, 0.0], [5.0, 5.0, 0.0], [0.0, 0.0, 0.0]]


def test_cosines_with_the_step_before_and_after_surgery() -> None:
    products = (OPPOSED @ OPPOSED.T)[None]
    weights = pcgrad(products[0], generator())
    rows = {
        (task, metric): value
        for task, metric, value in cosine_rows(["sst", "sts"], products, weights, ["embeddings"])
    }
    half = 2**-0.5
    assert rows["sst-sts", "gradient_cosine"] == pytest.approx(-half)
    assert rows["sst-sts", "gradient_cosine/embeddings"] == pytest.approx(-half)
    # The plain sum is (0, 1); after surgery the step is (1/2, 3/2).
    assert (rows["sst", "sum_cosine"], rows["sts", "sum_cosine"]) == pytest.approx((0, half))
    after = (0.5 / 2.5**0.5, 1 / 5**0.5)
    assert (rows["sst", "update_cosine"], rows["sts", "update_cosine"]) == pytest.approx(after)


def test_cosines_by_group_leave_out_what_a_task_does_not_use() -> None:
    both, one = torch.tensor([[1.0, 0.5], [0.5, 1.0]]), torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    products = torch.stack([both, both, -0.5 * both + torch.eye(2), one])
    groups = ["embeddings", "layer_1", "layer_1", "pooler"]
    rows = list(cosine_rows(["sst", "sts"], products, torch.ones(2), groups))
    found = {metric: value for _, metric, value in rows if "/" in metric}
    assert found == {
        "gradient_cosine/embeddings": pytest.approx(0.5),
        "gradient_cosine/layer_1": pytest.approx(0.25 / 1.5),
    }


@pytest.mark.parametrize(
    ("layers", "shared", "expected"),
    [
        (12, 6, ["embeddings", "layers_1-3", "layers_4-6"]),
        (6, 6, ["embeddings", "layers_1-2", "layers_3-4", "layers_5-6", "pooler"]),
        (5, 5, ["embeddings", "layers_1-2", "layers_3-4", "layer_5", "pooler"]),
    ],
)
def test_groups_are_of_all_layers_shared_or_not(
    layers: int, shared: int, expected: list[str]
) -> None:
    arch = Architecture(hidden=4, layers=layers, heads=1, intermediate=4, vocab_size=9, positions=9)
    module = torch.nn.Module()
    module.encoder = SharedEncoder(
        arch, ("sst", "sts"), shared_parts(shared, "bottom", arch.layers), Dropout()
    )
    found = layer_groups(module, module.encoder.shared_parameters())
    assert list(dict.fromkeys(found)) == expected
