"""Metrics, errors over examples, floors, gains and overall scores, against other formulas for them.

Tasks of one's own (`own_tasks`) have metrics that no built-in task has.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from own_tasks import ALL
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from minbert.evaluate.bootstrap import SEED, _stream, overall_error, resampled, standard_error
from minbert.evaluate.score import against_floor, delta_m
from minbert.evaluate.scoring import METRICS, overall, pearson, score_task, selection_score
from minbert.evaluate.text import read_csv
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS

PUBLISHED = Path(__file__).parents[2] / "workflow" / "published.csv"
CLASSES = {"sst": 5, "para": 2, "same": 2, "cola": 2, "macro": 4, "mood": 3}


@pytest.fixture(autouse=True)
def _tasks() -> None:
    TASKS.use(ALL)


def drawn(task: str, n: int, skill: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions and labels of a task, right with probability `skill`."""
    draw = np.random.default_rng(seed)
    if task in ("rank", "sts"):
        labels = draw.integers(0, 11, n).astype(float)
        return np.round(skill * labels + (1 - skill) * draw.normal(5, 4, n), 1), labels
    classes = CLASSES[task]
    labels = draw.choice(classes, n, p=np.arange(1, classes + 1) / sum(range(classes + 1)))
    other = draw.integers(0, classes, n)
    return np.where(draw.random(n) < skill, labels, other).astype(float), labels.astype(float)


@pytest.mark.parametrize("task", CLASSES)
def test_scores_of_classes_are_those_of_scikit_learn(task: str) -> None:
    predicted, label = drawn(task, 40, 0.5)
    found = {name: METRICS[name](predicted, label) for name in ("accuracy", "macro_f1", "matthews")}
    wanted = {"accuracy": accuracy_score, "matthews": matthews_corrcoef}
    assert found.pop("macro_f1") == pytest.approx(f1_score(label, predicted, average="macro"))
    assert found == pytest.approx({name: of(label, predicted) for name, of in wanted.items()})
    if CLASSES[task] == 2:
        assert METRICS["f1"](predicted, label) == pytest.approx(f1_score(label, predicted))


def test_scores_of_numbers_are_those_of_scipy() -> None:
    draw = np.random.default_rng(0)
    for scale, shift in ((1.0, 0.0), (1e-3, 5.0), (1e150, 0.0)):
        x = draw.normal(size=200) * scale + shift
        y = draw.normal(size=200) + x / (abs(x).max())
        assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-10)
    x = np.array([0.1, 0.2, 0.7, 0.30000000000000004])
    assert pearson(x, x) <= 1.0
    predicted, label = drawn("rank", 100, 0.5)
    spearman = stats.spearmanr(predicted, label).statistic
    assert METRICS["spearman"](predicted, label) == pytest.approx(spearman)
    assert METRICS["rmse"]([1.0, 2.0, 5.0], [1.0, 4.0, 4.0]) == pytest.approx(np.sqrt(5 / 3))


@pytest.mark.parametrize(
    ("prediction", "label"),
    [
        ([0.1 + 0.2] * 3 + [0.3] * 2, [0, 1, 2, 3, 4]),
        ([0, 1, 2, 3, 4], [2.5] * 5),
        ([1.0], [2.0]),
        ([0, 1, float("nan"), 3, 4], [0, 1, 2, 3, 4]),
        ([0, 1, float("inf"), 3, 4], [0, 1, 2, 3, 4]),
    ],
)
def test_undefined_correlation_is_zero_and_never_nan(
    prediction: list[float], label: list[float]
) -> None:
    assert pearson(prediction, label) == 0.0


def test_scores_of_one_class_alone() -> None:
    ones, mixed = np.ones(6), np.array([0, 1, 1, 0, 1, 1])
    assert METRICS["matthews"](ones, mixed) == METRICS["matthews"](mixed, ones) == 0.0
    assert METRICS["f1"](np.zeros(6), mixed) == 0.0
    assert METRICS["macro_f1"](np.full(3, 2), np.full(3, 2)) == 1.0
    for task in ("rank", "cola", "sts"):
        assert standard_error(task, ones, mixed) is None
    assert standard_error("same", ones, mixed) is not None


def test_every_published_row_is_there_once_and_overall_follows_its_papers_rule() -> None:
    """To 0.001, but for one row whose own figures give 0.6668 where its paper prints 0.669."""
    rows = read_csv(PUBLISHED)
    assert len({(r["paper"], r["table"], r["row"], r["variant"], r["split"]) for r in rows}) == 56
    assert all(bool(r["other"]) == (r["other_task"] in TASKS) for r in rows)
    whole = [row for row in rows if row["overall"] and row["sst"]]
    assert (len(rows), len(whole)) == (56, 28)
    for row in whole:
        rules = ("normalised", "plain")
        rule, other = rules[::-1] if row["paper"] == "minbert-downstream" else rules
        scores = {task: float(row[task]) for task in OVERALL_TASKS}
        tolerance = 0.0025 if row["variant"] == "rss-mp-cs" else 0.001
        assert overall(scores, rule) == pytest.approx(float(row["overall"]), abs=tolerance), row
        assert overall(scores, other) != pytest.approx(float(row["overall"]), abs=0.01), row


