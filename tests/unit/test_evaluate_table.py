"""A paper's table, our figures beside the published ones, and the index of published rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from factories import put_rows

from minbert.evaluate import index, table
from minbert.evaluate import text as typeset
from minbert.evaluate.reading import SCHEMA
from minbert.evaluate.text import read_csv
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import BUILT_IN, TASKS

PUBLISHED = {"sst": 0.5, "para": 0.8, "sts": 0.6, "overall": 0.7}
"""The figures of a row, if a test does not say others."""


def row(label: str, variant: str, **more: Any) -> dict[str, Any]:
    """Return what the plan says of a row."""
    about = {"row": label, "variant": variant, "split": "dev", "table": None, "choice": {}}
    about |= {"note": "", "other_task": None, "parameters": None, "parameters_bert_base": None}
    return about | {"published": PUBLISHED, "tasks": list(BUILT_IN)} | more


class Tables:
    """The scores of paper `p` in a folder, and the table and index made of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def score(self, *values: tuple[Any, ...] | dict[str, Any]) -> None:
        """Write scores: (variant, seed, task, value, last), or more by names."""
        lines = []
        for value in values:
            names = ("variant", "seed", "task", "value", "last")
            line = value if isinstance(value, dict) else dict(zip(names, value, strict=False))
            about = {"paper": "p", "key": f"k{line['variant']}", "seed": 0, "split": "dev"}
            if line["task"] in TASKS:
                lines.append(about | {"metric": TASKS[line["task"]].metric} | line)
            else:
                lines.append(about | line | {"task": "overall", "metric": line["task"]})
        put_rows(self.folder / "scores.parquet", lines, SCHEMA)

    def build(
        self, *rows: dict[str, Any], failures: Mapping[str, str] = {}, **more: Any
    ) -> tuple[list[dict[str, str]], str, str]:
        """Return the lines of the csv, and the table in markdown and LaTeX."""
        spec = {"paper": "p", "title": "Table 1", "caption": "Sharing depth.", "rows": list(rows)}
        spec |= {"rule": "normalised", "tasks": OVERALL_TASKS, "overall_tasks": OVERALL_TASKS}
        spec |= {"backbone": "tiny", "data": "built-in", "seeds": [0, 1], "footnotes": []}
        spec["variants"] = [{"name": of["variant"], "tried": ()} for of in rows]
        spec |= {"single": None, "labels": {}, "selection_split": "dev"} | more
        job: Any = SimpleNamespace(spec=spec, out=self.folder, needs=lambda _: {})
        job.need = lambda _: self.folder / "scores.parquet"
        job.failures = {("p", name): why for name, why in failures.items()}
        table.make(job)
        text, tex = (
            (self.folder / f"table.{ending}").read_text("utf-8") for ending in ("md", "tex")
        )
        return read_csv(self.folder / "table.csv"), text, tex

    def index(self, *rows: dict[str, Any]) -> tuple[list[dict[str, str]], str]:
        """Return the index of published rows after `build`: the lines of the csv, and the text."""
        needs = {"p": self.folder / "table.csv"}
        job: Any = SimpleNamespace(spec={"published": rows}, out=self.folder, needs=lambda _: needs)
        index.make(job)
        return read_csv(self.folder / "index.csv"), (self.folder / "index.md").read_text("utf-8")


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


@pytest.fixture
def two_seeds(tables: Tables) -> Tables:
    values = {"sst": (0.40, 0.42), "para": (0.7, 0.7), "sts": (-0.1, -0.3)}
    values |= {"normalised": (0.5, 0.5), "plain": (0.3, 0.3)}
    of = [("a", seed, task, pair[seed]) for task, pair in values.items() for seed in (0, 1)]
    extra = {"variant": "a", "task": "sst", "metric": "macro_f1", "value": 0.99}
    tables.score(*of, extra, ("b", 0, "sst", 0.45))
    return tables


