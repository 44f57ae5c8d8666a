"""Figures of tasks of one's own: each kind of one task, and those of a paper's scores."""

from __future__ import annotations

from collections.abc import Iterator
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
from minbert.figures.inputs import Inputs
from minbert.figures.predictions import MOST_WRITTEN
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


@pytest.mark.parametrize(
    ("kind", "task", "shown", "noted"),
    [
        ("confusion-matrix", "news", "macro-F1", "Classes: 0 world, 1 sports, 2 business."),
        ("calibration", "same", "score of '1'", "F1 = 0."),
        ("sts-scatter", "rank", "label (0 to 10)", "Floor: rho = 0."),
    ],
)
def test_a_figure_of_one_task_has_its_classes_range_and_metric(
    inputs: Inputs, kind: str, task: str, shown: str, noted: str
) -> None:
    figure, notes = drawn(kind, inputs, task=task)
    assert shown in texts(figure) and noted in " ".join(notes)


@pytest.mark.parametrize("count", [MOST_WRITTEN, 60])
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


def test_a_ranking_has_a_panel_for_each_task(inputs: Inputs) -> None:
    figure, notes = drawn("ranking", inputs)
    heads = [axes.get_xlabel().replace("\n", " ") for axes in figure.axes]
    for title in ("News accuracy", "same F1", "rank Spearman rho"):
        assert any(head.startswith(title) for head in heads), heads
    assert notes[0].startswith("Overall: normalised mean of News, same and rank, on dev.")
    assert notes[0].endswith(f"Floor: {GUESS}."), "of F1 it is no accuracy"
