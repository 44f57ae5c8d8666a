"""What figures compute: independent of how it is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from factories import edit_rows, history, put_rows
from figure_files import OVERALL, Row, make_inputs
from figure_texts import described, drawn
from matplotlib import colormaps
from scipy.stats import t

from minbert.base.errors import UserError
from minbert.evaluate.reading import SCHEMA
from minbert.evaluate.seeds import Interval, interval
from minbert.figures import style
from minbert.figures.predictions import binned, calibration_error
from minbert.figures.read import Inputs, published
from minbert.figures.scores import single_run, step


def test_an_epoch_ends_where_dev_is_scored_and_training_may_be_logged_every_few_steps(
    tmp_path: Path,
) -> None:
    rows: list[Row] = [(n, "train", "overall", "loss", 8.0 / n) for n in (2, 4, 8)]
    rows += [(10, "dev", "sst", "accuracy", 0.5)]
    runs = {
        f"k.{n}": history(tmp_path / str(n) / "history.parquet", *rows, length=5) for n in (7, 3)
    }
    curves = Inputs({}, [{"seeds": [7, 3]}], runs, {}).curves({"key": "k"})
    curve = curves["train", "overall", "loss"]
    np.testing.assert_allclose(curve.index, [0.4, 0.8, 1.6])
    assert curve[3].tolist() == curve[7].tolist() == [4, 2, 1]


def test_calibration_golden() -> None:
    score, label = np.array([0.05, 0.15, 0.95, 1.0, 0.45]), np.array([0.0, 1, 1, 0, 1])
    bins = binned(score, label)
    assert bins.index.tolist() == [0, 1, 4, 9], "the others are empty"
    np.testing.assert_allclose(bins.examples, [1, 1, 1, 2])
    np.testing.assert_allclose(bins.score, [0.05, 0.15, 0.45, 0.975])
    np.testing.assert_allclose(bins.share, [0, 1, 1, 0.5])
    error = (0.05 + 0.85 + 0.55 + 2 * 0.475) / 5
    assert calibration_error(score, label) == pytest.approx(error)


def test_a_published_number_meets_the_interval_of_a_single_run() -> None:
    values = [0.5, 0.6, 0.55]
    found = single_run(interval(values))
    half = t.ppf(0.975, 2) * np.std(values, ddof=1) * np.sqrt(1 + 1 / 3)
    assert (found.low, found.high) == pytest.approx((0.55 - half, 0.55 + half))
    alone = single_run(interval([0.5], error=0.1))
    assert alone == Interval(0.5, None, None, 1), "one run says nothing of others"


def test_long_bars_do_not_squeeze_the_points_together() -> None:
    """As over two seeds, whose interval is 13 standard deviations wide."""
    short, long = Interval(0.4, 0.3, 0.5, 2), Interval(0.8, -2.0, 3.6, 2)
    low, high = style.ends([short, long])
    assert low <= 0.3 and 0.8 < high <= 1.0, "the short bar in whole, the long one cut"
    low, high = style.ends([Interval(0.5), Interval(0.51)])
    assert high - low == pytest.approx(0.2), "small differences stay small"


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
    assert step(label, other, {"MTP": "max pooling", "SGD": "descent"}) == said


def test_words_on_a_heat_map_can_be_read_on_every_colour() -> None:
    values = pd.DataFrame([np.linspace(0, 1, 51)])
    with style.style():
        _, (axes,) = style.panels(1, 1)
        style.heat_map(axes, values, values.astype(str))
    for value, text in zip(values.loc[0], axes.texts, strict=True):
        rgb = np.array(colormaps["Blues"](value)[:3])
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        behind = float(linear @ [0.2126, 0.7152, 0.0722])
        ink = {"black": 0.0, "white": 1.0}[text.get_color()]
        light, dark = max(ink, behind) + 0.05, min(ink, behind) + 0.05
        assert light / dark > 4.4, "WCAG 2 asks for 4.5 (section 1.4.3)"


def test_each_row_has_its_own_floor_and_a_cross_below_it(tmp_path: Path) -> None:
    """As of a tuned row, which is scored on half of dev."""
    inputs = make_inputs(tmp_path, "abc", tasks=("sst",))
    path = inputs.scores["hybrid-bert"]

    def edit(row: dict[str, Any]) -> None:
        if row["p_floor"] is not None:
            row |= {"value": 0.5, "floor": 0.3 if row["variant"] == "a" else 0.2}
            row |= {"p_floor": 0.5 if row["variant"] == "a" else 0.01}

    edit_rows(path, edit)
    axes = drawn("ranking", inputs, "a b c")[0].axes[0]
    assert {line.get_marker() for line in axes.lines} == {"o", "x"}
    floors = [of for of in axes.collections if of.get_label() == "floor"]
    assert sorted(of.get_segments()[0][0][0] for of in floors) == [0.2, 0.2, 0.3]
    axes = drawn("ladder", inputs, "a b c")[0].axes[0]
    assert [len(of.lines[0].get_xdata()) for of in axes.containers] == [1, 1], "b - a is a cross"


def test_a_ranking_leaves_out_what_only_the_best_of_others_has(tmp_path: Path) -> None:
    """As on test, where others may not be tested, or on tasks of theirs alone."""
    inputs = make_inputs(tmp_path, "ab", tasks=OVERALL)
    path = inputs.scores["hybrid-bert"]
    rows = pq.read_table(path).to_pylist()
    for row in rows:
        row["key"] = row["key"] * (row["variant"] == "a" or row["task"] != "overall")
    for tasks, count in ({"sst"}, 1), (set(), 0):
        kept = [row for row in rows if row["variant"] == "b" or row["task"] in tasks]
        put_rows(path, kept, SCHEMA)
        figure, _ = drawn("ranking", inputs, "a b")
        assert [axes.get_xlabel()[:3] for axes in figure.axes if axes.axison] == ["SST"][:count]


def test_all_numbers_that_a_paper_printed_of_a_variant_are_shown() -> None:
    row = {"variant": "a", "split": "dev", "other_task": None}
    rows = [row | {"published": {"sst": value}} for value in (0.5, 0.6)]
    assert [of for _, of in published({"rule": "plain", "rows": rows})] == [0.5, 0.6]


def test_points_of_test_scores_are_filled(tmp_path: Path) -> None:
    row = {"variant": "a", "other_task": None, "published": {"sst": 0.5}}
    rows = [row | {"split": split} for split in ("dev", "test")]
    inputs = make_inputs(tmp_path, "a", tasks=("sst",), about={"rows": rows})
    path = inputs.scores["hybrid-bert"]
    above = {"p_floor": 0.001, "floor": 0.1, "value": 0.5}
    scores = [of | above for of in pq.read_table(path).to_pylist()]
    put_rows(path, [*scores, *(of | {"split": "test"} for of in scores)], SCHEMA)
    points = drawn("published-reproduced", inputs)[0].axes[0].containers
    looks = {of.get_label(): of.lines[0].get_fillstyle() for of in points}
    assert looks == {"hybrid-bert": "none", "hybrid-bert, on test": "full"}


def test_what_a_paper_did_not_print_is_not_in_the_legend(tmp_path: Path) -> None:
    inputs = make_inputs(tmp_path, "a", tasks=("sst",))
    table = {"title": "T", "variant": "a", "stage": "main", "task": "sst", "dev": [0.5, 0.6]}
    figure, _ = drawn("curves", inputs, show="tables", tables=[table])
    labels = {label for axes in figure.axes for label in axes.get_legend_handles_labels()[1]}
    assert labels == {"train", "dev", "floor", "published, dev"}


def test_parameters_are_drawn_of_the_variants_that_are_named(tmp_path: Path) -> None:
    about = {"rows": [{"variant": name, "parameters": 9} for name in "abc"]}
    inputs = make_inputs(tmp_path, "abc", tasks=("sst",), about=about)
    assert "nothing" not in described(drawn("score-parameters", inputs, "a b")[0])


def test_what_transfer_cannot_show_is_an_error(tmp_path: Path) -> None:
    tasks = {"sst": {"trained": True}, "para": {"trained": True}}
    moved = {"start": "b/sst", "spec": {"tasks": tasks}}
    stages = {"a": [moved], "b": [{"start": None}]}
    inputs = make_inputs(tmp_path, "ab", tasks=("sst", "para"), about={"stages": stages})
    with pytest.raises(UserError, match="'a', of sst and para, starts from b/sst; expected one"):
        drawn("transfer", inputs, "a b")


def test_fusions_whose_labels_are_cut_alike_have_panels_of_their_own(tmp_path: Path) -> None:
    labels = {name: f"a label that is{name}long to be shown" for name in "ab"}
    stages = {name: [{"key": name, "fused": ["a/sst", "a/para"]}] for name in labels}
    inputs = make_inputs(tmp_path, labels, tasks=("sst",), about={"stages": stages}, adapters=2)
    figure, _ = drawn("fusion-attention", inputs)
    assert len([axes for axes in figure.axes if axes.axison]) == 2


def test_variants_of_other_examples_are_refused(tmp_path: Path) -> None:
    inputs = make_inputs(tmp_path, "ab", tasks=("sst",))
    path = inputs.files("b", "predictions")[0]
    edit_rows(path, lambda row: row.update(id=f"x{row['id']}"))
    with pytest.raises(UserError, match=r"its dev examples of 'sst' are not those of"):
        drawn("confusion-matrix", inputs, "a b", task="sst")
