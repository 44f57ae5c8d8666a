"""The page of the study: counts and reasons."""

from __future__ import annotations

from typing import Any

import pytest
from pages import study

from minbert.evaluate.index import in_words
from minbert.evaluate.text import read_csv
from minbert.evaluate.verdicts import FAILS
from minbert.spec.published import FIGURES


def test_the_page_counts_the_rows_that_the_index_calls_scored() -> None:
    index = read_csv(study.STUDY / "tables" / "index.csv")
    scored = [line for line in index if line["status"] == "scored"]
    assert in_words(index).startswith(f"{len(scored)} of {len(index)} published rows scored")
    assert f"rows: {len(scored)} of the {len(index)} have" in study.PAGE.read_text("utf-8")
    assert all(any(line[f"{name}_ours"] for name in FIGURES) for line in scored)


def test_every_difference_that_we_exclude_has_its_reason_or_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = [*study.claimed()]
    found = {said: why for said, *why in study.why_different()}
    excluded = [one for one in shown if one["verdict"] == FAILS or study._outside(one)]
    assert sum(said.count(";") + 1 for said in found) - 1 == len(excluded), "after the heading"
    for reasons, last in (
        ([], "not known"),
        ([{"claim": "*", "reason": "R", "evidence": "E"}], "R"),
    ):
        monkeypatch.setattr(study, "reasons", lambda given=reasons: {"differences": given})
        (_, (_, why, _)) = study.why_different()
        assert why == last
    empty = [{"claim": "no/such/claim/sst", "reason": "R", "evidence": "E"}]
    monkeypatch.setattr(study, "reasons", lambda: {"differences": empty})
    with pytest.raises(AssertionError, match="no difference is no/such/claim/sst"):
        list(study.why_different())


def claim(**changes: Any) -> dict[str, Any]:
    """Return a claim of hybrid-bert that is within noise, too small to detect, and of our sign."""
    ours = {"difference": 0.01, "low": -0.02, "high": 0.04, "low_95": -0.01, "high_95": 0.03}
    more = {"detectable": 0.05, "published_difference": 0.02, "direction": "higher"}
    return {"paper": "hybrid-bert", "verdict": study.NOISE, **ours, **more} | changes


@pytest.mark.parametrize(
    ("changes", "agreed"),
    [
        ({}, ("1 of 1", "0 of 0")),
        ({"direction": "lower"}, ("0 of 1", "0 of 0")),
        ({"low_95": 0.001}, ("1 of 1", "1 of 1")),
        ({"direction": "same"}, ("0 of 0", "0 of 0")),
        ({"published_difference": 0.05}, ("1 of 1", "0 of 0")),
        ({"published_difference": None}, ("1 of 1", "0 of 0")),
        ({"verdict": study.HOLDS}, ("1 of 1", "0 of 0")),
    ],
)
def test_claims_are_counted_by_what_they_show(
    changes: dict[str, Any],
    agreed: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(study, "claimed", lambda: [claim(**changes)])
    lines = {line[0]: line for line in study.verdicts()}
    assert lines["hybrid-bert"][-2:] == agreed
    assert lines["all"][1:] == lines["hybrid-bert"][1:]


def test_a_published_difference_outside_our_interval_is_excluded() -> None:
    ours = {"low": -0.1, "high": 0.2, "difference": 0.1}
    assert not study._outside(ours | {"published_difference": 0.2})
    assert study._outside(ours | {"published_difference": 0.21})
    assert not study._outside(ours | {"published_difference": None})
    assert not study._outside({"published_difference": 0.5}), "not judged"
