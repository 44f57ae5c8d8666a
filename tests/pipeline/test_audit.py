"""The short form of `make audit`: the package as it is, and an edit that must be found stale."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .project import CHECKOUT

pytestmark = pytest.mark.pipeline


def test_the_same_code_makes_the_same_twice_and_a_stale_result_is_found() -> None:
    """In a process that has not imported the package."""
    paths = os.pathsep.join(str(CHECKOUT / name) for name in ("tests", "src"))
    done = subprocess.run(
        [sys.executable, "-m", "audit", "--mutants", "0", "--control"],
        env=os.environ | {"PYTHONPATH": paths},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "control: STALE (0 jobs ran; others: " in done.stdout
    assert "tables/audit.md" in done.stdout
