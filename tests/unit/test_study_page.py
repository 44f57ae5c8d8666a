"""The page of the study, and what README says of it: tables, numbers and reasons."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages.study import BLOCK, NUMBER, PAGE, PAGES, README, filled
from pages.study_numbers import rows_of
from pages.study_tables import STUDY, claimed, outside, reasons, why_different

from minbert.evaluate.claims import FAILS
from minbert.evaluate.index import in_words
from minbert.evaluate.text import read_csv
from minbert.spec.published import FIGURES

NAMES = r"all-MiniLM-L6-v2|Apache 2\.0|[13]-bert|\bR\d+\b|BERT-base|H200|1e-5|r = 0|S17-2001"
"""What has digits, and is no number that a run could change."""

ELSEWHERE = {
    "3,250": "captions of the STS benchmark, by its readme",
    "8,628": "pairs of the STS benchmark, by its readme",
    "20": "epochs of the longest rows that 800 steps stand for (workflow/overlays/minilm.yaml)",
    "10": "epochs of a first task in adapter-fusion's paper",
    "283,010": "its pairs of paraphrases",
    "32": "times that SR repeats the small sets in minibert-unleashed's paper",
    "1": "the largest cosine",
    "5": "the largest label of STS",
    "15": "trainings at once on the GPU",
    "95": "per cent of an interval",
}
"""Numbers on the page that no run, table or setting has, and what of."""


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_has_the_tables_and_numbers_of_the_study(path: Path) -> None:
    page = path.read_text("utf-8")
    assert filled(page) == page, "run cd tests && python -m pages.study"


def test_no_other_number_is_in_their_sentences() -> None:
    page = re.sub(BLOCK, "", PAGE.read_text("utf-8"), flags=re.DOTALL)
    about, *_ = README.read_text("utf-8").partition("## Two commands")
    why = [why["reason"] for part in reasons().values() for why in part]
    prose = "\n".join([page, about, *why])
    for known in (NUMBER, NAMES, r"\]\([^)]*\)"):
        prose = re.sub(known, "", prose)
    assert {*re.findall(r"\.?\d[\d,.]*\d|\.?\d", prose)} == {*ELSEWHERE}


def test_the_rows_that_the_index_calls_scored_are_counted() -> None:
    index = read_csv(STUDY / "tables" / "index.csv")
    scored = [line for line in index if line["status"] == "scored"]
    assert in_words(index).startswith(f"{len(scored)} of {len(index)} published rows scored")
    assert [rows_of(status) for status in ("scored", "all")] == [
        str(len(rows)) for rows in (scored, index)
    ]
    assert all(any(line[f"{name}_ours"] for name in FIGURES) for line in scored)


def test_every_difference_that_we_exclude_has_its_reason_or_none() -> None:
    excluded = [one for one in claimed() if one["verdict"] == FAILS or outside(one)]
    _, *lines = why_different()
    assert sum(said.count(";") + 1 for said, *_ in lines) == len(excluded) > 0
