"""Floors in tables: a line above the rows, marks after scores, columns of the csv."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from test_evaluate_table import build, cells, row, table

from minbert.evaluate.marks import MEANING
from minbert.evaluate.reading import SCHEMA
from minbert.evaluate.statistics import NORMAL
from minbert.evaluate.text import markdown

METRICS = {"sst": "accuracy", "para": "accuracy", "sts": "pearson", "cfimdb": "accuracy"}
METRICS |= {"lmrd": "accuracy"}


def write(path: Path, *lines: dict[str, Any]) -> Path:
    about = {"paper": "p", "key": "k", "seed": 0, "split": "dev", "error": 0.01}
    rows = [about | {"metric": METRICS.get(line["task"])} | line for line in lines]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    return path


def score(variant: str, task: str, value: float, p: float, **more: Any) -> dict[str, Any]:
    floor = {"sst": 0.25, "para": 0.62, "sts": 0.0, "cfimdb": 0.5, "lmrd": 0.3}[task]
    line = {"variant": variant, "task": task, "value": value, "p_floor": p, "floor": floor}
    return line | {"constant": False} | more


def shown(text: str, label: str) -> dict[str, str]:
    head, _, *body = cells(text)
    found = {line[0]: dict(zip(head, line, strict=True)) for line in body}
    return found[label]


def test_scores_at_their_floor_are_marked(tmp_path: Path) -> None:
    made = write(
        tmp_path / "scores.parquet",
        score("good", "sst", 0.5, 0.001),
        score("good", "para", 0.63, 0.2),
        score("good", "sts", 0.4, 0.05),
        score("bad", "sst", 0.25, 1.0, constant=True),
        *(score("some", "para", 0.6, p, seed=n) for n, p in enumerate((0.001, 0.3, 0.01))),
        score("some", "sst", 0.25, 1.0, constant=True),
        score("some", "sst", 0.2, 1.0, seed=1),
        score("some", "sst", 0.3, 0.01, seed=2),
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
    assert markdown(MEANING) in text
    assert r"$^\circ$" in tex and r"$\ddagger$" in tex and tex.isascii()


def test_a_line_of_floors_for_each_split(tmp_path: Path) -> None:
    made = write(
        tmp_path / "scores.parquet",
        score("a", "sst", 0.5, 0.001),
        score("a", "sts", 0.5, 0.001),
        score("a", "sst", 0.5, 0.001, split="test", floor=0.28),
        {"variant": "a", "task": "overall", "metric": "plain", "value": 0.5, "floor": 0.29},
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
