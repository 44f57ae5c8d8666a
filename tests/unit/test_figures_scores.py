"""Figures of scores: their numbers, order, floors and words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest
from figure_files import Row, history
from figure_texts import drawn
from figure_values import last, points, scores, texts
from matplotlib.collections import PathCollection
from scipy.stats import t

from minbert.data.examples import Example, write_examples
from minbert.data.rows import write_rows
from minbert.evaluate.statistics import Interval, interval
from minbert.figures import published_reproduced as published
from minbert.figures.inputs import Inputs
from minbert.figures.score_parameters import front
from minbert.figures.scored import ends
from minbert.figures.style import look

TUNED = {"t": 0.3}
"""The floor of a variant that is scored on half of dev; the others have 0.2, on all of it."""


def test_ranking_is_by_the_papers_rule_then_by_tasks(tmp_path: Path) -> None:
    rows = [
        *(("low", seed, "dev", "overall", "plain", 0.4 + seed / 100) for seed in (0, 1)),
        *(("low", seed, "dev", "overall", "normalised", 0.9) for seed in (0, 1)),
        *(("high", seed, "dev", "overall", "plain", 0.5) for seed in (0, 1)),
        *(("high", seed, "test", "overall", "plain", 0.1) for seed in (0, 1)),
        *(("sts-only", seed, "dev", "sts", "pearson", 0.99) for seed in (0, 1)),
        *(("sst-only", 0, "dev", "sst", metric, 0.2) for metric in ("accuracy", "macro_f1")),
    ]
    path = scores(tmp_path / "s", rows)
    inputs = Inputs(scores={"p": path}, facts={"rules": {"p": "plain"}})
    figure, notes = drawn("ranking", inputs, "low sst-only sts-only high gone")
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == [n.upper() for n in ("high", "low", "sts-only", "sst-only")]
    overall, sst, sts = points(figure)[:2], points(figure)[2:3], points(figure)[3:]
    shown = {
        line.get_marker(): float(line.get_xdata()[0])
        for axes in figure.axes[1:3]
        for line in axes.lines
        if line.get_marker() in ("o", "x")
    }
    assert shown == {"x": 0.2, "o": 0.99}, "a cross is not above its floor"
    floor = next(line for line in figure.axes[1].lines if line.get_label() == "floor")
    assert list(floor.get_xdata()) == [0.2, 0.2]
    low, high = figure.axes[0].get_xlim()
    assert high - low >= 0.2 - 1e-9, "small differences stay small"
    assert any(note.startswith("\u00d7: not above the floor") for note in notes)
    np.testing.assert_allclose(overall, [(0.5, 0), (0.405, 1)])
    assert (sst, sts) == ([(0.2, 3)], [(0.99, 2)])
    assert notes[-1] == "Not run: SST-ONLY (seed 1), GONE."
    assert notes[0].startswith("Overall: plain mean of SST, Paraphrase and STS, on dev. Floor:")
    test, _ = drawn("ranking", inputs, "high low", split="test")
    assert points(test) == [(0.1, 0)]


def test_one_seed_has_an_interval_over_examples(tmp_path: Path) -> None:
    path = scores(tmp_path / "s", [("v", 0, "sst", 0.5)])
    held = {"sst": rows_of(tmp_path / "e", "sst", [("a", "dev", "x"), ("b", "train", "y")])}
    inputs = Inputs(scores={"p": path}, rows=held, facts={"rules": {"p": "plain"}})
    figure, notes = drawn("ranking", inputs, "v")
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
        inputs = Inputs(scores={"p": scores(tmp_path / "s", rows)}, facts={})
        figure, notes = drawn("ranking", inputs, " ".join(sorted({row[0] for row in rows})))
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
    path = scores(tmp_path / "s", [("v", 0, "sst", 0.5)])
    rows = [(name, "dev", name) for name in ascii_lowercase]
    held = {"sst": rows_of(tmp_path / "e", "sst", [*rows, ("train", "train", "y")])}
    facts = {"rules": {"p": "plain"}, "selection_split": how}
    figure, _ = drawn("ranking", Inputs(scores={"p": path}, rows=held, facts=facts), "v")
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
    inputs = Inputs(scores={"p": scores(tmp_path / "s", rows)}, facts=facts)
    figure, notes = drawn("published-reproduced", inputs)
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
    assert alone == Interval(0.5, None, None, 1), "one run says nothing of others"


def test_points_keep_their_papers_markers() -> None:
    one = Interval(0.5)
    points = [published.Point("p", "sst", one, one), published.Point("q", "sst", one, one, True)]
    points.append(published.Point("q", "sst", one, Interval(0.5, learned=False)))
    figure = published.scatter(points, ["p", "q"], "x", "y")
    shown = [line for line in figure.axes[0].lines if line.get_marker() != "None"]
    p, q = look(0), look(1)
    assert [line.get_marker() for line in shown] == [p.marker, q.marker, q.marker, "x"]
    assert [line.get_markerfacecolor() for line in shown[:3]] == ["none", q.color, "none"]
    assert {"not above its floor", "scored on test"} <= set(texts(figure))


def test_long_bars_do_not_squeeze_the_points_together() -> None:
    """As over two seeds, whose interval is 13 standard deviations wide."""
    short, long = Interval(0.4, 0.3, 0.5, 2), Interval(0.8, -2.0, 3.6, 2)
    low, high = ends([short, long])
    assert low <= 0.3 and 0.8 < high <= 1.0, "the short bar in whole, the long one cut"
    low, high = ends([short])
    assert low < 0.3 and 0.5 < high < 0.6, "there is no span that a bar could be too long for"


def test_dev_against_test(tmp_path: Path) -> None:
    rows = [
        ("v", 0, split, "sst", "accuracy", value) for split, value in (("dev", 0.5), ("test", 0.4))
    ]
    rows += [("w", 0, "dev", "sst", "accuracy", 0.9)]
    for split, value in (("dev", 0.8), ("test", 0.7)):
        rows += [("v", 0, split, "cfimdb", "accuracy", value)]
        rows += [("v", 0, split, "overall", rule, value + 0.1) for rule in ("plain", "normalised")]
    inputs = Inputs(scores={"p": scores(tmp_path / "s", rows)}, facts={"rules": {"p": "plain"}})
    figure, _ = drawn("published-reproduced", inputs, against="dev")
    np.testing.assert_allclose(points(figure), [(0.5, 0.4), (0.8, 0.7), (0.9, 0.8)])
    heads = ["SST accuracy\nn = 1", "Other tasks: CFIMDB\nn = 1", "Overall score\nn = 1"]
    assert [axes.get_title() for axes in figure.axes if axes.axison] == heads


def rows_of(path: Path, task: str, rows: list[tuple[str, str, str]]) -> Path:
    """Write the rows of an example table of (id, split, sentence)."""
    write_examples([Example(i, split, text, None, 1.0) for i, split, text in rows], path)
    write_rows(path, path.with_suffix(".rows"))
    return path.with_suffix(".rows")


def test_the_front_has_what_nothing_smaller_beats() -> None:
    sizes = {"a": 5, "b": 1, "c": 5, "d": 9, "e": 9, "f": 3}
    means = {"a": 0.6, "b": 0.5, "c": 0.7, "d": 0.7, "e": 0.65, "f": 0.4}
    assert front(sizes, means) == ["b", "c"]
    assert front(sizes, {"d": 0.1, "e": 0.1}) == ["d"]


def test_the_spread_is_of_the_last_epochs(tmp_path: Path) -> None:
    of_seeds = {}
    for seed, values in enumerate([(0.9, 0.1, 0.3), (0.1, 0.5, 0.3)]):
        rows = [(2 * n, "dev", "sst", "accuracy", v) for n, v in enumerate(values, start=1)]
        of_seeds[seed] = history(tmp_path / str(seed), rows)
    facts = {"rules": {"p": "plain"}}
    low = Inputs(histories=last(a=of_seeds), facts=facts, scores={"p": tmp_path / "s"})
    inputs = replace(low, scores={"p": tmp_path / "none"})
    scores(tmp_path / "s", [("a", 0, "sst", 0.1)])
    figure, notes = drawn("stability", low, "a", last=2)
    assert {made.lines[0].get_marker() for made in figure.axes[0].containers} == {"x"}
    assert notes[-1].startswith("\u00d7: not above the floor")
    figure, notes = drawn("stability", inputs, "a", last=2)
    spread, best = figure.axes[0].containers
    assert spread.lines[0].get_xdata() == pytest.approx([0.3])
    np.testing.assert_allclose(spread.lines[2][0].get_segments()[0][:, 0], [0.2, 0.4])
    assert best.lines[0].get_xdata() == pytest.approx([0.7])
    assert len(notes) == 1 and "mean of 2 seeds" in notes[0]
    other = history(tmp_path / "other", [(2, "dev", "sts", "pearson", 0.5)])
    both = replace(inputs, histories=last(a=of_seeds, b={0: other}))
    assert (
        "Rows have only the tasks of a variant's last stage." in drawn("stability", both, "a b")[1]
    )
    left, right = figure.axes[0].get_xlim()
    assert right - left >= 0.2
    figure, notes = drawn("stability", inputs, "a", last=4)
    (best,) = figure.axes[0].containers
    assert best.get_label() == "best epoch", "too short a run looks steady"
    assert "Too few epochs for a spread: A (3)." in notes


def test_scores_that_stay_the_same_have_no_spread(tmp_path: Path) -> None:
    """The mean of these is not the mean of their smallest, by a rounding."""
    of_seeds = {
        seed: history(tmp_path / str(seed), [(n, "dev", "sst", "accuracy", v) for n in range(1, 6)])
        for seed, v in enumerate((0.15, 1 / 6))
    }
    facts = {"rules": {"p": "plain"}}
    inputs = Inputs(histories=last(a=of_seeds), facts=facts, scores={"p": tmp_path / "none"})
    figure, _ = drawn("stability", inputs, "a")
    spread, _ = figure.axes[0].containers
    segment = spread.lines[2][0].get_segments()[0][:, 0]
    assert segment[0] == pytest.approx(segment[1]) == pytest.approx((0.15 + 1 / 6) / 2)


def test_a_sweep_has_a_line_for_each_method_by_value(tmp_path: Path) -> None:
    rows = [("a", 0, "sst", 0.3), ("b", 0, "sst", 0.1), ("c", 0, "sst", 0.5), ("c", 1, "sst", 0.7)]
    of_lines = {"with": {"c": 2, "a": 0, "d": 3}, "without": {"a": 0, "b": 2}}
    inputs = Inputs(scores={"p": scores(tmp_path / "s", rows)}, facts={"rules": {"p": ""}})
    figure, notes = drawn("sweep", inputs, "a b c d", x="Layers", lines=of_lines)
    (axes,) = figure.axes
    shown = [line.get_xydata() for line in axes.lines if len(line.get_xydata()) == 2]
    shift = 0.012 * 3 / 2
    np.testing.assert_allclose(shown[0], [[-shift, 0.3], [2 - shift, 0.6]])
    np.testing.assert_allclose(shown[1], [[shift, 0.3], [2 + shift, 0.1]])
    assert axes.get_xticks().tolist() == [0, 2, 3] and axes.get_xlabel() == "Layers"
    assert -0.15 < axes.get_ylim()[0] < 0.1 and 0.7 < axes.get_ylim()[1] < 1, "a bar ends at 1.9"
    (seeds,) = (of for of in axes.collections if isinstance(of, PathCollection))
    aside = 2 - shift - 0.006 * 3
    np.testing.assert_allclose(seeds.get_offsets(), [[aside, 0.5], [aside, 0.7]])
    assert any("Small and hollow: each seed." in note for note in notes)
    assert any(note.endswith("Longer bars are cut at the edges of a panel.") for note in notes)
    crossed = [line for line in axes.lines if line.get_marker() == "x"]
    assert [line.get_xydata()[0].tolist() for line in crossed] == [[2 + shift, 0.1]]
    assert "Not run: A (seed 1), B (seed 1), D." in notes
    _, others = drawn("sweep", inputs, "a c", x="", lines={"with": {"a": 0, "c": 2}})
    assert any("not above" in n for n in notes) and not any("not above" in n for n in others)


def test_values_of_a_sweep_that_are_far_apart_keep_their_order(tmp_path: Path) -> None:
    values = dict(zip("abcd", (1, 10, 100, 1000), strict=True))
    rows = [(name, 0, "sst", 0.5) for name in values]
    inputs = Inputs(scores={"p": scores(tmp_path / "s", rows)}, facts={"rules": {"p": ""}})
    of_lines = {"with": values, "without": values}
    figure, _ = drawn("sweep", inputs, "a b c d", x="Steps", lines=of_lines)
    (axes,) = (axes for axes in figure.axes if axes.axison)
    of_with, of_without = (line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 4)
    assert axes.get_xscale() == "log"
    np.testing.assert_allclose(of_with, np.array([1, 10, 100, 1000]) / 1000 ** (0.012 / 2))
    np.testing.assert_allclose(of_without, np.array([1, 10, 100, 1000]) * 1000 ** (0.012 / 2))
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert labels == ["1", "10", "100", "1000"] and not len(axes.get_xticks(minor=True))


@pytest.mark.parametrize(
    ("variants", "expected"), [("a b t", [0.2, 0.2, 0.3]), ("a b", [0.2]), ("t", [0.3])]
)
def test_each_row_of_a_ranking_has_its_own_floor(
    variants: str, expected: list[float], tmp_path: Path
) -> None:
    rows = [(name, 0, "sst", value) for name, value in (("a", 0.6), ("b", 0.5), ("t", 0.4))]
    inputs = Inputs(scores={"p": scores(tmp_path / "s", rows, TUNED)}, facts={"rules": {"p": ""}})
    figure, _ = drawn("ranking", inputs, variants)
    axes = figure.axes[0]
    whole = [line.get_xdata()[0] for line in axes.lines if line.get_label() == "floor"]
    parts = [of for of in axes.collections if of.get_label() == "floor"]
    segments = [segment.tolist() for of in parts for segment in of.get_segments()]
    assert whole + [start[0] for start, _ in segments] == expected
    if segments:
        assert [(start[1], end[1]) for start, end in segments] == [
            (-0.5, 0.5),
            (0.5, 1.5),
            (1.5, 2.5),
        ]


def test_attention_is_the_mean_of_seeds_with_the_last_layer_on_top(tmp_path: Path) -> None:
    of_seeds = {}
    for seed, first in enumerate((0.2, 0.4)):
        rows: list[Row] = []
        for layer, place, share in (
            (1, "attention", first),
            (1, "feed_forward", 0.5),
            (2, "attention", 1),
        ):
            for number, value in enumerate((share, 1 - share)):
                metric = f"fusion_attention/{layer}/{place}/{number}"
                rows.append((2, "dev", "sts", metric, value))
        of_seeds[seed] = history(tmp_path / str(seed), rows)
    stage = {"name": "s", "fused": ["adapter/lmrd", "x/mine"]}
    stage["spec"] = {"tasks": {"sts": {"trained": True}, "sst": {"trained": False}}}
    inputs = Inputs(histories={"a": {"s": of_seeds}}, facts={"stages": {"a": [stage]}})
    figure, notes = drawn("fusion-attention", inputs, "a")
    (axes,) = figure.axes
    rows = ["2 attention", "1 feed-forward", "1 attention"]
    assert [t.get_text() for t in axes.get_yticklabels()] == rows
    assert [t.get_text() for t in axes.get_xticklabels()] == ["LMRD", "mine"]
    shown = [text.get_text() for text in axes.texts]
    assert shown == ["1.00", "0.00", "0.50", "0.50", "0.30", "0.70"]
    assert "mean of 2 seeds" in notes[0] and "Uniform attention: 0.50" in notes[0]
    files = {"a": {"s": of_seeds}, "b": {"s": {1: of_seeds[1]}}}
    two = Inputs(histories=files, facts={"stages": {name: [stage] for name in "ab"}})
    assert "mean of 1 or 2 seeds" in drawn("fusion-attention", two, "a b")[1][0]
    bare = history(tmp_path / "bare", [(2, "dev", "sts", "pearson", 0.5)])
    inputs = Inputs(histories={"a": {"s": {0: bare}}}, facts=inputs.facts)
    figure, notes = drawn("fusion-attention", inputs, "a")
    assert notes == ["STS: its runs recorded no attention."]
