"""A paper's table, our figures beside the published ones, and the index of published rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minbert.evaluate import text as typeset
from minbert.evaluate.index import build_index
from minbert.evaluate.reading import SCHEMA
from minbert.evaluate.statistics import NORMAL
from minbert.evaluate.table import write_table
from minbert.evaluate.table_rows import read_table
from minbert.evaluate.text import read_csv
from minbert.spec.task import TASKS

PUBLISHED = {"sst": 0.5, "para": 0.8, "sts": 0.6, "other": None, "overall": 0.7}


def scores(folder: Path, *values: tuple[Any, ...] | dict[str, Any]) -> Path:
    """Write a score table of paper `p`: (variant, seed, split, task, metric, value, last), or more.

    In what is given by name, seed, split and metric may be missing.
    """
    names = ("variant", "seed", "split", "task", "metric", "value", "last")
    lines = []
    for value in values:
        line = value if isinstance(value, dict) else dict(zip(names, value, strict=False))
        metric = TASKS[line["task"]].metric if line["task"] in TASKS else "plain"
        about = {"paper": "p", "key": f"k{line['variant']}", "seed": 0, "split": "dev"}
        lines.append(about | {"metric": metric} | line)
    pq.write_table(pa.Table.from_pylist(lines, schema=SCHEMA), folder / "scores.parquet")
    return folder / "scores.parquet"


def row(label: str, variant: str, **more: Any) -> dict[str, Any]:
    about = {"row": label, "variant": variant, "split": "dev"}
    return about | {"published": PUBLISHED, "tasks": list(TASKS.built_in)} | more


def table(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    about = {"paper": "p", "title": "Table 1", "caption": "Sharing depth.", "rule": "normalised"}
    about |= {"backbone": "tiny", "data": "built-in"}
    return about | {"seeds": [0, 1], "rows": list(rows)} | more


def build(
    made: Path, spec: dict[str, Any], failures: Mapping[str, str] = {}
) -> tuple[list[dict[str, str]], str, str]:
    """Return the lines of the csv, and the table in markdown and LaTeX."""
    folder = made.parent
    write_table(read_table(spec, made, failures), folder)
    texts = [(folder / f"table.{ending}").read_text(encoding="utf-8") for ending in ("md", "tex")]
    return read_csv(folder / "table.csv"), texts[0], texts[1]


def cells(markdown: str) -> list[list[str]]:
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def shown(text: str, label: str = "A") -> dict[str, str]:
    """Return the cells of a row by the headings."""
    head, _, *body = cells(text)
    (found,) = (dict(zip(head, line, strict=True)) for line in body if line[0] == label)
    return found


@pytest.fixture
def two_seeds(tmp_path: Path) -> Path:
    return scores(
        tmp_path,
        ("a", 0, "dev", "sst", "accuracy", 0.40),
        ("a", 1, "dev", "sst", "accuracy", 0.42),
        ("a", 0, "dev", "sst", "macro_f1", 0.99),
        ("a", 0, "dev", "para", "accuracy", 0.7),
        ("a", 1, "dev", "para", "accuracy", 0.7),
        ("a", 0, "dev", "sts", "pearson", -0.1),
        ("a", 1, "dev", "sts", "pearson", -0.3),
        ("a", 0, "dev", "overall", "normalised", 0.5),
        ("a", 1, "dev", "overall", "normalised", 0.5),
        ("a", 0, "dev", "overall", "plain", 0.3),
        ("a", 1, "dev", "overall", "plain", 0.3),
        ("b", 0, "dev", "sst", "accuracy", 0.45),
    )


def test_golden(two_seeds: Path) -> None:
    counts = {"parameters": 1_234_567, "parameters_bert_base": 110_000_000}
    spec = table(row("Row A", "a", **counts), row("B", "b", note="SST only"))
    (line, _), text, tex = build(two_seeds, spec)
    known = {"row": "Row A", "status": "scored", "seeds": "2", "sst_published": "0.5"}
    known |= {"sst_mean": "0.41", "sst_n": "2", "overall_normalised_mean": "0.5"}
    known |= {"overall_plain_mean": "0.3", "overall_rule": "normalised", "keys": "ka"}
    known |= {name: str(count) for name, count in counts.items()}
    assert {name: line[name] for name in known} == known and "lmrd_mean" not in line
    head, _, first, second = cells(text)
    assert head == [
        *("Row", "Split", "SST paper", "SST ours", "Paraphrase paper", "Paraphrase ours"),
        *("STS paper", "STS ours", "Overall paper", "Overall normalised†", "Overall plain"),
        *("n", "Parameters here", "Parameters BERT-base"),
    ]
    assert first == [
        *("Row A", "dev", "0.500", "0.410 ± 0.127", "0.800", "0.700 ± 0.000", "0.600"),
        *("-0.200 ± 1.271", "0.700", "0.500 ± 0.000", "0.300 ± 0.000", "2", "1.23 M", "110.00 M"),
    ]
    assert second == [
        *(r"B \[1\]", "dev", "0.500", "0.450", "0.800", "not run", "0.600", "not run", "0.700"),
        *("not run", "not run", "1", "not counted", "not counted"),
    ]
    assert "n of 2 seeds (1 of 2 rows have fewer)" in text and r"\[1\] SST only" in text
    assert "Backbone: tiny. Data: built-in." in text
    assert tex.isascii() and tex.count("{") == tex.count("}")
    body = tex[tex.index(r"\midrule") : tex.index(r"\bottomrule")].splitlines()[1:]
    assert r"\begin{tabular}{llrrrrrrrrrrrr}" in tex and r"\cmidrule(lr){3-4}" in tex
    assert {line.count(" & ") for line in body} == {13}
    assert r" $-$0.200 $\pm$ 1.271 " in body[0] and r"normalised$\dagger$" in tex


NASTY = "a_b & 50% #1 | {x} $y$ [z] <i> \\ ~ ^ *s*"


def test_text_is_escaped_everywhere(two_seeds: Path) -> None:
    spec = table(row(NASTY, "a", note=f"note {NASTY}"), footnotes=[f"foot {NASTY}"])
    spec |= {"title": NASTY, "caption": NASTY, "backbone": NASTY, "data": NASTY}
    lines, text, tex = build(two_seeds, spec)
    assert lines[0]["row"] == NASTY
    assert text.count(typeset.markdown(NASTY)) == text.count("50%") == 7
    assert tex.count(typeset.latex(NASTY)) == tex.count(r"50\%") == 7


def test_gains_and_the_last_epochs_scores_stand_beside_the_best(tmp_path: Path) -> None:
    made = scores(
        tmp_path,
        ("a", 0, "dev", "sst", "accuracy", 0.50, 0.40),
        ("a", 1, "dev", "sst", "accuracy", 0.52, 0.48),
        ("a", 0, "dev", "sts", "pearson", 0.50, None),
        ("a", 0, "dev", "overall", "normalised", 0.70, 0.65),
        ("a", 1, "dev", "overall", "normalised", 0.72, 0.61),
        ("a", 0, "dev", "overall", "delta_m", -1.0),
        ("a", 1, "dev", "overall", "delta_m", -2.0),
        ("b", 1, "dev", "overall", "delta_m", 3.126),
        ("b", 0, "dev", "sts", "pearson", 0.50, None),
        ("c", 0, "dev", "sts", "pearson", 0.50, None),
    )
    about = {"single": "a", "labels": {"a": "one by one"}}
    spec = table(row("A", "a"), row("B", "b"), row("C", "c"), **about)
    lines, text, tex = build(made, spec)
    assert [lines[0][name] for name in ("sst_last", "sts_last")] == ["0.44", ""]
    assert shown(text)["Overall last epoch†"] == "0.630"
    assert [line["delta_m_mean"] for line in lines] == ["-1.5", "3.126", ""]
    assert float(lines[0]["delta_m_low"]) == pytest.approx(-1.5 - 12.706 * 0.5, abs=1e-3)
    gains = [shown(text, name)["Δm (%)"] for name in "ABC"]
    assert gains == ["-1.50 ± 6.35", "+3.13 (n = 1)", "—"]
    for said in (text, tex):
        assert "averaged over the rows: SST +0.070; the csv has every row" in said
        assert "the gain over 'one by one', which trains each task alone" in said


def test_rows_without_scores_say_why(two_seeds: Path) -> None:
    spec = table(
        row("dev, not yet", "none"),
        row("test, scored on dev", "a", split="test"),
        row("test, not yet", "none", split="test"),
        row("overall only", "none", published={"overall": 0.7}),
        row("said in words", "none", published={}),
        rule="plain",
    )
    lines, text, _ = build(two_seeds, spec)
    expected = ["not run", "no labels", "not run", "not run", "not run"]
    assert [line["status"] for line in lines] == expected
    _, _, *body = cells(text)
    assert [line[3] for line in body] == [*expected[:3], "—", "not run"]
    assert [line[9] for line in body] == expected
    assert build(two_seeds, table())[0] == []


def test_each_task_of_the_paper_has_a_column(tmp_path: Path) -> None:
    made = scores(
        tmp_path,
        ("l", 0, "dev", "lmrd", "accuracy", 0.7),
        ("l", 0, "dev", "cfimdb", "accuracy", 0.9),
    )
    tasks = ["sst", "para", "sts", "cfimdb", "lmrd"]
    other = {"published": {"other": 0.97}}
    (line,), text, _ = build(made, table(row("A", "l", **other, other_task="lmrd"), tasks=tasks))
    assert (line["other_task"], line["lmrd_published"]) == ("lmrd", "0.97")
    found = shown(text)
    assert (found["LMRD paper"], found["LMRD ours"]) == ("0.970", "0.700")
    assert (found["CFIMDB paper"], found["CFIMDB ours"]) == ("—", "0.900")


def test_escaping_golden() -> None:
    assert typeset.markdown("a_b*c|d # `e` [f] <g> & ~ $ 5%") == (
        r"a\_b\*c\|d \# \`e\` \[f\] \<g\> \& \~ \$ 5%"
    )
    assert typeset.latex("a_b & 5% #1 | {x} $ \\ ± 0.1 [0] * †") == (
        r"a\_b \& 5\% \#1 \textbar{} \{x\} \$ \textbackslash{} $\pm$ 0.1 {[}0{]} {*} $\dagger$"
    )
    assert typeset.markdown("a\x1b]0;x\x07b\nc\t\u202ed") == typeset.markdown("a ]0;x b c d")
    machines = (0.019513798794267956, 0.01951379879426796)  # as two processors sum the same
    texts = {typeset.csv_text(["r", "n", "of"], [{"r": r, "n": 3, "of": None}]) for r in machines}
    assert texts == {"r,n,of\n0.019513799,3,\n"}


def held(variant: str, task: str, value: float, p: float, **more: Any) -> dict[str, Any]:
    floor = {"sst": 0.25, "para": 0.62, "sts": 0.0}[task]
    line = {"variant": variant, "task": task, "value": value, "p_floor": p, "floor": floor}
    return line | {"constant": False, "error": 0.01} | more


def test_scores_at_their_floor_are_marked_below_a_line_of_floors_for_each_split(
    tmp_path: Path,
) -> None:
    made = scores(
        tmp_path,
        held("good", "sst", 0.5, 0.001),
        held("good", "para", 0.63, 0.2),
        held("good", "sts", 0.4, 0.05),
        {"variant": "good", "task": "overall", "value": 0.5, "floor": 0.29},
        held("good", "sst", 0.5, 0.001, split="test", floor=0.28),
        *(held("some", "para", 0.6, p, seed=n) for n, p in enumerate((0.001, 0.3, 0.01))),
        held("some", "sst", 0.25, 1.0, constant=True),
        held("some", "sst", 0.2, 1.0, seed=1),
        held("some", "sst", 0.3, 0.01, seed=2),
    )
    rows = [row(name, name) for name in ("good", "some")]
    lines, text, tex = build(made, table(*rows, row("tested", "good", split="test")))
    good, some = (shown(text, name) for name in ("good", "some"))
    assert good["SST ours"] == f"0.500 ± {0.01 * NORMAL:.3f}"
    assert good["Paraphrase ours"].endswith(" °") and not good["STS ours"].endswith("°")
    assert some["Paraphrase ours"].endswith(" °1/3")
    assert some["SST ours"].endswith(" ‡1/3 °1/3")
    columns = ("para_above", "para_floor", "sst_above", "sst_constant")
    assert [lines[1][name] for name in columns] == ["2", "0.62", "1", "1"]
    assert r"$^\circ$" in tex and r"$\ddagger$" in tex
    head, _, *floors = cells(text)[:4]
    names = ("Row", "Split", "SST paper", "SST ours", "STS ours", "Overall plain")
    found = [[line[head.index(name)] for name in names] for line in floors]
    assert found == [
        ["Floor", "dev", "—", "0.250", "0.000", "0.290"],
        ["Floor", "test", "—", "0.280", "—", "—"],
    ]


FIGURES = {"sst": 0.5, "para": None, "sts": None, "other": None, "overall": None}


def published(variant: str, table: str, paper: str = "p", **more: Any) -> dict[str, Any]:
    names = {"paper": paper, "table": table, "row": f"Row {variant}", "variant": variant}
    return names | {"split": "dev", "figures": FIGURES} | more


def test_tables_of_the_paper_are_sections_and_the_index_counts_by_status(tmp_path: Path) -> None:
    """Three published rows in two tables, and one that the paper has not; b has failed."""
    values = {"a": 0.25, "c": 0.75, "extra": 0.5}
    found = [{"variant": name, "task": "sst", "value": value} for name, value in values.items()]
    places = {"c": "text", "a": "1", "b": "1", "extra": None}
    rows = [row(f"Row {n}", n, table=of, published=FIGURES) for n, of in places.items()]
    failures = {"b": "stage 'main', seed 0: UserError: too | hot", "a": "an old failure"}
    made = scores(tmp_path, *found)
    lines, text, latex = build(made, table(*rows, title="T", footnotes=["A foot."]), failures)
    heads = [line for line in text.splitlines() if line.startswith("#")]
    ends = ["## In the text", "## Not in the paper", "## How to read this"]
    assert heads == ["# T", "## Table 1", *ends]
    first = text.split("## In the text")[0]
    assert "Row a" in first and "Row c" not in first and r"too \| hot" in first
    assert r"\label{tab:p-Table-1}" in latex and r"\label{tab:p-In-the-text}" in latex
    assert [line["status"] for line in lines] == ["scored", "scored", "failed", "scored"]
    assert "too | hot" in lines[2]["reason"] and not lines[1]["reason"]
    of = [published("a", "1"), published("b", "1"), published("c", "text")]
    build_index([*of, published("a", "1", "other")], [tmp_path / "table.csv"], tmp_path)
    index = read_csv(tmp_path / "index.csv")
    assert [line["status"] for line in index] == ["scored", "failed", "scored", "not configured"]
    assert [line["sst_ours"] for line in index] == ["0.25", "", "0.75", ""]
    text = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "\n2 of 4 published rows scored (1 failed, 1 not configured).\n" in text
    assert "sst 0.500" in text and "sst 0.250" in text and text.endswith("\nBackbone: tiny.\n")


@pytest.mark.parametrize(
    ("figures", "scored", "status", "ours"),
    [
        ({"sst": 0.5, "para": 0.8}, "lmrd", "no labels", ""),
        ({"overall": 0.5}, "overall", "scored", "overall 0.750"),
        ({"other": 0.5}, "lmrd", "scored", "other 0.750"),
    ],
)
def test_a_row_is_scored_if_a_figure_of_the_paper_has_a_score(
    figures: dict[str, float], scored: str, status: str, ours: str, tmp_path: Path
) -> None:
    """As a test row of several tasks, of which only one that the paper does not give has labels."""
    places = [("dev", "sst"), ("dev", "lmrd"), ("test", scored)]
    found = [{"variant": "a", "split": s, "task": task, "value": 0.75} for s, task in places]
    one = row("Row a", "a", table="1", split="test", published=figures)
    spec = table(one, tasks=["sst", "para", "sts", "lmrd"], rule="plain")
    ((line,), *_) = build(scores(tmp_path, *found), spec)
    about = published("a", "1", split="test", figures=dict.fromkeys(FIGURES) | figures)
    build_index([about], [tmp_path / "table.csv"], tmp_path)
    (indexed,) = read_csv(tmp_path / "index.csv")
    assert (line["status"], indexed["status"]) == (status, status)
    text = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert cells(text)[2][-1] == ours
