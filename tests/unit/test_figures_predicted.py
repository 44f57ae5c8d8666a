"""Figures of predictions: their numbers, aligned example by example, and words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from figure_files import PREDICTIONS
from figure_texts import drawn
from figure_values import points, texts
from scipy.stats import binomtest

from minbert.base.errors import UserError
from minbert.evaluate.predictions import read_predicted
from minbert.evaluate.scoring import macro_f1
from minbert.figures import confusion_matrix
from minbert.figures.calibration import binned, calibration_error, wilson
from minbert.figures.inputs import Inputs, mean_of


def predictions(
    path: Path, task: str, rows: list[tuple[float, float, list[float]]], names: str = "abcdefgh"
) -> Path:
    """Write dev rows of (label, prediction, scores), last first: order must not matter."""
    lines = [
        {"id": name, "task": task, "split": "dev"}
        | {"label": label, "prediction": prediction, "scores": scores}
        for name, (label, prediction, scores) in zip(names, rows, strict=False)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(lines[::-1], schema=pa.schema(PREDICTIONS)), path)
    return path


def classes(*pairs: tuple[int, int]) -> list[tuple[float, float, list[float]]]:
    """Return SST rows of (label, prediction), with half of the probability on the prediction."""
    return [(true, said, [0.5 if n == said else 0.125 for n in range(5)]) for true, said in pairs]


def test_confusion_counts_are_rows_of_shares(tmp_path: Path) -> None:
    first = predictions(tmp_path / "0", "sst", classes((0, 0), (0, 1), (0, 0), (4, 3)))
    second = predictions(tmp_path / "1", "sst", classes((0, 0), (0, 0), (0, 0), (4, 4)))
    one = read_predicted([first, second], "sst")
    assert one.ids == list("abcd")
    counts = confusion_matrix.confusion(one, 5)
    expected = np.zeros((5, 5))
    expected[0, :2], expected[4, 3:] = (2.5, 0.5), (0.5, 0.5)
    np.testing.assert_array_equal(counts, expected)
    inputs = Inputs(predictions={"v": {"sst": {0: first, 1: second}}})
    figure, notes = drawn("confusion-matrix", inputs, "v", task="sst")
    said = texts(figure)
    assert "0.83\n2.5" in said and said.count("0.50\n0.5") == 2
    f1 = np.mean([macro_f1(made, one.label) for made in one.prediction])
    head = f"V\naccuracy 0.750 [0.500, 1.000]\nmacro-F1 {f1:.3f}\nnever predicted: 2"
    assert f"{head}\n\u00d7 not above the floor" in said
    assert notes[0].startswith("n = 4 dev examples, mean of 2 seeds.")
    assert "Above: accuracy, mean and [smallest, largest] of the seeds; macro-F1." in notes[1]
    assert "Floor: the most frequent class, 0.750." in notes[1]


def test_a_constant_predictor_is_named(tmp_path: Path) -> None:
    pairs = [(float(n % 3 == 0), 0.0, [0.333]) for n in range(6)]
    learned = [(float(n), float(n), [float(n)]) for n in range(6)]
    files = {
        "para": {0: predictions(tmp_path / "0", "para", pairs)},
        "sts": {0: predictions(tmp_path / "1", "sts", [(n, 2.5, [2.5]) for n in range(6)])},
        "sst": {
            0: predictions(tmp_path / "2", "sst", classes(*((n % 5, 1) for n in range(6)))),
            1: predictions(tmp_path / "3", "sst", classes(*((n % 5, n % 5) for n in range(6)))),
        },
    }
    inputs = Inputs(predictions={"v": files})
    figure, notes = drawn("calibration", inputs, "v", task="para")
    assert "V\nECE 0.000\n\u00d7 predicts one class only" in texts(figure)
    assert any("For these, a small ECE means nothing" in note for note in notes)
    figure, _ = drawn("sts-scatter", inputs, "v", task="sts")
    assert "V\nr 0.000\n\u00d7 predicts one number" in texts(figure)
    figure, _ = drawn("confusion-matrix", inputs, "v", task="sst")
    head = next(text for text in texts(figure) if text.startswith("V"))
    assert "\n\u00d7 1 of 2 seeds: one class only" in head
    files["sts"] = {0: predictions(tmp_path / "4", "sts", learned)}
    figure, _ = drawn("sts-scatter", inputs, "v", task="sts")
    assert "V\nr 1.000" in texts(figure)


def test_calibration_golden() -> None:
    score = np.array([0.05, 0.15, 0.95, 1.0, 0.45])
    label = np.array([0.0, 1, 1, 0, 1])
    found = binned(score, label, 2)
    np.testing.assert_allclose(found.examples, [3, 2])
    np.testing.assert_allclose(found.score, [0.65 / 3, 0.975])
    np.testing.assert_allclose(found.share, [2 / 3, 0.5])
    error = (3 * (2 / 3 - 0.65 / 3) + 2 * 0.475) / 5
    assert calibration_error(found) == pytest.approx(error)
    empty = binned(score, label, 10)
    assert np.isnan(empty.share[5]) and np.isfinite(calibration_error(empty))


@pytest.mark.parametrize(("hits", "count"), [(0, 7), (3, 7), (7, 7), (120, 400)])
def test_wilson_is_scipys(hits: int, count: int) -> None:
    known = binomtest(hits, count).proportion_ci(method="wilson")
    assert wilson(hits / count, count) == pytest.approx((known.low, known.high), abs=1e-6)


def test_reliability_points(tmp_path: Path) -> None:
    rows = [(0, 0, [0.1]), (1, 0, [0.2]), (1, 1, [0.9]), (1, 1, [0.8])]
    made = predictions(tmp_path / "0", "para", [(float(a), float(b), c) for a, b, c in rows])
    inputs = Inputs(predictions={"v": {"para": {0: made}}})
    figure, notes = drawn("calibration", inputs, "v", task="para", bins=2)
    np.testing.assert_allclose(points(figure), [(0.15, 0.5), (0.85, 1.0)], atol=1e-6)
    assert "V\nECE 0.250\n\u00d7 not above the floor" in texts(figure)
    assert "4 dev pairs in 2 bins" in notes[0] and "Wilson" in notes[1]


def test_scatter_shows_mean_predictions_and_the_seeds_own_r(tmp_path: Path) -> None:
    labels = (0.0, 2.5, 5.0)
    of_seeds = {}
    for seed, values in enumerate([(1.0, 2.0, 3.0), (3.0, 2.0, 5.0)]):
        rows = [(label, value, [value]) for label, value in zip(labels, values, strict=True)]
        of_seeds[seed] = predictions(tmp_path / str(seed), "sts", rows)
    inputs = Inputs(predictions={"v": {"sts": of_seeds}})
    figure, _ = drawn("sts-scatter", inputs, "v", task="sts")
    shown = figure.axes[0].lines[1]
    np.testing.assert_allclose(shown.get_xydata(), [(0, 2), (2.5, 2), (5, 4)])
    r = np.corrcoef(labels, (3.0, 2.0, 5.0))[0, 1]
    head = f"V\nr {(1 + r) / 2:.3f} [{r:.3f}, 1.000]"
    assert any(text.startswith(head) for text in texts(figure))


@pytest.mark.parametrize(
    ("kind", "task", "said"),
    [
        ("confusion-matrix", "sst", "mean of 1 or 2 seeds. Classes"),
        ("sts-scatter", "sts", "points: mean of 1 or 2 seeds. Line"),
        ("calibration", "para", "Student t over seeds; where one alone has pairs, Wilson"),
    ],
)
def test_notes_say_so_if_variants_have_different_numbers_of_seeds(
    tmp_path: Path, kind: str, task: str, said: str
) -> None:
    rows: list[tuple[float, float, list[float]]]
    rows = classes((0, 0), (1, 0), (2, 1)) if task == "sst" else [(0, 0, [0.1]), (1, 1, [0.7])]
    both = {seed: predictions(tmp_path / str(seed), task, rows) for seed in (0, 1)}
    inputs = Inputs(predictions={"v": {task: both}, "w": {task: {1: both[1]}}})
    _, notes = drawn(kind, inputs, "v w", task=task)
    assert any(said in note for note in notes), notes


def test_seeds_of_other_examples_are_refused(tmp_path: Path) -> None:
    first = predictions(tmp_path / "0", "sst", classes((0, 0), (1, 1)))
    other = predictions(tmp_path / "1", "sst", classes((0, 0), (1, 1)), names="ax")
    with pytest.raises(UserError, match=r"1: its dev examples of 'sst' are not those of .*0;"):
        read_predicted([first, other], "sst")
    inputs = Inputs(predictions={"v": {"sst": {0: first}}, "w": {"sst": {0: other}}})
    with pytest.raises(UserError, match="w: its dev examples of 'sst' are not those of v;"):
        drawn("confusion-matrix", inputs, "v w", task="sst")


def test_numbers_of_seeds_in_words() -> None:
    assert [mean_of(of) for of in ([1, 1], [3], [2, 1], [3, 1, 2, 1])] == [
        *("1 seed", "mean of 3 seeds", "mean of 1 or 2 seeds", "mean of 1, 2 or 3 seeds")
    ]


def test_variants_scored_on_a_half_of_dev_stand_beside_those_of_all(tmp_path: Path) -> None:
    whole = predictions(tmp_path / "0", "sst", classes((0, 0), (1, 1), (2, 3), (3, 3)))
    half = predictions(tmp_path / "1", "sst", classes((1, 0), (3, 3)), names="bd")
    inputs = Inputs(predictions={"v": {"sst": {0: whole}}, "w": {"sst": {0: half}}})
    figure, notes = drawn("confusion-matrix", inputs, "v w", task="sst")
    assert notes[0].startswith("n = 2 dev examples")
    heads = [axes.get_title().splitlines()[1] for axes in figure.axes]
    assert heads == ["accuracy 1.000", "accuracy 0.500"]
