"""Verdicts from differences and their errors, and Holm's procedure for several of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from minbert.evaluate.bootstrap import Estimate
from minbert.evaluate.claims import against, decision, holm, verdict


def estimate(value: float, error: float, freedom: float = np.inf) -> Estimate:
    return Estimate(value, error, freedom)


def judged(direction: str, value: float, error: float, margin: float = 0.01) -> str:
    p, supports = decision([against(estimate(value, error), direction, margin)])
    return verdict(p, supports)


@pytest.mark.parametrize(
    ("direction", "clearly", "contrary", "unclear"),
    [
        ("higher", 0.05, -0.05, 0.01),
        ("lower", -0.05, 0.05, -0.01),
        ("same", 0.0, 0.05, 0.01),
        ("same", 0.0, -0.05, -0.01),
        ("not higher", -0.02, 0.05, 0.01),
        ("not lower", 0.02, -0.05, -0.01),
    ],
)
def test_each_direction(direction: str, clearly: float, contrary: float, unclear: float) -> None:
    margin = 0.03 if direction == "same" else 0.0
    assert judged(direction, clearly, 0.007, margin) == "holds"
    assert judged(direction, contrary, 0.007, margin) == "does not hold"
    assert judged(direction, unclear, 0.02, margin) == "within noise"


@pytest.mark.parametrize("value", [0.0195, 0.0197])
def test_a_claim_is_decided_where_its_interval_is_on_one_side(value: float) -> None:
    inside = value - 1.96 * 0.01 > 0
    assert judged("higher", value, 0.01) == ("holds" if inside else "within noise")
    assert judged("not higher", value, 0.01, 0.0) == ("does not hold" if inside else "within noise")


def test_the_same_only_if_both_bounds_are_excluded() -> None:
    assert judged("same", 0.015, 0.005, 0.03) == "holds"
    assert judged("same", 0.025, 0.005, 0.03) == "within noise"
    assert judged("same", 0.015, 0.005, 0.02) == "within noise"


def test_few_degrees_of_freedom_ask_for_more() -> None:
    (sure, unsure) = (
        decision([against(estimate(0.03, 0.01, freedom), "higher", 0)])[0]
        for freedom in (np.inf, 2.0)
    )
    assert sure == pytest.approx(0.0027, abs=1e-4)
    assert unsure == pytest.approx(0.0955, abs=1e-3)  # t = 3 with 2 degrees of freedom


def test_of_several_the_weakest_decides_and_failing_counts_for_each() -> None:
    assert decision([0.001, 0.004, 0.3]) == (pytest.approx(0.6), True)
    assert decision([0.001, 0.004]) == (pytest.approx(0.008), True)
    assert decision([0.001, 0.99]) == (pytest.approx(2 * 2 * 0.01), False)
    assert decision([0.99]) == (pytest.approx(2 * 0.01), False)


@pytest.mark.parametrize(
    ("p", "adjusted"),
    [
        # The example of Wikipedia's article on the method: at .05 the first and last are rejected.
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.6, 0.7], [1.0, 1.0]),
        ([0.02], [0.02]),
        ([], []),
    ],
)
def test_holm_worked_example(p: list[float], adjusted: list[float]) -> None:
    assert [of[0] for of in holm(p, len(p))] == pytest.approx(adjusted)


def test_tests_without_a_p_value_count_too() -> None:
    assert [of[0] for of in holm([0.01, 0.04], 5)] == pytest.approx([0.05, 0.16])


def test_each_p_value_is_tested_at_the_level_of_holms_procedure() -> None:
    levels = [of[1] for of in holm([0.03, 0.001, 0.02], 4)]
    assert levels == pytest.approx([0.05 / 3, 0.05 / 4, 0.05 / 3])
    levels = [of[1] for of in holm([0.001, 0.002, 0.003], 3)]
    assert levels == pytest.approx([0.05 / 3, 0.05 / 2, 0.05])
    draw = np.random.default_rng(1)
    for _ in range(50):
        p = [float(value) for value in draw.beta(0.2, 3, size=6)]
        for one, (adjusted, level) in zip(p, holm(p, 8), strict=True):
            assert (one <= level) == (adjusted <= 0.05)


def test_holm_is_the_closed_test_with_bonferronis_bound() -> None:
    """A hypothesis falls when every intersection that it is part of falls (Marcus et al. 1976)."""
    draw = np.random.default_rng(0)
    for _ in range(20):
        p = [float(value) for value in draw.beta(0.3, 2, size=5)]
        closed = [0.0] * 5
        for size in range(1, 6):
            for among in combinations(range(5), size):
                bound = min(1.0, size * min(p[i] for i in among))
                for i in among:
                    closed[i] = max(closed[i], bound)
        assert [of[0] for of in holm(p, 5)] == pytest.approx(closed)
