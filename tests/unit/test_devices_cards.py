"""Which GPUs there are: what nvidia-smi says, limited by what the process may see."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from minbert.base.errors import UserError
from minbert.devices.cards import QUERY, SLOTS, VISIBLE, Card, in_words, visible_cards
from minbert.devices.lease import device_for

GB = 10**9
Program = Callable[[int | str], Path]
CARDS = (
    f"[ $1 = {QUERY[1]} ] || exit 1\n"
    "echo GPU-aaaa, 81920, 80000, Disabled\necho GPU-bbbb, 40960, 1000, [N/A]"
)
FIRST = Card("GPU-aaaa", "GPU-aaaa", 81920 << 20, 80000 << 20)
SECOND = Card("GPU-bbbb", "GPU-bbbb", 40960 << 20, 1000 << 20)
SPLIT = "echo GPU-aaaa, 81920, 80000, Enabled; echo GPU-bbbb, 40960, 1000, Disabled"
NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minbert.base.process.PAUSES", (0.0, 0.0))


@pytest.mark.parametrize(
    ("visible", "names", "told"),
    [
        (None, "GPU-aaaa GPU-bbbb", "training runs on 2 GPUs: GPU-aaaa (86 GB), GPU-bbbb (43 GB)"),
        ("1,0", "1 0", "training runs on 2 GPUs: 1 (43 GB), 0 (86 GB)"),
        ("GPU-b", "GPU-b", "training runs on 1 GPU: GPU-b (43 GB)"),
        # CUDA ignores an entry that names no GPU, and all that follow it.
        *((f"0,{other},1", "0", None) for other in ("-1", "2", "GPU-c", "NoDevFiles")),
        ("MIG-1,MIG-2", "MIG-1 MIG-2", "training runs on 2 GPUs: MIG-1, MIG-2"),
        ("", "", "no GPU found: training runs on the CPU"),
    ],
)
def test_cards_are_those_of_nvidia_smi_that_are_visible(
    visible: str | None,
    names: str,
    told: str | None,
    nvidia_smi: Program,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvidia_smi(CARDS)
    if visible is not None:
        monkeypatch.setenv(VISIBLE, visible)
    assert [card.name for card in visible_cards()] == names.split()
    assert told in (None, in_words("auto"))


def test_memory_that_others_use_is_not_leased(nvidia_smi: Program) -> None:
    nvidia_smi(CARDS)
    assert visible_cards() == [FIRST, SECOND]
    with device_for("auto", 2 * GB, print):  # The second has slots, but others use its memory.
        assert os.environ[VISIBLE] == "GPU-aaaa"
    nvidia_smi("echo GPU-aaaa, [N/A], [N/A], [N/A]")
    (unknown,) = visible_cards()
    assert unknown.needed(1) == SLOTS and unknown.has_room(GB)


@pytest.mark.parametrize(
    "script", ["echo No devices were found; exit 6", f'echo "{NO_DRIVER}"; exit 9']
)
def test_that_there_is_no_card_is_asked_once(
    script: str, nvidia_smi: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each start, a second attempt would only cost time."""
    nvidia_smi(script)
    monkeypatch.setattr("minbert.base.process.time", SimpleNamespace(sleep=pytest.fail))
    with device_for("auto", GB, print) as device:
        assert device == "auto" and VISIBLE not in os.environ


def test_a_machine_without_nvidia_smi_has_no_card(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for visible in ("", "0"):  # as on another machine; jobs would wait for each other
        monkeypatch.setenv(VISIBLE, visible)
        assert in_words("auto") == "no GPU found: training runs on the CPU"


@pytest.mark.parametrize("failures", [1, 2])
def test_a_failure_that_passes_costs_no_job_its_lease(
    failures: int, nvidia_smi: Program, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    nvidia_smi(f"echo >> {calls}\n[ $(wc -l < {calls}) -gt {failures} ] || exit 255\n{CARDS}")
    with device_for("auto", GB, print):
        assert os.environ[VISIBLE] == "GPU-aaaa"


@pytest.mark.parametrize(
    ("script", "wish", "message"),
    [
        (
            "echo Unknown Error; exit 255",
            "auto",
            r"nvidia-smi failed \(Unknown Error\), so the free",
        ),
        ("exit 1", "auto", r"nvidia-smi failed \(.*exit status 1\.\), so the free GPUs are"),
        (
            f"{CARDS}; echo Unable",
            "auto",
            r"nvidia-smi failed \(not enough values .*\), so the free",
        ),
        ("exec sleep 5", "auto", "nvidia-smi failed .*timed out after"),
        (
            SPLIT,
            "auto",
            r"GPU GPU-aaaa is split into parts \(MIG\): name one or several of them in",
        ),
        (
            CARDS,
            "cuda:2",
            "'cuda:2', but the GPUs visible here, .*, are GPU-aaaa, GPU-bbbb: choose",
        ),
    ],
)
def test_what_keeps_jobs_from_a_lease_is_told(
    script: str, wish: str, message: str, nvidia_smi: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi(script)
    monkeypatch.setattr("minbert.devices.cards.PATIENCE", 0.3)
    with pytest.raises(UserError, match=message), device_for(wish, GB, print):
        pass
