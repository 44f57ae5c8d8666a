"""The grid that every mutant runs: each kind of stage once, tiny, in seconds.

`python -m audit.grid FOLDER` makes a project of it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import encoders
from pipeline.project import copy_workflow

CONFIG = """\
grids: [audit]
seeds: [0, 1]
data: builtin
limit: 32
backbone: backbone
device: cpu
precision: fp32
threads: 1
tracking: {enabled: false}
"""

GRID = """\
paper: audit
title: Each kind of stage
overall: normalised
templates:
  common:
    epochs: 2
    max_length: 32
    optimiser: {lr: 1e-2}
    tasks:
      "*": {batch_size: 8, head: {width: 8}}
      sst: {loss: cross_entropy}
      para: {loss: binary_cross_entropy, pairing: siamese, features: [u, "|u-v|"], pooling: mean}
      sts: {loss: mse, pairing: cross}
variants:
  surgery: {extends: common, surgery: pcgrad, smart: {weight: 2.0}, epochs: 1, test: true}
  sequential:
    extends: common
    sampler: {name: sequential, order: [sts, para, sst]}
    shared_layers: 1
    optimiser: {weight_decay: 0.01, schedule: {name: linear, warmup: 0.2}}
  recycled:
    extends: common
    sampler: {name: recycled}
    reduction: mean
    epochs: 1
    tasks:
      sst: {pooling: max, convolution: {kernel: 3, residual: true}, head: {depth: 2}}
      para: {init_bias_to_prior: true}
      sts: {pairing: siamese, features: [u, v], head: {name: cosine, depth: 0}, loss: cosine_mse}
  staged:
    extends: common
    tasks: {sts: null}
    epochs: 1
    stages:
      - {name: first, train: para}
      - {name: second, train: sst, evaluate_only: para, start: first}
  frozen: {extends: common, trainable: heads, epochs: 3}
  adapted:
    extends: common
    trainable: adapters
    adapter: {width: 4}
    stages:
      - {name: a, train: sst}
      - {name: b, train: sts}
  fused:
    extends: common
    trainable: fusion
    fuse: [adapted/a, adapted/b]
    train: sts
  best: {best_of: [surgery, sequential, recycled], best_by: task, test: true}
figures:
  ranking: {kind: ranking, title: Ranking}
  losses: {kind: curves, variants: [surgery, sequential, recycled], title: Losses}
  confusion: {kind: confusion-matrix, variants: [recycled, staged], title: Confusion}
claims:
  - {text: One is better., section: "1", variant: recycled, against: surgery}
  - text: None of them differs.
    section: "2"
    variant: frozen
    against: [surgery, sequential]
    task: [sst, para]
    direction: same
    margin: 0.05
"""


def make(folder: Path, config: str = CONFIG) -> None:
    """Copy the workflow to the new `folder` with this grid alone; nothing is run."""
    copy_workflow(folder)
    encoders.write_tiny(folder / "backbone", hidden=16)
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    (folder / "workflow" / "figures.yaml").unlink()
    for path in (folder / "workflow" / "grids").glob("*.yaml"):
        path.unlink()
    (folder / "workflow" / "grids" / "audit.yaml").write_text(GRID, encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
