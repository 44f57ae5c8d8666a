"""The study's bundles, in a folder of their own without data: nothing is left to train."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from pages.study_bundles import BUNDLES, STUDY

from study.tables import first_keys, with_first_keys

from .project import CHECKOUT, Project, copy_workflow

pytestmark = pytest.mark.pipeline

SETTINGS = ("--configfile", "workflow/overlays/minilm.yaml", "study/study.yaml")
MAKEFILE = CHECKOUT / "Makefile"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("study") / "clone"
    copy_workflow(folder)
    shutil.copy2(MAKEFILE, folder)
    shutil.copy2(CHECKOUT / "config.yaml", folder)
    shutil.copytree(STUDY, folder / "study")
    project = Project(folder)
    # In the environment of this process.
    words = (f"VENV={sys.prefix}", "-o", f"{sys.prefix}/.installed")
    project.run("make", "study-runs", *words)
    return project


def test_nothing_is_left_to_train(study: Project) -> None:
    printed = study.minbert("plan", *SETTINGS)
    assert ", 0 to run" in printed, printed


def test_a_table_is_the_same_to_the_byte(study: Project) -> None:
    """The shortest, as all take minutes: `make study` compares them."""
    names = [f"minibert-unleashed.{ending}" for ending in ("csv", "md")]
    study.snakemake(*(f"results/study/tables/{name}" for name in names), *SETTINGS)
    first = first_keys(study.folder / "results" / "study")
    for name in names:
        text = (study.folder / "results" / "study" / "tables" / name).read_bytes().decode()
        assert with_first_keys(text, first).encode() == (STUDY / "tables" / name).read_bytes(), (
            "run `make study`, and look at what changed"
        )


def test_bundles_are_small_and_have_no_texts_or_weights() -> None:
    assert BUNDLES and sum(path.stat().st_size for path in STUDY.rglob("*.zip")) < 25e6
    for path in BUNDLES:
        with zipfile.ZipFile(path) as archive:
            files = {Path(name).name for name in archive.namelist()}
        assert files.isdisjoint({"model.safetensors", "examples.parquet", "tokens.parquet"})
