"""What Slurm is asked before a workflow runs on it; its commands are scripts here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from minbert.base.errors import UserError
from minbert.devices import slurm
from minbert.devices.slurm import cancel_orphans, has_gpus

PROFILE = Path(__file__).parents[2] / "profiles" / "slurm" / "config.yaml"
Program = Callable[[str, str], None]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Program:
    """Return a function that makes a command: its name, and what the shell is to run."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def make(name: str, script: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    return make


@pytest.mark.parametrize(
    ("wish", "shown", "expected"),
    [
        ("auto", "(null)\ngpu:a100:4", True),
        ("auto", "craynetwork:4,gpu:4", True),
        ("auto", "(null)", False),
        ("cuda:1", "(null)", True),
        ("cpu", "gpu:1", False),
    ],
)
def test_a_gpu_is_asked_for_where_there_is_one(
    program: Program, wish: str, shown: str, expected: bool
) -> None:
    program("sinfo", f"[ \"$*\" = '--noheader --format=%G' ] && printf '{shown}\\n'")
    assert has_gpus(wish) is expected


def test_a_sinfo_that_fails_does_not_send_all_jobs_to_the_cpu(program: Program) -> None:
    program("sinfo", "exit 1")
    with pytest.raises(UserError, match="sinfo failed, so it is unknown whether"):
        has_gpus("auto")


def test_only_what_was_left_in_this_folder_is_cancelled_and_waited_for(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "PATIENCE", 0.3)
    here = tmp_path / "here"
    program(
        "squeue",
        f'[ "$1" = --me ] && echo x >> {tmp_path}/asked\n'
        f"echo '7|{here}|rule_train_wildcards_ab_0'\n"
        f"echo '8|{tmp_path}|rule_train_wildcards_ab_0'\n"
        f"echo '9|{here}|somebody else | (null)'",
    )
    program("scancel", f'echo "$*" > {tmp_path}/cancelled')
    assert cancel_orphans(here) == ["7"]
    assert (tmp_path / "cancelled").read_text() == "7\n"
    assert len((tmp_path / "asked").read_text().split()) >= 2


def test_the_profile_keeps_what_the_default_one_sets() -> None:
    """A workflow profile replaces the default one."""
    default = PROFILE.parents[1] / "default" / "config.yaml"
    ours, theirs = (yaml.safe_load(p.read_text(encoding="utf-8")) for p in (PROFILE, default))
    assert {name: ours.get(name) for name in theirs} == theirs
