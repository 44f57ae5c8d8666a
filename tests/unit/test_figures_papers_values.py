"""What the papers' own figures show: their numbers, cells and words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from figure_texts import STAMP
from figure_values import Row, history, lines, scores, spec
from matplotlib.collections import PathCollection

from minbert.figures import (
    dev_curves,
    epoch_tables,
    fusion_attention,
    gradient_cosines,
    pareto,
    ranking,
    run_curves,
    run_pairs,
    stability,
    sweep,
)
from minbert.figures.inputs import Inputs
from minbert.figures.pareto import front
from minbert.figures.style import look


def test_cosines_by_pair_step_and_group(tmp_path: Path) -> None:
    rows: list[Row] = [
        (step, "train", "sst-sts", metric, value)
        for metric, values in (
            ("gradient_cosine", (-0.2, 0.4)),
            ("gradient_cosine/embeddings", (0.1, 0.3)),
            ("gradient_cosine/layers_1-3", (-0.5, -0.1)),
        )
        for step, value in zip((1, 2), values, strict=True)
    ]
    rows += [(1, "train", "sst", "sum_cosine", 0.0), (1, "train", "sst", "update_cosine", 0.5)]
    rows += [(2, "train", "overall", "loss", 1.0)]
    plain = history(tmp_path / "plain", [(2, "train", "overall", "loss", 1.0)])
    made = history(tmp_path / "made", rows)
    inputs = Inputs(histories={"a": {0: made}, "b": {0: plain}})
    figure, notes = spec(gradient_cosines, "a b", smooth=0).plot(inputs)
    pair, step, groups = (axes for axes in figure.axes if axes.has_data())
    color = look(0).color
    assert lines(pair, color) == [[-0.2, 0.4]] and pair.get_title() == "SST and STS"
    assert lines(step, color) == [[0.5], [0.0]] and step.get_title() == "SST and the step"
    np.testing.assert_allclose(lines(groups, color)[0], [0.2, -0.3])
    assert [t.get_text() for t in groups.get_xticklabels()] == ["E", "1-3"]
    long = [(step, "train", "sst-sts", "gradient_cosine", 0.1) for step in range(1, 9)]
    smoothed = Inputs(histories={"a": {0: history(tmp_path / "long", long)}})
    _, faint = spec(gradient_cosines, "a", smooth=0.5).plot(smoothed)
    assert "running mean over 2 epochs (faint in the first row: as logged)" in faint[1]
    assert "No gradient surgery, so no cosines: B." in notes


def test_a_long_bar_does_not_hide_small_cosines(tmp_path: Path) -> None:
    of_seeds = {}
    for seed, value in enumerate((-0.02, 0.04)):
        metrics = ("gradient_cosine", "gradient_cosine/embeddings")
        rows: list[Row] = [(1, "train", "sst-sts", metric, value) for metric in metrics]
        of_seeds[seed] = history(tmp_path / str(seed), rows)
    figure, notes = spec(gradient_cosines, "a").plot(Inputs(histories={"a": of_seeds}))
    low, high = figure.axes[-1].get_ylim()
    assert -0.15 < low < 0 < high < 0.15, "the bar is from -0.37 to 0.39"
    assert notes[-1].endswith(
        "Bars: 95 % interval over seeds. Longer bars are cut at the edges of a panel."
    )


def test_the_front_has_what_nothing_smaller_beats() -> None:
    sizes = {"a": 5, "b": 1, "c": 5, "d": 9, "e": 9, "f": 3}
    means = {"a": 0.6, "b": 0.5, "c": 0.7, "d": 0.7, "e": 0.65, "f": 0.4}
    assert front(sizes, means) == ["b", "c"]
    assert front(sizes, {"d": 0.1, "e": 0.1}) == ["d"]


def test_a_long_bar_does_not_hide_scores_against_parameters(tmp_path: Path) -> None:
    rows = [("a", 0, "sst", 0.4), ("a", 1, "sst", 0.6), ("b", 0, "sst", 0.55)]
    facts = {"rules": {"p": ""}, "parameters": {"a": {"here": 2 * 10**6}, "b": {"here": 10**6}}}
    inputs = Inputs(scores={"p": scores(tmp_path / "s", rows)}, facts=facts)
    figure, notes = spec(pareto, "a b").plot(inputs)
    (axes,) = (axes for axes in figure.axes if axes.axison)
    low, high = axes.get_ylim()
    assert 0.3 < low < 0.5 and 0.55 < high < 0.75, "the bar is from -0.8 to 1.8"
    assert any(note.endswith("Longer bars are cut at the edges of a panel.") for note in notes)


def test_the_spread_is_of_the_last_epochs(tmp_path: Path) -> None:
    of_seeds = {}
    for seed, values in enumerate([(0.9, 0.1, 0.3), (0.1, 0.5, 0.3)]):
        rows = [(2 * n, "dev", "sst", "accuracy", v) for n, v in enumerate(values, start=1)]
        of_seeds[seed] = history(tmp_path / str(seed), rows)
    inputs = Inputs(histories={"a": of_seeds}, facts={"rules": {"p": "plain"}})
    low = Inputs(inputs.histories, facts=inputs.facts, scores={"p": tmp_path / "s"})
    scores(tmp_path / "s", [("a", 0, "sst", 0.1)])
    figure, notes = spec(stability, "a", last=2).plot(low)
    assert {made.lines[0].get_marker() for made in figure.axes[0].containers} == {"x"}
    assert notes[-1].startswith("\u00d7: not above the floor")
    figure, notes = spec(stability, "a", last=2).plot(inputs)
    spread, best = figure.axes[0].containers
    assert spread.lines[0].get_xdata() == pytest.approx([0.3])
    np.testing.assert_allclose(spread.lines[2][0].get_segments()[0][:, 0], [0.2, 0.4])
    assert best.lines[0].get_xdata() == pytest.approx([0.7])
    assert len(notes) == 1 and "mean of 2 seeds" in notes[0]
    other = history(tmp_path / "other", [(2, "dev", "sts", "pearson", 0.5)])
    both = Inputs(histories={"a": of_seeds, "b": {0: other}}, facts=inputs.facts)
    assert (
        "Rows have only the tasks of a variant's last stage."
        in spec(stability, "a b").plot(both)[1]
    )
    left, right = figure.axes[0].get_xlim()
    assert right - left >= 0.2
    figure, notes = spec(stability, "a", last=4).plot(inputs)
    (best,) = figure.axes[0].containers
    assert best.get_label() == "best epoch", "too short a run looks steady"
    assert "Too few epochs for a spread: A (3)." in notes


def test_scores_that_stay_the_same_have_no_spread(tmp_path: Path) -> None:
    """The mean of these is not the mean of their smallest, by a rounding."""
    of_seeds = {
        seed: history(tmp_path / str(seed), [(n, "dev", "sst", "accuracy", v) for n in range(1, 6)])
        for seed, v in enumerate((0.15, 1 / 6))
    }
    inputs = Inputs(histories={"a": of_seeds}, facts={"rules": {"p": "plain"}})
    figure, _ = spec(stability, "a").plot(inputs)
    spread, _ = figure.axes[0].containers
    segment = spread.lines[2][0].get_segments()[0][:, 0]
    assert segment[0] == pytest.approx(segment[1]) == pytest.approx((0.15 + 1 / 6) / 2)


def test_a_printed_table_stands_beside_ours(tmp_path: Path) -> None:
    rows: list[Row] = [(2, "train", "sst", "loss", 2.0), (2, "dev", "sst", "accuracy", 0.25)]
    rows += [(1, "train", "sst", "loss", 1.0), (3, "train", "sst", "loss", 0.5)]
    rows += [(4, "train", "sst", "loss", 0.7)]
    ours = history(tmp_path / "h", rows)
    table = {"title": "Table 3", "variant": "a", "stage": "s", "task": "sst"}
    table |= {"loss": [1.2, 0.9, 0.6], "dev": [0.5, 0.6, 0.7]}
    scored = scores(tmp_path / "s", [("a", 0, "sst", 0.2)])
    inputs = Inputs(stage_histories={"a": {"s": {0: ours}}}, scores={"p": scored})
    figure, notes = spec(epoch_tables, "a", tables=[table]).plot(inputs)
    _, above, below = figure.axes
    np.testing.assert_allclose(lines(above, "0.45"), [[1, 0.75, 0.5]])
    assert lines(below, "0.45") == [[0.5, 0.6, 0.7]]
    np.testing.assert_allclose(lines(above, epoch_tables.TRAIN.color), [[1, 0.4]])
    assert lines(below, epoch_tables.DEV.color) == [[0.25]]
    assert lines(below, "0.35") == [[0.2, 0.2]], "the floor"
    assert "Ours ran for 2 of the paper's 3 epochs (Table 3)." in notes
    assert "Ours is not above the floor at the 5 % level: Table 3." in notes
    assert "Scores: SST accuracy." in notes and "Our runs recorded no scores on train." in notes


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
    inputs = Inputs(stage_histories={"a": {"s": of_seeds}}, facts={"stages": {"a": [stage]}})
    figure, notes = spec(fusion_attention, "a").plot(inputs)
    (axes,) = figure.axes
    rows = ["2 attention", "1 feed-forward", "1 attention"]
    assert [t.get_text() for t in axes.get_yticklabels()] == rows
    assert [t.get_text() for t in axes.get_xticklabels()] == ["LMRD", "mine"]
    shown = [text.get_text() for text in axes.texts]
    assert shown == ["1.00", "0.00", "0.50", "0.50", "0.30", "0.70"]
    assert "mean of 2 seeds" in notes[0] and "Uniform attention: 0.50" in notes[0]
    files = {"a": {"s": of_seeds}, "b": {"s": {1: of_seeds[1]}}}
    two = Inputs(stage_histories=files, facts={"stages": {name: [stage] for name in "ab"}})
    assert "mean of 1 or 2 seeds" in spec(fusion_attention, "a b").plot(two)[1][0]
    bare = history(tmp_path / "bare", [(2, "dev", "sts", "pearson", 0.5)])
    inputs = Inputs(stage_histories={"a": {"s": {0: bare}}}, facts=inputs.facts)
    figure, notes = spec(fusion_attention, "a").plot(inputs)
    assert notes == ["STS: its runs recorded no attention."]


@pytest.mark.parametrize(("reduction", "expected"), [("mean", 1.25), ("sum", 2.5)])
def test_dev_losses_add_up_as_those_of_a_step(
    reduction: str, expected: float, tmp_path: Path
) -> None:
    rows: list[Row] = [(2, "train", "overall", "loss", 3.0), (2, "dev", "sst", "loss", 0.5)]
    rows += [(2, "dev", "sts", "loss", 4.0), (2, "dev", "sst", "accuracy", 0.4)]
    rows += [(2, "train", "sst", "accuracy", 0.6)]
    tasks = {
        "sst": {"trained": True, "weight": 1.0},
        "sts": {"trained": True, "weight": 0.5},
        "para": {"trained": False, "weight": 1.0},
    }
    stage = {"spec": {"tasks": tasks, "reduction": reduction}}
    facts = {"rules": {"p": "plain"}, "stages": {"a": [stage]}}
    scored = scores(tmp_path / "s", [("a", 0, "sst", 0.2), ("a", 0, "para", 0.1)])
    made = history(tmp_path / "h", rows)
    inputs = Inputs(histories={"a": {0: made}}, scores={"p": scored}, facts=facts)
    figure, notes = spec(run_curves, "a").plot(inputs)
    _, loss, score = figure.axes
    assert lines(loss, run_curves.DEV.color) == [[expected]]
    assert lines(loss, run_curves.TRAIN.color) == [[3.0]]
    assert lines(score, run_curves.DEV.color) == [[0.4]]
    assert lines(score, run_curves.TRAIN.color) == [[0.6]]
    assert lines(score, "0.35") == [[0.2, 0.2]], "the floor of the data at hand"
    assert score.get_title() == "SST accuracy"
    assert "Not above the floor at the 5 % level: A (SST)." in notes, "para is not shown"
    assert not any(line.get_clip_on() for line in score.lines if line.get_marker() == "o")
    assert score.get_xlim()[0] > 0, "no score before the first epoch has ended"
    names = "abcde"
    many = {"rules": facts["rules"], "stages": {name: [stage] for name in names}}
    figure, _ = spec(run_curves, " ".join(names)).plot(
        Inputs(histories={name: {0: made} for name in names}, scores={"p": scored}, facts=many)
    )
    labels = [axes.get_xlabel() for axes in figure.axes[1:11]]
    assert labels == [""] * 4 + ["Epoch"] * 6, "three runs in a row: below the last of each column"


def test_points_of_one_size_stand_at_that_size(tmp_path: Path) -> None:
    rows = [(name, 0, "sst", 0.3 + n / 10) for n, name in enumerate("abcd")]
    sizes = {"a": 20, "b": 20, "c": 20, "d": 21}
    counted = {name: {"here": millions * 10**6} for name, millions in sizes.items()}
    facts = {"rules": {"p": ""}, "parameters": counted}
    inputs = Inputs(scores={"p": scores(tmp_path / "s", rows)}, facts=facts)
    figure, _ = spec(pareto, "a b c d").plot(inputs)
    (axes,) = (axes for axes in figure.axes if axes.axison)
    drawn = [made.lines[0].get_xydata()[0].tolist() for made in axes.containers]
    np.testing.assert_allclose(drawn, [(20, 0.3), (20, 0.4), (20, 0.5), (21, 0.6)])


def test_a_sweep_has_a_line_for_each_method_by_value(tmp_path: Path) -> None:
    rows = [("a", 0, "sst", 0.3), ("b", 0, "sst", 0.1), ("c", 0, "sst", 0.5), ("c", 1, "sst", 0.7)]
    made = sweep.Spec(
        title="T",
        stamp=STAMP,
        variants={"a": "A", "b": "B", "c": "C", "d": "D", "e": "E"},
        x="Layers",
        lines={"with": {"c": 2, "a": 0, "d": 3}, "without": {"a": 0, "b": 2}},
    )
    inputs = Inputs(scores={"p": scores(tmp_path / "s.parquet", rows)}, facts={"rules": {"p": ""}})
    figure, notes = made.plot(inputs)
    (axes,) = (axes for axes in figure.axes if axes.axison)
    drawn = [line.get_xydata() for line in axes.lines if len(line.get_xydata()) == 2]
    shift = 0.012 * 3 / 2
    np.testing.assert_allclose(drawn[0], [[-shift, 0.3], [2 - shift, 0.6]])
    np.testing.assert_allclose(drawn[1], [[shift, 0.3], [2 + shift, 0.1]])
    assert axes.get_xticks().tolist() == [0, 2, 3] and axes.get_xlabel() == "Layers"
    assert -0.15 < axes.get_ylim()[0] < 0.1 and 0.7 < axes.get_ylim()[1] < 1, "a bar ends at 1.9"
    (seeds,) = (of for of in axes.collections if isinstance(of, PathCollection))
    aside = 2 - shift - 0.006 * 3
    np.testing.assert_allclose(seeds.get_offsets(), [[aside, 0.5], [aside, 0.7]])
    assert any("Small and hollow: each seed." in note for note in notes)
    assert any(note.endswith("Longer bars are cut at the edges of a panel.") for note in notes)
    crossed = [line for line in axes.lines if line.get_marker() == "x"]
    assert [line.get_xydata()[0].tolist() for line in crossed] == [[2 + shift, 0.1]]
    assert "Not run: A (seed 1), D, B (seed 1)." in notes, "E is in no line"
    _, others = made.model_copy(update={"lines": {"with": {"a": 0, "c": 2}}}).plot(inputs)
    assert any("not above" in n for n in notes) and not any("not above" in n for n in others)


def test_values_of_a_sweep_that_are_far_apart_keep_their_order(tmp_path: Path) -> None:
    values = dict(zip("abcd", (1, 10, 100, 1000), strict=True))
    rows = [(name, 0, "sst", 0.5) for name in values]
    made = spec(sweep, "a b c d", x="Steps", lines={"with": values, "without": values})
    inputs = Inputs(scores={"p": scores(tmp_path / "s", rows)}, facts={"rules": {"p": ""}})
    figure, _ = made.plot(inputs)
    (axes,) = (axes for axes in figure.axes if axes.axison)
    of_with, of_without = (line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 4)
    assert axes.get_xscale() == "log"
    np.testing.assert_allclose(of_with, np.array([1, 10, 100, 1000]) / 1000 ** (0.012 / 2))
    np.testing.assert_allclose(of_without, np.array([1, 10, 100, 1000]) * 1000 ** (0.012 / 2))
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert labels == ["1", "10", "100", "1000"] and not len(axes.get_xticks(minor=True))


def test_task_curves_tell_dev_train_and_floor_apart(tmp_path: Path) -> None:
    of = (("dev", 0.4), ("train", 0.6))
    rows: list[Row] = [(2 * n, split, "sst", "accuracy", v) for n in (1, 2) for split, v in of]
    inputs = Inputs(
        histories={name: {0: history(tmp_path / name, rows)} for name in "abc"},
        scores={"p": scores(tmp_path / "s", [("c", 0, "sst", 0.2)])},
        facts={"rules": {"p": "plain"}},
    )
    figure, notes = spec(dev_curves, "a b c").plot(inputs)
    _, axes = figure.axes
    dev, train = (line for line in axes.lines if line.get_color() == look(2).color)
    assert dev.is_dashed() and not train.is_dashed()
    assert dev.get_linewidth() > 1.5 * train.get_linewidth()
    assert lines(axes, "0.35") == [[0.2, 0.2]]
    assert 0.9 < axes.get_xlim()[0] < 1, "epoch 1 is the first with scores"
    seeds = {n: history(tmp_path / f"d{n}", [(*row[:4], n / 10) for row in rows]) for n in (1, 2)}
    banded, said = spec(dev_curves, "d").plot(replace(inputs, histories={"d": seeds}))
    assert len(banded.axes[1].collections) == 1, "a band for dev, none for train"
    assert said[0].startswith("Dev scores after each epoch; thin, without bands: on the training")
    assert "Not above the floor at the 5 % level: C (SST)." in notes


TUNED = {"t": 0.3}
"""The floor of a variant that is scored on half of dev; the others have 0.2, on all of it."""


@pytest.mark.parametrize(
    ("variants", "expected"), [("a b t", [0.2, 0.2, 0.3]), ("a b", [0.2]), ("t", [0.3])]
)
def test_each_row_of_a_ranking_has_its_own_floor(
    variants: str, expected: list[float], tmp_path: Path
) -> None:
    rows = [(name, 0, "sst", value) for name, value in (("a", 0.6), ("b", 0.5), ("t", 0.4))]
    inputs = Inputs(scores={"p": scores(tmp_path / "s", rows, TUNED)}, facts={"rules": {"p": ""}})
    figure, _ = spec(ranking, variants).plot(inputs)
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


def test_a_sweep_has_the_floors_of_its_own_variants(tmp_path: Path) -> None:
    rows = [(name, 0, "sst", value) for name, value in (("a", 0.6), ("b", 0.5), ("t", 0.4))]
    inputs = Inputs(scores={"p": scores(tmp_path / "s", rows, TUNED)}, facts={"rules": {"p": ""}})
    for values, expected in (({"a": 0, "b": 1}, [0.2]), ({"a": 0, "t": 1}, [0.2, 0.3])):
        figure, notes = spec(sweep, "a b t", x="Layers", lines={"one": values}).plot(inputs)
        (axes,) = (axes for axes in figure.axes if axes.axison)
        assert lines(axes, "0.35") == [[at, at] for at in expected]
        assert any(n.startswith("Several floors:") for n in notes) == (len(expected) > 1)


@pytest.mark.parametrize("kind", ["dev_curves", "run_curves", "run_pairs", "epoch_tables"])
def test_curves_have_the_floor_of_their_own_variant(kind: str, tmp_path: Path) -> None:
    """The last row of the paper is scored on half of dev, as tuned rows are."""
    rows: list[Row] = [(2, "dev", "sst", "accuracy", 0.5), (2, "dev", "sst", "loss", 1.0)]
    made = {name: {0: history(tmp_path / name, rows)} for name in "at"}
    stage = {"spec": {"tasks": {"sst": {"trained": True, "weight": 1.0}}, "reduction": "sum"}}
    inputs = Inputs(
        histories=made,
        stage_histories={name: {"s": of} for name, of in made.items()},
        scores={"p": scores(tmp_path / "s", [(n, 0, "sst", 0.5) for n in "at"], TUNED)},
        facts={"rules": {"p": "plain"}, "stages": {name: [stage] for name in "at"}},
    )
    table = {"stage": "s", "task": "sst", "dev": [0.5]}
    module, options = {
        "dev_curves": (dev_curves, {}),
        "run_curves": (run_curves, {}),
        "run_pairs": (run_pairs, {"pairs": [("a", "t")]}),
        "epoch_tables": (epoch_tables, {}),
    }[kind]
    for variants, floors in (("a t", [0.2, 0.3]), ("a", [0.2])):
        more = dict(options)
        if kind == "epoch_tables":
            more["tables"] = [table | {"title": n, "variant": n} for n in variants.split()]
        if kind == "run_pairs":
            more["pairs"] = [tuple(variants.split() * 2)[:2]]
        figure, notes = spec(module, variants, **more).plot(inputs)
        found = [line[0] for axes in figure.axes for line in lines(axes, "0.35")]
        assert sorted(set(found)) == floors
        assert len(found) == len(floors) or kind == "run_pairs"
        several = any(note.startswith("Several floors:") for note in notes)
        assert several == (kind == "dev_curves" and len(floors) > 1)
