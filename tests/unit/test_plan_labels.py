"""Labels of test rows reach scores on test, and nothing that trains or chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from planning import REPOSITORY
from run_files import history

from minbert.base.errors import UserError
from minbert.base.files import write_json, write_text
from minbert.data import labels
from minbert.data.labels import SCHEMA
from minbert.evaluate.score import make, score_runs
from minbert.plan.describe import title
from minbert.plan.plan import Plan
from minbert.report.floors import Verdicts
from minbert.report.material import Material
from minbert.report.runs import Runs
from minbert.report.warnings import find_warnings
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
            name = getattr(BUILT_IN[task].files, split).path
            write_text(tmp_path / "course" / name, f"the rows of {name}\n")
    write_text(tmp_path / "public" / "sst.csv", "id,label\nx,3\n")

    def plan(**more: Any) -> Plan:
        config = {
            **{"grids": [str(tmp_path / "g.yaml")], "results": str(tmp_path / "results")},
            **{"course": str(tmp_path / "course"), "seeds": [0, 1]},
        }
        return Plan.load({**config, **more}, REPOSITORY)

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
    runs = after.shown["scores/p"].spec["runs"]
    assert [run["tested"] for run in runs] == [True] * 6
    assert not any(run["tested"] for run in before.shown["scores/p"].spec["runs"])
    (node,) = [node for node in after.nodes.values() if node.kind == "labels"]
    assert title(after, node) == "sst" and list(node.spec["files"]) == ["labels"]
    write_text(tmp_path / "public" / "sst.csv", "id,label\nx,4\n")
    again = planned(labels=str(tmp_path / "public"))
    assert after.shown["scores/p"].key != again.shown["scores/p"].key
    with pytest.raises(UserError, match=r"sst.csv changed since the plan"):
        labels.make(Job(tmp_path, {**node.describe(), "extra": node.extra}, None, 1))


def test_a_folder_of_labels_is_looked_at_only_for_real_data(planned: Any, tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    with pytest.raises(UserError, match=r"labels: .*none: there is no such folder"):
        planned(labels=none)
    made = planned(labels=none, data="builtin", backbone="builtin")
    assert "labels" not in {kind for kind, _ in made.nodes}


def finish(plan: Plan) -> dict[str, str]:
    """Leave predictions of both variants; the second is better on dev, the first on test."""
    keys = {}
    for (node, seed), variant in zip(plan.runs(), ("first",) * 2 + ("second",) * 2, strict=True):
        right = {"dev": variant == "second", "test": variant == "first"}
        rows: list[dict[str, Any]] = []
        for split, good in right.items():
            for number in range(4):
                label = float(number)
                predicted = label if good else 4.0
                scores = [float(predicted == c) for c in range(5)]
                rows.append(
                    {
                        **{"id": f"{split}{number}", "task": "sst", "split": split},
                        **{"prediction": predicted, "scores": scores},
                        "label": label if split == "dev" else None,
                    }
                )
        rows += [row | {"task": "sts", "scores": [row["prediction"]]} for row in rows]
        folder = node.folder(plan.root, seed)
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), folder / "predictions.parquet")
        history(folder / "history.parquet")
        keys[variant] = node.key
    return keys


def test_rows_that_were_joined_are_scored_and_choose_nothing(planned: Any, tmp_path: Path) -> None:
    plan = planned(labels=str(tmp_path / "public"))
    keys = finish(plan)
    node = plan.shown["scores/p"]
    # As when what there is is published after the join has failed.
    make(Job(plan.root, node.describe(), None, 1))
    table = pq.read_table(node.folder(plan.root) / "scores.parquet")
    assert set(table["split"].to_pylist()) == {"dev"}
    given = node.needs["labels.sst"].path(plan.root, None)
    given.parent.mkdir(parents=True)
    pairs = [["test0", "test1", "test3"], [0.0, 1.0, 2.0]]  # test2 could not be joined
    pq.write_table(pa.table(pairs, schema=SCHEMA), given)
    make(Job(plan.root, node.describe(), None, 1))
    scored = pq.read_table(node.folder(plan.root) / "scores.parquet").to_pylist()
    found = {
        (row["variant"], row["split"], row["task"]): (row["value"], row["key"])
        for row in scored
        if row["metric"] in ("accuracy", "pearson") and row["seed"] == 1
    }
    assert found["first", "test", "sst"] == (pytest.approx(2 / 3), keys["first"])
    assert found["second", "test", "sst"] == (0, keys["second"])
    # Dev chose the second, though the first is better on test.
    assert found["best", "test", "sst"] == (0, keys["second"])
    assert ("first", "test", "sts") not in found  # the folder has no labels of STS


def test_the_report_says_how_many_rows_have_labels(planned: Any, tmp_path: Path) -> None:
    plan = planned(labels=str(tmp_path / "public"))
    need = plan.shown["report"].needs["labels/sst"]
    write_json(need.path(plan.root, None), {"task": "sst", "rows": 9, "labelled": 8})
    material = Material(Job(plan.root, plan.shown["report"].describe(), None, 1))
    none = Verdicts(0, 0, 0, [], [])
    warnings = find_warnings(material, Runs(0, 0, 0.0, {}), none, [], [])
    (cases,) = [cases for text, cases in warnings if text.startswith("Labels of test rows")]
    assert cases == ["SST: 8 of 9 test rows"]


def test_labels_in_the_predictions_count_before_others(tmp_path: Path) -> None:
    rows = [
        {"id": f"{split}{n}", "task": "sst", "split": split, "prediction": 1.0, "label": label}
        for split, found in (("dev", (1.0, 2.0)), ("test", (1.0, None)))
        for n, label in enumerate(found)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p")
    history(tmp_path / "h")
    of = {"predictions": tmp_path / "p", "history": tmp_path / "h", "key": "k"}
    run = {
        "paper": "p",
        "variant": "v",
        "seed": 0,
        "key": "k",
        "tested": True,
        "tasks": {"sst": of},
    }
    given = {"sst": {"test0": 3.0, "test1": 1.0, "dev1": 1.0}}
    score_runs([run], tmp_path / "s", labels=given)
    table = pq.read_table(tmp_path / "s").to_pylist()
    found = {row["split"]: row["value"] for row in table if row["metric"] == "accuracy"}
    assert found == {"dev": 0.5, "test": 1.0}
