"""Folders to plan in: the published figures, and a grid."""

from __future__ import annotations

import shutil
from pathlib import Path

from minbert.base.files import write_text
from minbert.spec.config import PUBLISHED

REPOSITORY = Path(__file__).parents[2]
TWO_STAGES = """paper: hybrid-bert
title: T
overall: plain
templates: {t: {tasks: {sst: {loss: cross_entropy}}}}
variants:
  first: {extends: t, optimiser: {lr: 1e-4}}
  second: {extends: t, start: first, optimiser: {lr: 2e-4}}
"""
"""A grid of two variants, to which more can be added."""


def planning_folder(folder: Path, grid: str = "", *, config: bool = False) -> Path:
    """Fill `folder` with the published figures and the grid `g` (`workflow/grids/g.yaml`), if any.

    The built-in corpus and backbone are links. With `config` there is a config.yaml for it, whose
    results lie in the folder.
    """
    write_text(folder / PUBLISHED, "")
    shutil.copy2(REPOSITORY / PUBLISHED, folder / PUBLISHED)
    (folder / "workflow" / "grids").mkdir(exist_ok=True)
    for name in ("backbone", "builtin"):
        link = folder / "workflow" / name
        if not link.exists():
            link.symlink_to(REPOSITORY / "workflow" / name)
    if grid:
        write_text(folder / "workflow" / "grids" / "g.yaml", grid)
    if config:
        wanted = f"grids: [g]\ndata: builtin\nbackbone: builtin\nresults: {folder / 'results'}\n"
        write_text(folder / "config.yaml", wanted)
    return folder
