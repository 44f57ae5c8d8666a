"""Devices: which cards are there, and that jobs share them without ever overloading one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minbert.base.locks import is_held, take
from minbert.devices.cards import SLOTS, VISIBLE, Card, visible_cards
from minbert.devices.lease import device_for, lease, locks_folder

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
def _two(nvidia_smi: Callable[[int], object]) -> None:
    nvidia_smi(2)


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


def held() -> tuple[int, int]:
    """Return how many of the eight slots of each card are taken."""
    taken = ([is_held(locks_folder() / f"GPU-{n}.{m}") for m in range(SLOTS)] for n in range(2))
    one, other = map(sum, taken)
    return one, other


def test_thirty_mixed_jobs_and_random_kills_never_overload_a_card(start, tmp_path: Path) -> None:
    """Two cards of eight slots; a job that is killed is started again until it has ended."""
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
        (float(e[0]), ended[int(e[3])], e[4], min(8, -(-int(e[5]) // (10 * GB))))
        for e in events
        if e[1] == "begins"
    ]
    most = {"GPU-0": 0, "GPU-1": 0}
    for moment, _, card, _ in spans:
        load = sum(n for begin, end, at, n in spans if at == card and begin <= moment < end)
        most[card] = max(most[card], load)
    assert max(most.values()) <= SLOTS
    assert min(most.values()) >= 6, "the cards were not filled"
    assert held() == (0, 0)


def test_a_large_job_waits_for_a_card_alone_and_is_not_passed(start, tmp_path: Path) -> None:
    small = [start(f"small{n}", 5 * GB, 600) for n in range(2)]
    wait_for_lines(tmp_path / "log", 2)
    assert held() == (1, 1), "two small jobs were not spread over two cards"
    for name, size in (("large", 75), ("later", 5)):
        said = start(name, size * GB, 600).stdout.readline()
        assert said == f"waits for {size}.0 GB of a GPU (locks: {locks_folder()})\n"
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


@given(st.integers(0, 400 * GB), st.integers(1, 200))
def test_slots_never_promise_more_memory_than_a_card_has(memory: int, size: int) -> None:
    n = Card("0", "0", size * GB).needed(memory)
    assert 1 <= n <= SLOTS
    assert n * size * GB >= memory * SLOTS or n == SLOTS
    assert (n - 1) * size * GB < max(memory, 1) * SLOTS


@pytest.mark.parametrize(
    ("wish", "visible", "device", "seen", "taken"),
    [
        ("auto", None, "auto", "GPU-0", (1, 0)),
        ("cuda", None, "cuda", "GPU-0", (1, 0)),
        ("cuda:1", None, "cuda", "GPU-1", (0, 1)),
        ("cuda:0", "1", "cuda", "1", (0, 1)),
        ("auto", "", "auto", "", (0, 0)),
        ("cpu", "0,1", "cpu", "", (0, 0)),
    ],
)
def test_the_job_sees_its_card_alone_of_the_visible_ones(
    wish: str,
    visible: str | None,
    device: str,
    seen: str,
    taken: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if visible is not None:
        monkeypatch.setenv(VISIBLE, visible)
    with device_for(wish, GB, print) as found:
        assert (found, os.environ[VISIBLE], held()) == (device, seen, taken)
    assert (os.environ.get(VISIBLE), held()) == (visible, (0, 0))


def test_a_look_that_finds_nothing_is_repeated() -> None:
    looks = [[], visible_cards()]
    with lease(lambda: looks.pop(0), GB, print) as taken:
        assert taken.name == "GPU-0" and not looks


def test_a_slot_that_another_job_looks_at_is_waited_for() -> None:
    """It locks the slot for that moment."""
    locks_folder().mkdir()
    path = locks_folder() / "GPU-0.0"
    with path.open("a") as looking:
        take(looking, path, shared=True)
        threading.Timer(0.3, looking.close).start()
        with lease(lambda: visible_cards()[:1], 5 * GB, print):
            assert held() == (1, 0)
