"""Figures of a workflow that ended with failed jobs, drawn from what there is."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from minbert.common.errors import UserError
from minbert.common.files import read_json
from minbert.figures.make import draw_figure
from minbert.grid.job import Job
from minbert.grid.node import description_path


def draw_partial(
    root: Path,
    listed: Mapping[str, Any],
    made: Mapping[str, Path],
    failed: Iterable[tuple[str, str]],
    folder: Path,
) -> dict[str, Path]:
    """Draw in `folder` the planned figures that are not there yet; return {plain name: file}.

    `listed` is what the plan publishes, `made` the folder of each paper's scores and table,
    `failed` the (paper, variant) whose runs ended in an error. A figure that cannot be drawn is
    said on stderr, and left out.
    """
    instead = {f"scores/{paper}": out / "scores.parquet" for paper, out in made.items()}
    instead |= {f"table/{paper}": out / "table.csv" for paper, out in made.items()}
    found: dict[str, Path] = {}
    for name, key in listed["figures"].items():
        names = {f"{name}.{ending}": f"figure.{ending}" for ending in ("pdf", "png")}
        if all(Path(listed["products"][plain]).exists() for plain in names):
            continue
        job = Job(root, read_json(description_path(root, "figure", key)), None, 1)
        out = folder / key
        try:
            of_paper = {variant for paper, variant in failed if paper == job.spec["paper"]}
            draw_figure(job, out / "figure", instead, of_paper)
        except UserError as error:
            print(f"{name}: not drawn: {error}", file=sys.stderr)
            continue
        found |= {plain: out / file for plain, file in names.items()}
    return found
