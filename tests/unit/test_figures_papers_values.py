"""What the papers' own figures show: their numbers, cells and words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from figure_files import HISTORY, PREDICTIONS, SIZES, make_inputs
from figure_texts import STAMP
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from minbert.base.errors import UserError
from minbert.evaluate.bootstrap import Systems, difference
from minbert.evaluate.reading import SCHEMA, read_scores
from minbert.figures import (
    dev_curves,
    epoch_tables,
    fusion_attention,
    gradient_cosines,
    ladder,
    pareto,
    run_curves,
    stability,
    sweep,
    transfer,
)
from minbert.figures.inputs import Inputs
from minbert.figures.pareto import front
from minbert.figures.style import heat_map, look, new_figure, style

Row = tuple[int, str, str, str, float]


def history(path: Path, rows: list[Row], length: int = 2) -> Path:
    """Write a history of (step, split, task, metric, value), epochs of `length` steps."""
    names = ("step", "split", "task", "metric", "value")
    lines = [
        {**dict(zip(names, row, strict=True)), "epoch": (row[0] - 1) // length + 1, "time": 0.0}
        for row in rows
    ]
    pq.write_table(pa.Table.from_pylist(lines, schema=pa.schema(HISTORY)), path)
    return path


def scores(path: Path, rows: list[tuple[str, int, str, float]], floor: float = 0.2) -> Path:
    """Write dev scores of (variant, seed, task, value), by each task's own metric.

    Scores up to the floor are not above it; standard errors are .05.
    """
    lines = [
        {"paper": "p", "variant": variant, "seed": seed, "split": "dev", "task": task}
        | {"metric": "pearson" if task == "sts" else "accuracy", "value": value, "floor": floor}
        | {"p_floor": 0.5 if value <= floor else 0.01, "error": 0.05, "key": variant}
        for variant, seed, task, value in rows
    ]
    pq.write_table(pa.Table.from_pylist(lines, schema=SCHEMA), path)
    return path


def spec(module: Any, variants: str, **more: Any) -> Any:
    return module.Spec(
        title="T", variants={n: n.upper() for n in variants.split()}, stamp=STAMP, **more
    )


def texts(where: Figure | Axes) -> list[str]:
    return [text.get_text() for text in where.findobj(Text) if text.get_text()]


def lines(axes: Axes, color: str) -> list[list[float]]:
    """Return the values of an axes' lines of one colour."""
    return [
        [float(y) for y in line.get_ydata()] for line in axes.lines if line.get_color() == color
    ]


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


def moved(folder: Path, rows: list[tuple[str, int, str, int]], **starts: str) -> Inputs:
    """Return what a figure of transfer reads of (variant, seed, task, right dev examples of 100).

    `starts` are `FIRST TASK, SECOND TASK` by variant; all start from `alone`. An even number of
    right examples gives an STS r of 2 right / 100 - 1.
    """
    predictions: dict[str, dict[str, dict[int, Path]]] = {}
    lines: dict[Path, list[dict[str, Any]]] = {}
    values = []
    for variant, seed, task, right in rows:
        labels = [(n % 2) * (5.0 if task == "sts" else 1.0) for n in range(100)]
        said = [one if n < right else max(labels) - one for n, one in enumerate(labels)]
        path = folder / f"{variant}-{seed}"
        lines.setdefault(path, []).extend(
            {"id": f"{n:02}", "task": task, "split": "dev", "prediction": p, "label": label}
            for n, (p, label) in enumerate(zip(said, labels, strict=True))
        )
        predictions.setdefault(variant, {}).setdefault(task, {})[seed] = path
        share = right / 100
        values.append((variant, seed, task, 2 * share - 1 if task == "sts" else share))
    for path, made in lines.items():
        pq.write_table(pa.Table.from_pylist(made, schema=pa.schema(PREDICTIONS)), path)
    stages: dict[str, Any] = {"alone": [{"start": None}]}
    for name, tasks in starts.items():
        first, second = tasks.split()
        of_tasks = {first: {"trained": False}, second: {"trained": True}}
        stages[name] = [{"spec": {"tasks": of_tasks}, "start": f"alone/{first}"}]
    printed = [("alone", 0.8), *[(name, 0.7) for name in starts]]
    published = [{"variant": n, "split": "dev", "figures": {"para": of}} for n, of in printed]
    path = scores(folder / "scores", values)
    facts = {"stages": stages, "published": published}
    return Inputs(predictions=predictions, scores={"p": path}, facts=facts)


