"""What differs between a disturbed run and one that was left alone; nothing is expected to."""

from __future__ import annotations

import math
import sqlite3
import sys
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from audit.compare import differences
from pipeline.project import Project

from minbert.track.journal import COST, Attempt, attempts
from minbert.track.store import Tag

Point = tuple[str, int, int, float, bool]


@dataclass
class Found:
    """What was compared, by number, and what differs, in words."""

    counted: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {what}" for what, count in self.counted.items())
        return f"{counts} compared, {len(self.differences)} differences"

    def same(self, found: object, expected: object, what: str) -> None:
        """Note a difference unless the two are equal."""
        if found != expected:
            self.differences.append(f"{what}: found {_short(found)}, expected {_short(expected)}")


def compare(reference: Project, project: Project, store: Path) -> Found:
    """Compare tables, trainings and the MLflow database `store` of two finished projects."""
    found, root = Found(), project.root
    # Records say how long a run took.
    files = differences(root, reference.root, ("tables", "store/train"), left_out=".json")
    found.differences += [f"{name}: differs" for name in files]
    left = [p for p in (root / "work").rglob("*") if p.is_file() and p.name != "lock"]
    left += (root / "store").rglob("*.part")
    found.same([str(path.relative_to(root)) for path in left], [], "left behind")
    _compare_store(found, reference, project, store)
    return found


def _compare_store(found: Found, reference: Project, project: Project, store: Path) -> None:
    stored = read_store(store).values()
    groups: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
    for attempt in attempts(project.root):
        groups[attempt.group].append(attempt)
        found.counted["attempts"] += 1
    undisturbed = {attempt.group: attempt for attempt in attempts(reference.root)}
    found.same(sorted(groups), sorted(undisturbed), "trainings that were tracked")
    for group, several in groups.items():
        newest = several[-1]
        for attempt in several:
            runs = [run for run in stored if run.tags.get(Tag.ATTEMPT) == attempt.name]
            found.same(len(runs), 1, f"runs of attempt {attempt.name}")
            for run in runs:
                _compare_run(found, attempt, run, newest)
        found.same(newest.end().get("status"), "FINISHED", f"end of {newest.name}")
        if group in undisturbed:
            found.same(_values(newest), _values(undisturbed[group]), f"history of {newest.name}")


def _compare_run(found: Found, attempt: Attempt, run: StoredRun, newest: Attempt) -> None:
    written, end = written_points(attempt), attempt.end()
    found.counted["points"] += written.total()
    found.same(max(written.values(), default=1), 1, f"{attempt.name}: times a row was written")
    found.same(run.points, written, f"{attempt.name}: points")
    found.same(run.status, end.get("status", "KILLED"), f"{attempt.name}: status")
    superseded = "no" if attempt is newest else newest.name
    found.same(run.tags.get(Tag.SUPERSEDED), superseded, f"{attempt.name}: superseded by")


def written_points(attempt: Attempt) -> Counter[Point]:
    """Return what the store must have of an attempt."""
    points = attempt.read()[0]["points"]
    return Counter((name, n, round(t * 1000), *_stored_value(v)) for name, v, n, t in points)


def _stored_value(value: float) -> tuple[float, bool]:
    """Return a value as MLflow keeps it, and whether it is NaN."""
    largest = sys.float_info.max
    return (0.0, True) if math.isnan(value) else (max(-largest, min(largest, value)), False)


def _values(attempt: Attempt) -> str:
    """Return what a training measured, without costs, or what was last published of a row."""
    points = attempt.read()[0]["points"]
    if attempt.group[0].startswith("row."):
        points = {name: [name, *of] for name, *of in points}.values()
    return str([of[:3] for of in points if not of[0].startswith(COST)])


@dataclass
class StoredRun:
    """What an MLflow database holds of a run."""

    status: str
    tags: dict[str, str] = field(default_factory=dict)
    points: Counter[Point] = field(default_factory=Counter)


def read_store(path: Path) -> dict[str, StoredRun]:
    """Return the runs of the sqlite database of a store or a server, by their ids."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        ask = connection.execute
        runs = {run: StoredRun(status) for run, status in ask("SELECT run_uuid, status FROM runs")}
        for run, name, value in ask("SELECT run_uuid, key, value FROM tags"):
            runs[run].tags[name] = value
        points = ask("SELECT run_uuid, key, step, timestamp, value, is_nan FROM metrics")
        for run, key, step, when, value, nan in points:
            runs[run].points[key, step, when, 0.0 if nan else value, bool(nan)] += 1
    return runs


def _short(value: object) -> str:
    text = f"{len(value)} bytes" if isinstance(value, bytes) else str(value)
    return text if len(text) < 300 else f"{text[:300]}..."
