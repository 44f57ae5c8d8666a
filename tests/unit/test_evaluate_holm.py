"""Holm's procedure, against a worked example and the closed test that it is a short cut of."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from minbert.evaluate.holm import holm


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
def test_worked_example(p: list[float], adjusted: list[float]) -> None:
    assert holm(p) == pytest.approx(adjusted)


def test_it_is_the_closed_test_with_bonferronis_bound() -> None:
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
        assert holm(p) == pytest.approx(closed)
