"""Means over seeds, the variance over them that rows of a paper share, and their intervals."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from nulls import coverage
from nulls.__main__ import SPREADS
from scipy.stats import t

from minbert.evaluate.bootstrap import System, difference
from minbert.evaluate.reading import DELTA_M, Of, Score, Scores
from minbert.evaluate.seeds import (
    Interval,
    Spread,
    alike,
    over_seeds,
    own_spread,
    rows_of,
    seed_effects,
    shared_spreads,
)


def by_seed(values: list[float], p_floor: float | None = 0.001, key: str = "") -> dict[int, Score]:
    return {n: Score(v, key, None, 0.2, p_floor, error=0.1) for n, v in enumerate(values)}


def on_dev(rows: dict[str, list[float]], task: str = "sst") -> Scores:
    return {Of(name, "dev", task): by_seed(of, key=f"{name} {task}") for name, of in rows.items()}


def half(one: Interval) -> float:
    assert one.low is not None and one.high is not None
    assert one.mean - one.low == pytest.approx(one.high - one.mean)
    return one.high - one.mean


ROWS = {"a": [0.40, 0.42], "b": [0.50, 0.50], "c": [0.60, 0.61, 0.62]}
SHARED = (0.0002 + 0.0 + 2 * 0.0001) / 4


def test_rows_share_their_variance_and_a_larger_one_is_kept() -> None:
    found = over_seeds(on_dev(ROWS)).values()
    halves = t.ppf(0.975, 4) * np.sqrt([0.0002 / 2, SHARED / 2, SHARED / 3])
    assert list(map(half, found)) == pytest.approx(list(halves))
    assert [one.mean for one in found] == pytest.approx([0.41, 0.5, 0.61])
    assert [one.sd for one in found] == pytest.approx([np.std(of, ddof=1) for of in ROWS.values()])


def test_rows_share_nothing_with_other_splits_tasks_and_rows_that_have_not_learned() -> None:
    """Nor do gains with each other: all are over the same runs."""
    rows, one = on_dev(ROWS), {"x": [0.1, 0.9]}
    tested = {of._replace(split="test"): by for of, by in on_dev(one).items()}
    gains = {Of(name, "dev", DELTA_M): by_seed([0.0, n], None) for n, name in enumerate("ab")}
    unlearned = {Of(f"{p}", "dev", "sst"): by_seed([0.25, 0.35], p) for p in (0.5, None)}
    once = on_dev({"once": [0.7]})
    found = over_seeds({**rows, **tested, **on_dev(one, "para"), **gains, **unlearned, **once})
    assert {of: found[of] for of in rows} == over_seeds(rows)
    alone = t.ppf(0.975, 1) / np.sqrt(2)
    for of in unlearned:
        assert half(found[of]) == pytest.approx(alone * np.sqrt(0.005))
    assert [half(found[of]) for of in gains] == pytest.approx([0.0, alone * np.sqrt(0.5)])
    assert half(found[Of("once", "dev", "sst")]) == pytest.approx(1.959964 * 0.1)


TASKS = ("sst", "para", "sts")
OVERALL = {"a": [0.50, 0.51], "b": [0.60, 0.62], "c": [0.70, 0.71]}


def with_overall(rows: dict[str, list[float]], tasks: tuple[str, ...] = TASKS) -> Scores:
    """Return scores on each task and overall: a row's own training of each task."""
    plain = {Of(name, "dev", "plain"): by_seed(of, None, name) for name, of in rows.items()}
    return {key: of for task in tasks for key, of in on_dev(rows, task).items()} | plain


def best_of(scores: Scores, values: list[float]) -> Scores:
    """Return the scores of the best of each task: SST of b, the others of a."""
    chosen = {"sst": "b", "para": "a", "sts": "a"}
    best = {
        Of("best", "dev", task): scores[Of(row, "dev", task)]
        for task, row in chosen.items()
        if Of(row, "dev", task) in scores
    }
    return best | {Of("best", "dev", "plain"): by_seed(values, None, "")}