def test_correlations_count_between_0_and_1_if_normalised() -> None:
    scores = {"same": 0.6, "cola": 0.2, "rank": -0.4}
    assert selection_score(scores, "normalised") == pytest.approx((0.6 + 0.6 + 0.3) / 3)
    assert selection_score(scores, "plain") == pytest.approx(0.4 / 3)
    assert overall(scores, "plain", ("same", "cola")) == pytest.approx(0.4)
    assert overall(scores, "plain", ("same", "macro")) is None
    errors = {"sst": 0.03, "para": 0.02, "sts": 0.04}
    three = overall_error(errors, "plain", [*errors])
    assert three == pytest.approx(np.linalg.norm([0.03, 0.02, 0.04]) / 3)
    halved = overall_error({"same": 0.03, "cola": 0.08}, "normalised", ("same", "cola"))
    assert halved == pytest.approx(np.hypot(0.03, 0.04) / 2)
    assert overall_error({"sst": 0.03}, "plain", [*errors]) is None


SINGLE = {"sst": 0.5, "para": 0.8, "sts": 0.9}


@pytest.mark.parametrize(
    ("scores", "single", "expected"),
    [
        # By hand: (0.05 / 0.5 + 0.04 / 0.8 - 0.09 / 0.9) / 3 = 0.05 / 3
        ({"sst": 0.55, "para": 0.84, "sts": 0.81, "cfimdb": 0.1}, SINGLE | {"lmrd": 0.9}, 5 / 3),
        (SINGLE | {"sts": -0.9}, SINGLE, -200 / 3),
        (SINGLE, SINGLE | {"sts": -0.2}, None),
        ({"sst": 0.5, "para": 0.8}, SINGLE, None),
    ],
)
def test_the_gain_over_single_tasks(
    scores: dict[str, float], single: dict[str, float], expected: float | None
) -> None:
    assert delta_m(scores, single, OVERALL_TASKS) == (expected and pytest.approx(expected))


@pytest.mark.parametrize("task", ["same", "macro", "cola", "mood", "rank"])
def test_every_resample_is_scored_as_a_whole_set_is(task: str) -> None:
    """By drawing the same examples again."""
    predicted, labels = drawn(task, 50, 0.6)
    both = np.vstack([predicted, drawn(task, 50, 0.2, seed=1)[0]])
    found = resampled(task, both, labels, 12)[1:]
    rows = np.random.default_rng([SEED, _stream(task)]).integers(0, 50, size=(12, 50))
    for resample, scores in zip(rows, found, strict=True):
        wanted = [score_task(task, side[resample], labels[resample]) for side in both]
        assert scores == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("task", ["sst", "sts", "same", "macro", "mood", "rank"])
def test_the_standard_error_is_the_spread_over_other_examples(task: str) -> None:
    whole = [score_task(task, *drawn(task, 300, 0.5, seed)) for seed in range(200)]
    errors = [standard_error(task, *drawn(task, 300, 0.5, seed)) for seed in range(3)]
    assert np.mean(np.array(errors, float)) == pytest.approx(np.std(whole), rel=0.15)


def test_accuracy_is_held_against_the_most_frequent_label_on_the_same_examples() -> None:
    label = np.repeat([1.0, 0.0], [60, 40])
    prediction = label.copy()
    prediction[:10] = 0  # 10 of the frequent class lost,
    prediction[60:70] = 1  # 30 of the other won
    found = against_floor("para", prediction, label)
    assert (found.value, found.floor, found.constant) == (0.8, 0.6, False)
    assert found.p_floor == pytest.approx(stats.binomtest(30, 40, alternative="greater").pvalue)
    assert found.learned


@pytest.mark.parametrize("task", ["same", "macro", "cola", "mood", "rank", "sts"])
def test_the_floor_is_the_best_guess_without_looking(task: str) -> None:
    predicted, labels = drawn(task, 200, 0.7)
    found = against_floor(task, predicted, labels)
    floors = {"same": f1_score(labels > 0, np.ones(200)), "macro": 1 / 4}
    assert found.floor == pytest.approx(floors.get(task, 0)) and not found.constant
    assert found.learned and found.value == score_task(task, predicted, labels) > found.floor
    if task in ("rank", "sts"):
        test = (stats.spearmanr if task == "rank" else stats.pearsonr)(
            predicted, labels, alternative="greater"
        )
        assert (found.value, found.p_floor) == pytest.approx((test.statistic, test.pvalue))
        assert not against_floor(task, [1.0, 2.0], [1.0, 2.0]).learned  # two points: no test
    flat = against_floor(task, np.full(200, labels.max()), labels)
    assert flat.constant and not flat.learned and flat.value <= flat.floor
