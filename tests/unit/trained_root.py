"""A results folder with trained variants of two papers, made in this process on a tiny corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from encoders import write_tiny
from factories import put_rows
from planning import planning_folder

from minbert.base.files import write_json, write_text
from minbert.commands.steps import load_job, run_job
from minbert.evaluate.score import SCHEMA
from minbert.plan.describe import write
from minbert.plan.outputs import load_plan
from minbert.plan.plan import Plan
from minbert.spec.resolve import StageRef
from minbert.store.plans import PUBLISHED

ONE = """\
paper: one
title: One
overall: normalised
templates:
  common:
    epochs: 1
    max_length: 24
    optimiser: {lr: 1e-3}
    tasks:
      "*": {head: {width: 8}}
      sst: {loss: cross_entropy}
      para: {loss: binary_cross_entropy, pairing: siamese, features: [u, "|u-v|"], pooling: mean}
      sts: {loss: mse, pairing: cross}
variants:
  three: {extends: common}
  staged:
    extends: common
    stages:
      - {name: all}
      - {name: again, start: all, tasks: {para: null, sts: {trained: false}}}
  frozen: {extends: common, trainable: heads, tasks: {sts: null}}
  adapted:
    extends: common
    trainable: adapters
    adapter: {width: 4}
    tasks: {para: null}
    stages:
      - {name: a, train: sst}
      - {name: b, train: sts}
  fused:
    extends: common
    trainable: fusion
    fuse: [adapted/a, adapted/b]
    train: sts
  later: {extends: common, epochs: 2}
  best: {best_of: [three, staged], best_by: task}
"""
TWO = """\
paper: two
title: Two
overall: plain
variants:
  three:
    epochs: 1
    tasks: {cfimdb: {loss: cross_entropy, head: {width: 8}}}
"""
UNTRAINED = ("later",)


def make_root(base: Path) -> Plan:
    """Plan the two grids in `base` and make everything but what is in `UNTRAINED`."""
    planning_folder(base)
    write_text(base / "one.yaml", ONE)
    write_text(base / "two.yaml", TWO)
    plan = plan_of(base)
    publish(plan)
    for ref in plan.stages:
        if ref.variant not in UNTRAINED:
            _make(plan, "train", plan.train(ref).key)
    _score(plan)
    return plan


def publish(plan: Plan) -> None:
    """Write a plan, and say that what is published is of it."""
    page = {"plan": write(plan), "stamp": "", "names": []}
    write_json(plan.root / PUBLISHED, page)


def plan_of(base: Path, **more: Any) -> Plan:
    """Return the plan of the grids in `base`, with `more` in its configuration."""
    backbone = base / "backbone"
    if not backbone.exists():
        write_tiny(backbone, hidden=16, larger=6)
    return load_plan(
        {
            "grids": ["one.yaml", "two.yaml"],
            "results": str(base / "results"),
            "data": "builtin",
            "limit": 12,
            "backbone": str(backbone),
            "device": "cpu",
            "precision": "fp32",
            "threads": 1,
            **more,
        },
        base,
    )


def run_folder(plan: Plan, variant: str, stage: str = "main", paper: str = "one") -> Path:
    """Return where the training of a stage with seed 0 left its files."""
    return plan.train(StageRef(paper, variant, stage)).folder(plan.root, 0)


def _make(plan: Plan, kind: str, key: str) -> None:
    node = plan.nodes[kind, key]
    seed = 0 if kind == "train" else None
    if node.done(plan.root, seed):
        return
    for need in node.needs.values():
        _make(plan, need.node.kind, need.node.key)
    run_job(load_job(plan.root, kind, key, seed, threads=1))


def _score(plan: Plan) -> None:
    """Leave the score table's rows of `best`: para of `three`, the others of `staged`."""
    chosen = {"para": ("three", "main"), "sts": ("staged", "again"), "sst": ("staged", "again")}
    keys = {task: plan.train(StageRef("one", *ref)).key for task, ref in chosen.items()}
    about = {"paper": "one", "variant": "best", "seed": 0, "metric": "accuracy", "value": 0.5}
    rows = [
        {**about, "split": split, "task": task, "key": key}
        for split in ("dev", "test")
        for task, key in [*keys.items(), ("overall", "")]
    ]
    for folder in (plan.root / "tables", plan.shown["scores/one"].folder(plan.root)):
        put_rows(folder / "scores.parquet", rows, SCHEMA)
