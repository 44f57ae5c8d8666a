"""The page of the study: counts and reasons."""

from __future__ import annotations

from pages import study

from minbert.evaluate.claims import FAILS
from minbert.evaluate.index import in_words
from minbert.evaluate.text import read_csv
from minbert.spec.published import FIGURES


def test_the_page_counts_the_rows_that_the_index_calls_scored() -> None:
    index = read_csv(study.STUDY / "tables" / "index.csv")
    scored = [line for line in index if line["status"] == "scored"]
    assert in_words(index).startswith(f"{len(scored)} of {len(index)} published rows scored")
    assert f"rows: {len(scored)} of the {len(index)} have" in study.PAGE.read_text("utf-8")
    assert all(any(line[f"{name}_ours"] for name in FIGURES) for line in scored)


def test_every_difference_that_we_exclude_has_its_reason_or_none() -> None:
    excluded = [one for one in study.claimed() if one["verdict"] == FAILS or study._outside(one)]
    _, *lines = study.why_different()
    assert sum(said.count(";") + 1 for said, *_ in lines) == len(excluded) > 0
