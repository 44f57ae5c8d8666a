"""Figures of tasks of one's own: each kind of one task, and those of a paper's scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import figure_files
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from figure_files import make_inputs
from figure_texts import drawn, texts_of
from own_tasks import NEWS, RANK, SAME, own, using

from minbert.evaluate.marks import GUESS
from minbert.evaluate.reading import SCHEMA
from minbert.figures.inputs import Inputs
from minbert.figures.predictions import MOST_WRITTEN
from minbert.figures.scored import PaperScores, title_of
from minbert.figures.style import style

VARIANTS = {"a": "one", "b": "two"}
TASKS = ("news", "same", "rank")


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inputs]:
    for task in TASKS:
        monkeypatch.setitem(figure_files.SIZES, task, 90)
    facts = {"rules": {"mine": "normalised"}, "overall_tasks": {"mine": TASKS}}
    with using(NEWS, SAME, RANK), style():
        yield make_inputs(tmp_path, VARIANTS, tasks=TASKS, paper="mine", facts=facts)


def texts(figure: Any) -> str:
    return " ".join(text.get_text() for text in figure.findobj(lambda a: hasattr(a, "get_text")))


def test_a_confusion_matrix_names_the_classes(inputs: Inputs) -> None:
    figure, notes = drawn("confusion-matrix", inputs, task="news")
    assert "Classes: 0 world, 1 sports, 2 business." in notes[0]
    assert len(figure.axes[0].get_xticks()) == 3 and "macro-F1" in texts(figure)


@pytest.mark.parametrize("count", [MOST_WRITTEN, 12, 60])
def test_texts_of_many_classes_do_not_overlap(count: int, tmp_path: Path) -> None:
    """Of four variants, of which one never predicts four classes, and one only predicts one."""
    names = [f"a class with the number {n}" for n in range(count)]
    wide = own("wide", kind="classification", classes=names)
    with using(wide), pytest.MonkeyPatch.context() as patch:
        patch.setitem(figure_files.SIZES, "wide", 20 * count)
        variants = {name: f"the variant called {name}" for name in "abcd"}
        given = make_inputs(tmp_path, variants, tasks=("wide",), paper="mine")
        for name, said in (("a", 1.0), ("b", float(count - 5))):
            path = given.predictions[name]["wide"][0]
            rows = pq.read_table(path).to_pylist()
            rows = [r | {"prediction": min(r["prediction"], said)} for r in rows]
            pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(path)), path)
        texts = texts_of("confusion-matrix", given, task="wide")
    assert f"{count - 2} classes never predicted" in texts
    last = ", ".join(str(n) for n in range(count - 4, count))
    assert f"never predicted: {last}" in texts
    assert "Classes: 0 a class with the number 0" in texts
    assert f"and {count - 8} more." in texts or count == 8


def test_a_reliability_diagram_is_of_class_1(inputs: Inputs) -> None:
    figure, notes = drawn("calibration", inputs, task="same")
    assert "score of '1'" in texts(figure)
    assert any("F1 = 0." in note for note in notes), notes


def test_a_scatter_has_the_range_and_the_metric_of_its_task(inputs: Inputs) -> None:
    figure, notes = drawn("sts-scatter", inputs, task="rank")
    said = texts(figure)
    assert "label (0 to 10)" in said and "rho 0." in said
    assert any(note.startswith("Floor: rho = 0.") for note in notes)
    assert figure.axes[0].get_xlim() == pytest.approx((-0.3, 10.3))


def test_a_ranking_has_a_panel_for_each_task(inputs: Inputs) -> None:
    figure, notes = drawn("ranking", inputs)
    heads = [axes.get_xlabel().replace("\n", " ") for axes in figure.axes]
    for title in ("News accuracy", "same F1", "rank Spearman rho"):
        assert any(head.startswith(title) for head in heads), heads
    assert notes[0].startswith("Overall: normalised mean of News, same and rank, on dev.")
    assert notes[0].endswith(f"Floor: {GUESS}."), "of F1 it is no accuracy"


def test_a_ladder_has_the_overall_gain_over_the_papers_own_tasks(inputs: Inputs) -> None:
    path = inputs.scores["mine"]
    overall = [
        {"paper": "mine", "variant": name, "seed": 0, "split": "dev", "task": "overall"}
        | {"metric": "normalised", "value": 0.5, "key": name}
        for name in VARIANTS
    ]
    rows = pq.read_table(path).to_pylist()
    pq.write_table(pa.Table.from_pylist([*rows, *overall], schema=SCHEMA), path)
    given = replace(inputs, facts={**inputs.facts, "published": []})
    figure, notes = drawn("ladder", given)
    shown = {axes.get_xlabel(): len(axes.containers) for axes in figure.axes}
    assert shown["Gain in\noverall score"] == shown["Gain in\nsame F1"] == 1
    assert "normalised mean of News, same and rank" in notes[0]


@pytest.mark.parametrize("kind", ["ranking", "stability", "ladder"])
def test_long_titles_of_tasks_are_wrapped_below_rows(kind: str, tmp_path: Path) -> None:
    tasks = [
        own(
            name,
            kind="binary",
            title=f"{name}: what guests of hotels and restaurants thought of"[:60],
        )
        for name in ("food", "service", "rooms", "view")
    ]
    names = tuple(sorted(task.name for task in tasks))
    facts = {"rules": {"mine": "normalised"}, "overall_tasks": {"mine": names}, "published": []}
    with using(*tasks), pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setitem(figure_files.SIZES, name, 40)
        labels = {"a": "a variant with a rather long label", "b": "B"}
        about: dict[str, Any] = {"paper": "mine", "facts": facts, "epochs": 5}
        texts = texts_of(kind, make_inputs(tmp_path, labels, tasks=names, **about))
    assert "food: what guests" in texts.replace("\n", " ")


def test_words_for_scores(inputs: Inputs) -> None:
    assert title_of("same") == "same F1" and title_of("normalised") == "Overall score"
    assert PaperScores("plain", ["news"]).overall == "plain News"
