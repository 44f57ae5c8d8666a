"""What `minbert plan --cores` and `--gpus` make of a tiny grid."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from planning import REPOSITORY, planning_folder

from minbert.common.errors import UserError
from minbert.common.files import write_json, write_text
from minbert.grid.estimate import Costs, Gpu
from minbert.grid.links import StageRef
from minbert.grid.plan import Plan
from minbert.grid.simulate import USUAL, Machine, Simulation, asked_machine, simulated
from minbert.grid.wall import wall_seconds

GRID = """\
paper: one
title: One
overall: plain
templates:
  sst: {epochs: 4, tasks: {sst: {loss: cross_entropy, batch_size: 4}}}
variants:
  a: {extends: sst}
  b: {extends: sst, stages: [{name: first}, {name: second, start: first, epochs: 2}]}
  frozen: {extends: sst, trainable: heads}
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return planning_folder(tmp_path, GRID)


def make(base: Path, **config: Any) -> Plan:
    values = {"grids": ["g"], "data": "builtin", "backbone": "builtin", "device": "cpu"}
    made = Plan.load({**values, "results": str(base / "results"), **config}, base)
    made.write()
    return made


def key(plan: Plan, variant: str, stage: str = "main") -> str:
    return plan.train(StageRef("one", variant, stage)).key


def note(base: Path, command: str, file: str, start: float, end: float) -> None:
    """Leave a note as Snakemake does."""
    name = base64.b64encode(file.encode()).decode()
    said = {"shellcmd": command, "starttime": start, "endtime": end, "rule": "x"}
    write_json(base / ".snakemake" / "metadata" / name, said)


def finish(plan: Plan, which: str, seconds: float) -> None:
    """Leave a training's files; its record says how long it took."""
    folder = plan.nodes["train", which].folder(plan.root, 0)
    for name in ("history.parquet", "predictions.parquet", "model.safetensors"):
        write_text(folder / name, "")
    write_json(folder / "run.json", {"outcome": {"seconds": seconds}})


def test_every_job_is_there_with_what_it_needs_and_takes(base: Path) -> None:
    plan = make(base, seeds=[0, 1], processes='{"one/a": 2}')
    tasks = {task.name: task for task in Simulation(plan, Machine(8)).tasks()}
    kinds = Counter(task.kind for task in tasks.values())
    assert kinds["train"] == 8 - 2, "a and b/first are one stage"
    assert kinds["features"] == kinds["data"] == kinds["tokens"] == kinds["publish"] == 1
    second = tasks[f"train {key(plan, 'b', 'second')} s1"]
    assert f"train {key(plan, 'a')} s1" in second.needs
    assert f"train {key(plan, 'a')} s0" not in second.needs
    assert tasks[f"train {key(plan, 'a')} s0"].uses == {"cores": 2}
    (backbone,) = (task for task in tasks.values() if task.kind == "backbone")
    assert backbone.uses == {"cores": 8}
    assert set(tasks["publish"].needs) == tasks.keys() - {"publish"}


def test_gpus_are_for_what_trains_or_encodes(base: Path) -> None:
    plan = make(base, processes='{"one/a": 2}')
    tasks = Simulation(plan, Machine(gpus=4)).tasks()
    assert {t.kind for t in tasks if "gpus" in t.uses} == {"train", "features"}
    (a,) = (t for t in tasks if t.name == f"train {key(plan, 'a')} s0")
    assert a.uses["gpus"] == 2


def test_a_gpu_is_bound_by_its_rate_or_by_its_host(base: Path) -> None:
    plan = make(base)
    node = plan.train(StageRef("one", "a", "main"))
    counted = Costs(plan).operations(node)
    assert Costs(plan, Gpu(1e9, 0)).of(node).seconds == pytest.approx(counted / 1e9)
    rows = plan.config.corpus.sizes or {}
    assert not rows
    from minbert.data.corpus import DEFAULT_SIZES

    batches = 4 * DEFAULT_SIZES["sst"]["train"] / 4
    slow = Costs(plan, Gpu(1e18, 0.5)).of(node)
    assert slow.seconds == pytest.approx(0.5 * batches) and not slow.measured
    heads = plan.train(StageRef("one", "frozen", "main"))
    assert Costs(plan, Gpu(1e18, 0.5)).of(heads).seconds < 1


def test_processes_share_the_counted_work(base: Path) -> None:
    whole, shared = make(base), make(base, processes=4)
    assert key(whole, "a") == key(shared, "a"), "how many share a run is in no key"
    ref = StageRef("one", "a", "main")
    seconds = [Costs(plan).of(plan.train(ref)).seconds for plan in (whole, shared)]
    assert seconds[0] == pytest.approx(4 * seconds[1])


def test_a_run_by_other_many_processes_says_nothing_of_the_time(base: Path) -> None:
    plan = make(base, processes=2)
    finish(plan, key(plan, "a"), 40)
    assert not Costs(plan).of(plan.train(StageRef("one", "a", "main"))).measured
    record = plan.nodes["train", key(plan, "a")].folder(plan.root, 0) / "run.json"
    write_json(record, {"outcome": {"seconds": 40}, "processes": 2})
    assert Costs(plan).of(plan.train(StageRef("one", "a", "main"))).seconds == 40


