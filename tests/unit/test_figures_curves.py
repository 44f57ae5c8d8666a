"""Curves over epochs: their lines, bands, notes, and histories that are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from figure_files import Row, history
from figure_texts import drawn
from figure_values import last, lines, scores
from matplotlib.colors import to_hex

from minbert.base.errors import UserError
from minbert.figures.histories import running_mean
from minbert.figures.inputs import Inputs
from minbert.figures.panels import DEV, TRAIN
from minbert.figures.style import look


def losses(path: Path, values: list[float], length: int = 2, every: int = 1) -> Path:
    """Write a history whose training loss is `values`, one every `every` steps."""
    rows: list[Row] = [(every * n, "train", "overall", "loss", v) for n, v in enumerate(values, 1)]
    return history(path, rows, length * every)


def test_lines_are_means_over_seeds_by_epoch_on_a_log_axis(tmp_path: Path) -> None:
    several = {
        0: losses(tmp_path / "a", [4, 3, 2, 1], every=10),
        1: losses(tmp_path / "b", [2, 5, 1, 0.5], every=10),
    }
    files = last(one=several, three={0: losses(tmp_path / "c", [8, 4, 2, 1])})
    figure, notes = drawn("curves", Inputs(histories=files), "one three", smooth=0)
    (axes,) = figure.axes
    one, three = axes.lines
    np.testing.assert_allclose(one.get_xydata(), [(0.5, 3), (1, 4), (1.5, 1.5), (2, 0.75)])
    np.testing.assert_allclose(three.get_ydata(), [8, 4, 2, 1])
    assert (axes.get_yscale(), axes.get_xlabel()) == ("log", "Epoch")
    assert 0.4 < axes.get_ylim()[0] < 0.5, "it ends where its lines do"
    assert axes.get_ylabel() == "Multitask training loss (log scale)"
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown == ["ONE (1.12)", "THREE (1.50)"], "the mean of the last epoch"
    said = "Lines: mean of 1 or 2 seeds. Bands: smallest to largest seed."
    assert notes == [f"{said} In brackets: mean of the last epoch."]
    (band,) = axes.collections
    corners = {tuple(point) for point in band.get_paths()[0].vertices.tolist()}
    assert {(0.5, 2), (0.5, 4), (1, 3), (1, 5), (2, 0.5), (2, 1)} <= corners
    assert to_hex(band.get_facecolor()[0]) == look(0).color.lower()


def test_smoothing_is_stated_and_keeps_the_logged_line(tmp_path: Path) -> None:
    made = losses(tmp_path / "a", [3.0, 1.0] * 20, length=20)
    figure, notes = drawn("curves", Inputs(histories=last(one={0: made})), "one b", smooth=0.5)
    raw, smooth = figure.axes[0].lines
    np.testing.assert_allclose(raw.get_ydata(), [3.0, 1.0] * 20)
    assert float(np.std(np.asarray(smooth.get_ydata())[5:-5])) < 0.1
    said = "Lines: 1 seed, running mean over 1 epoch (faint: as logged)."
    assert notes == [f"{said} In brackets: mean of the last epoch.", "Not run: B."]


def test_running_mean_golden() -> None:
    epochs = np.arange(1, 6) / 10
    values = np.array([[1.0, 2, 6, 4, 5], [1, 1, 1, 1, 1]])
    smooth = running_mean(epochs, values, 0.2)
    np.testing.assert_allclose(smooth, [[1.5, 3, 4, 5, 4.5], [1, 1, 1, 1, 1]])
    np.testing.assert_array_equal(running_mean(epochs, values, 0.0), values)
    np.testing.assert_allclose(running_mean(epochs, values, 10.0)[0], [3.6] * 5)


def test_an_epoch_ends_where_dev_is_scored_and_seeds_are_drawn_where_all_are(
    tmp_path: Path,
) -> None:
    """Training may be logged every few steps, and runs be of different lengths."""
    rows: list[Row] = [(n, "train", "overall", "loss", 8.0 / n) for n in (2, 4, 8)]
    rows += [(5, "dev", "sst", "accuracy", 0.5)]
    of_seeds = {0: history(tmp_path / "a", rows), 1: history(tmp_path / "b", rows[:2], 5)}
    inputs = Inputs(histories=last(one=of_seeds))
    figure, _ = drawn("curves", inputs, "one", smooth=0)
    np.testing.assert_allclose(figure.axes[0].lines[0].get_xydata(), [(0.4, 4), (0.8, 2)])


def test_absent_runs_are_listed(tmp_path: Path) -> None:
    of_seeds = {0: losses(tmp_path / "a", [4, 3, 2, 1]), 3: tmp_path / "none.parquet"}
    _, notes = drawn("curves", Inputs(histories=last(one=of_seeds)), "one b")
    assert notes[-1] == "Not run: ONE (seed 3), B."


def test_wrong_histories_are_named(tmp_path: Path) -> None:
    made = losses(tmp_path / "a", [4, 3, 2, 1])
    with pytest.raises(
        UserError, match=r"a: no row of task 'overall', metric 'los', split 'train'"
    ):
        drawn("curves", Inputs(histories=last(one={0: made})), "one", metric="los")
    pq.write_table(pq.read_table(made).drop_columns(["value"]), made)
    with pytest.raises(UserError, match="a: no column 'value'"):
        drawn("curves", Inputs(histories=last(one={0: made})), "one")


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
    inputs = Inputs(histories=last(a={0: made}, b={0: plain}))
    figure, notes = drawn("curves", inputs, "a b", smooth=0, show="cosines")
    pair, step, groups = (axes for axes in figure.axes if axes.has_data())
    color = look(0).color
    assert lines(pair, color) == [[-0.2, 0.4]] and pair.get_title() == "SST and STS"
    assert lines(step, color) == [[0.5], [0.0]] and step.get_title() == "SST and the step"
    np.testing.assert_allclose(lines(groups, color)[0], [0.2, -0.3])
    low, high = groups.get_ylim()
    assert high - low >= 0.1, "small differences stay small"
    assert [t.get_text() for t in groups.get_xticklabels()] == ["E", "1-3"]
    long = [(step, "train", "sst-sts", "gradient_cosine", 0.1) for step in range(1, 9)]
    smoothed = Inputs(histories=last(a={0: history(tmp_path / "long", long)}))
    _, faint = drawn("curves", smoothed, "a", smooth=0.5, show="cosines")
    assert "running mean over 2 epochs (faint in the first row: as logged)" in faint[1]
    assert "No gradient surgery, so no cosines: B." in notes


def test_a_printed_table_stands_beside_ours(tmp_path: Path) -> None:
    rows: list[Row] = [(2, "train", "sst", "loss", 2.0), (2, "dev", "sst", "accuracy", 0.25)]
    rows += [(1, "train", "sst", "loss", 1.0), (3, "train", "sst", "loss", 0.5)]
    rows += [(4, "train", "sst", "loss", 0.7)]
    ours = history(tmp_path / "h", rows)
    table = {"title": "Table 3", "variant": "a", "stage": "s", "task": "sst"}
    table |= {"loss": [1.2, 0.9, 0.6], "dev": [0.5, 0.6, 0.7]}
    scored = scores(tmp_path / "s", [("a", 0, "sst", 0.2)])
    inputs = Inputs(histories={"a": {"s": {0: ours}}}, scores={"p": scored})
    figure, notes = drawn("curves", inputs, "a", tables=[table], show="tables")
    above, below = figure.axes
    np.testing.assert_allclose(lines(above, "0.45"), [[1, 0.75, 0.5]])
    assert lines(below, "0.45") == [[0.5, 0.6, 0.7]]
    np.testing.assert_allclose(lines(above, TRAIN.color), [[1, 0.4]])
    assert lines(below, DEV.color) == [[0.25]]
    assert lines(below, "0.35") == [[0.2, 0.2]], "the floor"
    assert "Ours ran for 2 of the paper's 3 epochs (Table 3)." in notes
    assert "Ours is not above the floor at the 5 % level: Table 3." in notes
    assert "Scores: SST accuracy." in notes and "Our runs recorded no scores on train." in notes


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
    inputs = Inputs(histories=last(a={0: made}), scores={"p": scored}, facts=facts)
    figure, notes = drawn("curves", inputs, "a", show="runs")
    loss, score = figure.axes
    assert lines(loss, DEV.color) == [[expected]]
    assert lines(loss, TRAIN.color) == [[3.0]]
    assert lines(score, DEV.color) == [[0.4]]
    assert lines(score, TRAIN.color) == [[0.6]]
    assert lines(score, "0.35") == [[0.2, 0.2]], "the floor of the data at hand"
    assert score.get_title().strip() == "SST accuracy"
    assert "Not above the floor at the 5 % level: A (SST)." in notes, "para is not shown"
    assert not any(line.get_clip_on() for line in score.lines if line.get_marker() == "o")
    assert score.get_xlim()[0] > 0, "no score before the first epoch has ended"
    names = "abcde"
    many = {"rules": facts["rules"], "stages": {name: [stage] for name in names}}
    figure, _ = drawn(
        "curves",
        Inputs(
            histories={name: {"s": {0: made}} for name in names}, scores={"p": scored}, facts=many
        ),
        " ".join(names),
        show="runs",
    )
    labels = [axes.get_xlabel() for axes in figure.axes[:10]]
    assert labels == [""] * 4 + ["Epoch"] * 6, "three runs in a row: below the last of each column"


def test_task_curves_tell_dev_train_and_floor_apart(tmp_path: Path) -> None:
    of = (("dev", 0.4), ("train", 0.6))
    rows: list[Row] = [(2 * n, split, "sst", "accuracy", v) for n in (1, 2) for split, v in of]
    inputs = Inputs(
        histories={name: {"s": {0: history(tmp_path / name, rows)}} for name in "abc"},
        scores={"p": scores(tmp_path / "s", [("c", 0, "sst", 0.2)])},
        facts={"rules": {"p": "plain"}},
    )
    figure, notes = drawn("curves", inputs, "a b c", show="scores")
    (axes,) = figure.axes
    dev, train = (line for line in axes.lines if line.get_color() == look(2).color)
    assert dev.is_dashed() and not train.is_dashed()
    assert dev.get_linewidth() > 1.5 * train.get_linewidth()
    assert lines(axes, "0.35") == [[0.2, 0.2]]
    assert 0.9 < axes.get_xlim()[0] < 1, "epoch 1 is the first with scores"
    seeds = {n: history(tmp_path / f"d{n}", [(*row[:4], n / 10) for row in rows]) for n in (1, 2)}
    banded, said = drawn("curves", replace(inputs, histories=last(d=seeds)), "d", show="scores")
    assert len(banded.axes[0].collections) == 1, "a band for dev, none for train"
    assert said[0].startswith("Dev scores after each epoch; thin, without bands: on the training")
    assert "Not above the floor at the 5 % level: C (SST)." in notes


@pytest.mark.parametrize("show", ["scores", "runs", "tables"])
def test_curves_have_the_floor_of_their_own_variant(show: str, tmp_path: Path) -> None:
    """The last row of the paper is scored on half of dev, as tuned rows are."""
    rows: list[Row] = [(2, "dev", "sst", "accuracy", 0.5), (2, "dev", "sst", "loss", 1.0)]
    stage = {"spec": {"tasks": {"sst": {"trained": True, "weight": 1.0}}, "reduction": "sum"}}
    own = {"t": 0.3}
    inputs = Inputs(
        histories={name: {"s": {0: history(tmp_path / name, rows)}} for name in "at"},
        scores={"p": scores(tmp_path / "s", [(n, 0, "sst", 0.5) for n in "at"], own)},
        facts={"rules": {"p": "plain"}, "stages": {name: [stage] for name in "at"}},
    )
    table = {"stage": "s", "task": "sst", "dev": [0.5]}
    for variants, floors in (("a t", [0.2, 0.3]), ("a", [0.2])):
        more: dict[str, Any] = {"show": show}
        if show == "tables":
            more["tables"] = [table | {"title": n, "variant": n} for n in variants.split()]
        figure, notes = drawn("curves", inputs, variants, **more)
        found = [line[0] for axes in figure.axes for line in lines(axes, "0.35")]
        assert sorted(set(found)) == floors
        assert len(found) == len(floors)
        several = any(note.startswith("Several floors:") for note in notes)
        assert several == (show == "scores" and len(floors) > 1)