@pytest.mark.parametrize(("values", "of_its_own"), [([0.70, 0.71], False), ([0.5, 0.9], True)])
def test_what_is_the_best_of_other_rows_is_no_part_of_their_variance(
    values: list[float], of_its_own: bool
) -> None:
    scores = with_overall(OVERALL)
    found = over_seeds(scores | best_of(scores, values))
    assert {of: found[of] for of in scores} == over_seeds(scores)
    best = found[Of("best", "dev", "plain")]
    like = np.sqrt((0.00005 + 0.0002 + 0.00005) / 3 / 2) * t.ppf(0.975, 3)
    own = np.sqrt(np.var(values, ddof=1) / 2) * t.ppf(0.975, 1)
    assert half(best) == pytest.approx(own if of_its_own else like)
    for task in TASKS:
        chosen = found[Of("b" if task == "sst" else "a", "dev", task)]
        assert found[Of("best", "dev", task)] == chosen


def test_rows_that_share_the_training_of_one_task_are_not_one_row() -> None:
    """The key of an overall score is that of the row's last stage."""
    scores = with_overall(OVERALL)
    last = {of: by_seed(OVERALL[of.variant], None, "sts") for of in scores if of[2] == "plain"}
    assert over_seeds(scores | last) == over_seeds(scores)


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [(("sst",), False), (("sst", "para"), True), (("sst", "sts"), False)],
)
def test_an_overall_score_has_learned_what_one_of_its_tasks_has(
    tasks: tuple[str, ...], expected: bool
) -> None:
    p_floors = {"sst": 0.5, "para": 0.001, "sts": None, "plain": None}
    scores = {Of("a", "dev", of): by_seed([0.5], p, "a") for of, p in p_floors.items()}
    assert over_seeds(scores, tasks)[Of("a", "dev", "plain")].learned is expected


def test_intervals_contain_the_true_mean_as_often_as_they_say() -> None:
    found = coverage(300, 3, SPREADS["0.5 and 3"])
    assert 0.93 <= found.all <= 0.985 and found.worst >= 0.87


def spreads(scores: Scores, paired: bool = False) -> dict[Of, Spread]:
    """Return the spreads of rows with the same scores on all examples and on 50 resamples."""
    drawn = {of: {n: np.tile(one.value, 51) for n, one in by.items()} for of, by in scores.items()}
    return shared_spreads(rows_of(scores), drawn, paired)


def test_an_outlier_is_found_by_its_whole_variance() -> None:
    usual = [Spread(0.5, 1.0, 2)] * 9
    assert alike([Spread(-1.0, 900.0, 2), *usual]) == usual


def test_what_comes_from_the_examples_is_no_spread_of_seeds() -> None:
    draw = np.random.default_rng(0)
    scores = 0.5 + 0.02 * draw.normal(size=(4001, 3))
    scores[0] = 0.5
    found = own_spread(scores)
    assert found is not None and found.whole == 0
    assert found.variance == pytest.approx(-(0.02**2), rel=0.1)
    assert difference(System(scores), System(np.full((4001, 3), 0.5))).of_seeds == 0


def test_rows_compared_seed_by_seed_share_the_residuals_of_rows_and_seeds() -> None:
    """Those of the two-way analysis of variance, (rows - 1) (seeds - 1) degrees of freedom."""
    draw = np.random.default_rng(0)
    values = 0.5 + draw.normal(0, [[0.01], [0.01], [0.012], [0.02]], (4, 3))
    values += draw.normal(0, 0.1, 3)
    scores = on_dev({f"row {n}": of.tolist() for n, of in enumerate(values)})
    found = [*spreads(scores, paired=True).values()]
    centred = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    own = np.square(centred).sum(axis=1) / (2 * 3 / 4)
    assert [one.freedom for one in found] == pytest.approx([6] * 4)
    expected = np.maximum(own, np.square(centred).sum() / 6)
    assert [one.whole for one in found] == pytest.approx(expected.tolist())
    apart = [*spreads(scores).values()]
    assert min(one.whole for one in apart) > 10 * max(one.whole for one in found)
    for two in combinations(scores, 2):  # of two rows, it is Student's paired test
        pair = {of: scores[of] for of in two}
        assert len({*spreads(pair, paired=True).values()}) == 1


