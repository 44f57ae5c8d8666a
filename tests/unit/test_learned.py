"""`minbert learned`: which rows are above the floor where their paper's rows are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from minbert.commands.learned import learned, learned_text
from minbert.evaluate.reading import SCHEMA
from minbert.plan.plan import Plan

REPOSITORY = Path(__file__).parents[2]
PAPER = "hybrid-bert"


def scored(variant: str, **measured: Any) -> dict[str, Any]:
    """Return a row of the score table: seed 0, SST on dev."""
    of = {"paper": PAPER, "variant": variant, "seed": 0, "split": "dev", "task": "sst"}
    return of | {"metric": "accuracy", "key": "k", "floor": 0.2} | measured


def test_only_what_the_paper_shows_is_asked_for(tmp_path: Path) -> None:
    config = {"grids": PAPER, "data": "builtin", "backbone": "builtin"}
    plan = Plan.load({**config, "results": str(tmp_path)}, REPOSITORY)
    rows = [
        scored("1-bert", value=0.6, p_floor=1e-9, constant=False),
        scored("3-bert", value=0.2, p_floor=1.0, constant=True),
        scored("hybrid-bert", value=0.3, p_floor=0.06, constant=False),
        scored("baseline", value=0.3),  # untested, as by an earlier version
    ]
    path = plan.shown[f"scores/{PAPER}"].folder(plan.root) / "scores.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)
    asked = {(row.variant, row.task): row.ours for row in learned(plan)}
    # The frozen baseline's paraphrases and similarity are at their floor in the paper.
    assert not asked.keys() & {("baseline", "para"), ("baseline", "sts")}
    assert asked["1-bert", "sts"] is None
    told = learned_text(plan)
    assert "1 of 4 above their floor at the 5 % level, 1 of 4 constant predictors" in told
    assert f"{len(asked) - 4} have not run" in told
    cells = [line.split() for line in told.splitlines() if " sst " in line]
    lines = {variant: " ".join(rest) for _, variant, _, _, _, *rest in cells}
    assert lines["1-bert"] == "0.600 0.200 < .001"
    assert lines["3-bert"] == "0.200 0.200 1.000 constant"
    assert lines["hybrid-bert"] == "0.300 0.200 0.060 not above its floor"
    assert lines["baseline"] == "0.300 0.200 -"
