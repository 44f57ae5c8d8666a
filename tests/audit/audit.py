"""One mutant after the other: a run on top of finished results against one from nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from .compare import PUBLISHED, differences, is_told
from .mutate import Mutant
from .running import Run, run

REFUSED = "refused"
RETRAINED = "retrained"
SAME = "no difference"
OTHERWISE = "computed otherwise, and recorded"
STALE = "STALE"

HOW_FAST = ("train/checkpoints.py", "train/device.py", "devices/")
"""Rooms that may change in which way a result is computed, if its record says so."""

PATIENCE = 8
"""A mutant may take so many times as long as the package as it is, before it counts as hung."""

Verdict = tuple[str, str]
"""What became of a mutant, and in words why."""


class Audit:
    """The finished results that all mutants run on top of, in `folder`/base."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base = folder / "base"
        self.source = self.base / "src" / "minbert"
        self.limit = 1800.0
        self.modules: list[str] = []

    def prepare(self) -> str:
        """Run the grid with the package as it is, unless it was; return what was done, in words.

        A second run, from nothing, must make the same: else nothing could be told of mutants.
        """
        done = self.folder / "prepared.json"
        if not done.exists():
            # Elsewhere: this process, from which runs are forked, must not import the package.
            subprocess.run([sys.executable, "-m", "audit.grid", self.base], check=True)
            made = run(self.base, self.limit)
            again = REFUSED, made.error
            if made.error or (again := self.judge("unchanged", None))[0] != SAME:
                raise RuntimeError(f"the package as it is does not make the same twice: {again}")
            done.write_text(json.dumps(vars(made)), encoding="utf-8")
        made = Run(**json.loads(done.read_text("utf-8")))
        self.modules = made.modules
        self.limit = max(60.0, PATIENCE * made.seconds)
        return f"{len(made.jobs)} jobs, {made.seconds:.0f} s"

    def judge(self, name: str, mutant: Mutant | None) -> Verdict:
        """Return what becomes of a mutant; its two runs lie in folders of that name meanwhile."""
        top, fresh = self.folder / f"{name}-top", self.folder / f"{name}-fresh"
        try:
            shutil.copytree(self.base, top)
            if mutant:
                (top / "src/minbert" / mutant.module).write_text(mutant.source, encoding="utf-8")
            above = run(top, self.limit)
            if above.error:
                return REFUSED, above.error
            shutil.copytree(top, fresh, ignore=shutil.ignore_patterns("results"))
            # What this code has just made need not be made again: it would be the same.
            for each in above.jobs:
                shutil.copytree(top / "results" / each, fresh / "results" / each)
            below = run(fresh, self.limit)
            if below.error:
                return REFUSED, f"from nothing: {below.error}"
            roots = top / "results", fresh / "results"
            found = list(differences(*roots, (*PUBLISHED, *below.jobs)))
            if found and mutant and mutant.module.startswith(HOW_FAST) and is_told(*roots, found):
                return OTHERWISE, f"{len(found)} files"
        finally:
            shutil.rmtree(top, ignore_errors=True)
            shutil.rmtree(fresh, ignore_errors=True)
        if not found:
            return (RETRAINED, f"{len(above.jobs)} jobs") if above.jobs else (SAME, "nothing ran")
        return STALE, f"{len(above.jobs)} jobs ran; others: {', '.join(found[:20])}"
