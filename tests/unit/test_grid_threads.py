"""Threads of a job: as configured, or the cores shared out among the jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from planning import planning_folder

from minbert.base.files import write_text
from minbert.plan.demand import job_threads
from minbert.plan.pending import pending
from minbert.plan.plan import Plan

GRID = """\
paper: one
title: One
overall: plain
variants:
  a: {tasks: {sst: {loss: cross_entropy}}}
  b: {tasks: {sst: {loss: cross_entropy, weight: 2}}}
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return planning_folder(tmp_path, GRID)


def plan(base: Path, **config: Any) -> Plan:
    values = {"grids": ["g"], "data": "builtin", "backbone": "builtin"}
    return Plan.load({**values, "results": str(base / "results"), **config}, base)


def threads_of(made: Plan, cores: int | None) -> int:
    return job_threads(made, pending(made), cores)


def test_a_number_is_kept(base: Path) -> None:
    assert threads_of(plan(base, threads=3), 8) == 3
    assert threads_of(plan(base, threads="3"), 1) == 3


@pytest.mark.parametrize(
    ("seeds", "cores", "threads"),
    [([0], 1, 1), ([0], 2, 1), ([0], 4, 2), ([0], 64, 4), ([0, 1, 2], 8, 1), ([0], None, 1)],
)
def test_cores_are_shared_out_among_the_jobs(
    base: Path, seeds: list[int], cores: int | None, threads: int
) -> None:
    assert threads_of(plan(base, seeds=seeds), cores) == threads


def test_finished_jobs_take_none(base: Path) -> None:
    made = plan(base)
    node = next(node for node in made.nodes.values() if node.kind == "train")
    for name in node.outputs:
        write_text(node.folder(made.root, 0) / name, "")
    assert threads_of(made, 4) == 4
