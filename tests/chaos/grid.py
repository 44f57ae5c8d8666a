"""A small grid with every kind of stage, whose trainings last a few seconds each."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from pipeline.project import Project

from minbert.store.node import KINDS

CONFIG = """\
grids: [chaos]
seeds: [0]
data: builtin
limit: 96
backbone: backbone
device: cpu
precision: fp32
threads: 1
checkpoint_seconds: 0.5
"""

GRID = """\
paper: chaos
title: One variant of each kind of stage
overall: normalised
templates:
  common:
    epochs: 4
    max_length: 32
    optimiser: {lr: 1e-3}
    tasks:
      "*": {batch_size: 8, head: {width: 8}}
      sst: {loss: cross_entropy}
      para: {loss: binary_cross_entropy, pairing: siamese, features: [u, "|u-v|"], pooling: mean}
      sts: {loss: mse, pairing: cross}
variants:
  surgery: {extends: common, surgery: pcgrad, smart: {weight: 2.0}, epochs: 2}
  sequential: {extends: common, sampler: {name: sequential}, shared_layers: 1, epochs: 3}
  staged:
    extends: common
    stages:
      - {name: all}
      - {name: again, start: all, tasks: {para: null, sts: {trained: false}}, epochs: 10}
  frozen: {extends: common, trainable: heads, epochs: 30}
  adapted:
    extends: common
    trainable: adapters
    adapter: {width: 4}
    tasks: {para: null}
    epochs: 8
    stages:
      - {name: a, train: sst}
      - {name: b, train: sts}
  fused:
    extends: common
    trainable: fusion
    fuse: [adapted/a, adapted/b]
    train: sts
    epochs: 8
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
    """Return a new project with this grid alone; nothing is run."""
    Project.make(folder)
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
    (folder / "workflow" / "grids" / "chaos.yaml").write_text(GRID, encoding="utf-8")
    return Tracked(folder)


def again(reference: Project, folder: Path, uri: str | None = None) -> Tracked:
    """Return a copy of a finished project that has its data and backbone, and nothing trained."""
    reference.copy(folder)
    made = [name for name, kind in KINDS.items() if kind.computes or kind.shown]
    gone = [f"store/{name}" for name in (*made, "published")]
    for name in ("../.snakemake", "tables", "figures", "tracking", "work", "logs", *gone):
        shutil.rmtree(folder / "results" / name, ignore_errors=True)
    return Tracked(folder, uri)
