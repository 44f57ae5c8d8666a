"""Which GPUs there are: what nvidia-smi says, limited by what the process may see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minbert.base.errors import UserError
from minbert.devices.cards import FAKE, QUERY, SLOTS, VISIBLE, Card, in_words, visible_cards
from minbert.devices.lease import LOCKS, device_for

GB = 10**9


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(LOCKS, str(tmp_path / "locks"))
    for name in (FAKE, VISIBLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def nvidia_smi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A program of this name, yet to be written, that is found first."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "nvidia-smi"


def test_cards_are_read_from_nvidia_smi(nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi.write_text(
        f'#!/bin/sh\n[ "$1" = {QUERY[1]} ] || exit 1\n'
        "echo 'GPU-aaaa, 81920, 80000, Disabled'\necho 'GPU-bbbb, 40960, 1000, [N/A]'\n"
    )
    nvidia_smi.chmod(0o755)
    first = Card("GPU-aaaa", "GPU-aaaa", 81920 * 2**20, 80000 * 2**20, SLOTS)
    second = Card("GPU-bbbb", "GPU-bbbb", 40960 * 2**20, 1000 * 2**20, SLOTS)
    assert visible_cards({}) == [first, second]
    assert [c.identity for c in visible_cards({VISIBLE: "1,0"})] == ["GPU-bbbb", "GPU-aaaa"]
    assert [c.name for c in visible_cards({VISIBLE: "GPU-b"})] == ["GPU-b"]
    for invalid in ("-1", "2", "GPU-c", "NoDevFiles"):
        one = Card("0", "GPU-aaaa", first.memory, first.free)
        assert visible_cards({VISIBLE: f"0,{invalid},1"}) == [one], invalid
    assert in_words("auto") == ("training runs on 2 GPUs: GPU-aaaa (86 GB), GPU-bbbb (43 GB)")
    monkeypatch.setenv(VISIBLE, "1")
    assert in_words("auto") == "training runs on 1 GPU: 1 (43 GB)"
    monkeypatch.delenv(VISIBLE)
    with device_for("auto", 2 * GB, print):  # The second has slots, but others use its memory.
        assert os.environ[VISIBLE] == "GPU-aaaa"


def test_a_driver_that_does_not_answer_is_reported(
    nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia_smi.write_text("#!/bin/sh\nexec sleep 5\n")
    nvidia_smi.chmod(0o755)
    monkeypatch.setattr("minbert.devices.cards.PATIENCE", 0.1)
    with pytest.raises(UserError, match=r"nvidia-smi failed .*timed out after"):
        visible_cards({VISIBLE: "0"})


CARD = "echo 'GPU-aaaa, 81920, 80000, Disabled'"


@pytest.mark.parametrize("failures", [1, 2])
def test_a_failure_that_passes_costs_no_job_its_lease(
    failures: int, nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minbert.base.process.PAUSES", (0.0, 0.0), raising=False)
    calls = nvidia_smi.with_name("calls")
    nvidia_smi.write_text(
        f"#!/bin/sh\necho >> {calls}\n[ $(wc -l < {calls}) -gt {failures} ] || exit 255\n{CARD}\n"
    )
    nvidia_smi.chmod(0o755)
    with device_for("auto", GB, print):
        assert os.environ[VISIBLE] == "GPU-aaaa"


NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 'No devices were found'; exit 6", None),
        (f'echo "{NO_DRIVER}"; exit 9', None),
        (
            "echo 'Failed to initialize NVML: Unknown Error'; exit 255",
            r"nvidia-smi failed \(Failed to initialize NVML: Unknown Error\), so",
        ),
        ("exit 1", r"nvidia-smi failed \(.*exit status 1\.\), so the free GPUs are"),
        ("echo 'GPU-aaaa, [N/A], [N/A], [N/A]'", "whole"),
        (
            "echo 'GPU-aaaa, 81920, 80000, Enabled'",
            r"GPU GPU-aaaa is split into parts \(MIG\): name one or several of them in CUDA_VIS",
        ),
        (
            f"{CARD}; echo 'Unable to read'",
            r"nvidia-smi failed \(not enough values .*\), so the free",
        ),
    ],
    ids=[
        "no card",
        "no driver",
        "status 255",
        "status 1",
        "unknown memory",
        "split by MIG",
        "a line that is none of ours",
    ],
)
def test_a_failure_that_stays_is_an_error_unless_it_says_that_there_is_no_card(
    script: str, expected: str | None, nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minbert.base.process.PAUSES", (0.0, 0.0), raising=False)
    nvidia_smi.write_text(f"#!/bin/sh\n{script}\n")
    nvidia_smi.chmod(0o755)
    if expected is None:
        # The answer is final: at each start, a second attempt would only cost time.
        pauses = (pytest.fail("asked again") for _ in range(1))
        monkeypatch.setattr("minbert.base.process.PAUSES", pauses)
        with device_for("auto", GB, print) as device:
            assert device == "auto" and VISIBLE not in os.environ
        return
    if expected == "whole":
        (card,) = visible_cards()
        assert card.needed(1) == SLOTS and card.has_room(GB)
        assert in_words("auto") == "training runs on 1 GPU: GPU-aaaa"
        return
    if "MIG" in expected:
        one, _ = visible_cards({VISIBLE: "MIG-1234,MIG-5678"})
        assert (one.name, one.needed(1)) == ("MIG-1234", SLOTS), "a job gets it whole"
    with pytest.raises(UserError, match=expected), device_for("auto", GB, print):
        pass


def test_no_card_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert in_words("auto") == "no GPU found: training runs on the CPU"
    with device_for("auto", GB, print) as device:
        assert device == "auto" and VISIBLE not in os.environ
    monkeypatch.setenv(VISIBLE, "0")  # as on another machine; jobs would wait for each other
    assert in_words("auto") == "no GPU found: training runs on the CPU"


@pytest.mark.parametrize("text", ["2", "2x80", "x80GB", "2x80GB/0"])
def test_fakes_are_written_as_expected(text: str) -> None:
    with pytest.raises(UserError, match=rf"{FAKE} is '{text}'; expected COUNTxSIZEGB"):
        visible_cards({FAKE: text})
