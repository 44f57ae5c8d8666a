"""List schedules: known ones, Graham's anomalies, and bounds that hold for all."""

from __future__ import annotations

import random
from typing import Any

import pytest

from minbert.grid.schedule import Schedule, Task, schedule


def job(name: str, seconds: float, *needs: str, cores: int = 1, **more: Any) -> Task:
    return Task(name, "train", seconds, {"cores": cores}, needs, **more)


def graham(less: int = 0) -> list[Task]:
    """The nine jobs of Graham (1969, figure 2): 3, 2, 2, 2, 4, 4, 4, 4, 9, each `less` shorter."""
    needs = {9: ("1",), **dict.fromkeys((5, 6, 7, 8), ("4",))}
    seconds = (3, 2, 2, 2, 4, 4, 4, 4, 9)
    return [job(str(n), s - less, *needs.get(n, ())) for n, s in enumerate(seconds, 1)]


@pytest.mark.parametrize(("less", "machines", "makespan"), [(0, 3, 12), (0, 4, 15), (1, 3, 13)])
def test_grahams_anomalies(less: int, machines: int, makespan: float) -> None:
    """One machine more, or each job shorter, and the list's schedule is longer."""
    assert schedule(graham(less), {"cores": machines}).makespan == makespan


def test_grahams_schedule_on_three_machines_start_by_start() -> None:
    made = schedule(graham(), {"cores": 3})
    expected = {"1": 0, "2": 0, "3": 0, "4": 2, "9": 3, "5": 4, "6": 4, "7": 8, "8": 8}
    assert made.starts == expected
    assert (made.critical, made.chain) == (12, ("1", "9"))
    assert made.work("cores") == 34 and made.bound("cores") == pytest.approx(34 / 3)
    assert made.idle("cores") == pytest.approx(1 - 34 / 36)


def test_equals_start_in_the_order_given() -> None:
    starts = schedule([job(name, 1) for name in "bca"], {"cores": 1}).starts
    assert starts == {"b": 0, "c": 1, "a": 2}


def test_nothing_waits_for_a_wide_job_to_fit() -> None:
    made = schedule([job("a", 3), job("wide", 1, cores=2), job("b", 1), job("c", 4)], {"cores": 2})
    assert made.starts == {"a": 0, "b": 0, "c": 1, "wide": 5}


def test_a_wish_for_more_than_there_is_means_all() -> None:
    made = schedule([job("a", 1, cores=8), job("b", 1)], {"cores": 2})
    assert made.starts == {"a": 0, "b": 1}
    assert made.work("cores") == 3


def test_jobs_without_a_gpu_run_beside_those_that_have_it() -> None:
    gpu = {"cores": 1, "gpus": 1}
    jobs = [Task(name, "train", 2, gpu) for name in "ab"] + [job("c", 1), job("d", 1)]
    made = schedule(jobs, {"cores": 2, "gpus": 1})
    assert made.starts == {"a": 0, "c": 0, "d": 1, "b": 2}
    assert (made.idle("gpus"), made.idle("cores")) == (0, 0.25)


def test_no_jobs_take_no_time() -> None:
    made = schedule([], {"cores": 2})
    assert (made.makespan, made.critical, made.chain, made.idle("cores")) == (0, 0, (), 0)


@pytest.mark.parametrize(
    ("jobs", "told"),
    [
        ([job("a", 1, "gone")], "'a' needs 'gone'"),
        ([job("a", 1, "b"), job("b", 1, "a")], "waits for itself"),
    ],
)
def test_what_can_never_run_is_refused(jobs: list[Task], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        schedule(jobs, {"cores": 1})


def random_jobs(draw: random.Random, widest: int) -> list[Task]:
    found: list[Task] = []
    for number in range(draw.randint(1, 30)):
        needs = draw.sample([t.name for t in found], min(len(found), draw.randint(0, 3)))
        cores = draw.randint(1, widest)
        found.append(job(str(number), draw.choice([0.5, 1, 2, 7]), *needs, cores=cores))
    draw.shuffle(found)
    return found


def check(made: Schedule, machines: int) -> None:
    """Every job runs after what it needs, and never more at a time than there is room for."""
    for task in made.tasks:
        assert made.ends[task.name] == made.starts[task.name] + task.seconds
        assert all(made.starts[task.name] >= made.ends[need] for need in task.needs)
    for moment in made.starts.values():
        at_once = [t for t in made.tasks if made.starts[t.name] <= moment < made.ends[t.name]]
        assert sum(min(task.uses["cores"], machines) for task in at_once) <= machines


@pytest.mark.parametrize("seed", range(40))
def test_bounds(seed: int) -> None:
    draw = random.Random(seed)
    machines, widest = draw.randint(1, 6), draw.choice([1, 1, 4])
    made = schedule(random_jobs(draw, widest), {"cores": machines})
    check(made, machines)
    assert made.makespan >= made.critical - 1e-9
    assert made.makespan >= made.bound("cores") - 1e-9
    if widest == 1:  # Graham (1966): at most 2 - 1/m times what no schedule can beat.
        rest = (1 - 1 / machines) * made.critical
        assert made.makespan <= made.bound("cores") + rest + 1e-9
    steps = {task.name: task for task in made.tasks}
    assert sum(steps[name].seconds for name in made.chain) == pytest.approx(made.critical)
    assert all(a in steps[b].needs for a, b in zip(made.chain, made.chain[1:], strict=False))
