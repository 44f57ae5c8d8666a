"""What `minbert plan` says of claims that are within noise."""

from __future__ import annotations

from pathlib import Path

from minbert.base.files import write_text
from minbert.commands.undecided import CLAIMS, undecided
from minbert.evaluate.claims import COLUMNS
from minbert.evaluate.text import csv_text


def line(verdict: str, seeds: int, needed: int | None, **more: object) -> dict[str, object]:
    about = {"paper": "p", "variant": "a", "strongest": "b", "task": "sst", "verdict": verdict}
    return about | {"seeds": seeds, "seeds_against": seeds, "seeds_needed": needed} | more


def test_seeds_that_claims_need(tmp_path: Path) -> None:
    assert list(undecided(tmp_path)) == []
    (tmp_path / CLAIMS).parent.mkdir()
    lines = [
        line("within noise", 3, 12, variant="late", measure="gap"),
        line("within noise", 3, 5, seeds_against=None),
        line("within noise", 3, None),
        line("within noise", 1, None),
        line("holds", 3, None),
    ]
    write_text(tmp_path / CLAIMS, csv_text((*COLUMNS, "measure"), lines))
    found = list(undecided(tmp_path))
    assert found[0].startswith("4 claims are within noise (tables/claims.csv)")
    assert found[1].startswith("  p, a against b, sst: 5 seeds each, 2 more")
    assert found[2].startswith("  p, late against b, sst gap: 12 seeds each, 9 more")
    assert found[3].startswith("  1: not even with 50 seeds")
    assert found[4].startswith("  1: unknown, as one seed shows no spread; try five")
    write_text(tmp_path / CLAIMS, csv_text(COLUMNS, lines[4:]))
    assert list(undecided(tmp_path)) == []