def test_transfer_and_forgetting_have_the_intervals_of_the_claims(tmp_path: Path) -> None:
    rows = [
        ("alone", n, task, right) for n in (0, 1) for task, right in (("sst", 50), ("para", 70))
    ]
    rows += [("a", 0, "para", 80), ("a", 1, "para", 84), ("a", 0, "sst", 40), ("a", 1, "sst", 40)]
    inputs = moved(tmp_path, rows, a="sst para")
    figure, notes = spec(transfer, "alone a").plot(inputs)
    left, right = (texts(axes) for axes in figure.axes)
    files = {
        f"{name}.{seed}": path
        for name, by_task in inputs.predictions.items()
        for seed, path in by_task["para"].items()
    }
    systems = Systems("p", inputs.scores["p"], files, ["a", "alone"])
    change = difference(systems.sample("a", "para"), systems.sample("alone", "para"), 1 / 100)
    half = change.interval()[1] - change.value
    sign = "\u25b2" if half < 0.12 else ""
    assert f"0.820\n{sign}+0.120 \u00b1{half:.3f}\npaper \u22120.100" in left
    assert any(text.startswith("0.400\n\u25bc\u22120.100 \u00b1") for text in right)
    assert any(note.startswith("Mean of 2 seeds; \u00b1: half") for note in notes)
    assert notes[0].startswith("Each cell: dev score (SST accuracy, Paraphrase accuracy); its")
    (tmp_path / "one").mkdir()
    single = moved(tmp_path / "one", [row for row in rows if row[1] == 0], a="sst para")
    figure, notes = spec(transfer, "alone a").plot(single)
    (said,) = (text for text in texts(figure) if text.startswith("0.800\n\u25b2+0.100 \u00b1"))
    paired = float(said.split("\u00b1")[1].split()[0])
    assert paired == pytest.approx(1.96 * np.sqrt(0.1 * 0.9 / 100), rel=0.1)
    assert any(note.startswith("1 seed; \u00b1: half") for note in notes)


def test_only_certain_differences_have_a_colour_and_a_sign(tmp_path: Path) -> None:
    rows = [("alone", 0, "sst", 50), ("alone", 0, "para", 90), ("alone", 0, "sts", 96)]
    rows += [("a", 0, "sts", 76), ("a", 0, "sst", 44), ("b", 0, "sst", 52), ("b", 0, "para", 70)]
    rows += [("c", 0, "sts", 96), ("c", 0, "para", 16), ("d", 0, "sst", 60), ("d", 0, "sts", 76)]
    inputs = moved(tmp_path, rows, a="sst sts", b="para sst", c="para sts", d="sts sst")
    figure, notes = spec(transfer, "alone a b c d").plot(inputs)
    images = [axes.images[0] for axes in figure.axes]
    transferred, forgotten = (np.ma.filled(image.get_array(), np.nan) for image in images)
    # Rows: SST, para, STS; columns: SST, STS. 0.02 is less than what other examples may bring.
    np.testing.assert_allclose(transferred, [[0, -0.4], [0, 0], [0.1, 0]])
    np.testing.assert_allclose(forgotten, [[np.nan, -0.06], [-0.2, -0.74], [-0.4, np.nan]])
    scales = [(image.norm.vmin, image.norm.vmax) for image in images]
    np.testing.assert_allclose(scales, [(-0.74, 0.74)] * 2)
    said = texts(figure)
    for start in ("0.600\n\u25b2+0.100", "0.520\n\u25bc\u22120.400", "0.520\n+0.020"):
        assert any(text.startswith(start) for text in said), start
    assert any(text.startswith("\u00d70.160\n\u25bc\u22120.740") for text in said)
    assert any(note.startswith("\u00d7: not above") for note in notes)


def test_what_transfer_cannot_compare_is_said(tmp_path: Path) -> None:
    rows = [("alone", 0, "sst", 50), ("alone", 0, "para", 70), ("a", 0, "para", 80)]
    inputs = moved(tmp_path, rows, a="sst para")
    _, notes = spec(transfer, "a").plot(inputs)
    assert "Not among the figure's variants: alone." in notes
    figure, _ = spec(transfer, "alone").plot(inputs)
    assert "no variant starts from the model of another" in texts(figure)
    inputs.facts["stages"]["b"] = inputs.facts["stages"]["a"]
    with pytest.raises(UserError, match="variants 'a' and 'b' both go from sst to para"):
        spec(transfer, "alone a b").plot(inputs)
    inputs.facts["stages"]["a"][0]["spec"]["tasks"]["sst"]["trained"] = True
    with pytest.raises(UserError, match="'a' trains sst and para and also scores nothing, start"):
        spec(transfer, "alone a").plot(inputs)


@pytest.mark.parametrize("colors", ["Blues", "PuOr"])
def test_words_on_a_heat_map_can_be_read_on_every_colour(colors: str) -> None:
    values = np.linspace(0, 1, 51)[None]
    with style():
        axes = new_figure().add_subplot()
        heat_map(axes, values, [["w"] * 51], ["r"], [""] * 51, (0, 1), colors)
    for value, text in zip(values[0], axes.texts, strict=True):
        rgb = np.array(colormaps[colors](value)[:3])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        behind = float(linear @ [0.2126, 0.7152, 0.0722])
        ink = {"black": 0.0, "white": 1.0}[text.get_color()]
        light, dark = max(ink, behind) + 0.05, min(ink, behind) + 0.05
        assert light / dark > 4.5, "the contrast that WCAG 2 asks for (section 1.4.3)"


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


