"""Which jobs start first, and how long the trainings take on several devices."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from planning import REPOSITORY, planning_folder

from minbert.commands.plan import plan_text
from minbert.plan.chains import chains, makespan
from minbert.plan.cost import Cost, Costs
from minbert.plan.demand import Demand
from minbert.plan.pending import Job, Pending, pending
from minbert.plan.plan import Plan
from minbert.spec.config import load_config
from minbert.spec.resolve import StageRef

GRID = """paper: hybrid-bert
title: T
overall: plain
templates: {t: {tasks: {sst: {loss: cross_entropy}}}}
variants:
  x: {extends: t, epochs: 1}
  y: {extends: t, epochs: 2}
  z: {extends: t, epochs: 3}
  a: {extends: t, epochs: 4}
  b: {extends: t, epochs: 5, start: a}
  c: {extends: t, epochs: 6, start: b}
"""
SECONDS = {"a": 20.0, "b": 20.0, "c": 20.0, "x": 30.0, "y": 30.0, "z": 30.0}


class Known(Costs):
    """Costs that are given, by variant."""

    def of(self, node):  # type: ignore[no-untyped-def]
        """Return what is given."""
        plan = self.experiment
        return Cost(SECONDS[plan.owners[node.key].variant], measured=True)


@pytest.fixture
def made(tmp_path: Path) -> Plan:
    base = planning_folder(tmp_path, GRID)
    values = {"grids": ["g"], "data": "builtin", "backbone": "builtin", "seeds": [0]}
    return Plan.load({**values, "results": str(base / "results")}, base)


def training(made: Plan, variant: str) -> Job:
    return made.train(StageRef("hybrid-bert", variant, "main")), 0


def test_a_jobs_chain_is_the_longest_behind_it(made: Plan) -> None:
    jobs = pending(made)
    found = chains(jobs, Known(made))
    assert found[training(made, "a")].seconds == 60
    assert found[training(made, "a")].trainings == tuple(training(made, v) for v in "abc")
    assert found[training(made, "c")].seconds == 20
    assert found[training(made, "x")].seconds == 30
    by_kind = {node.kind: found[node, seed].seconds for node, seed in jobs if seed is None}
    assert by_kind["data"] == by_kind["tokens"] == by_kind["backbone"] == 60
    assert by_kind["scores"] == by_kind["table"] == by_kind["report"] == 0


def test_the_longest_chain_first_ends_sooner(made: Plan) -> None:
    jobs, costs = pending(made), Known(made)
    first = {job: chain.seconds for job, chain in chains(jobs, costs).items()}
    assert makespan(jobs, costs, first, 1) == 150
    assert makespan(jobs, costs, first, 2) == 80  # a b z | x y c
    assert makespan(jobs, costs, first, 4) == 60
    assert makespan(jobs, costs, {job: -first[job] for job in jobs}, 2) == 90  # x z b | y a c


def test_trainings_that_are_done_take_no_time_and_are_not_waited_for(made: Plan) -> None:
    node, seed = training(made, "a")
    folder = node.folder(made.root, seed)
    folder.mkdir(parents=True)
    for name in node.outputs:
        (folder / name).write_text("", encoding="utf-8")
    jobs = pending(made)
    found = chains(jobs, Known(made))
    assert (node, seed) not in found and found[training(made, "b")].seconds == 40
    first = {job: chain.seconds for job, chain in found.items()}
    assert makespan(jobs, Known(made), first, 9) == 40


@pytest.fixture(scope="module")
def grids(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pending, Costs]:
    """Return the trainings of the grids in config.yaml with three seeds, on GPUs."""
    config = load_config(REPOSITORY / "config.yaml").model_dump(mode="json")
    results = str(tmp_path_factory.mktemp("grids") / "results")
    values = {"seeds": [0, 1, 2], "device": "cuda", "results": results}
    made = Plan.load({**config, **values}, REPOSITORY)
    return pending(made), Costs(made)


def test_eight_simulated_gpus_are_never_idle_for_long(grids: tuple[Pending, Costs]) -> None:
    jobs, costs = grids
    first = {job: chain.seconds for job, chain in chains(jobs, costs).items()}
    bound = sum(costs.of(node).seconds for node, _ in jobs if node.kind == "train") / 8
    longest = makespan(jobs, costs, first, 8)
    assert bound <= longest < 1.01 * bound
    draw = random.Random(0)
    others = [makespan(jobs, costs, {job: draw.random() for job in jobs}, 8) for _ in range(9)]
    assert sorted(others)[4] > 1.05 * longest


def test_the_plan_says_how_long_that_takes(made: Plan) -> None:
    told = plan_text(made)
    assert "(a . sst > b . sst > c . sst)" in told
    (line,) = [line for line in told.splitlines() if line.startswith("Longest chains first")]
    assert line.count(" on ") == 3


def test_each_stage_is_counted_once_whatever_its_seeds(
    made: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []

    def count(*what: Any) -> float:
        counted.append(what)
        return 1e12

    monkeypatch.setattr("minbert.plan.cost.operations", count)
    demand = Demand(made, gpu=None)
    for _ in range(3):
        for key in made.owners:
            assert demand.minutes("train", key, 1) and demand.mem_mb("train", key, 1)
    assert len(counted) == len(made.owners)
