"""One mutant after the other: a run on top of finished results against one from nothing."""

from __future__ import annotations

import compileall
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .compare import computed_otherwise, differences
from .mutate import Mutant
from .running import LINES, PLAN, join_lines, run

REFUSED = "refused"
RETRAINED = "retrained"
SAME = "no difference"
OTHERWISE = "computed otherwise, and recorded"
STALE = "STALE"
VERDICTS = (REFUSED, RETRAINED, SAME, OTHERWISE, STALE)

HOW_FAST = ("train/checkpoints.py", "train/device.py", "devices/")
"""Rooms that may change in which way a result is computed, if its record says so."""

PATIENCE = 8
"""A mutant may take so many times as long as the package as it is, before it counts as hung."""


@dataclass(frozen=True)
class Finding:
    """What became of a mutant: its verdict, and in words why."""

    verdict: str
    why: str
    jobs: int = 0
    files: tuple[str, ...] = ()
    seconds: float = 0.0


class Audit:
    """The finished results that all mutants run on top of, in `folder`/base."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base = folder / "base"
        self.limit = 1800.0

    @property
    def source(self) -> Path:
        """The package as it is."""
        return self.base / "src" / "minbert"

    @cached_property
    def ran(self) -> dict[str, dict[str, set[int]]]:
        """The statements that each job runs, and the plan: {who: {module: first lines}}."""
        found = json.loads((self.base / LINES).read_text("utf-8"))
        return {who: {n: set(lines) for n, lines in of.items()} for who, of in found.items()}

    @property
    def lines(self) -> dict[str, set[int]]:
        """The statements of each module that the grid runs."""
        found: dict[str, set[int]] = {}
        for of in self.ran.values():
            for name, lines in of.items():
                found.setdefault(name, set()).update(lines)
        return found

    def untouched(self, mutant: Mutant) -> list[str]:
        """Return the folders of the jobs that never come to the mutant's statement."""
        reached = {w for w, of in self.ran.items() if mutant.line in of.get(mutant.module, ())}
        return [] if PLAN in reached else [w for w in self.ran if w not in reached]

    def prepare(self) -> str:
        """Run the grid with the package as it is, unless it was; return what was done, in words.

        A second run, from nothing, must make the same: else nothing could be told of mutants.
        """
        done = self.folder / "prepared.json"
        if not done.exists():
            # Elsewhere: this process, from which runs are forked, must not import the package.
            subprocess.run([sys.executable, "-m", "audit.grid", self.base], check=True)
            made = run(self.base, self.limit, trace=True)
            if made.error:
                raise RuntimeError(f"the package as it is: {made.error}")
            join_lines(self.base)
            compileall.compile_dir(self.base / "src", quiet=1)
            again = self.judge("unchanged", None)
            if again.verdict != SAME:
                raise RuntimeError(f"the package as it is does not make the same twice: {again}")
            told = {"jobs": len(made.jobs), "seconds": again.seconds}
            done.write_text(json.dumps(told), encoding="utf-8")
        told = json.loads(done.read_text("utf-8"))
        self.limit = max(60.0, PATIENCE * told["seconds"])
        return f"{told['jobs']} jobs, {told['seconds']:.0f} s"

    def judge(self, name: str, mutant: Mutant | None) -> Finding:
        """Return what becomes of a mutant; its two runs lie in folders of that name meanwhile."""
        top, fresh = self.folder / f"{name}-top", self.folder / f"{name}-fresh"
        try:
            return self._judge(mutant, top, fresh)
        finally:
            for folder in (top, fresh):
                shutil.rmtree(folder, ignore_errors=True)

    def _judge(self, mutant: Mutant | None, top: Path, fresh: Path) -> Finding:
        shutil.copytree(self.base, top, ignore=shutil.ignore_patterns("lines"))
        if mutant:
            _mutate(top, mutant)
        above = run(top, self.limit)
        if above.error:
            return Finding(REFUSED, above.error, len(above.jobs), (), above.seconds)
        shutil.copytree(top, fresh, ignore=shutil.ignore_patterns("results", "lines"))
        if mutant:
            # What this code has just made, or never comes to the change, need not be made again:
            # it would be the same from the same files, and those are compared where they are made.
            for each in {*above.made, *self.untouched(mutant)}:
                if (top / "results" / each).is_dir():
                    shutil.copytree(top / "results" / each, fresh / "results" / each)
        below = run(fresh, self.limit)
        seconds = above.seconds + below.seconds
        if below.error:
            why = f"from nothing: {below.error}"
            return Finding(REFUSED, why, len(above.jobs), (), seconds)
        roots = top / "results", fresh / "results"
        found = tuple(differences(*roots, below.made))
        if found:
            told = mutant is not None and _is_told(mutant, *roots, found)
            verdict, why = (OTHERWISE, "recorded") if told else (STALE, _listed(above.jobs))
            return Finding(verdict, why, len(above.jobs), found, seconds)
        verdict = RETRAINED if above.jobs else SAME
        return Finding(verdict, _listed(above.jobs), len(above.jobs), (), seconds)


def _mutate(project: Path, mutant: Mutant) -> None:
    path = project / "src" / "minbert" / mutant.module
    path.write_text(mutant.source, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def _is_told(mutant: Mutant, top: Path, fresh: Path, found: Iterable[str]) -> bool:
    """Whether each training that differs was computed in another way, and its record says so."""
    trainings = {str(Path(f).parent) for f in found if f.startswith("store/train/")}
    return (
        mutant.module.startswith(HOW_FAST)
        and bool(trainings)
        and all(computed_otherwise(top, fresh, folder) for folder in trainings)
    )


def _listed(jobs: list[str]) -> str:
    kinds = Counter(job.split()[0] for job in jobs)
    return ", ".join(f"{n} {kind}" for kind, n in kinds.items()) or "nothing ran"
