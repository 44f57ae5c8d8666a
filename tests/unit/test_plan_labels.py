"""Labels of test rows reach scores on test, and nothing that trains or chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from factories import predictions, training
from planning import REPOSITORY

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.data import labels
from minbert.data.labels import SCHEMA
from minbert.evaluate.score import make
from minbert.plan.describe import title
from minbert.plan.outputs import load_plan
from minbert.plan.plan import Plan
from minbert.spec.protocol import SPLITS
from minbert.spec.task import BUILT_IN
from minbert.store.job import Job
from minbert.store.node import Node

GRID = """paper: p
title: T
overall: plain
templates: {t: {tasks: {sst: {loss: cross_entropy}, sts: {loss: mse, pairing: cross}}}}
variants:
  first: {extends: t}
  second: {extends: t, optimiser: {lr: 1e-4}}
  best: {best_of: [first, second], best_by: task}
"""


@pytest.fixture
def planned(tmp_path: Path) -> Any:
    """Return how a plan is made of small course files, with or without a folder of labels."""
    write_text(tmp_path / "g.yaml", GRID)
    for task in ("sst", "sts"):
        for split in SPLITS:
            name = BUILT_IN[task].files[split].path
            write_text(tmp_path / "course" / name, f"the rows of {name}\n")
    write_text(tmp_path / "public" / "sst.csv", "id,label\nx,3\n")

    def plan(**more: Any) -> Plan:
        config = {
            **{"grids": [str(tmp_path / "g.yaml")], "results": str(tmp_path / "results")},
            **{"course": str(tmp_path / "course"), "seeds": [0, 1]},
        }
        return load_plan({**config, **more}, REPOSITORY)

    return plan


def below(node: Node) -> set[str]:
    """Return the kinds of all that a node is made from."""
    return {need.node.kind for need in node.needs.values()}.union(
        *(below(need.node) for need in node.needs.values())
    )


def test_labels_change_scores_and_what_shows_them_alone(planned: Any, tmp_path: Path) -> None:
    before, after = planned(), planned(labels=str(tmp_path / "public"))
    new = {kind for kind, _ in set(after.nodes) - set(before.nodes)}
    assert new == {"labels", "scores", "table", "index", "figure", "report"}
    assert all("labels" not in below(node) for node, _ in after.runs())
    for made, tested in ((before, False), (after, True)):
        assert {of["tested"] for of in made.shown["scores/p"].spec["variants"]} == {tested}
    (node,) = [node for node in after.nodes.values() if node.kind == "labels"]
    assert title(after, node) == "sst" and list(node.spec["files"]) == ["labels"]
    write_text(tmp_path / "public" / "sst.csv", "id,label\nx,4\n")
    with pytest.raises(UserError, match=r"sst.csv changed since the plan"):
        labels.make(Job(tmp_path, {**node.describe(), "extra": node.extra}, None, 1))


def test_rows_that_were_joined_are_scored_and_choose_nothing(planned: Any, tmp_path: Path) -> None:
    """The second variant is better on dev, the first on test."""
    plan = planned(labels=str(tmp_path / "public"), seeds=[0])
    keys = {}
    for variant, right in (("first", "test"), ("second", "dev")):
        node = training(plan, variant)
        rows = [
            (f"{split}{n}", task, split, n if split == right else 4, n if split == "dev" else None)
            for split in ("dev", "test")
            for task in ("sst", "sts")
            for n in range(4)
        ]
        predictions(node.folder(plan.root, 0) / "predictions.parquet", *rows)
        keys[variant] = node.key
    node = plan.shown["scores/p"]
    # As when what there is is published after the join has failed.
    make(Job(plan.root, node.describe(), None, 1))
    table = pq.read_table(node.folder(plan.root) / "scores.parquet")
    assert set(table["split"].to_pylist()) == {"dev"}
    given = node.needs["labels.sst"].node.folder(plan.root) / "labels.parquet"
    given.parent.mkdir(parents=True)
    pairs = [["test0", "test1", "test3"], [0.0, 1.0, 2.0]]  # test2 could not be joined
    pq.write_table(pa.table(pairs, schema=SCHEMA), given)
    make(Job(plan.root, node.describe(), None, 1))
    scored = pq.read_table(node.folder(plan.root) / "scores.parquet").to_pylist()
    found = {
        (row["variant"], row["task"]): (row["value"], row["key"])
        for row in scored
        if row["metric"] in ("accuracy", "pearson") and row["split"] == "test"
    }
    assert found == {
        ("first", "sst"): (pytest.approx(2 / 3), keys["first"]),
        ("second", "sst"): (0, keys["second"]),
        # Dev chose the second, though the first is better on test.
        ("best", "sst"): (0, keys["second"]),
    }, "the folder has no labels of STS"