def test_notes_of_snakemake_say_how_long_a_job_took(base: Path) -> None:
    plan = make(base)
    a, second = key(plan, "a"), key(plan, "b", "second")
    train = f"exec python -m minbert train {a} --seed 0 --results r --threads 1"
    note(base, train, "old", 10, 500)
    note(base, train, "model", 1000, 1041)
    note(base, train, "run", 1000, 1047)
    note(base, "exec python -m minbert figure abc --results r", "fig", 50, 58)
    note(base, "echo hello", "other", 0, 1)
    write_text(base / ".snakemake" / "metadata" / "broken", "{")
    write_text(base / ".snakemake" / "metadata" / "older", json.dumps({"shellcmd": train}))
    assert wall_seconds(base) == {("train", a, 0): 47, ("figure", "abc", None): 8}
    finish(plan, a, 40)
    simulation = Simulation(plan, Machine(1))
    seconds = {task.name: task.seconds for task in simulation.tasks()}
    assert {s for n, s in seconds.items() if n.startswith("figure")} <= {8}
    # What is measured of one run: 40 s by its record, 47 s by the clock, so 7 s to start and end.
    estimated = Costs(plan).of(plan.train(StageRef("one", "b", "second"))).seconds
    assert seconds[f"train {second} s0"] == pytest.approx(estimated + 7)


def test_without_notes_other_jobs_take_what_they_usually_do(base: Path) -> None:
    tasks = Simulation(make(base), Machine(2)).tasks()
    told = {task.kind: task.seconds for task in tasks}
    assert {kind: told[kind] for kind in ("data", "tokens", "scores", "table")} == {
        kind: USUAL[kind] for kind in ("data", "tokens", "scores", "table")
    }
    assert told["backbone"] == 90


def test_where_all_is_done_all_is_simulated(base: Path) -> None:
    plan = make(base)
    for node in plan.nodes.values():
        for name in node.outputs:
            folder = node.folder(plan.root, 0 if node.kind == "train" else None)
            write_text(folder / name, "")
        if node.kind == "train":
            finish(plan, node.key, 100)
    write_json(next(plan.root.glob("store/data/*/report.json")), {"rows": {"train": 8, "dev": 4}})
    write_json(next(plan.root.glob("store/backbone/*/config.json")), {})
    told = simulated(plan, Machine(1))
    assert "all jobs, as none is to run" in told
    trainings = 3
    work = trainings * 103 + sum(
        t.seconds for t in Simulation(plan, Machine(1)).tasks() if t.kind != "train"
    )
    (makespan,) = re.findall(r"Makespan ([\d.]+) min", told)
    assert float(makespan) == pytest.approx(work / 60, abs=0.06)
    assert "idle 0%" in told and f"{trainings} as measured" in told


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ((0, 0, None, None), "--cores is 0; expected a number above 0"),
        ((None, -1, None, None), "--gpus is -1"),
        ((None, 2, 0.0, None), "--rate is 0.0"),
        ((None, 2, None, -15.0), "--batch-ms is -15.0"),
        ((4, 0, 1e14, None), "say how many by --gpus N"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(asked: tuple[Any, ...], told: str) -> None:
    with pytest.raises(UserError, match=re.escape(told)):
        asked_machine(*asked)


def test_no_machine_no_simulation() -> None:
    assert asked_machine(None, 0, None, None) is None
    assert asked_machine(None, 2, None, None) == Machine(None, 2)


def test_no_rule_has_a_priority_that_the_simulation_does_not_know() -> None:
    """Jobs are simulated in Snakemake's order among equals: a rule's priority has to be told."""
    for path in [REPOSITORY / "Snakefile", *(REPOSITORY / "workflow" / "rules").glob("*.smk")]:
        assert not re.search(r"^\s+priority:", path.read_text("utf-8"), re.M), path.name


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (3, [3, 3, 3]),
        ({"one/a": 2}, [2, 1, 1]),
        ({"one/b/first": 3}, [3, 1, 1]),  # which is the same stage as a
        ({"one/*": 2, "*/b/second": 4}, [2, 4, 2]),
    ],
)
def test_processes_are_chosen_by_number_or_by_name(
    chosen: Any, expected: list[int], base: Path
) -> None:
    plan = make(base, processes=chosen)
    keys = [key(plan, "a"), key(plan, "b", "second"), key(plan, "frozen")]
    assert [plan.processes(each) for each in keys] == expected
    described = plan.root / "store" / "spec" / f"train-{keys[0]}.json"
    assert json.loads(described.read_text())["processes"] == expected[0]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"processes": {"one/c": 2}}, "'processes': no stage fits 'one/c'"),
        ({"processes": 0}, "processes"),
        ({"processes": 2, "device": "cuda:1"}, "'processes' is more than 1 with device 'cuda:1'"),
        ({"processes": {"one/a": 2}, "device": "mps"}, "with device 'mps', which is one device"),
    ],
)
def test_processes_that_cannot_be_are_refused(
    config: dict[str, Any], told: str, base: Path
) -> None:
    with pytest.raises(UserError, match=re.escape(told)):
        make(base, **config)
