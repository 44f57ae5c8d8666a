"""The tiny corpus as files of the course, and a grid of two rows on them."""

from __future__ import annotations

from pathlib import Path

from minbert.spec.protocol import SPLITS
from minbert.spec.task import BUILT_IN

from .project import CHECKOUT, Project

LINES = {"train": 49, "dev": 25, "test": 25}
ROWS = """\
paper: files
title: On files
overall: normalised
templates:
  short: {epochs: 20}
variants:
  cnn:
    extends: short
    tasks: {sst: {loss: cross_entropy, pooling: max, convolution: {kernel: 3}}}
  pairs:
    extends: short
    tasks: {sts: {loss: mse, pairing: cross}}
"""


def write_course(folder: Path) -> None:
    """Write the files of SST and STS, with the first examples of the built-in corpus."""
    folder.mkdir()
    for task in ("sst", "sts"):
        for split in SPLITS:
            name = getattr(BUILT_IN[task].files, split).path
            text = (CHECKOUT / "workflow/builtin" / name).read_text(encoding="utf-8")
            lines = text.splitlines(keepends=True)[: LINES[split]]
            (folder / name).write_text("".join(lines), encoding="utf-8")


def run_on_files(project: Project) -> None:
    """Give a project the files and the two rows, with two seeds, and run it."""
    write_course(project.folder / "course")
    (project.folder / "workflow/grids/files.yaml").write_text(ROWS, encoding="utf-8")
    project.configure(grids="[files]", data="real", course="course", seeds="[0, 1]")
    project.snakemake("all")
