"""The tiny corpus as files of the course, and a grid of two rows on them."""

from __future__ import annotations

from pathlib import Path

from minbert.data.builtin import generate
from minbert.spec.protocol import SPLITS
from minbert.spec.task import BUILT_IN

from .project import Project

SIZES = {"train": 48, "dev": 24, "test": 24}
HEADERS = {"sst": "id\tsentence\tsentiment", "sts": "id\tsentence1\tsentence2\tsimilarity"}
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
    """Write the files of SST and STS, with examples of the built-in corpus."""
    folder.mkdir()
    for task, header in HEADERS.items():
        examples = generate(task, 0, SIZES)
        for split in SPLITS:
            name = getattr(BUILT_IN[task].files, split).path
            lines = [header]
            for example in (e for e in examples if e.split == split):
                texts = [t for t in (example.sentence1, example.sentence2) if t is not None]
                lines.append("\t".join([example.id, *texts, str(example.label)]))
            (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def run_on_files(project: Project) -> None:
    """Give a project the files and the two rows, with two seeds, and run it."""
    write_course(project.folder / "course")
    (project.folder / "workflow/grids/files.yaml").write_text(ROWS, encoding="utf-8")
    project.configure(grids="[files]", data="real", course="course", seeds="[0, 1]")
    project.snakemake("all")
