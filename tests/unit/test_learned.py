"""`minbert learned`: which rows are above the floor where their paper's rows are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from minbert.commands.learned import learned, learned_text
from minbert.evaluate.reading import SCHEMA
from minbert.plan.plan import Plan
from minbert.spec.resolve import StageRef

REPOSITORY = Path(__file__).parents[2]
PAPER = "hybrid-bert"


def finish(plan: Plan, variant: str, task: str, prediction: np.ndarray, label: np.ndarray) -> None:
    """Leave a score of seed 0 and its predictions."""
    key = plan.train(StageRef(PAPER, variant, "main")).key
    folder = plan.nodes["train", key].folder(plan.root, 0)
    folder.mkdir(parents=True, exist_ok=True)
    columns = {"task": [task] * len(label), "split": ["dev"] * len(label)}
    table = pa.table({**columns, "prediction": prediction, "label": label})
    pq.write_table(table, folder / "predictions.parquet")
    row = {"paper": PAPER, "variant": variant, "seed": 0, "split": "dev", "task": task,
           "metric": "accuracy", "value": 0.5, "key": key, "last": None}  # fmt: skip
    path = plan.outputs[PAPER].scores.folder(plan.root) / "scores.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    before = pq.read_table(path).to_pylist() if path.exists() else []
    pq.write_table(pa.Table.from_pylist([*before, row], schema=SCHEMA), path)


def test_only_what_the_paper_shows_is_asked_for(tmp_path: Path) -> None:
    config = {"grids": PAPER, "data": "builtin", "backbone": "builtin"}
    plan = Plan.load({**config, "results": str(tmp_path)}, REPOSITORY)
    label = np.repeat([0.0, 1.0, 2.0, 3.0, 4.0], 40)
    right = np.where(np.arange(200) % 2, label, 0.0)
    finish(plan, "1-bert", "sst", right, label)
    finish(plan, "3-bert", "sst", np.zeros(200), label)
    asked = {(row.variant, row.task): row.ours for row in learned(plan)}
    # The frozen baseline's paraphrases and similarity are at their floor in the paper.
    assert ("baseline", "sst") in asked
    assert not asked.keys() & {("baseline", "para"), ("baseline", "sts")}
    assert asked["1-bert", "sts"] is None
    ours, flat = asked["1-bert", "sst"], asked["3-bert", "sst"]
    assert ours and ours.above and (ours.score, ours.floor) == (0.6, 0.2)
    assert flat and flat.constant and not flat.above
    told = learned_text(plan)
    assert "1 of 2 above their floor at the 5 % level, 1 of 2 constant predictors" in told
    assert f"{len(asked) - 2} have not run" in told
    line = next(x for x in told.splitlines() if " 3-bert " in x and " sst " in x)
    assert line.split()[-4:] == ["0.200", "0.200", "1.000", "constant"]
