"""Gradient surgery: weights out of the Gramian, and the gradient that they make."""

from __future__ import annotations

import sys

import pytest
import torch
from stepping import AGGREGATORS, aggregator, generator, projected
from torch import Tensor

from minbert.base.errors import UserError
from minbert.model.encoder import SharedEncoder
from minbert.spec.architecture import Architecture, shared_parts
from minbert.spec.parts import load_part
from minbert.spec.stage import Dropout
from minbert.train.surgery.gradients import combine, cosine_rows, inner_products, layer_groups
from minbert.train.surgery.pcgrad import PCGrad
from minbert.train.surgery.pytorch_pcgrad import PytorchPCGrad


def jacobians(tasks: int) -> list[Tensor]:
    """Return gradients [tasks, 4] of steps, double, of unlike norms; many of them conflict."""
    scales = torch.logspace(-1, 1, tasks, dtype=torch.float64)[:, None]
    draw = generator()
    return [scales * torch.randn(tasks, 4, generator=draw, dtype=torch.float64) for _ in range(4)]


@pytest.mark.filterwarnings("ignore:You are solving a parameterized problem")
@pytest.mark.parametrize("tasks", [2, 4])
@pytest.mark.parametrize("name", AGGREGATORS)
def test_steps_are_torchjds(name: str, tasks: int) -> None:
    method, other = load_part("surgery", name)(tasks), aggregator(name, tasks)
    torch.manual_seed(5)
    draw = generator(5)
    for rows in jacobians(tasks):
        update = method(rows @ rows.T, draw) @ rows
        torch.testing.assert_close(update, other(rows), rtol=1e-6, atol=1e-6)


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


def test_a_gradient_that_is_not_finite_gives_no_weight() -> None:
    gramian = torch.full((3, 3), torch.inf)
    weights = load_part("surgery", "upgrad")(3)(gramian, generator())
    assert weights.isnan().all(), "the loop says which batch it was"


def test_without_torchjd_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchjd.aggregation", None)
    with pytest.raises(UserError, match=r"surgery by UPGrad needs torchjd .*\.\[methods\]"):
        load_part("surgery", "upgrad")(3)


def rows_of(rows: list[int], values: list[float]) -> Tensor:
    """Return the sparse gradient [5, 1] of an embedding."""
    return torch.sparse_coo_tensor(
        torch.tensor([rows]), torch.tensor(values)[:, None], (5, 1), check_invariants=True
    )


def test_a_gramian_of_dense_and_sparse_gradients_and_their_weighted_sum() -> None:
    """Nothing counts as zero; an embedding's row may come twice."""
    dense, one = torch.tensor([1.0, 2.0]), rows_of([3, 0, 3], [1.0, 2.0, 4.0])
    gradients = [[dense.clone(), one], [dense.clone(), rows_of([1, 3], [7.0, 3.0])], [None, None]]
    found = inner_products(gradients)
    assert found[1].tolist() == [[29.0, 15.0, 0.0], [15.0, 58.0, 0.0], [0.0] * 3]
    assert found.sum(0).tolist() == [[34.0, 20.0, 0.0], [20.0, 63.0, 0.0], [0.0] * 3]
    parameters = [torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(5, 1))]
    combine(parameters, gradients, torch.tensor([1.0, 2.0, 9.0]), mean=False)
    grads = [parameter.grad.to_dense().flatten().tolist() for parameter in parameters]
    assert grads == [[3.0, 6.0], [2.0, 14.0, 0.0, 11.0, 0.0]]


def test_cosines_with_the_step_before_and_after_surgery_and_by_group() -> None:
    opposed = torch.tensor([[1.0, -1.0], [-1.0, 2.0]])
    half = 2**-0.5
    # The gradients are (1, 0) and (-1, 1), the sum (0, 1); surgery's step is (1/2, 3/2).
    products = torch.stack([0.25 * opposed, 0.75 * opposed, 0 * opposed])
    weights = PCGrad(2)(opposed, generator())
    groups = ["embeddings", "layer_1", "pooler"]
    found = {row[:2]: row[2] for row in cosine_rows(["sst", "sts"], products, weights, groups)}
    of_pair = ("gradient_cosine", "gradient_cosine/embeddings", "gradient_cosine/layer_1")
    assert found == pytest.approx(
        {
            **{("sst-sts", metric): -half for metric in of_pair},
            **{("sst", "sum_cosine"): 0, ("sts", "sum_cosine"): half},
            **{("sst", "update_cosine"): 0.5 / 2.5**0.5, ("sts", "update_cosine"): 1 / 5**0.5},
        }
    )


@pytest.mark.parametrize(
    ("layers", "shared", "expected"),
    [
        (12, 6, ["embeddings", "layers_1-3", "layers_4-6"]),
        (5, 5, ["embeddings", "layers_1-2", "layers_3-4", "layer_5", "pooler"]),
    ],
)
def test_groups_are_of_all_layers_shared_or_not(
    layers: int, shared: int, expected: list[str]
) -> None:
    arch = Architecture(hidden=4, layers=layers, heads=1, intermediate=4, vocab_size=9, positions=9)
    encoder = SharedEncoder(arch, ["sst"], shared_parts(shared, "bottom", layers), Dropout())
    names = [f"encoder.{name}" for name, _ in encoder.named_parameters() if "shared." in name]
    found = layer_groups(names, layers)
    assert list(dict.fromkeys(found)) == expected