def cells(markdown: str) -> list[list[str]]:
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def shown(text: str, label: str, heads: Sequence[str]) -> list[str]:
    """Return the cells of a row below the `heads`."""
    head, _, *body = cells(text)
    (found,) = (dict(zip(head, line, strict=True)) for line in body if line[0] == label)
    return [found[name] for name in heads]


def test_golden(two_seeds: Tables) -> None:
    counts = {"parameters": 1_234_567, "parameters_bert_base": 110_000_000}
    rows = row("Row A", "a", **counts), row("B", "b", note="SST only")
    (line, _), text, tex = two_seeds.build(*rows)
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
    assert "n of 2 seeds, by the spread" in text and r"\[1\] SST only" in text
    assert "Backbone: tiny. Data: built-in." in text
    assert tex.isascii() and tex.count("{") == tex.count("}")
    body = tex[tex.index(r"\midrule") : tex.index(r"\bottomrule")].splitlines()[1:]
    assert r"\begin{tabular}{llrrrrrrrrrrrr}" in tex and r"\cmidrule(lr){3-4}" in tex
    assert {line.count(" & ") for line in body} == {13}
    assert r" $-$0.200 $\pm$ 1.271 " in body[0] and r"normalised$\dagger$" in tex


NASTY = "a_b & 50% #1 | {x} $y$ [z] <i> \\ ~ ^ *s*"


def test_text_is_escaped_everywhere(two_seeds: Tables) -> None:
    of = {"footnotes": [f"foot {NASTY}"], **dict.fromkeys(("title", "caption", "backbone"), NASTY)}
    lines, text, tex = two_seeds.build(row(NASTY, "a", note=f"note {NASTY}"), data=NASTY, **of)
    assert lines[0]["row"] == NASTY
    assert text.count(typeset.markdown(NASTY)) == text.count("50%") == 7
    assert tex.count(typeset.latex(NASTY)) == tex.count(r"50\%") == 7


def test_gains_and_the_last_epochs_scores_stand_beside_the_best(tables: Tables) -> None:
    tables.score(
        *(("a", 0, "sst", 0.50, 0.40), ("a", 1, "sst", 0.52, 0.48), ("a", 0, "sts", 0.5, None)),
        *(("a", 0, "normalised", 0.70, 0.65), ("a", 1, "normalised", 0.72, 0.61)),
        *(("a", 0, "delta_m", -1.0), ("a", 1, "delta_m", -2.0), ("b", 1, "delta_m", 3.126)),
        *(("b", 0, "sts", 0.50, None), ("c", 0, "sts", 0.50, None)),
    )
    rows = row("A", "a"), row("B", "b"), row("C", "c")
    lines, text, tex = tables.build(*rows, single="a", labels={"a": "one by one"})
    assert [lines[0][name] for name in ("sst_last", "sts_last")] == ["0.44", ""]
    assert shown(text, "A", ["Overall last epoch†"]) == ["0.630"]
    assert [line["delta_m_mean"] for line in lines] == ["-1.5", "3.126", ""]
    assert float(lines[0]["delta_m_low"]) == pytest.approx(-1.5 - 12.706 * 0.5, abs=1e-3)
    gains = [shown(text, name, ["Δm (%)"])[0] for name in "ABC"]
    assert gains == ["-1.50 ± 6.35", "+3.13 (n = 1)", "—"]
    for said in (text, tex):
        assert "averaged over the rows: SST +0.070; the csv has every row" in said
        assert "the gain over 'one by one', which trains each task alone" in said


def test_rows_without_scores_say_why(two_seeds: Tables) -> None:
    lines, text, _ = two_seeds.build(
        row("dev, not yet", "none"),
        row("test, scored on dev", "a", split="test"),
        row("test, not yet", "none", split="test"),
        row("overall only", "none", published={"overall": 0.7}),
        row("said in words", "none", published={}),
        rule="plain",
    )
    expected = ["not run", "no labels", "not run", "not run", "not run"]
    assert [line["status"] for line in lines] == expected
    _, _, *body = cells(text)
    assert [line[3] for line in body] == [*expected[:3], "—", "not run"]
    assert [line[9] for line in body] == expected
    assert two_seeds.build()[0] == []


