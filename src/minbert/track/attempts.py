"""Reading what `journal` wrote. Imports the standard library only."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from minbert.common.files import read_json, write_json
from minbert.common.process import is_held
from minbert.track.journal import TRACKING


@dataclass(frozen=True)
class Row:
    """One measured value; `value` may be NaN or infinite, `time` is in unix seconds."""

    step: int
    epoch: int
    split: str
    task: str
    metric: str
    value: float
    time: float


@dataclass
class Attempt:
    """One job's folder. `problems` are the lines of its history that could not be read."""

    path: Path
    problems: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The folder's name: sorts by start, and is the run's tag in the store."""
        return self.path.name

    @cached_property
    def run(self) -> dict[str, Any]:
        """What the run is, as its job wrote it."""
        return dict(read_json(self.path / "run.json"))

    @property
    def group(self) -> tuple[str, str]:
        """Key and seed: of the attempts that share both, the newest counts."""
        return str(self.run["key"]), str(self.run["seed"])

    def alive(self) -> bool:
        """Whether the job still holds its lock."""
        return is_held(self.path / "lock")

    def end(self) -> dict[str, Any] | None:
        """How the job ended, or None while it has not said so; `artifacts` is {name: path}."""
        path = self.path / "end.json"
        if not path.exists():
            return None
        end: dict[str, Any] = read_json(path)
        if isinstance(end["artifacts"], list):  # as earlier versions wrote them
            end["artifacts"] = {Path(file).name: file for file in end["artifacts"]}
        return end

    def size(self) -> int:
        """Bytes of history so far."""
        path = self.path / "history.jsonl"
        return path.stat().st_size if path.exists() else 0

    def changed(self) -> float:
        """When the history last grew, in unix seconds."""
        path = self.path / "history.jsonl"
        return (path if path.exists() else self.path).stat().st_mtime

    def rows(self, offset: int, limit: int) -> tuple[list[Row], int]:
        """Return up to `limit` rows from byte `offset` on, and the offset after them.

        A last line without its end is left for the next call; a whole line that is no row is
        skipped and noted in `problems`.
        """
        path = self.path / "history.jsonl"
        found: list[Row] = []
        if not path.exists():
            return found, offset
        with path.open("rb") as handle:
            handle.seek(offset)
            while len(found) < limit and (line := handle.readline()).endswith(b"\n"):
                try:
                    found.append(_row(line))
                except (ValueError, TypeError, KeyError) as error:
                    self.problems.append(f"{path}, byte {offset}: no history row ({error})")
                offset += len(line)
        return found, offset

    def recall(self, name: str) -> dict[str, Any]:
        """Return the note `name` that the follower left here, or an empty one."""
        try:
            note: dict[str, Any] = read_json(self.path / name)
        except (FileNotFoundError, ValueError):
            return {}
        return note

    def note(self, name: str, value: dict[str, Any]) -> None:
        """Leave a note for the next follower; losing it costs time and nothing else."""
        write_json(self.path / name, value)


def _row(line: bytes) -> Row:
    fields = json.loads(line)
    return Row(
        int(fields["step"]),
        int(fields["epoch"]),
        str(fields["split"]),
        str(fields["task"]),
        str(fields["metric"]),
        float(fields["value"]),
        float(fields["time"]),
    )


def attempts(root: Path) -> list[Attempt]:
    """Return the attempts under `root`, oldest first. Names that begin with a dot are drafts."""
    folder = root / TRACKING
    if not folder.is_dir():
        return []
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    return [Attempt(folder / name) for name in names if (folder / name / "run.json").exists()]


def best_score(rows: Iterable[Row], rule: str) -> tuple[float, int] | None:
    """Return the highest overall dev score by `rule` and its epoch (the first one of a tie)."""
    best: tuple[float, int] | None = None
    for row in rows:
        if (row.split, row.task, row.metric) != ("dev", "overall", rule):
            continue
        if math.isfinite(row.value) and (best is None or row.value > best[0]):
            best = row.value, row.epoch
    return best
