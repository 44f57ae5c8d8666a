"""Surgery by torchjd's aggregators: the same as torchjd's own, resumable, told when missing."""

from __future__ import annotations

import sys

import pytest
import torch
from stepping import AGGREGATORS, generator
from torch import Tensor
from torchjd import aggregation as theirs

from minbert.base.errors import UserError
from minbert.spec.parts import PARTS, load_part
from minbert.train.surgery import Method

REMEMBER = {"gradvac", "nash_mtl", "pcd"}
DRAW = {"gradvac", "random"}
ADAPTED = [name for name in AGGREGATORS if name != "pcgrad"]  # which is ours


def made(name: str, tasks: int = 3) -> Method:
    method: Method = load_part("surgery", name)(tasks)
    return method


def jacobians(tasks: int = 3, steps: int = 4, seed: int = 0) -> list[Tensor]:
    """Return random gradients [tasks, 4] of some steps, of unlike norms, double."""
    draw = generator(seed)
    scales = torch.logspace(-1, 1, tasks, dtype=torch.float64)[:, None]
    return [
        scales * torch.randn(tasks, 4, generator=draw, dtype=torch.float64) for _ in range(steps)
    ]


def test_every_method_but_ours_is_compared() -> None:
    assert {*AGGREGATORS, "pytorch_pcgrad"} == set(PARTS["surgery"])


def test_all_of_torchjds_that_work_on_a_gramian_are_there() -> None:
    """Others need the gradients' entries; `Constant` is `sum` with the tasks' weights."""
    known = {type(make(3)).__name__ for make in AGGREGATORS.values()}
    bases = {"Aggregator", "WeightedAggregator", "GramianWeightedAggregator"}
    all_of_them = {name for name in theirs.__all__ if not name.endswith("Weighting")} - bases
    need_entries = {"ConFIG", "ExcessMTL", "GradDrop", "TrimmedMean"}
    assert all_of_them - known == {"Constant", *need_entries}


@pytest.mark.filterwarnings("ignore:You are solving a parameterized problem")
@pytest.mark.parametrize(
    ("name", "tasks"), [(n, t) for n in ADAPTED for t in (2, 3, 5) if (n, t) != ("krum", 2)]
)
def test_steps_are_torchjds(name: str, tasks: int) -> None:
    method, other = made(name, tasks), AGGREGATORS[name](tasks)
    torch.manual_seed(5)
    draw = generator(5)
    for rows in jacobians(tasks):
        expected = other(rows)
        update = method(rows @ rows.T, draw) @ rows
        torch.testing.assert_close(update, expected, rtol=1e-6, atol=1e-6)


def test_a_gradient_that_is_not_finite_gives_no_weight() -> None:
    gramian = torch.full((3, 3), torch.inf)
    assert made("mgda")(gramian, generator()).isnan().all(), "the loop says which batch it was"


def test_without_torchjd_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchjd.aggregation", None)
    with pytest.raises(UserError, match=r"surgery by MGDA needs torchjd .*\.\[methods\]"):
        made("mgda")
