"""Devices: which cards are there, and that jobs share them without ever overloading one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minbert.base.errors import UserError
from minbert.base.locks import is_held, take
from minbert.devices.cards import FAKE, VISIBLE, Card, visible_cards
from minbert.devices.lease import LOCKS, device_for, lease, locks_folder

GB = 10**9
JOB = """
import os, sys, time
from pathlib import Path
from minbert.devices.lease import device_for

name, memory, seconds, log = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])

def note(what):
    card = os.environ["CUDA_VISIBLE_DEVICES"]
    with log.open("a") as handle:
        handle.write(f"{time.monotonic()} {what} {name} {os.getpid()} {card} {memory}\\n")

with device_for("auto", memory, lambda line: print(line, flush=True)) as device:
    note("begins")
    time.sleep(seconds)
    note("ends")
"""


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(FAKE, "2x80GB/4")
    monkeypatch.setenv(LOCKS, str(tmp_path / "locks"))
    monkeypatch.delenv(VISIBLE, raising=False)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[object]:
    """Return a function that starts a job (name, bytes, seconds) and does not wait for it."""
    processes: list[subprocess.Popen[str]] = []

    def begin(name: str, memory: int, seconds: float) -> subprocess.Popen[str]:
        words = [name, str(memory), str(seconds), str(tmp_path / "log")]
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", JOB, *words],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def held(card: str = "0") -> int:
    """Return how many of the four slots of a fake card are taken."""
    return sum(is_held(locks_folder() / f"fake-{card}.{n}") for n in range(4))


def test_thirty_mixed_jobs_and_random_kills_never_overload_a_card(start, tmp_path: Path) -> None:
    """Two cards of four slots; a job that is killed is started again until it has ended."""
    draw = random.Random(7)
    jobs = {f"job{n}": draw.choice([5, 15, 30, 50, 79, 200]) * GB for n in range(30)}
    waiting, running, killed = list(jobs), {}, {}
    log = tmp_path / "log"
    log.touch()
    deadline = time.monotonic() + 90
    while waiting or running:
        assert time.monotonic() < deadline, f"{waiting} wait, {sorted(running)} run"
        while waiting and len(running) < 10:
            name = waiting.pop(0)
            running[name] = start(name, jobs[name], draw.uniform(0.02, 0.2))
        if draw.random() < 0.1 and len(killed) < 15:
            victim = draw.choice(sorted(running))
            killed.setdefault(running[victim].pid, time.monotonic())
            running[victim].send_signal(draw.choice([signal.SIGKILL, signal.SIGTERM]))
        for name, process in list(running.items()):
            if process.poll() is not None:
                del running[name]
                if process.returncode != 0:
                    assert process.returncode < 0, process.communicate()
                    waiting.append(name)
        time.sleep(0.02)
    events = [line.split() for line in log.read_text().splitlines()]
    assert {e[2] for e in events if e[1] == "ends"} == set(jobs)
    assert len(killed) >= 5
    # What was killed held its slots until then at least.
    ended = killed | {int(e[3]): float(e[0]) for e in events if e[1] == "ends"}
    spans = [
        (float(e[0]), ended[int(e[3])], e[4], min(4, -(-int(e[5]) // (20 * GB))))
        for e in events
        if e[1] == "begins"
    ]
    most = dict.fromkeys("01", 0)
    for moment, _, card, _ in spans:
        load = sum(n for begin, end, at, n in spans if at == card and begin <= moment < end)
        most[card] = max(most[card], load)
    assert max(most.values()) <= 4
    assert min(most.values()) >= 3, "the cards were not filled"
    assert held("0") == held("1") == 0


def test_the_slots_of_a_killed_job_are_free_at_once(start, tmp_path: Path) -> None:
    job = start("a", 50 * GB, 600)
    wait_for_lines(tmp_path / "log", 1)
    assert held("0") == 3
    job.kill()
    job.wait()
    assert held("0") == 0


def test_a_large_job_waits_for_a_card_alone_and_is_not_passed(start, tmp_path: Path) -> None:
    small = [start(f"small{n}", 5 * GB, 600) for n in range(2)]
    wait_for_lines(tmp_path / "log", 2)
    assert held("0") == held("1") == 1, "two small jobs were not spread over two cards"
    large = start("large", 75 * GB, 600)
    assert large.stdout is not None
    said = large.stdout.readline()
    assert said.startswith("waits for 75.0 GB of a GPU (GPUs: 0, 1; locks: "), said
    later = start("later", 5 * GB, 600)
    assert later.stdout is not None
    said = later.stdout.readline()
    assert said.startswith("waits for 5.0 GB of a GPU (GPUs: 0, 1; "), said
    assert len(wait_for_lines(tmp_path / "log", 2)) == 2
    small[0].kill()
    # Had `later` taken a slot of the freed card, `large` would never begin.
    lines = wait_for_lines(tmp_path / "log", 4)
    assert {line.split()[2] for line in lines[2:]} == {"large", "later"}


def wait_for_lines(log: Path, number: int) -> list[str]:
    deadline = time.monotonic() + 30
    while not log.exists() or len(log.read_text().splitlines()) < number:
        assert time.monotonic() < deadline, f"{number} lines were not written"
        time.sleep(0.02)
    return log.read_text().splitlines()


@given(st.integers(0, 400 * GB), st.integers(1, 200), st.integers(1, 16))
def test_slots_never_promise_more_memory_than_a_card_has(
    memory: int, size: int, slots: int
) -> None:
    card = Card("0", "0", size * GB, 0, slots)
    n = card.needed(memory)
    assert 1 <= n <= slots
    assert n * size * GB >= memory * slots or n == slots
    assert (n - 1) * size * GB < max(memory, 1) * slots


def test_the_job_sees_its_card_alone() -> None:
    with device_for("auto", GB, print) as first, device_for("cuda:0", GB, print) as second:
        # The second one's cards are those that the first left visible.
        assert (first, second, os.environ[VISIBLE]) == ("auto", "cuda", "0")
        assert held("0") == 2
    assert VISIBLE not in os.environ
    assert held("0") == 0


def test_what_is_visible_already_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "1")
    with device_for("auto", GB, print) as device:
        assert (device, os.environ[VISIBLE], held("0"), held("1")) == ("auto", "1", 0, 1)
    assert os.environ[VISIBLE] == "1"
    monkeypatch.setenv(VISIBLE, "")
    with device_for("auto", GB, print):
        assert os.environ[VISIBLE] == "" and held("0") == held("1") == 0


def test_a_device_by_number_is_that_one() -> None:
    with device_for("cuda:1", GB, print) as device:
        assert (device, os.environ[VISIBLE], held("0"), held("1")) == ("cuda", "1", 0, 1)
    expected = "'cuda:2', but the GPUs visible here, counted from 0, are 0, 1: choose"
    with pytest.raises(UserError, match=expected), device_for("cuda:2", GB, print):
        pass


def test_the_cpu_leases_nothing_and_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "0,1")
    with device_for("cpu", GB, print) as device:
        assert (device, os.environ[VISIBLE], held("0")) == ("cpu", "", 0)


def test_a_look_that_finds_nothing_is_repeated() -> None:
    looks, told = [[], [], visible_cards()], list[str]()
    (locks_folder()).mkdir()
    with (locks_folder() / "master").open("a") as master:
        take(master, locks_folder() / "master")
        threading.Timer(0.1, master.close).start()
        with lease(lambda: looks.pop(0), GB, told.append) as taken:
            assert taken.name == "0" and not looks
    assert told == [f"waits for 1.0 GB of a GPU (GPUs: none found; locks: {locks_folder()})"]


def test_a_slot_that_another_job_looks_at_is_waited_for() -> None:
    """It locks the slot for that moment."""
    locks_folder().mkdir()
    path = locks_folder() / "fake-0.0"
    with path.open("a") as looking:
        take(looking, path, shared=True)
        threading.Timer(0.3, looking.close).start()
        with lease(lambda: visible_cards()[:1], 5 * GB, print):
            assert held("0") == 1
