"""What the figures of all papers show: their numbers, order and words."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from figure_files import PREDICTIONS
from figure_texts import STAMP
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy.stats import binomtest, t

from minbert.base.errors import UserError
from minbert.data.examples import Example, write_examples
from minbert.data.rows import write_rows
from minbert.evaluate.reading import SCHEMA
from minbert.evaluate.scoring import macro_f1
from minbert.evaluate.statistics import Interval, interval
from minbert.figures import (
    calibration,
    confusion,
    dev_test,
    leakage,
    published,
    ranking,
    scatter,
    sts_scatter,
)
from minbert.figures.calibration import binned, calibration_error, wilson
from minbert.figures.inputs import Inputs, mean_of
from minbert.figures.predicted import read_predicted
from minbert.figures.style import look
from minbert.spec.task import TASKS


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


def spec(module: Any, variants: str = "", **more: Any) -> Any:
    names = {name: f"label of {name}" for name in variants.split()}
    return module.Spec(title="T", variants=names, stamp=STAMP, **more)


def scores(path: Path, paper: str, rows: list[tuple[str, int, str, str, str, float]]) -> Path:
    """Write a score table of (variant, seed, split, task, metric, value).

    Tasks have a floor of .25, which scores up to .3 are not above, and errors of .05.
    """
    names = ("variant", "seed", "split", "task", "metric", "value")
    lines: list[dict[str, Any]] = []
    for row in rows:
        line = {**dict(zip(names, row, strict=True)), "paper": paper, "key": "k"}
        if row[3] in TASKS:
            line |= {"floor": 0.25, "p_floor": 0.5 if row[-1] <= 0.3 else 0.01, "error": 0.05}
        lines.append(line)
    pq.write_table(pa.Table.from_pylist(lines, schema=SCHEMA), path)
    return path


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def points(figure: Figure) -> list[tuple[float, float]]:
    """Return the means that error bars are drawn around, panel by panel."""
    return [
        (float(x), float(y))
        for axes in figure.axes
        for container in axes.containers
        if isinstance(container, ErrorbarContainer)
        for x, y in zip(*container.lines[0].get_data(), strict=True)
    ]


def classes(*pairs: tuple[int, int]) -> list[tuple[float, float, list[float]]]:
    """Return SST rows of (label, prediction), with half of the probability on the prediction."""
    return [(true, said, [0.5 if n == said else 0.125 for n in range(5)]) for true, said in pairs]


def test_confusion_counts_are_rows_of_shares(tmp_path: Path) -> None:
    first = predictions(tmp_path / "0", "sst", classes((0, 0), (0, 1), (0, 0), (4, 3)))
    second = predictions(tmp_path / "1", "sst", classes((0, 0), (0, 0), (0, 0), (4, 4)))
    one = read_predicted({0: first, 1: second}, "sst")
    assert one is not None and one.ids == list("abcd")
    counts = confusion.confusion(one, 5)
    expected = np.zeros((5, 5))
    expected[0, :2], expected[4, 3:] = (2.5, 0.5), (0.5, 0.5)
    np.testing.assert_array_equal(counts, expected)
    inputs = Inputs(predictions={"v": {"sst": {0: first, 1: second}}})
    figure, notes = spec(confusion, "v").plot(inputs)
    said = texts(figure)
    assert "0.83\n2.5" in said and said.count("0.50\n0.5") == 2
    f1 = np.mean([macro_f1(made, one.label) for made in one.prediction])
    head = f"label of v\naccuracy 0.750 [0.500, 1.000]\nmacro-F1 {f1:.3f}\nnever predicted: 2"
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
    figure, notes = spec(calibration, "v").plot(inputs)
    assert "label of v\nECE 0.000\n\u00d7 predicts one class only" in texts(figure)
    assert any("For these, a small ECE means nothing" in note for note in notes)
    figure, _ = spec(sts_scatter, "v").plot(inputs)
    assert "label of v\nr 0.000\n\u00d7 predicts one number" in texts(figure)
    figure, _ = spec(confusion, "v").plot(inputs)
    head = next(text for text in texts(figure) if text.startswith("label of v"))
    assert "\n\u00d7 1 of 2 seeds: one class only" in head
    files["sts"] = {0: predictions(tmp_path / "4", "sts", learned)}
    figure, _ = spec(sts_scatter, "v").plot(inputs)
    assert "label of v\nr 1.000" in texts(figure)


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
    figure, notes = spec(calibration, "v", bins=2).plot(inputs)
    np.testing.assert_allclose(points(figure), [(0.15, 0.5), (0.85, 1.0)], atol=1e-6)
    assert "label of v\nECE 0.250\n\u00d7 not above the floor" in texts(figure)
    assert "4 dev pairs in 2 bins" in notes[0] and "Wilson" in notes[1]


def test_scatter_shows_mean_predictions_and_the_seeds_own_r(tmp_path: Path) -> None:
    labels = (0.0, 2.5, 5.0)
    of_seeds = {}
    for seed, values in enumerate([(1.0, 2.0, 3.0), (3.0, 2.0, 5.0)]):
        rows = [(label, value, [value]) for label, value in zip(labels, values, strict=True)]
        of_seeds[seed] = predictions(tmp_path / str(seed), "sts", rows)
    inputs = Inputs(predictions={"v": {"sts": of_seeds}})
    figure, _ = spec(sts_scatter, "v").plot(inputs)
    drawn = figure.axes[0].lines[1]
    np.testing.assert_allclose(drawn.get_xydata(), [(0, 2), (2.5, 2), (5, 4)])
    r = np.corrcoef(labels, (3.0, 2.0, 5.0))[0, 1]
    head = f"label of v\nr {(1 + r) / 2:.3f} [{r:.3f}, 1.000]"
    assert any(text.startswith(head) for text in texts(figure))


@pytest.mark.parametrize(
    ("module", "task", "said"),
    [
        (confusion, "sst", "mean of 1 or 2 seeds. Classes"),
        (sts_scatter, "sts", "points: mean of 1 or 2 seeds. Line"),
        (calibration, "para", "Student t over seeds; where one alone has pairs, Wilson"),
    ],
)
def test_notes_say_so_if_variants_have_different_numbers_of_seeds(
    tmp_path: Path, module: Any, task: str, said: str
) -> None:
    rows: list[tuple[float, float, list[float]]]
    rows = classes((0, 0), (1, 0), (2, 1)) if task == "sst" else [(0, 0, [0.1]), (1, 1, [0.7])]
    both = {seed: predictions(tmp_path / str(seed), task, rows) for seed in (0, 1)}
    inputs = Inputs(predictions={"v": {task: both}, "w": {task: {1: both[1]}}})
    _, notes = spec(module, "v w").plot(inputs)
    assert any(said in note for note in notes), notes


def test_seeds_of_other_examples_are_refused(tmp_path: Path) -> None:
    first = predictions(tmp_path / "0", "sst", classes((0, 0), (1, 1)))
    other = predictions(tmp_path / "1", "sst", classes((0, 0), (1, 1)), names="ax")
    with pytest.raises(UserError, match=r"1: its dev examples of 'sst' are not those of .*0;"):
        read_predicted({0: first, 1: other}, "sst")
    inputs = Inputs(predictions={"v": {"sst": {0: first}}, "w": {"sst": {0: other}}})
    with pytest.raises(UserError, match="variants v, w predict different dev examples of 'sst'"):
        spec(confusion, "v w").plot(inputs)
    with pytest.raises(UserError, match="no labelled dev examples of task 'para'"):
        read_predicted({0: first}, "para")
    assert read_predicted({0: tmp_path / "none"}, "sst") is None


def test_numbers_of_seeds_in_words() -> None:
    assert [mean_of(of) for of in ([1, 1], [3], [2, 1], [3, 1, 2, 1])] == [
        *("1 seed", "mean of 3 seeds", "mean of 1 or 2 seeds", "mean of 1, 2 or 3 seeds")
    ]


def test_variants_scored_on_a_half_of_dev_stand_beside_those_of_all(tmp_path: Path) -> None:
    whole = predictions(tmp_path / "0", "sst", classes((0, 0), (1, 1), (2, 3), (3, 3)))
    half = predictions(tmp_path / "1", "sst", classes((1, 0), (3, 3)), names="bd")
    inputs = Inputs(predictions={"v": {"sst": {0: whole}}, "w": {"sst": {0: half}}})
    figure, notes = spec(confusion, "v w").plot(inputs)
    assert notes[0].startswith("n = 2 dev examples")
    heads = [axes.get_title().splitlines()[1] for axes in figure.axes]
    assert heads == ["accuracy 1.000", "accuracy 0.500"]


def test_ranking_is_by_the_papers_rule_then_by_tasks(tmp_path: Path) -> None:
    rows = [
        *(("low", seed, "dev", "overall", "plain", 0.4 + seed / 100) for seed in (0, 1)),
        *(("low", seed, "dev", "overall", "normalised", 0.9) for seed in (0, 1)),
        *(("high", seed, "dev", "overall", "plain", 0.5) for seed in (0, 1)),
        *(("high", seed, "test", "overall", "plain", 0.1) for seed in (0, 1)),
        *(("sts-only", seed, "dev", "sts", "pearson", 0.99) for seed in (0, 1)),
        *(("sst-only", 0, "dev", "sst", metric, 0.3) for metric in ("accuracy", "macro_f1")),
    ]
    path = scores(tmp_path / "s", "p", rows)
    inputs = Inputs(scores={"p": path}, facts={"rules": {"p": "plain"}})
    figure, notes = spec(ranking, "low sst-only sts-only high gone").plot(inputs)
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == [f"label of {n}" for n in ("high", "low", "sts-only", "sst-only")]
    overall, sst, sts = points(figure)[:2], points(figure)[2:3], points(figure)[3:]
    shown = {
        line.get_marker(): float(line.get_xdata()[0])
        for axes in figure.axes[1:3]
        for line in axes.lines
        if line.get_marker() in ("o", "x")
    }
    assert shown == {"x": 0.3, "o": 0.99}, "a cross is not above its floor"
    floor = next(line for line in figure.axes[1].lines if line.get_label() == "floor")
    assert list(floor.get_xdata()) == [0.25, 0.25]
    low, high = figure.axes[0].get_xlim()
    assert high - low >= 0.2 - 1e-9, "small differences stay small"
    assert any(note.startswith("\u00d7: not above the floor") for note in notes)
    np.testing.assert_allclose(overall, [(0.5, 0), (0.405, 1)])
    assert (sst, sts) == ([(0.3, 3)], [(0.99, 2)])
    assert notes[-1] == "Not run: label of sst-only (seed 1), label of gone."
    assert notes[0].startswith("Overall: plain mean of SST, Paraphrase and STS, on dev. Floor:")
    test, _ = spec(ranking, "high low", split="test").plot(inputs)
    assert points(test) == [(0.1, 0)]


def test_one_seed_has_an_interval_over_examples(tmp_path: Path) -> None:
    path = scores(tmp_path / "s", "p", [("v", 0, "dev", "sst", "accuracy", 0.5)])
    held = {"sst": rows_of(tmp_path / "e", "sst", [("a", "dev", "x"), ("b", "train", "y")])}
    inputs = Inputs(scores={"p": path}, rows=held, facts={"rules": {"p": "plain"}})
    figure, notes = spec(ranking, "v").plot(inputs)
    (bar,) = figure.axes[0].containers[0].lines[2]
    np.testing.assert_allclose(
        bar.get_segments()[0][:, 0], [0.5 - 1.96 * 0.05, 0.5 + 1.96 * 0.05], atol=1e-5
    )
    assert figure.axes[0].get_xlabel() == "SST\naccuracy\nn = 1"
    assert notes[-1] == "Points: 1 seed; bars: 95 % interval over examples, not over seeds."


def test_a_bar_that_is_far_longer_than_the_points_are_apart_is_cut(tmp_path: Path) -> None:
    steady = {"a": (0.50, 0.52), "b": (0.60, 0.61), "c": (0.70, 0.72)}
    rows = [
        (n, s, "dev", "sst", "accuracy", v) for n, of in steady.items() for s, v in enumerate(of)
    ]
    unsteady = [("d", seed, "dev", "sst", "accuracy", v) for seed, v in enumerate((0.35, 0.85))]

    def panel(rows: list[tuple[str, int, str, str, str, float]]) -> tuple[float, float, str]:
        inputs = Inputs(scores={"p": scores(tmp_path / "s", "p", rows)}, facts={})
        figure, notes = spec(ranking, " ".join(sorted({row[0] for row in rows}))).plot(inputs)
        return *figure.axes[0].get_xlim(), notes[-1]

    low, high, note = panel(rows)
    assert note.endswith("over seeds (Student t).")
    wide_low, wide_high, note = panel([*rows, *unsteady])
    assert note.endswith("Longer bars are cut at the edges of a panel.")
    assert max(low, wide_low) < 0.25 and min(high, wide_high) > 0.72, "all points and the floor"
    assert wide_low > 0.0 and wide_high < 1.0, "the bar ends beyond 3"


@pytest.mark.parametrize(("how", "count"), [("half", "\nn = 11"), ("both", "")])
def test_ranking_counts_the_examples_that_scores_are_on(
    tmp_path: Path, how: str, count: str
) -> None:
    path = scores(tmp_path / "s", "p", [("v", 0, "dev", "sst", "accuracy", 0.5)])
    rows = [(name, "dev", name) for name in ascii_lowercase]
    held = {"sst": rows_of(tmp_path / "e", "sst", [*rows, ("train", "train", "y")])}
    facts = {"rules": {"p": "plain"}, "selection_split": how}
    figure, _ = spec(ranking, "v").plot(Inputs(scores={"p": path}, rows=held, facts=facts))
    assert figure.axes[0].get_xlabel() == f"SST\naccuracy{count}"


def test_published_rows_meet_our_scores_of_their_split(tmp_path: Path) -> None:
    rows = [
        ("v", 0, "dev", "sst", "accuracy", 0.5),
        ("v", 1, "dev", "sst", "accuracy", 0.6),
        ("v", 0, "test", "sst", "accuracy", 0.9),
        ("v", 0, "dev", "cfimdb", "accuracy", 0.8),
        ("v", 0, "dev", "overall", "plain", 0.7),
        ("v", 0, "dev", "overall", "normalised", 0.1),
        ("w", 0, "dev", "sst", "accuracy", 0.5),
    ]
    figures = {"sst": 0.52, "para": 0.9, "sts": None, "other": 0.97, "overall": 0.75}
    row = {"paper": "p", "variant": "v", "split": "dev", "other_task": "", "figures": figures}
    more = [{**row, "variant": "gone"}, {**row, "variant": "w", "split": "test"}]
    facts = {"rules": {"p": "plain"}, "published": [row, *more]}
    inputs = Inputs(scores={"p": scores(tmp_path / "s", "p", rows)}, facts=facts)
    figure, notes = spec(published).plot(inputs)
    np.testing.assert_allclose(points(figure), [(0.52, 0.55), (0.97, 0.8), (0.75, 0.7)])
    heads = {"SST accuracy\nn = 1", "Other tasks: CFIMDB\nn = 1", "Overall score\nn = 1"}
    assert heads <= set(texts(figure))
    assert notes[0].startswith("3 numbers of the papers' tables.")
    assert notes[-1] == "Not shown: 1 row without our score; 1 row on test, without labels."


def test_a_published_number_meets_the_interval_of_a_single_run() -> None:
    values = [0.5, 0.6, 0.55]
    found = published.single_run(interval(values))
    half = t.ppf(0.975, 2) * np.std(values, ddof=1) * np.sqrt(1 + 1 / 3)
    assert (found.low, found.high) == pytest.approx((0.55 - half, 0.55 + half))
    alone = published.single_run(interval([0.5], error=0.1))
    assert alone == (0.5, None, None, 1, None), "one run says nothing of others"


def test_points_keep_their_papers_markers() -> None:
    def point(paper: str, **more: bool) -> scatter.Point:
        return scatter.Point(paper, "sst", *[Interval(0.5, None, None, 1)] * 2, **more)

    points = [point("p"), point("q", test=True), point("q", crossed=True)]
    figure = scatter.scatter(points, ["p", "q"], "x", "y")
    drawn = [line for line in figure.axes[0].lines if line.get_marker()]
    p, q = look(0), look(1)
    assert [line.get_marker() for line in drawn] == [p.marker, q.marker, q.marker, "x"]
    assert [line.get_markerfacecolor() for line in drawn[:3]] == ["none", q.color, "none"]
    assert {"not above its floor", "scored on test"} <= set(texts(figure))


def test_axes_of_scatter_plots_have_ticks_enough() -> None:
    ends = [Interval(value, None, None, 1) for value in (-0.05, 0.87)]
    points = [scatter.Point("p", "sts", one, one) for one in ends]
    figure = scatter.scatter(points, ["p"], "x", "y")
    low, high = figure.axes[0].get_xlim()
    assert sum(low < tick < high for tick in figure.axes[0].get_xticks()) == 5


def test_long_bars_do_not_squeeze_the_points_together() -> None:
    """As over two seeds, whose interval is 13 standard deviations wide."""
    ends = [Interval(0.4, 0.3, 0.5, 2), Interval(0.8, -2.0, 3.6, 2)]
    points = [scatter.Point("p", "sst", Interval(one.mean, None, None, 1), one) for one in ends]
    low, high = scatter.scatter(points, ["p"], "x", "y").axes[0].get_xlim()
    assert low <= 0.3 and 0.8 < high <= 1.0, "the short bar in whole, the long one cut"
    (alone,) = scatter.scatter(points[:1], ["p"], "x", "y").axes[:1]
    low, high = alone.get_ylim()
    assert low < 0.3 and 0.5 < high < 0.6, "there is no span that a bar could be too long for"


def test_dev_against_test(tmp_path: Path) -> None:
    rows = [
        ("v", 0, split, "sst", "accuracy", value) for split, value in (("dev", 0.5), ("test", 0.4))
    ]
    rows += [("w", 0, "dev", "sst", "accuracy", 0.9)]
    for split, value in (("dev", 0.8), ("test", 0.7)):
        rows += [("v", 0, split, "cfimdb", "accuracy", value)]
        rows += [("v", 0, split, "overall", rule, value + 0.1) for rule in ("plain", "normalised")]
    inputs = Inputs(
        scores={"p": scores(tmp_path / "s", "p", rows)}, facts={"rules": {"p": "plain"}}
    )
    figure, _ = spec(dev_test).plot(inputs)
    np.testing.assert_allclose(points(figure), [(0.5, 0.4), (0.8, 0.7), (0.9, 0.8)])
    heads = ["SST accuracy\nn = 1", "Other tasks: CFIMDB\nn = 1", "Overall score\nn = 1"]
    assert [axes.get_title() for axes in figure.axes if axes.axison] == heads


def rows_of(path: Path, task: str, rows: list[tuple[str, str, str]]) -> Path:
    """Write the rows of an example table of (id, split, sentence)."""
    write_examples([Example(i, split, text, None, 1.0) for i, split, text in rows], path)
    write_rows(path, path.with_suffix(".rows"))
    return path.with_suffix(".rows")


def test_leakage_shows_what_examples_that_occur_in_train_add(tmp_path: Path) -> None:
    made = predictions(tmp_path / "0", "sst", classes((0, 0), (1, 1), (2, 0), (3, 0)))
    rows = [("t", "train", "A  text"), ("a", "dev", "a Text"), ("b", "dev", "b"), ("c", "dev", "c")]
    rows += [("d", "dev", "d"), ("e", "test", "a text")]
    held = rows_of(tmp_path / "e", "sst", rows)
    inputs = Inputs(predictions={"v": {"sst": {0: made}}}, rows={"sst": held})
    figure, notes = spec(leakage, "v").plot(inputs)
    np.testing.assert_allclose(points(figure), [(0.5 - 1 / 3, 0)])
    assert "SST accuracy\n(1 of 4)" in texts(figure)
    assert "Test examples that also occur in train: SST 1." in notes
    clean = rows_of(tmp_path / "c", "sst", rows[1:5])
    figure, notes = spec(leakage, "v").plot(
        Inputs(predictions=inputs.predictions, rows={"sst": clean})
    )
    (said,) = texts(figure)
    wanted = "No dev example of SST occurs in train. So there is nothing to leave out."
    assert said.replace("\n", " ") == wanted
    assert notes == []


def test_a_long_bar_does_not_hide_what_leaked_examples_add(tmp_path: Path) -> None:
    """Differences are paired by seed: the intervals of the scores would be far longer."""
    rows = [("t", "train", "a"), *((name, "dev", name) for name in "abcdefgh")]
    held = rows_of(tmp_path / "e", "sst", rows)
    said = {"v": [(7, 6), (1, 0)], "w": [(8, 7), (0, 0)]}  # by seed: right, and right without "a"
    files: dict[str, dict[int, Path]] = {}
    for name, seeds in said.items():
        for seed, (whole, clean) in enumerate(seeds):
            right = [whole > clean, *(n < clean for n in range(7))]
            made = classes(*((1, 1 if one else 0) for one in right))
            path = predictions(tmp_path / f"{name}{seed}", "sst", made)
            files.setdefault(name, {})[seed] = path
    inputs = Inputs(predictions={n: {"sst": of} for n, of in files.items()}, rows={"sst": held})
    figure, notes = spec(leakage, "v w").plot(inputs)
    differences = {n: [whole / 8 - clean / 7 for whole, clean in of] for n, of in said.items()}
    np.testing.assert_allclose(
        points(figure), [(np.mean(of), row) for row, of in enumerate(differences.values())]
    )
    bars = figure.axes[0].containers[0].lines[2][0].get_segments()
    expected = interval(differences["v"])
    np.testing.assert_allclose(bars[0][:, 0], [expected.low, expected.high])
    low, high = figure.axes[0].get_xlim()
    assert high - low < 0.4, "the bar is longer"
    assert any(note.endswith("Longer bars are cut at the edges of a panel.") for note in notes)


def test_leakage_counts_the_half_that_judges_and_most_seeds(tmp_path: Path) -> None:
    """`selection_split: half` leaves predictions of half of dev, though the rows have all of it."""
    right = classes((0, 0), (1, 1), (1, 1), (3, 3), (3, 3), (2, 2), (4, 4), (4, 4))
    wrong = classes((0, 1), (1, 0), (1, 0), (3, 0), (3, 0), (2, 0), (4, 0), (4, 0))
    of_seeds = {
        seed: predictions(tmp_path / str(seed), "sst", rows)
        for seed, rows in enumerate((right, right, wrong))
    }
    rows = [("t", "train", "a"), ("u", "train", "z")]
    rows += [(name, "dev", name) for name in "abcdefghz"]
    held = rows_of(tmp_path / "e", "sst", rows)
    inputs = Inputs(predictions={"v": {"sst": of_seeds}}, rows={"sst": held})
    figure, notes = spec(leakage, "v").plot(inputs)
    assert "SST accuracy\n(1 of 8)" in texts(figure)
    assert not any(note.startswith("\u00d7") for note in notes), "most seeds are above the floor"
    two = {seed: of_seeds[seed] for seed in (1, 2)}
    _, notes = spec(leakage, "v").plot(Inputs(predictions={"v": {"sst": two}}, rows={"sst": held}))
    assert any(note.startswith("\u00d7") for note in notes), "half of the seeds are not most"


def test_leakage_of_all_examples_leaves_no_score(tmp_path: Path) -> None:
    made = predictions(tmp_path / "0", "sst", classes((0, 0), (1, 0)))
    rows = [("s", "train", "a"), ("t", "train", "b"), ("a", "dev", "a"), ("b", "dev", "b")]
    inputs = Inputs(
        predictions={"v": {"sst": {0: made}}},
        rows={"sst": rows_of(tmp_path / "e", "sst", rows)},
    )
    figure, _ = spec(leakage, "v").plot(inputs)
    assert points(figure) == [], "there is nothing that does not occur in train"
    assert "SST accuracy\n(2 of 2)" in texts(figure)
