"""A project with every kind of stage, whose trainings last a few seconds each."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from audit import grid
from pipeline.project import Project

from minbert.store.node import KINDS

CONFIG = """\
grids: [audit]
seeds: [0]
data: builtin
limit: 96
backbone: backbone
device: cpu
precision: fp32
threads: 1
checkpoint_seconds: 0.5
scale: {learning_rate: 0.1, epochs: 4}
"""


@dataclass(frozen=True)
class Tracked(Project):
    """A project whose runs go to the MLflow server at `uri`, or to its own sqlite file."""

    uri: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands."""
        given = {} if self.uri is None else {"MLFLOW_TRACKING_URI": self.uri}
        return super().environment | {"OMP_NUM_THREADS": "1"} | given


def make(folder: Path) -> Tracked:
    """Return a new project with the audit's grid alone; nothing is run."""
    grid.make(folder, CONFIG)
    return Tracked(folder)


def again(reference: Project, folder: Path, uri: str | None = None) -> Tracked:
    """Return a copy of a finished project that has its data and backbone, and nothing trained."""
    reference.copy(folder)
    made = [name for name, kind in KINDS.items() if kind.computes or kind.shown]
    gone = [f"store/{name}" for name in (*made, "published")]
    for name in ("../.snakemake", "tables", "figures", "tracking", "work", "logs", *gone):
        shutil.rmtree(folder / "results" / name, ignore_errors=True)
    return Tracked(folder, uri)
