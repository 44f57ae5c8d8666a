"""Figures of tasks of one's own: each kind of one task, and those of a paper's scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import figure_files
import pytest
from figure_files import make_inputs
from figure_texts import drawn, texts_of
from own_tasks import NEWS, RANK, SAME, own

from minbert.evaluate.reading import GUESS
from minbert.figures.read import Inputs
from minbert.spec import task as spec

VARIANTS = {"a": "one", "b": "two"}
TASKS = ("news", "same", "rank")


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inputs:
    for task in TASKS:
        monkeypatch.setitem(figure_files.SIZES, task, 90)
    spec.TASKS.use([NEWS, SAME, RANK])
    about = {"overall_tasks": TASKS}
    return make_inputs(tmp_path, VARIANTS, tasks=TASKS, paper="mine", about=about)


def texts(figure: Any) -> str:
    return " ".join(text.get_text() for text in figure.findobj(lambda a: hasattr(a, "get_text")))


@pytest.mark.parametrize(
    ("kind", "task", "shown", "noted"),
    [
        ("confusion-matrix", "news", "macro-F1", "Classes: 0 world, 1 sports, 2 business."),
        ("calibration", "same", "score of '1'", "Floor of F1 (the most frequent class; r = 0): 0"),
        ("sts-scatter", "rank", "label (0 to 10)", "n = 90 dev examples"),
    ],
)
def test_a_figure_of_one_task_has_its_classes_range_and_metric(
    inputs: Inputs, kind: str, task: str, shown: str, noted: str
) -> None:
    figure, notes = drawn(kind, inputs, task=task)
    assert shown in texts(figure) and noted in " ".join(notes)


def test_many_classes_are_named_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = own("wide", kind="classification", classes=[f"class number {n}" for n in range(60)])
    spec.TASKS.use([wide])
    monkeypatch.setitem(figure_files.SIZES, "wide", 600)
    given = make_inputs(tmp_path, {"a": "one"}, tasks=("wide",), paper="mine")
    texts = texts_of("confusion-matrix", given, task="wide")
    assert "Classes: 0 class number 0" in texts and "and 52 more." in texts


def test_a_ranking_has_a_panel_for_each_task(inputs: Inputs) -> None:
    figure, notes = drawn("ranking", inputs)
    heads = [axes.get_xlabel().replace("\n", " ") for axes in figure.axes]
    for title in ("News accuracy", "same F1", "rank Spearman rho"):
        assert any(head.startswith(title) for head in heads), heads
    assert notes[0].startswith("Overall: normalised mean of News, same, rank, on dev.")
    assert notes[0].endswith(f"Floor: {GUESS}."), "of F1 it is no accuracy"
