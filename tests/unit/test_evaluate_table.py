"""A paper's table: our figures beside the published ones, in three forms."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minbert.base.errors import UserError
from minbert.evaluate import text as typeset
from minbert.evaluate.marks import MEANING
from minbert.evaluate.reading import SCHEMA
from minbert.evaluate.statistics import NORMAL
from minbert.evaluate.table import write_table
from minbert.evaluate.table_rows import read_table
from minbert.spec.task import TASKS


def scores(path: Path, *values: tuple[Any, ...] | dict[str, Any]) -> Path:
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
    pq.write_table(pa.Table.from_pylist(lines, schema=SCHEMA), path)
    return path


def row(label: str, variant: str, **more: Any) -> dict[str, Any]:
    published = {"sst": 0.5, "para": 0.8, "sts": 0.6, "other": None, "overall": 0.7}
    return {"row": label, "variant": variant, "split": "dev", "published": published} | more


def table(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    about = {"paper": "p", "title": "Table 1", "caption": "Sharing depth.", "rule": "normalised"}
    about |= {"backbone": "tiny", "data": "built-in"}
    return about | {"seeds": [0, 1], "rows": list(rows)} | more


def build(
    tmp_path: Path, spec: dict[str, Any], made: Path, failures: Mapping[str, str] = {}
) -> tuple[list[dict[str, str]], str, str]:
    write_table(read_table(spec, made, failures), tmp_path / "tables")
    with (tmp_path / "tables" / "table.csv").open(newline="", encoding="utf-8") as handle:
        lines = list(csv.DictReader(handle))
    texts = [
        (tmp_path / "tables" / f"table.{ext}").read_text(encoding="utf-8") for ext in ("md", "tex")
    ]
    return lines, texts[0], texts[1]


def cells(markdown: str) -> list[list[str]]:
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_last_epochs_scores_stand_beside_the_best(tmp_path: Path) -> None:
    made = scores(
        tmp_path / "scores.parquet",
        ("a", 0, "dev", "sst", "accuracy", 0.50, 0.40),
        ("a", 1, "dev", "sst", "accuracy", 0.52, 0.48),
        ("a", 0, "dev", "sts", "pearson", 0.50, None),
        ("a", 0, "dev", "overall", "normalised", 0.70, 0.65),
        ("a", 1, "dev", "overall", "normalised", 0.72, 0.61),
    )
    ((line,), markdown, latex) = build(tmp_path, table(row("A", "a")), made)
    assert float(line["sst_last"]) == pytest.approx(0.44)
    assert float(line["overall_normalised_last"]) == pytest.approx(0.63)
    assert (line["sts_last"], line["overall_plain_last"]) == ("", "")
    heads, _, body = cells(markdown)
    assert dict(zip(heads, body, strict=True))["Overall last epoch†"] == "0.630"
    for text in (markdown, latex):
        assert "averaged over the rows: SST +0.070; the csv has every row" in text


def test_the_gain_over_single_tasks_golden(tmp_path: Path) -> None:
    made = scores(
        tmp_path / "scores.parquet",
        ("a", 0, "dev", "sst", "accuracy", 0.4),
        ("a", 1, "dev", "sst", "accuracy", 0.4),
        ("a", 0, "dev", "overall", "delta_m", -1.0),
        ("a", 1, "dev", "overall", "delta_m", -2.0),
        ("b", 0, "dev", "sst", "accuracy", 0.4),
        ("b", 1, "dev", "sst", "accuracy", 0.4),
        ("b", 1, "dev", "overall", "delta_m", 3.126),
        ("c", 0, "dev", "sst", "accuracy", 0.4),
    )
    spec = table(row("A", "a"), row("B", "b"), row("C", "c"), single="one by one")
    lines, text, tex = build(tmp_path, spec, made)
    assert [line["delta_m_mean"] for line in lines] == ["-1.5", "3.126", ""]
    assert float(lines[0]["delta_m_low"]) == pytest.approx(-1.5 - 12.706 * 0.5, abs=1e-3)
    assert float(lines[0]["delta_m_high"]) == pytest.approx(-1.5 + 12.706 * 0.5, abs=1e-3)
    head, _, *body = cells(text)
    at = head.index("Δm (%)")
    assert head[at - 1] == "Overall plain" and head[at + 1] == "n"
    assert [line[at] for line in body] == ["-1.50 ± 6.35", "+3.13 (n = 1)", "—"]
    assert r"$\Delta$m (\%)" in tex and r" $-$1.50 $\pm$ 6.35 " in tex
    for said in (text, tex):
        assert "the gain over 'one by one', which trains each task alone" in said
    assert tex.isascii()


@pytest.fixture
def two_seeds(tmp_path: Path) -> Path:
    return scores(
        tmp_path / "scores.parquet",
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


def test_csv_golden(tmp_path: Path, two_seeds: Path) -> None:
    spec = table(row("Row A", "a", parameters=1234, parameters_bert_base=110_000_000, note="n"))
    (line,), _, _ = build(tmp_path, spec, two_seeds)
    assert list(line)[:8] == [
        *("paper", "table", "row", "variant", "split", "status", "seeds", "other_task")
    ]
    assert (line["row"], line["status"], line["seeds"]) == ("Row A", "scored", "2")
    assert float(line["sst_published"]) == 0.5
    assert float(line["sst_mean"]) == pytest.approx(0.41)
    assert float(line["sst_high"]) - 0.41 == pytest.approx(12.706 * 0.01, abs=1e-4)
    assert 0.41 - float(line["sst_low"]) == pytest.approx(12.706 * 0.01, abs=1e-4)
    assert line["sst_n"] == "2" and "lmrd_mean" not in line
    assert float(line["overall_normalised_mean"]) == 0.5
    assert float(line["overall_plain_mean"]) == 0.3
    assert line["overall_rule"] == "normalised"
    assert (line["parameters"], line["parameters_bert_base"]) == ("1234", "110000000")


def test_csv_has_the_digits_that_every_machine_agrees_on() -> None:
    machines = (0.019513798794267956, 0.01951379879426796)
    texts = {typeset.csv_text(["r", "n", "of"], [{"r": r, "n": 3, "of": None}]) for r in machines}
    assert texts == {"r,n,of\n0.019513799,3,\n"}


def test_markdown_golden(tmp_path: Path, two_seeds: Path) -> None:
    spec = table(
        row("Row A", "a", parameters=1_234_567, parameters_bert_base=110_000_000),
        row("B", "b", note="SST only"),
    )
    _, text, _ = build(tmp_path, spec, two_seeds)
    head, align, first, second = cells(text)
    assert head == [
        *("Row", "Split", "SST paper", "SST ours", "Paraphrase paper", "Paraphrase ours"),
        *("STS paper", "STS ours", "Overall paper", "Overall normalised†", "Overall plain"),
        *("n", "Parameters here", "Parameters BERT-base"),
    ]
    assert align[0].startswith(":-")
    assert first == [
        *("Row A", "dev", "0.500", "0.410 ± 0.127", "0.800", "0.700 ± 0.000", "0.600"),
        *("-0.200 ± 1.271", "0.700", "0.500 ± 0.000", "0.300 ± 0.000", "2", "1.23 M", "110.00 M"),
    ]
    assert second == [
        *(r"B \[1\]", "dev", "0.500", "0.450", "0.800", "not run", "0.600", "not run", "0.700"),
        *("not run", "not run", "1", "not counted", "not counted"),
    ]
    assert "n of 2 seeds (1 of 2 rows have fewer)" in text
    assert r"\[1\] SST only" in text
    assert "Backbone: tiny. Data: built-in." in text
    widths = {len(line) for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1, "the columns are aligned"


def test_order_of_rows_is_the_papers(tmp_path: Path, two_seeds: Path) -> None:
    spec = table(row("Z", "b"), row("A", "a"), row("M", "none"))
    lines, text, tex = build(tmp_path, spec, two_seeds)
    assert [line["row"] for line in lines] == ["Z", "A", "M"]
    assert "(1 of 2 rows have fewer)" in text, "a row without scores has no mean"
    assert [line[0] for line in cells(text)[2:]] == ["Z", "A", "M"]
    assert tex.index("\nZ &") < tex.index("\nA &") < tex.index("\nM &")


def test_the_table_speaks_of_neither_a_gain_nor_last_epochs_that_it_lacks(
    tmp_path: Path, two_seeds: Path
) -> None:
    for text in build(tmp_path, table(row("A", "a"), single="x"), two_seeds)[1:]:
        assert not any(word in text for word in ("Δm", "Delta", "last epoch"))


def test_the_papers_own_rule_is_marked(tmp_path: Path, two_seeds: Path) -> None:
    _, text, tex = build(tmp_path, table(row("A", "a"), rule="plain"), two_seeds)
    assert "Overall plain†" in cells(text)[0]
    assert "Overall normalised" in cells(text)[0]
    assert r"plain$\dagger$" in tex


def test_rows_without_scores_say_why(tmp_path: Path, two_seeds: Path) -> None:
    only_overall = {"overall": 0.7}
    spec = table(
        row("dev, not yet", "none"),
        row("test, scored on dev", "a", split="test"),
        row("test, not yet", "none", split="test"),
        row("overall only", "none", published=only_overall),
        row("said in words", "none", published={}),
    )
    lines, text, _ = build(tmp_path, spec, two_seeds)
    expected = ["not run", "no labels", "not run", "not run", "not run"]
    assert [line["status"] for line in lines] == expected
    body = cells(text)[2:]
    assert [line[3] for line in body] == [*expected[:3], "—", "not run"]
    assert [line[9] for line in body] == expected
    assert not any(cell == "" for line in body for cell in line), "no cell is blank"


def test_a_test_row_with_labels_of_one_task_lacks_those_of_the_others(tmp_path: Path) -> None:
    made = scores(
        tmp_path / "s.parquet",
        ("a", 0, "dev", "sst", "accuracy", 0.5),
        ("a", 0, "dev", "para", "accuracy", 0.8),
        ("a", 0, "test", "para", "accuracy", 0.8),
    )
    _, text, _ = build(tmp_path, table(row("A", "a", split="test")), made)
    heads, _, body = cells(text)
    shown = dict(zip(heads, body, strict=True))
    assert [shown[name] for name in ("SST ours", "STS ours")] == ["no labels", "not run"]
    assert shown["Paraphrase ours"] == "0.800"


def test_empty_caption_note_and_footnotes_leave_no_gap(tmp_path: Path, two_seeds: Path) -> None:
    spec = table(row("A", "a", note="", published={}, other_task=None), caption="")
    _, text, tex = build(tmp_path, spec, two_seeds)
    assert "\n\n\n" not in text
    assert r"\caption{Table 1.}" in tex
    assert cells(text)[2][0] == "A"


def test_empty_score_table(tmp_path: Path) -> None:
    lines, text, tex = build(tmp_path, table(row("A", "a")), scores(tmp_path / "s.parquet"))
    assert lines[0]["status"] == "not run"
    assert "not run" in text
    assert "not run" in tex
    write_table(read_table(table(), tmp_path / "s.parquet", {}), tmp_path)
    assert (tmp_path / "table.md").exists()


def test_each_task_of_the_paper_has_a_column(tmp_path: Path) -> None:
    made = scores(
        tmp_path / "scores.parquet",
        ("c", 0, "dev", "cfimdb", "accuracy", 0.96),
        ("l", 0, "dev", "lmrd", "accuracy", 0.7),
        ("l", 0, "dev", "cfimdb", "accuracy", 0.9),
    )
    published = {"other": 0.97}
    tasks = ["sst", "para", "sts", "cfimdb", "lmrd"]
    _, text, _ = build(tmp_path, table(row("C", "c", published=published), tasks=tasks), made)
    head, _, line = cells(text)
    assert (head[8], line[8], line[9]) == ("CFIMDB paper", "0.970", "0.960")
    assert "LMRD ours" not in head, "no row of the section has it"
    ambiguous = row("L", "l", published=published)
    with pytest.raises(UserError, match=r"row 'L'.*lmrd and cfimdb; say with 'other_task'"):
        build(tmp_path, table(ambiguous, tasks=tasks), made)
    spec = table(row("L", "l", published=published, other_task="lmrd"), tasks=tasks)
    lines, text, _ = build(tmp_path, spec, made)
    assert (lines[0]["other_task"], lines[0]["lmrd_published"]) == ("lmrd", "0.97")
    assert (lines[0]["lmrd_mean"], lines[0]["cfimdb_mean"]) == ("0.7", "0.9")
    shown = dict(zip(cells(text)[0], cells(text)[2], strict=True))
    assert (shown["LMRD paper"], shown["LMRD ours"]) == ("0.970", "0.700")
    assert (shown["CFIMDB paper"], shown["CFIMDB ours"]) == ("—", "0.900")


NASTY = "a_b & 50% #1 | {x} $y$ [z] <i> \\ ~ ^ *s*"


def test_text_is_escaped_everywhere(tmp_path: Path, two_seeds: Path) -> None:
    spec = table(row(NASTY, "a", note=f"note {NASTY}"), footnotes=[f"foot {NASTY}"])
    spec |= {"title": NASTY, "caption": NASTY, "backbone": NASTY, "data": NASTY}
    lines, text, tex = build(tmp_path, spec, two_seeds)
    assert lines[0]["row"] == NASTY
    assert text.count(typeset.markdown(NASTY)) == text.count("50%") == 7
    assert tex.count(typeset.latex(NASTY)) == tex.count(r"50\%") == 7
    assert len(cells(text)[2]) == len(cells(text)[0]), "a pipe in a label makes no column"


def test_escaping_golden() -> None:
    assert typeset.markdown("a_b*c|d # `e` [f] <g> & ~ $ 5%") == (
        r"a\_b\*c\|d \# \`e\` \[f\] \<g\> \& \~ \$ 5%"
    )
    assert typeset.latex("a_b & 5% #1 | {x} $ \\ ± 0.1") == (
        r"a\_b \& 5\% \#1 \textbar{} \{x\} \$ \textbackslash{} $\pm$ 0.1"
    )
    assert typeset.latex("[0] * †") == r"{[}0{]} {*} $\dagger$"


def test_text_is_safe_for_terminals() -> None:
    for escaped in (typeset.markdown, typeset.latex):
        assert escaped("a\x1b]0;x\x07b\nc\t\u202ed") == escaped("a ]0;x b c d")


def test_latex_is_well_formed(tmp_path: Path, two_seeds: Path) -> None:
    _, _, tex = build(tmp_path, table(row("A", "a"), row("B", "b", note="x")), two_seeds)
    assert tex.isascii()
    assert tex.count("{") == tex.count("}")
    body = tex[tex.index(r"\midrule") : tex.index(r"\bottomrule")].splitlines()[1:]
    assert r"\begin{tabular}{llrrrrrrrrrrrr}" in tex
    assert {line.count(" & ") for line in body} == {13}
    assert r" $-$0.200 $\pm$ 1.271 " in body[0]
    for name in (r"\toprule", r"\midrule", r"\bottomrule", r"\cmidrule(lr){3-4}", r"\label{tab:p}"):
        assert name in tex
    assert all(line.endswith(r"\\") for line in body)


def held(variant: str, task: str, value: float, p: float, **more: Any) -> dict[str, Any]:
    floor = {"sst": 0.25, "para": 0.62, "sts": 0.0}[task]
    line = {"variant": variant, "task": task, "value": value, "p_floor": p, "floor": floor}
    return line | {"constant": False, "error": 0.01} | more


def shown(text: str, label: str) -> dict[str, str]:
    head, _, *body = cells(text)
    found = {line[0]: dict(zip(head, line, strict=True)) for line in body}
    return found[label]


def test_scores_at_their_floor_are_marked(tmp_path: Path) -> None:
    made = scores(
        tmp_path / "scores.parquet",
        held("good", "sst", 0.5, 0.001),
        held("good", "para", 0.63, 0.2),
        held("good", "sts", 0.4, 0.05),
        held("bad", "sst", 0.25, 1.0, constant=True),
        *(held("some", "para", 0.6, p, seed=n) for n, p in enumerate((0.001, 0.3, 0.01))),
        held("some", "sst", 0.25, 1.0, constant=True),
        held("some", "sst", 0.2, 1.0, seed=1),
        held("some", "sst", 0.3, 0.01, seed=2),
    )
    lines, text, tex = build(tmp_path, table(*(row(n, n) for n in ("good", "bad", "some"))), made)
    good, bad, some = (shown(text, name) for name in ("good", "bad", "some"))
    assert good["SST ours"] == f"0.500 ± {0.01 * NORMAL:.3f}"
    assert good["Paraphrase ours"].endswith(" °") and not good["STS ours"].endswith("°")
    assert bad["SST ours"].endswith(" ‡")
    assert some["Paraphrase ours"].endswith(" °1/3")
    assert some["SST ours"].endswith(" ‡1/3 °1/3")
    assert (lines[0]["para_above"], lines[1]["sst_constant"], lines[2]["sst_above"]) == (
        *("0", "1", "1"),
    )
    assert [line["para_floor"] for line in lines] == ["0.62", "", "0.62"]
    assert typeset.markdown(MEANING) in text
    assert r"$^\circ$" in tex and r"$\ddagger$" in tex and tex.isascii()


def test_a_line_of_floors_for_each_split(tmp_path: Path) -> None:
    made = scores(
        tmp_path / "scores.parquet",
        held("a", "sst", 0.5, 0.001),
        held("a", "sts", 0.5, 0.001),
        held("a", "sst", 0.5, 0.001, split="test", floor=0.28),
        {"variant": "a", "task": "overall", "value": 0.5, "floor": 0.29},
    )
    _, text, _ = build(tmp_path, table(row("A", "a"), row("B", "a", split="test")), made)
    head, _, dev, test, *rows = (dict(enumerate(line)) for line in cells(text))
    at = {name: place for place, name in head.items()}
    assert [dev[at[n]] for n in ("Row", "Split", "SST ours", "STS ours", "Overall plain")] == [
        *("Floor", "dev", "0.250", "0.000", "0.290")
    ]
    assert [test[at[n]] for n in ("Row", "Split", "SST ours", "STS ours")] == [
        *("Floor", "test", "0.280", "—")
    ]
    assert dev[at["SST paper"]] == "—" and len(rows) == 2
