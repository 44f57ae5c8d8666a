"""The index of published rows, and tables in the paper's own sections with failed rows."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from test_evaluate_table import build, row, scores, table

from minbert.evaluate.index import build_index

FIGURES = {"sst": 0.5, "para": None, "sts": None, "other": None, "overall": None}


def paper_row(variant: str, table: str | None, **more: Any) -> dict[str, Any]:
    about = {"table": table, "published": FIGURES if table else {}}
    return row(f"Row {variant}", variant, **about | more)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Three published rows in two tables, and one that the paper has not; b has failed."""
    values = {"a": 0.25, "c": 0.75, "extra": 0.5}
    found = [{"variant": name, "task": "sst", "value": value} for name, value in values.items()]
    rows = [paper_row("a", "1", note="n"), paper_row("b", "1"), paper_row("c", "text")]
    spec = table(*rows, paper_row("extra", None), title="T", footnotes=["A foot."])
    failures = {"b": "stage 'main', seed 0: UserError: too | hot", "a": "an old failure"}
    build(tmp_path, spec, scores(tmp_path / "s.parquet", *found), failures)
    return tmp_path / "tables"


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def test_each_table_of_the_paper_is_a_section(made: Path) -> None:
    text = (made / "table.md").read_text(encoding="utf-8")
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads == [
        "# T",
        "## Table 1",
        "## In the text",
        "## Not in the paper",
        "## How to read this",
    ]
    first = text.split("## In the text")[0]
    assert "Row a" in first and "Row c" not in first
    latex = (made / "table.tex").read_text(encoding="utf-8")
    assert latex.count(r"\begin{table*}") == latex.count(r"\end{table*}") == 3
    assert r"\label{tab:p-Table-1}" in latex and r"\label{tab:p-In-the-text}" in latex


def test_a_failed_row_says_so_and_why(made: Path) -> None:
    found = {line["variant"]: line for line in lines(made / "table.csv")}
    assert {name: line["status"] for name, line in found.items()} == {
        "a": "scored",
        "b": "failed",
        "c": "scored",
        "extra": "scored",
    }
    assert "too | hot" in found["b"]["reason"] and not found["a"]["reason"]
    assert (found["a"]["table"], found["extra"]["table"]) == ("1", "")
    assert found["c"]["keys"] == "kc" and not found["b"]["keys"]
    text = (made / "table.md").read_text(encoding="utf-8")
    assert "failed" in text and r"too \| hot" in text


def published(variant: str, table: str, paper: str = "p", **more: Any) -> dict[str, Any]:
    names = {"paper": paper, "table": table, "row": f"Row {variant}", "variant": variant}
    return names | {"split": "dev", "figures": FIGURES} | more


def test_the_index_counts_by_status(made: Path) -> None:
    rows = [published("a", "1"), published("b", "1"), published("c", "text")]
    build_index([*rows, published("a", "1", "other")], [made / "table.csv"], made)
    summary = "2 of 4 published rows scored (1 failed, 1 not configured)"
    found = lines(made / "index.csv")
    assert [line["status"] for line in found] == ["scored", "failed", "scored", "not configured"]
    assert [line["sst_ours"] for line in found] == ["0.25", "", "0.75", ""]
    assert [line["keys"] for line in found] == ["ka", "", "kc", ""]
    assert [line["backbone"] for line in found] == ["tiny", "tiny", "tiny", ""]
    text = (made / "index.md").read_text(encoding="utf-8")
    assert f"\n{summary}.\n" in text and "sst 0.500" in text and "sst 0.250" in text
    assert text.endswith("\nBackbone: tiny.\n")
    build_index([], [], made)
    text = (made / "index.md").read_text(encoding="utf-8")
    assert text == "# Every published row\n\nNone of these papers has a published row.\n"


@pytest.mark.parametrize(
    ("figures", "scored", "status", "ours"),
    [
        ({"sst": 0.5}, ["sst"], "scored", "sst 0.750"),
        ({"sst": 0.5, "para": 0.8}, ["sst"], "scored", "sst 0.750"),
        ({"sst": 0.5, "para": 0.8}, ["lmrd"], "no labels", ""),
        ({"overall": 0.5}, ["sst"], "no labels", ""),
        ({"overall": 0.5}, ["overall"], "scored", "overall 0.750"),
        ({"other": 0.5}, ["lmrd"], "scored", "other 0.750"),
        ({}, ["lmrd"], "scored", ""),
    ],
)
def test_a_row_is_scored_if_a_figure_of_the_paper_has_a_score(
    figures: dict[str, float], scored: list[str], status: str, ours: str, tmp_path: Path
) -> None:
    """As a test row of several tasks, of which only one that the paper does not give has labels."""
    found = [
        {"variant": "a", "split": split, "task": task, "value": 0.75}
        for split, tasks in (("dev", ["sst", "lmrd"]), ("test", scored))
        for task in tasks
    ]
    tasks = ["sst", "para", "sts", "lmrd"]
    spec = table(paper_row("a", "1", split="test", published=figures), tasks=tasks, rule="plain")
    ((shown,), *_) = build(tmp_path, spec, scores(tmp_path / "s.parquet", *found))
    row = published("a", "1", split="test", figures=dict.fromkeys(FIGURES) | figures)
    build_index([row], [tmp_path / "tables" / "table.csv"], tmp_path)
    (line,) = lines(tmp_path / "index.csv")
    assert (shown["status"], line["status"]) == (status, status)
    text = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert f"{int(status == 'scored')} of 1 published rows scored" in text
    (cells,) = (line.split("|") for line in text.splitlines() if line.startswith("| p "))
    assert cells[-2].strip() == ours
