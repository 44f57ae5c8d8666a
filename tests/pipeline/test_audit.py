"""The short form of `make audit`: four mutants, and edits by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from audit.cases import CASES, CONTROL

from .project import CHECKOUT

pytestmark = pytest.mark.pipeline

MUTANTS = 4
SEED = 14


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Judge the mutants and the edits, in a process that has not imported the package."""
    out = tmp_path_factory.mktemp("audit") / "found.json"
    command = [sys.executable, "-m", "audit", "--cases", "--json", str(out)]
    command += ["--mutants", str(MUTANTS), "--seed", str(SEED)]
    paths = os.pathsep.join(str(CHECKOUT / name) for name in ("tests", "src"))
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, text=True, capture_output=True, check=False)
    assert out.exists(), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(Path(out).read_text("utf-8"))
    assert done.returncode == 1, "the control is stale"
    return found


@pytest.mark.parametrize("number", range(MUTANTS))
def test_a_small_change_leaves_no_result_stale(audited: dict[str, Any], number: int) -> None:
    assert audited[str(number)]["verdict"] != "STALE", audited[str(number)]


@pytest.mark.parametrize("edit", CASES)
def test_an_edit_of_what_was_once_in_no_digest_retrains(audited: dict[str, Any], edit: str) -> None:
    # Without the filters a figure finds rows of several tasks in one, and refuses them.
    expected = "refused" if edit == "filters ignored" else "retrained"
    assert audited[edit]["verdict"] == expected, audited[edit]


def test_a_stale_result_would_be_found(audited: dict[str, Any]) -> None:
    found = audited[CONTROL]
    assert found["verdict"] == "STALE" and not found["jobs"]
    assert "tables/audit.md" in found["files"], found
