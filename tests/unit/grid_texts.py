"""Grid files of a few lines, and what they resolve to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minbert.spec.config import load_config
from minbert.spec.resolve import Grid, resolve
from minbert.spec.stage import StageSpec

HEAD = "paper: demo\ntitle: A demo\noverall: normalised\n"
TASKS = "tasks: {sst: {loss: cross_entropy}}"
THREE = """
templates:
  t:
    tasks:
      sst: {loss: cross_entropy}
      para: {loss: binary_cross_entropy, pairing: cross}
      sts: {loss: mse, pairing: cross}
"""
"""A template with the tasks of the overall score."""

TEMPLATE = """
templates:
  t:
    tasks:
      sst: {loss: cross_entropy}
      lmrd: {loss: cross_entropy}
      para: {pairing: siamese, features: [u, v], loss: binary_cross_entropy}
"""
"""A template of three tasks; more may follow."""

ALL = f"{TEMPLATE}variants:\n"
"""The template; variants follow."""


def grid(tmp_path: Path, *texts: str, head: str = HEAD, **config: Any) -> Grid:
    """Return the grid of the files that `texts` make after `head`."""
    names = []
    for number, text in enumerate(texts):
        path = tmp_path / f"g{number}.yaml"
        path.write_text(head + text)
        names.append(path.name)
    (found,) = resolve(load_config({"grids": names, **config}), tmp_path)
    return found


def spec(found: Grid, variant: str, stage: str = "main") -> StageSpec:
    return {s.ref.stage: s.spec for s in found.variants[variant].stages}[stage]