def test_rows_that_vary_far_more_are_no_part_of_the_mean() -> None:
    similar = {f"row {n}": [0.5, 0.5 + 0.01 * (1 + n % 3)] for n in range(9)}
    failing = {"worse": [0.8, 0.3], "bad": [0.6, 0.4]}
    for paired in (False, True):
        found, without = (
            spreads(of, paired) for of in (on_dev(similar | failing), on_dev(similar))
        )
        assert {row: found[row] for row in without} == without
        bad, worse = (found[Of(name, "dev", "sst")] for name in ("bad", "worse"))
        assert (bad.freedom, worse.freedom) == (1, 1) and bad.whole == pytest.approx(0.02)
    assert without[Of("row 0", "dev", "sst")].freedom == pytest.approx(8)
    same = on_dev({"a": [0.5, 0.5], "b": [0.5, 0.5], "c": [0.4, 0.5]})
    assert spreads(same)[Of("a", "dev", "sst")].whole == 0


def test_the_effects_of_seeds_are_fitted_to_the_scores_that_are_there() -> None:
    rows = [{1: 0.5, 2: 0.6, 3: 0.4}, {1: 0.7, 2: 0.8}, {2: 0.3, 3: 0.1}]
    effects, share = seed_effects([{n: np.array([v]) for n, v in of.items()} for of in rows])
    assert share == pytest.approx(2 / 4)  # of 7 scores, 5 are fitted; rows alone would leave 4
    left = [[value - effects[seed][0] for seed, value in of.items()] for of in rows]
    assert np.ptp([np.mean(of) for of in left]) > 0.2
    assert effects[2][0] - effects[1][0] == pytest.approx(0.1)
    assert 0.1 < effects[2][0] - effects[3][0] < 0.3
    assert sum(effects.values()) == pytest.approx(0), "a row's other seeds have no effect"
    assert seed_effects([{1: np.array([0.5]), 2: np.array([0.6])}]) == ({}, 1.0)


def test_a_seed_that_failed_is_no_part_of_what_is_shared_or_compared() -> None:
    """It fails if it has not learned what most have; by an overall rule, one of the tasks."""
    rows = on_dev(ROWS)
    failing = Of("failing", "dev", "sst")
    of = by_seed([0.51, 0.52]) | {2: Score(0.2, "failing", None, 0.2, 0.6)}
    assert rows_of({failing: of})[failing].failed == [2]
    found = over_seeds(rows | {failing: of})
    assert {each: found[each] for each in rows} == over_seeds(rows)
    assert half(found[failing]) == pytest.approx(
        t.ppf(0.975, 2) * np.std([0.51, 0.52, 0.2], ddof=1) / np.sqrt(3)
    )
    whole = with_overall({"a": [0.5, 0.51, 0.52]})
    whole[Of("a", "dev", "sts")] = {n: Score(0.4, "a", None, 0.0, n / 2) for n in range(3)}
    plain = Of("a", "dev", "plain")
    assert rows_of(whole)[plain].failed == [], "most seeds have not learned STS"
    whole[Of("a", "dev", "sts")][1] = Score(0.4, "a", None, 0.0, 0.0)
    assert rows_of(whole)[plain][1:3] == (True, [2])
    whole[Of("a", "dev", "para")][0] = Score(0.2, "a", None, 0.2, 0.5)
    assert not rows_of(whole)[plain].learned, "one of three has learned all that most have"
    both = System(np.tile([0.6, 0.7, 0.8], (9, 1)), [1, 2, 4])
    one = System(np.tile([0.5, 0.1], (9, 1)), [2, 3])
    assert difference(both, one).value == pytest.approx(0.2), "seed 2 is in both"


def test_what_rows_have_in_common_in_a_seed_counts_against_what_was_not_trained() -> None:
    paired, alone = Spread(1e-6, 1e-6, 9), Spread(1e-4, 1e-4, 9)
    one = System(np.tile([0.6, 0.7, 0.8], (9, 1)), [1, 2, 3], paired=paired, alone=alone)
    assert difference(one, one).error == pytest.approx(np.sqrt(2e-6 / 3))
    floor = System(np.full((9, 1), 0.5))
    assert difference(one, floor).error == pytest.approx(np.sqrt(1e-4 / 3))
    other = one._replace(seeds=[4, 5, 6])
    assert difference(one, other).error == pytest.approx(np.sqrt(2e-4 / 3))
