"""`minbert learned`: which rows are above the floor where their paper's rows are."""

from __future__ import annotations

from pathlib import Path

import pytest
from factories import put_rows

from minbert.base.errors import UserError
from minbert.commands.plan import learned_text
from minbert.evaluate.reading import SCHEMA
from minbert.plan.outputs import load_plan

REPOSITORY = Path(__file__).parents[2]
PAPER = "hybrid-bert"


def test_only_what_the_paper_shows_is_asked_for(tmp_path: Path) -> None:
    config = {"grids": PAPER, "data": "builtin", "backbone": "builtin"}
    plan = load_plan({**config, "results": str(tmp_path)}, REPOSITORY)
    with pytest.raises(UserError, match="no scores for this configuration; run snakemake"):
        learned_text(plan)
    scores = [
        ("1-bert", "sst", 0.6, 0.2, 1e-9, False),
        ("3-bert", "sst", 0.2, 0.2, 1.0, True),
        ("hybrid-bert", "sst", 0.3, 0.2, 0.06, False),
        ("sequential", "sst", 0.23, 0.2, 1e-9, False),
        ("baseline", "sst", 0.3, None, None, None),  # untested, as by an earlier version
        ("hybrid-bert", "para", 0.9, 0.99, 1.0, False),  # the paper's is below such a floor
    ]
    names = ("variant", "task", "value", "floor", "p_floor", "constant")
    about = {"paper": PAPER, "seed": 0, "split": "dev", "metric": "accuracy", "key": "k"}
    rows = [about | dict(zip(names, score, strict=True)) for score in scores]
    path = plan.shown[f"scores/{PAPER}"].folder(plan.root) / "scores.parquet"
    put_rows(path, rows, SCHEMA)
    told = learned_text(plan)
    assert "2 of 4 above their floor at the 5 % level, 1 clearly, 1 of 4 constant" in told
    cells = [line.split() for line in told.splitlines() if line.startswith(PAPER)]
    assert {variant: " ".join(rest) for _, variant, _, _, _, *rest in cells} == {
        "1-bert": "0.600 0.200",
        "3-bert": "0.200 0.200 constant",
        "sequential": "0.230 0.200 hardly above its floor",
        "hybrid-bert": "0.300 0.200 not above its floor",
    }
