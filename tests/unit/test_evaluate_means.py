"""Means over seeds, and the intervals that rows of a paper share."""

from __future__ import annotations

import numpy as np
import pytest
from nulls import coverage
from nulls.__main__ import SPREADS
from scipy.stats import t

from minbert.evaluate.gain import DELTA_M
from minbert.evaluate.means import over_seeds
from minbert.evaluate.reading import Of, Score, Scores
from minbert.evaluate.statistics import NORMAL, Interval


def by_seed(values: list[float], p_floor: float | None = 0.001) -> dict[int, Score]:
    return {n: Score(v, "k", None, p_floor=p_floor, error=0.1) for n, v in enumerate(values)}


def on_dev(rows: dict[str, list[float]], task: str = "sst") -> Scores:
    return {Of(name, "dev", task): by_seed(values) for name, values in rows.items()}


def widths(scores: Scores) -> dict[str, float]:
    return {of.variant: half(one) for of, one in over_seeds(scores).items()}


def half(one: Interval) -> float:
    assert one.low is not None and one.high is not None
    assert one.mean - one.low == pytest.approx(one.high - one.mean)
    return one.high - one.mean


ROWS = {"a": [0.40, 0.42], "b": [0.50, 0.50], "c": [0.60, 0.61, 0.62]}
SHARED = (0.0002 + 0.0 + 2 * 0.0001) / 4


def test_rows_share_their_variance_and_a_larger_one_is_kept() -> None:
    found = over_seeds(on_dev(ROWS))
    at_95 = t.ppf(0.975, 4)
    assert {of.variant: half(one) for of, one in found.items()} == pytest.approx(
        {
            "a": at_95 * np.sqrt(0.0002 / 2),
            "b": at_95 * np.sqrt(SHARED / 2),
            "c": at_95 * np.sqrt(SHARED / 3),
        }
    )
    assert [one.mean for one in found.values()] == pytest.approx([0.41, 0.5, 0.61])
    assert [one.n for one in found.values()] == [2, 2, 3]
    own = [one.sd for one in found.values()]
    assert own == pytest.approx([np.sqrt(0.0002), 0.0, 0.01]), "the row's own"


def test_one_seed_and_one_row_are_as_they_would_be_alone() -> None:
    scores = on_dev({**ROWS, "once": [0.7]})
    assert widths(scores)["once"] == pytest.approx(NORMAL * 0.1)
    alone = widths(on_dev({"a": ROWS["a"]}))["a"]
    assert alone == pytest.approx(t.ppf(0.975, 1) * np.sqrt(0.0002 / 2))


@pytest.mark.parametrize("p_floor", [0.5, None])
def test_a_row_that_has_not_learnt_shares_nothing(p_floor: float | None) -> None:
    scores = on_dev(ROWS)
    scores[Of("d", "dev", "sst")] = by_seed([0.25, 0.35], p_floor)
    found = widths(scores)
    assert found.pop("d") == pytest.approx(t.ppf(0.975, 1) * np.sqrt(0.005 / 2))
    assert found == widths(on_dev(ROWS))


def test_splits_and_tasks_share_nothing_with_each_other() -> None:
    tested = {of._replace(split="test"): by for of, by in on_dev({"a": [0.1, 0.9]}).items()}
    other = on_dev({"b": [0.2, 0.8]}, "para")
    found = over_seeds(on_dev(ROWS) | tested | other)
    assert {of: found[of] for of in on_dev(ROWS)} == over_seeds(on_dev(ROWS))


def test_a_stage_under_two_names_counts_once() -> None:
    found = widths(on_dev({**ROWS, "best of": ROWS["c"]}))
    assert found.pop("best of") == found["c"]
    assert found == widths(on_dev(ROWS))


def test_overall_scores_of_rows_that_have_learnt_one_task_or_more() -> None:
    overall = {name: [value + 0.1 for value in of] for name, of in ROWS.items()}
    unlearnt = {Of("d", "dev", "sst"): by_seed([0.25, 0.35], 0.5)}
    unlearnt[Of("d", "dev", "plain")] = by_seed([0.2, 0.4], None)
    plain = {Of(name, "dev", "plain"): by_seed(of, None) for name, of in overall.items()}
    found = over_seeds(on_dev(ROWS) | plain | unlearnt)
    for name, width in widths(on_dev(ROWS)).items():
        assert half(found[Of(name, "dev", "plain")]) == pytest.approx(width)
    alone = t.ppf(0.975, 1) * np.sqrt(0.02 / 2)
    assert half(found[Of("d", "dev", "plain")]) == pytest.approx(alone)


def test_gains_share_nothing_as_all_are_over_the_same_runs() -> None:
    gains = {"a": [1.0, 3.0], "b": [2.0, 3.0], "c": [0.0, 0.0]}
    scores = on_dev(ROWS)
    scores |= {Of(name, "dev", DELTA_M): by_seed(of, None) for name, of in gains.items()}
    found = over_seeds(scores)
    assert found[Of("c", "dev", DELTA_M)] == Interval(0.0, 0.0, 0.0, 2, 0.0)
    alone = t.ppf(0.975, 1) * np.sqrt(0.5 / 2)
    assert half(found[Of("b", "dev", DELTA_M)]) == pytest.approx(alone)


@pytest.mark.parametrize(
    ("spread", "least", "worst"), [("1", 0.95, 0.93), ("0.5 and 3", 0.93, 0.87)]
)
def test_intervals_contain_the_true_mean_as_often_as_they_say(
    spread: str, least: float, worst: float
) -> None:
    found = coverage(300, 3, SPREADS[spread])
    assert least <= found.all <= 0.985 and found.worst >= worst
