"""`minbert ensemble`: seeds that err at different examples are better together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from minbert.base.errors import UserError
from minbert.commands.ensemble import ensemble_text, ensembles, predicted
from minbert.evaluate.reading import SCHEMA
from minbert.plan.plan import Plan
from minbert.publish.packed import without_unread_scores
from minbert.spec.resolve import StageRef

REPOSITORY = Path(__file__).parents[2]
PAPER, VARIANT = "hybrid-bert", "1-bert"
TRUE = [0, 1, 2, 3]


def planned(tmp_path: Path) -> Plan:
    config = {"grids": PAPER, "data": "builtin", "backbone": "builtin"}
    return Plan.load({**config, "results": str(tmp_path)}, REPOSITORY)


def finish(plan: Plan, seeds: int, order: tuple[int, ...] = (0, 1, 2, 3)) -> None:
    """Leave predictions of SST: each seed is sure of what is right, but for example `seed`."""
    key = plan.train(StageRef(PAPER, VARIANT, "main")).key
    rows = []
    for seed in range(seeds):
        scores = 0.6 * np.eye(5)[TRUE] + 0.08
        scores[seed] = [0.21, 0.2, 0.2, 0.19, 0.2] if TRUE[seed] else [0.2, 0.21, 0.2, 0.2, 0.19]
        at = list(order) if seed else TRUE
        columns = {"id": [f"sst-{n}" for n in at], "task": ["sst"] * 4, "split": ["dev"] * 4}
        columns |= {"scores": scores[at].tolist(), "label": [float(TRUE[n]) for n in at]}
        columns["prediction"] = [float(row.argmax()) for row in scores[at]]
        folder = plan.nodes["train", key].folder(plan.root, seed)
        folder.mkdir(parents=True)
        pq.write_table(pa.table(columns), folder / "predictions.parquet")
        of = {"paper": PAPER, "variant": VARIANT, "seed": seed, "split": "dev", "task": "sst"}
        rows.append({**of, "metric": "accuracy", "value": 0.75, "key": key, "last": None})
    path = plan.shown[f"scores/{PAPER}"].folder(plan.root) / "scores.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)


def test_seeds_that_err_apart_are_right_together_in_any_order(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    finish(plan, 3, order=(3, 1, 0, 2))
    (row,) = ensembles(plan)
    assert (row.variant, row.measure, row.seeds, row.ensemble) == (VARIANT, "sst", (0.75,) * 3, 1.0)
    line = ensemble_text(plan).splitlines()[2]
    assert line.split() == [PAPER, VARIANT, "sst", "3", "0.750", "0.750", "1.000"]


def test_predictions_without_probabilities_make_no_ensemble(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    finish(plan, 2)
    (path, _) = sorted(plan.root.rglob("predictions.parquet"))
    pq.write_table(without_unread_scores(pq.read_table(path)), path)
    with pytest.raises(UserError, match=r"predictions of 'sst' have no .*without --lean"):
        ensemble_text(plan)


def test_one_seed_is_no_ensemble(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    finish(plan, 1)
    with pytest.raises(UserError, match=r"no variant has dev scores of two seeds.*seeds: \[0, 1"):
        ensemble_text(plan)


def test_predictions_of_the_mean_by_kind_of_task() -> None:
    scores = np.array([[0.6], [0.45]])
    np.testing.assert_array_equal(predicted("para", scores), [1.0, 0.0])
    np.testing.assert_allclose(predicted("sts", scores), [0.6, 0.45])