def test_a_task_besides_the_overall_ones_says_why_it_has_no_score(tables: Tables) -> None:
    tables.score(("a", 0, "lmrd", 0.8))
    names = {"a": ["lmrd"], "b": ["lmrd"], "c": ["sst"]}
    rows = [row(name, name, published={}, tasks=tasks) for name, tasks in names.items()]
    _, text, _ = tables.build(*rows, tasks=["sst", "lmrd"])
    found = [shown(text, name, ["LMRD ours"]) for name in "abc"]
    assert found == [["0.800"], ["not run"], ["—"]]


def test_escaping_golden(tmp_path: Path) -> None:
    assert typeset.markdown("a_b*c|d # `e` [f] <g> & ~ $ 5%") == (
        r"a\_b\*c\|d \# \`e\` \[f\] \<g\> \& \~ \$ 5%"
    )
    assert typeset.latex("a_b & 5% #1 | {x} $ \\ ± 0.1 [0] * †") == (
        r"a\_b \& 5\% \#1 \textbar{} \{x\} \$ \textbackslash{} $\pm$ 0.1 {[}0{]} {*} $\dagger$"
    )
    assert typeset.markdown("a\x1b]0;x\x07b\nc\t\u202ed") == typeset.markdown("a ]0;x b c d")
    machines = (0.019513798794267956, 0.01951379879426796)  # as two processors sum the same
    for r in machines:
        typeset.write_csv(tmp_path / "a.csv", ["r", "n", "of"], [{"r": r, "n": 3, "of": None}])
        assert (tmp_path / "a.csv").read_text("utf-8") == "r,n,of\n0.019513799,3,\n"


def held(variant: str, task: str, value: float, p: float, **more: Any) -> dict[str, Any]:
    floor = {"sst": 0.25, "para": 0.62, "sts": 0.0}[task]
    line = {"variant": variant, "task": task, "value": value, "p_floor": p, "floor": floor}
    return line | {"constant": False, "error": 0.01} | more


def test_scores_at_their_floor_are_marked_below_floors_for_each_split(tables: Tables) -> None:
    tables.score(
        *(held("good", "sst", 0.5, 0.001), held("good", "para", 0.63, 0.2)),
        held("good", "sts", 0.4, 0.05),
        {"variant": "good", "task": "plain", "value": 0.5, "floor": 0.29},
        held("good", "sst", 0.5, 0.001, split="test", floor=0.28),
        *(held("some", "para", 0.8, p, seed=n) for n, p in enumerate((0.001, 0.3, 0.01))),
        held("some", "sst", 0.25, 1.0, constant=True),
        *(held("some", "sst", 0.2, 1.0, seed=1), held("some", "sst", 0.3, 0.01, seed=2)),
    )
    rows = [row(name, name) for name in ("good", "some")]
    lines, text, tex = tables.build(*rows, row("tested", "good", split="test"))
    heads = ["SST ours", "Paraphrase ours", "STS ours"]
    sst, para, sts = shown(text, "good", heads)
    assert sst == "0.500 ± 0.020" and para.endswith(" °") and not sts.endswith("°")
    sst, para, _ = shown(text, "some", heads)
    assert para.endswith(" °1/3") and sst.endswith(" ‡1/3 °1/3")
    columns = ("para_above", "para_floor", "sst_above", "sst_constant")
    assert [lines[1][name] for name in columns] == ["2", "0.62", "1", "1"]
    assert r"$^\circ$" in tex and r"$\ddagger$" in tex
    head, _, *floors = cells(text)[:4]
    names = ("Row", "Split", "SST paper", *heads[::2], "Overall plain", "n", "Parameters here")
    found = [[line[head.index(name)] for name in names] for line in floors]
    assert found == [
        ["Floor", "dev", "—", "0.250", "0.000", "0.290", "—", "—"],
        ["Floor", "test", "—", "0.280", "—", "—", "—", "—"],
    ]


