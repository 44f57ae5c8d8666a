"""What a killed Snakemake leaves behind: some files of a job, and its own notes about them."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import pytest

from .project import Project

pytestmark = pytest.mark.pipeline


def mark_incomplete(project: Project, path: Path) -> None:
    """Note of a file, as Snakemake does, that the job which makes it has begun."""
    notes = project.folder / ".snakemake" / "incomplete"
    assert notes.is_dir(), "Snakemake keeps its notes elsewhere"
    name = base64.b64encode(str(path.relative_to(project.folder)).encode()).decode()
    (notes / name).write_text(json.dumps({"external_jobid": None}), encoding="utf-8")


def test_the_notes_on_a_killed_job_hide_nothing_that_is_missing(project: Project) -> None:
    """By `rerun-incomplete` that job alone would run: its inputs' users are `ancient` and wait."""
    trainings = {f"train {variant} 0" for variant in project.variants().values()}
    for kind in ("train", "scores", "table", "index", "figure", "published"):
        shutil.rmtree(project.root / "store" / kind)
    tokens = sorted((project.root / "store" / "tokens").glob("*/tokens.parquet"))
    mark_incomplete(project, tokens[0])
    assert project.jobs() == trainings | {"scores", "table", "index", "figure", "publish"}
