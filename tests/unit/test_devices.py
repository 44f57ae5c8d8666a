"""Devices: which cards are there, that jobs share them, what Slurm is asked before a workflow."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pipeline.project import wait_for

from minbert.base.errors import UserError
from minbert.base.locks import is_held
from minbert.base.progress import counted
from minbert.devices.gpus import (
    QUERY,
    SLOTS,
    VISIBLE,
    Card,
    describe_devices,
    device_for,
    lease,
    locks_folder,
    visible_cards,
)
from minbert.devices.slurm import cancel_orphans, has_gpus

GB = 10**9
Program = Callable[[int | str], Path]
JOB = """
import time
from minbert.devices.gpus import device_for
with device_for("auto", 5 * 10**9, str):
    print("begins", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _two(nvidia_smi: Callable[[int], object]) -> None:
    nvidia_smi(2)


def held() -> tuple[int, int]:
    """Return how many of the eight slots of each card are taken."""
    taken = ([is_held(locks_folder() / f"GPU-{n}.{m}") for m in range(SLOTS)] for n in range(2))
    one, other = map(sum, taken)
    return one, other


def test_thirty_mixed_jobs_never_overload_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cards of eight slots, and ten jobs at a time, which know each other by locks alone."""
    draw = random.Random(7)
    sizes = [draw.choice([5, 15, 30, 50, 79, 200]) * GB for _ in range(30)]
    load, most, shared, counting = Counter[str](), Counter[str](), set[str](), threading.Lock()
    cards = visible_cards()  # asked once: a slow nvidia-smi would let jobs run one by one
    monkeypatch.setattr("minbert.devices.gpus.visible_cards", lambda: cards)

    def job(memory: int) -> None:
        with lease("auto", memory, str) as card:
            with counting:
                shared.update([card.name] if load[card.name] else [])
                load[card.name] += card.needed(memory)
                most[card.name] = max(most[card.name], load[card.name])
            time.sleep(0.05)
            with counting:
                load[card.name] -= card.needed(memory)

    with ThreadPoolExecutor(10) as jobs:
        list(jobs.map(job, sizes))
    assert all(slots <= SLOTS for slots in most.values()) and len(most) == 2
    assert shared, "jobs of one card ran one after the other"
    assert held() == (0, 0)


def test_a_large_job_waits_for_a_card_alone_and_is_not_passed() -> None:
    """What a killed job held is free."""
    command = [sys.executable, "-c", JOB]
    small = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in small:
        assert process.stdout and process.stdout.readline() == "begins\n"
    assert held() == (1, 1), "two small jobs were not spread over two cards"
    said, began, end = list[str](), list[int](), threading.Event()

    def job(size: int) -> None:
        with lease("auto", size * GB, said.append):
            began.append(size)
            end.wait(600)

    with ThreadPoolExecutor(2) as jobs:
        for number, size in enumerate((75, 5)):
            jobs.submit(job, size)
            wait_for(lambda: len(said) > number, "it does not wait")  # noqa: B023
        assert said[0] == f"waits for 75.0 GB of a GPU (locks: {locks_folder()})" and not began
        small[0].kill()
        # Had the second taken a slot of the freed card, the first would never begin.
        wait_for(lambda: began == [75, 5], "they do not begin in their order")
        end.set()
    for process in small:
        process.kill()
        process.communicate()


@given(st.integers(0, 400 * GB), st.integers(1, 200))
def test_slots_never_promise_more_memory_than_a_card_has(memory: int, size: int) -> None:
    n = Card("0", size * GB).needed(memory)
    assert 1 <= n <= SLOTS
    assert n * size * GB >= memory * SLOTS or n == SLOTS
    assert (n - 1) * size * GB < max(memory, 1) * SLOTS


@pytest.mark.parametrize(
    ("requested", "visible", "device", "seen", "taken"),
    [
        ("cuda", None, "cuda", "GPU-0", (1, 0)),
        ("cuda:1", None, "cuda", "GPU-1", (0, 1)),
        ("cuda:0", "1", "cuda", "GPU-1", (0, 1)),
        ("auto", "", "auto", "", (0, 0)),
        ("cpu", "0,1", "cpu", "", (0, 0)),
    ],
)
def test_the_job_sees_its_card_alone_of_the_visible_ones(
    requested: str,
    visible: str | None,
    device: str,
    seen: str,
    taken: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if visible is not None:
        monkeypatch.setenv(VISIBLE, visible)
    with device_for(requested, GB, print) as found:
        assert (found, os.environ[VISIBLE], held()) == (device, seen, taken)
    assert (os.environ.get(VISIBLE), held()) == (visible, (0, 0))


CARDS = f"[ $1 = {QUERY[1]} ] || exit 1\necho GPU-aaaa, 81920, 80000\necho GPU-bbbb, 40960, 1000"


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        (None, ["GPU-aaaa", "GPU-bbbb"]),
        ("1,0", ["GPU-bbbb", "GPU-aaaa"]),
        ("GPU-b", ["GPU-bbbb"]),
        # CUDA ignores an entry that names no GPU, and all that follow it.
        ("0,-1,1", ["GPU-aaaa"]),
        ("MIG-1,MIG-2", ["MIG-1", "MIG-2"]),
        ("", []),
    ],
)
def test_cards_are_those_of_nvidia_smi_that_are_visible(
    visible: str | None, names: list[str], nvidia_smi: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi(CARDS)
    if visible is not None:
        monkeypatch.setenv(VISIBLE, visible)
    assert [card.name for card in visible_cards()] == names
    shown = (
        f"{counted(len(names), 'GPU')}: {', '.join(names)}" if names else "unless torch finds one"
    )
    assert describe_devices("auto").endswith(f" {shown}")


def test_memory_that_others_use_is_not_leased(nvidia_smi: Program) -> None:
    nvidia_smi(CARDS)
    with device_for("auto", 2 * GB, print):  # The second has slots, but others use its memory.
        assert os.environ[VISIBLE] == "GPU-aaaa"
    nvidia_smi("echo GPU-aaaa, [N/A], [N/A]")
    (unknown,) = visible_cards()
    assert unknown.needed(1) == SLOTS


@pytest.mark.parametrize("status", [6, 9, None])
def test_a_machine_without_cards_or_nvidia_smi_computes_on_its_cpu(
    status: int | None, nvidia_smi: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nvidia_smi(f"echo No devices were found; exit {status}")
    if status is None:
        monkeypatch.setenv("PATH", str(tmp_path))
    with device_for("auto", GB, print) as device:
        assert device == "auto" and VISIBLE not in os.environ


@pytest.mark.parametrize(
    ("script", "requested", "message"),
    [
        ("echo Unknown Error; exit 255", "auto", r"nvidia-smi failed \(.* status 255\.\), so the"),
        (f"{CARDS}; echo Unable", "auto", r"nvidia-smi failed \(not enough values .*\), so the"),
        ("exec sleep 5", "auto", "nvidia-smi failed .*timed out after"),
        (CARDS, "cuda:2", "'cuda:2', but the GPUs visible here, .*, are GPU-aaaa, GPU-bbbb: choo"),
    ],
)
def test_what_keeps_jobs_from_a_lease_is_told(
    script: str, requested: str, message: str, nvidia_smi: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi(script)
    monkeypatch.setattr("minbert.devices.gpus.PATIENCE", 0.3 if "sleep" in script else 60)
    with pytest.raises(UserError, match=message), device_for(requested, GB, print):
        pass


PROFILE = Path(__file__).parents[2] / "profiles" / "slurm" / "config.yaml"
Command = Callable[[str, str], None]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Return a function that makes a command: its name, and what the shell is to run."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def make(name: str, script: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    return make


@pytest.mark.parametrize(
    ("requested", "shown", "expected"),
    [
        ("auto", "(null)\ngpu:a100:4", True),
        ("auto", "craynetwork:4,gpu:4", True),
        ("auto", "(null)", False),
        ("cuda:1", "(null)", True),
        ("cpu", "gpu:1", False),
    ],
)
def test_gpus_are_asked_for(program: Command, requested: str, shown: str, expected: bool) -> None:
    program("sinfo", f"[ \"$*\" = '--noheader --format=%G' ] && printf '{shown}\\n'")
    assert has_gpus(requested) is expected


def test_a_sinfo_that_fails_does_not_send_all_jobs_to_the_cpu(program: Command) -> None:
    program("sinfo", "exit 1")
    with pytest.raises(UserError, match="sinfo failed, so it is unknown whether"):
        has_gpus("auto")


def test_orphaned_jobs_are_cancelled_and_waited_for(program: Command, tmp_path: Path) -> None:
    here, asked = tmp_path / "here", tmp_path / "asked"
    program(
        "squeue",
        f"[ $1 = --me ] && echo x >> {asked}\n"
        f"[ $(wc -l < {asked}) -lt 3 ] && echo '7|{here}|rule_train_wildcards_ab_0'\n"
        f"echo '8|{tmp_path}|rule_train_wildcards_ab_0'\n"
        f"echo '9|{here}|somebody else | (null)'",
    )
    program("scancel", f'echo "$*" > {tmp_path}/cancelled')
    said: list[str] = []
    cancel_orphans(here, said.append)
    assert said == ["cancels jobs that an earlier Snakemake left: 7"]
    assert (tmp_path / "cancelled").read_text() == "7\n"
    assert asked.read_text().count("x") == 3


def test_the_profile_keeps_what_the_default_one_sets() -> None:
    """A workflow profile replaces the default one."""
    default = PROFILE.parents[1] / "default" / "config.yaml"
    ours, theirs = (yaml.safe_load(p.read_text(encoding="utf-8")) for p in (PROFILE, default))
    assert {name: ours.get(name) for name in theirs} == theirs
