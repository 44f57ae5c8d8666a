"""Tuned variants from the plan to the table: what is tried, chosen, scored and shown."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from factories import make_plan, predictions, training

from minbert.commands.plan import plan_text
from minbert.evaluate.reading import read_scores
from minbert.evaluate.seeds import ranked
from minbert.evaluate.text import read_csv
from minbert.plan.plan import Plan
from minbert.store.job import Job

GRID = """\
paper: demo
title: A demo
overall: plain
overall_tasks: [sst]
templates:
  t:
    tasks: {sst: {loss: cross_entropy}}
    test: true
    tune: {optimiser.lr: [1e-5, 2e-5]}
variants:
  a: {extends: t, label: Method A}
  b: {extends: t, reduction: mean}
  untuned: {extends: t, tune: null, selection_split: half, optimiser: {lr: 2e-5}}
claims:
  - {text: They are alike., section: "1", variant: a, against: b, direction: same}
figures:
  ranking: {kind: ranking, title: Ranking}
"""
HITS = {
    "a.lr-1e-5": {"selection": 4, "dev": 1, "test": 2},
    "a.lr-2e-5": {"selection": 3, "dev": 4, "test": 4},
    "b.lr-1e-5": {"selection": 2, "dev": 2, "test": 2},
    "b.lr-2e-5": {"selection": 3, "dev": 3, "test": 3},
}
"""Of four examples each: dev and test would choose the other setting for `a`."""


def planned(base: Path, grid: str = GRID, **config: Any) -> Plan:
    return make_plan(base, grid, seeds=[0, 1], **config)


def train(plan: Plan, name: str, hits: dict[str, int], seed: int) -> None:
    """Leave what training a candidate leaves."""
    path = training(plan, name).folder(plan.root, seed) / "predictions.parquet"
    rows = [
        (f"{split}{n}", "sst", split, (n + (n >= right)) % 2, n % 2)
        for split, right in hits.items()
        for n in range(4)
    ]
    predictions(path, *rows)


def make(plan: Plan, shown: str, failures: dict[tuple[str, str], str] | None = None) -> Path:
    node = plan.shown[shown]
    job = Job(plan.root, node.describe(), None, 1, failures=failures or {})
    import_module(node.maker).make(job)
    return job.out


def shown(plan: Plan, failures: dict[tuple[str, str], str] | None = None) -> list[dict[str, str]]:
    """Choose, score and make the table; return its lines."""
    make(plan, "tables/demo.tuning")
    make(plan, "scores/demo")
    return read_csv(make(plan, "tables/demo", failures) / "table.csv")


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    found = planned(tmp_path)
    for name, hits in HITS.items():
        for seed in (0, 1):
            train(found, name, hits, seed)
    return found


def test_the_choosing_half_chooses_and_the_other_is_reported(plan: Plan) -> None:
    lines = {(line["variant"], line["split"]): line for line in shown(plan)}
    a, b = lines["a", "dev"], lines["b", "dev"]
    assert (a["settings"], float(a["sst_mean"])) == ("lr 1e-5", 0.25)
    assert (b["settings"], float(b["sst_mean"])) == ("lr 2e-5", 0.75)
    assert float(lines["a", "test"]["sst_mean"]) == 0.5
    assert (a["runs_done"], a["runs_wanted"], a["status"]) == ("4", "4", "scored")
    keys = [training(plan, name).key for name in ("a.lr-1e-5", "b.lr-2e-5")]
    assert [a["keys"], b["keys"]] == keys
    assert (lines["untuned", "dev"]["settings"], lines["untuned", "dev"]["runs_done"]) == ("", "")
    assert set(lines) == {(n, s) for n in "ab" for s in ("dev", "test")} | {("untuned", "dev")}
    text = (plan.shown["tables/demo"].folder(plan.root) / "table.md").read_text("utf-8")
    assert "| Tuned settings | Tuned budget |" in text
    # Candidates have no scores of their own; claims and rankings are of what was chosen.
    path = plan.shown["scores/demo"].folder(plan.root) / "scores.parquet"
    assert set(pq.read_table(path)["variant"].to_pylist()) == {"a", "b", "untuned"}
    best = [of.variant for of in ranked(read_scores(path, "demo"), "plain")]
    assert best == ["untuned", "b", "a"]
    (line,) = read_csv(make(plan, "tables/claims") / "claims.csv")
    assert (line["verdict"], line["reason"]) == ("cannot be judged", "neither learned")


def test_what_was_tried_is_written_down(plan: Plan) -> None:
    folder = make(plan, "tables/demo.tuning")
    lines = read_csv(folder / "tuning.csv")
    assert [(li["variant"], li["candidate"], li["chosen"], float(li["score"])) for li in lines] == [
        ("a", "a.lr-1e-5", "yes", 1.0),
        ("a", "a.lr-2e-5", "", 0.75),
        ("b", "b.lr-1e-5", "", 0.5),
        ("b", "b.lr-2e-5", "yes", 0.75),
    ]
    assert {line["seeds"] for line in lines} == {"0 1"} and lines[0]["sst_mean"] == "1.0"
    text = (folder / "tuning.md").read_text("utf-8")
    assert "| Method A | lr 1e-5 | yes | 1.000 ± 0.000 | 1.000 | 2 |" in " ".join(text.split())
    assert "mean over n of 2 seeds" in text
    assert "tuned: the best of a.lr-1e-5, a.lr-2e-5" in plan_text(plan)


def test_an_untrained_setting_is_not_chosen_and_counts_in_the_budget(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    train(plan, "a.lr-1e-5", HITS["a.lr-1e-5"], 0)
    for seed in (0, 1):
        train(plan, "a.lr-2e-5", HITS["a.lr-2e-5"], seed)
    why = {("demo", "b.lr-1e-5"): "stage 'main', seed 0: E: it broke"}
    lines = {(line["variant"], line["split"]): line for line in shown(plan, why)}
    # With one seed of two, the better setting may owe its score to the seed.
    assert lines["a", "dev"]["settings"] == "lr 2e-5"
    assert (lines["a", "dev"]["runs_done"], lines["a", "dev"]["runs_wanted"]) == ("3", "4")
    text = (plan.shown["tables/demo"].folder(plan.root) / "table.md").read_text("utf-8")
    assert "| 3 of 4 runs |" in " ".join(text.split())
    b = lines["b", "dev"]
    assert (b["status"], b["reason"], b["settings"]) == ("failed", why["demo", "b.lr-1e-5"], "")
