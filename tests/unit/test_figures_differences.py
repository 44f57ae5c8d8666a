"""What is drawn of one variant against another: transfers and ladders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from figure_files import PREDICTIONS, SIZES, make_inputs
from figure_texts import drawn
from figure_values import scores, texts

from minbert.base.errors import UserError
from minbert.evaluate.bootstrap import difference
from minbert.evaluate.reading import SCHEMA, read_scores
from minbert.evaluate.systems import Systems
from minbert.figures import ladder
from minbert.figures.inputs import Inputs


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
    figure, notes = drawn("transfer", inputs, "alone a")
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
    figure, notes = drawn("transfer", single, "alone a")
    (said,) = (text for text in texts(figure) if text.startswith("0.800\n\u25b2+0.100 \u00b1"))
    paired = float(said.split("\u00b1")[1].split()[0])
    assert paired == pytest.approx(1.96 * np.sqrt(0.1 * 0.9 / 100), rel=0.1)
    assert any(note.startswith("1 seed; \u00b1: half") for note in notes)


def test_only_certain_differences_have_a_colour_and_a_sign(tmp_path: Path) -> None:
    rows = [("alone", 0, "sst", 50), ("alone", 0, "para", 90), ("alone", 0, "sts", 96)]
    rows += [("a", 0, "sts", 76), ("a", 0, "sst", 44), ("b", 0, "sst", 52), ("b", 0, "para", 70)]
    rows += [("c", 0, "sts", 96), ("c", 0, "para", 16), ("d", 0, "sst", 60), ("d", 0, "sts", 76)]
    inputs = moved(tmp_path, rows, a="sst sts", b="para sst", c="para sts", d="sts sst")
    figure, notes = drawn("transfer", inputs, "alone a b c d")
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
    _, notes = drawn("transfer", inputs, "a")
    assert "Not among the figure's variants: alone." in notes
    figure, _ = drawn("transfer", inputs, "alone")
    assert "no variant starts from the model of another" in texts(figure)
    inputs.facts["stages"]["b"] = inputs.facts["stages"]["a"]
    with pytest.raises(UserError, match="variants 'a' and 'b' both go from sst to para"):
        drawn("transfer", inputs, "alone a b")
    inputs.facts["stages"]["a"][0]["spec"]["tasks"]["sst"]["trained"] = True
    with pytest.raises(UserError, match="'a' trains sst and para and also scores nothing, start"):
        drawn("transfer", inputs, "alone a")


def test_gains_are_over_the_row_that_is_named(tmp_path: Path) -> None:
    variants = {"a": "A", "b": "A + B", "c": "A + C"}
    published = [
        {"variant": name, "split": "dev", "figures": {"sst": value, "overall": None}}
        for name, value in (("a", 0.5), ("c", 0.4))
    ]
    facts = {"rules": {"hybrid-bert": "plain"}, "published": published}
    inputs = make_inputs(tmp_path, "zabc", (0, 1), tasks=("sst",), facts=facts)
    figure, notes = drawn("ladder", replace(inputs, variants=variants), over={"c": "a"})
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
    figure, _ = drawn("ladder", inputs, "a b")
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
    inputs, over = replace(inputs, variants=variants), {"d": "b"}
    names = {"MP": "mean pooling", "GS": "surgery", "CNN": "a convolution over tokens"}
    figure, notes = drawn("ladder", inputs, over=over, names=names)
    labels = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    long = "+ a convolution over tokens (CNN) (a)"
    assert labels == ["+ mean pooling (MP)", "+ surgery (GS)", long]
    assert any(note.endswith("against Base; (a) against Base + MP.") for note in notes)
    with pytest.raises(UserError, match=r"'names': no variant's label has 'GSS'.*mean 'GS'"):
        drawn("ladder", inputs, names={"GSS": "surgery"})


def test_a_gain_over_a_row_at_its_floor_is_hollow(tmp_path: Path) -> None:
    facts = {"rules": {"hybrid-bert": "plain"}, "published": []}
    inputs = make_inputs(tmp_path, "abc", tasks=("sst",), facts=facts)
    path = inputs.scores["hybrid-bert"]
    table = pq.read_table(path).to_pylist()
    below = [row | {"p_floor": 0.5} if row["variant"] == "a" else row for row in table]
    pq.write_table(pa.Table.from_pylist(below, schema=SCHEMA), path)
    figure, notes = drawn("ladder", inputs, "a b c")
    of_labels = {made.get_label(): made.lines[0] for made in figure.axes[0].containers}
    hollow, filled = of_labels["ours: a compared row is at its floor"], of_labels["ours"]
    assert list(hollow.get_ydata()) == [0] and list(filled.get_ydata()) == [1]
    assert hollow.get_markerfacecolor() == "white" != filled.get_markerfacecolor()
    assert any(note.startswith("At its floor: not above the floor") for note in notes)
