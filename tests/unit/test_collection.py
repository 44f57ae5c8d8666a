"""What pytest collects is the same for every worker, as pytest-xdist refuses to run otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COLLECT = """
import sys, time
now = time.time
time.time = lambda: now() + float(sys.argv[1])
import pytest
raise SystemExit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider"]))
"""


def collection(hash_seed: str, seconds_ahead: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COLLECT, str(seconds_ahead)],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_ids_and_their_order_depend_on_neither_hash_seed_nor_clock() -> None:
    workers = [collection("0", seconds_ahead=0), collection("1", seconds_ahead=86_400)]
    first, second = (
        [line for line in worker.communicate()[0].splitlines() if "::" in line]
        for worker in workers
    )
    assert [worker.returncode for worker in workers] == [0, 0]
    assert first == second
    assert len(set(first)) == len(first) > 1000