FIGURES = {"sst": 0.5}


def published(variant: str, table: str, paper: str = "p", **more: Any) -> dict[str, Any]:
    names = {"paper": paper, "table": table, "row": f"Row {variant}", "variant": variant}
    return names | {"split": "dev", "figures": FIGURES} | more


def test_tables_of_the_paper_are_sections_and_the_index_counts_by_status(tables: Tables) -> None:
    """Three published rows in two tables, and one that the paper has not; b has failed."""
    tables.score(("a", 0, "sst", 0.25), ("c", 0, "sst", 0.75), ("extra", 0, "sst", 0.5))
    places = {"c": "text", "a": "1", "b": "1", "extra": None}
    rows = [row(f"Row {n}", n, table=of, published=FIGURES) for n, of in places.items()]
    failures = {"b": "stage 'main', seed 0: UserError: too | hot", "a": "an old failure"}
    lines, text, latex = tables.build(*rows, failures=failures, footnotes=["A foot."])
    heads = [line for line in text.splitlines() if line.startswith("#")]
    ends = ["## In the text", "## Not in the paper", "## How to read this"]
    assert heads == ["# Table 1", "## Table 1", *ends]
    first = text.split("## In the text")[0]
    assert "Row a" in first and "Row c" not in first and r"too \| hot" in first
    assert r"\label{tab:p-Table-1}" in latex and r"\label{tab:p-In-the-text}" in latex
    assert [line["status"] for line in lines] == ["scored", "scored", "failed", "scored"]
    assert "too | hot" in lines[2]["reason"] and not lines[1]["reason"]
    of = [published("a", "1"), published("b", "1"), published("c", "text")]
    index, text = tables.index(*of, published("a", "1", "other"))
    assert [line["status"] for line in index] == ["scored", "failed", "scored", "not configured"]
    assert [line["sst_ours"] for line in index] == ["0.25", "", "0.75", ""]
    assert "\n2 of 4 published rows scored (1 failed, 1 not configured).\n" in text
    assert "sst 0.500" in text and "sst 0.250" in text and text.endswith("\nBackbone: tiny.\n")


@pytest.mark.parametrize(
    ("figures", "scored", "status", "ours"),
    [
        ({"sst": 0.5, "para": 0.8}, "lmrd", "no labels", ""),
        ({"overall": 0.5}, "plain", "scored", "overall 0.750"),
        ({"other": 0.5}, "lmrd", "scored", "other 0.750"),
    ],
)
def test_a_row_is_scored_if_a_figure_of_the_paper_has_a_score(
    figures: dict[str, float], scored: str, status: str, ours: str, tables: Tables
) -> None:
    """As a test row of several tasks, of which only one that the paper does not give has labels."""
    places = [("dev", "sst"), ("dev", "lmrd"), ("test", scored)]
    of = [{"variant": "a", "split": split, "task": task, "value": 0.75} for split, task in places]
    tables.score(*of)
    one = row("Row a", "a", table="1", split="test", published=figures)
    one |= {"other_task": "lmrd" if "other" in figures else None}
    one |= {"choice": {"ka": "Row of another name"}}
    (line,), text, _ = tables.build(
        one, tasks=["sst", "para", "sts", "cfimdb", "lmrd"], rule="plain"
    )
    about = published("a", "1", split="test", figures=figures)
    (indexed,), listed = tables.index(about)
    assert (line["status"], indexed["status"]) == (status, status)
    assert line["reason"] == ("here: Row of another name" if scored == "lmrd" else "")
    assert cells(listed)[2][-1] == ours
    heads = cells(text)[0]
    assert "CFIMDB ours" not in heads and ("LMRD ours" in heads) == (scored == "lmrd")