def test_gains_are_over_the_row_that_is_named(tmp_path: Path) -> None:
    variants = {"a": "A", "b": "A + B", "c": "A + C"}
    published = [
        {"variant": name, "split": "dev", "figures": {"sst": value, "overall": None}}
        for name, value in (("a", 0.5), ("c", 0.4))
    ]
    facts = {"rules": {"hybrid-bert": "plain"}, "published": published}
    inputs = make_inputs(tmp_path, "zabc", (0, 1), tasks=("sst",), facts=facts)
    made = ladder.Spec(title="T", variants=variants, stamp=STAMP, over={"c": "a"})
    figure, notes = made.plot(inputs)
    ours, printed = figure.axes[0].containers
    assert ours.get_label() == "ours" and printed.get_label() == "published"
    found = read_scores(inputs.scores["hybrid-bert"], "hybrid-bert")
    means = {of.variant: np.mean([s.value for s in v.values()]) for of, v in found.items()}
    gains = np.asarray(ours.lines[0].get_xdata(), dtype=float)
    np.testing.assert_allclose(gains, [means["b"] - means["a"], means["c"] - means["a"]])
    low, high = ours.lines[2][0].get_segments()[0][:, 0]
    assert low < gains[0] < high, "over examples and seeds"
    points = np.asarray(printed.lines[0].get_data(), dtype=float)
    np.testing.assert_allclose(points, [[-0.1], [1.22]])
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["+ B", "+ C on A"]
    assert "Each row against the one above, the first against A." in notes
    assert any("interval over examples and seeds" in note for note in notes)


def test_runs_that_are_right_on_the_same_examples_have_an_interval(tmp_path: Path) -> None:
    """As two that predict one class only: they differ on no resample."""
    facts = {"rules": {"hybrid-bert": "plain"}, "published": []}
    inputs = make_inputs(tmp_path, "ab", tasks=("sst",), facts=facts)
    one, other = (inputs.predictions[name]["sst"][0] for name in "ab")
    other.write_bytes(one.read_bytes())
    figure, _ = spec(ladder, "a b").plot(inputs)
    (ours,) = figure.axes[0].containers
    bar = ours.lines[2][0].get_segments()[0][:, 0]
    np.testing.assert_allclose(bar, np.array([-1.96, 1.96]) / SIZES["sst"], rtol=1e-3)


@pytest.mark.parametrize(
    ("label", "other", "said"),
    [
        ("RSS + MP + GS", "RSS + MP", "+ GS"),
        ("RSS + MTP + GS", "RSS + MP + GS", "MP \u2192 max pooling (MTP)"),
        ("RSS", "RSS + MP", "without MP"),
        ("SR", "Baseline", "Baseline \u2192 SR"),
        ("SR", "SR", "SR"),
    ],
)
def test_a_step_is_named_by_what_it_adds(label: str, other: str, said: str) -> None:
    assert ladder.step(label, other, {"MTP": "max pooling", "SGD": "descent"}) == said


def test_rows_are_spelled_out_and_those_too_long_have_a_letter(tmp_path: Path) -> None:
    variants = {"a": "Base", "b": "Base + MP", "c": "Base + MP + GS", "d": "Base + MP + CNN"}
    facts = {"rules": {"hybrid-bert": "plain"}, "published": []}
    inputs = make_inputs(tmp_path, "abcd", tasks=("sst",), facts=facts)
    about = {"title": "T", "variants": variants, "stamp": STAMP, "over": {"d": "b"}}
    names = {"MP": "mean pooling", "GS": "surgery", "CNN": "a convolution over tokens"}
    figure, notes = ladder.Spec(**about, names=names).plot(inputs)
    labels = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    long = "+ a convolution over tokens (CNN) (a)"
    assert labels == ["+ mean pooling (MP)", "+ surgery (GS)", long]
    assert any(note.endswith("against Base; (a) against Base + MP.") for note in notes)
    with pytest.raises(UserError, match=r"'names': no variant's label has 'GSS'.*mean 'GS'"):
        ladder.Spec(**about, names={"GSS": "surgery"}).plot(inputs)


def test_a_gain_over_a_row_at_its_floor_is_hollow(tmp_path: Path) -> None:
    facts = {"rules": {"hybrid-bert": "plain"}, "published": []}
    inputs = make_inputs(tmp_path, "abc", tasks=("sst",), facts=facts)
    path = inputs.scores["hybrid-bert"]
    table = pq.read_table(path).to_pylist()
    below = [row | {"p_floor": 0.5} if row["variant"] == "a" else row for row in table]
    pq.write_table(pa.Table.from_pylist(below, schema=SCHEMA), path)
    figure, notes = spec(ladder, "a b c").plot(inputs)
    drawn = {made.get_label(): made.lines[0] for made in figure.axes[0].containers}
    hollow = drawn["ours: a compared row is at its floor"]
    assert list(hollow.get_ydata()) == [0] and list(drawn["ours"].get_ydata()) == [1]
    assert hollow.get_markerfacecolor() == "white" != drawn["ours"].get_markerfacecolor()
    assert any(note.startswith("At its floor: not above the floor") for note in notes)


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
