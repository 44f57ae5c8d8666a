"""The study's bundles, in a folder of their own without data: nothing is left to train."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from pages.study import PAGE, STUDY, filled

from .project import CHECKOUT, Project, copy_workflow

pytestmark = pytest.mark.pipeline

BUNDLES = sorted(STUDY.glob("seed-*.zip"))
SETTINGS = ("--configfile", "workflow/overlays/minilm.yaml", "study/minilm.yaml")
TABLES = ("minibert-unleashed.csv", "minibert-unleashed.md")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("study") / "clone"
    copy_workflow(folder)
    shutil.copy2(CHECKOUT / "config.yaml", folder)
    shutil.copytree(STUDY, folder / "study")
    project = Project(folder)
    for bundle in BUNDLES:
        project.minbert("unbundle", f"study/{bundle.name}", "--results", "results/study")
    return project


def test_nothing_is_left_to_train(study: Project) -> None:
    printed = study.minbert("plan", *SETTINGS)
    assert ", 0 to run" in printed, printed


def test_a_table_is_the_same_to_the_byte(study: Project) -> None:
    """One, as all take minutes: `make study` compares them."""
    study.snakemake(*(f"results/study/tables/{name}" for name in TABLES), *SETTINGS)
    for name in TABLES:
        made = study.folder / "results" / "study" / "tables" / name
        assert made.read_bytes() == (STUDY / "tables" / name).read_bytes(), (
            "run `make study`, look at what changed, and copy the tables"
        )


def test_its_page_has_the_numbers_of_its_tables() -> None:
    page = PAGE.read_text("utf-8")
    assert filled(page) == page, "run cd tests && python -m pages.study"


def test_bundles_have_neither_texts_nor_weights_and_are_small() -> None:
    assert sum(path.stat().st_size for path in BUNDLES) < 15e6
    for path in BUNDLES:
        with zipfile.ZipFile(path) as archive:
            names = {Path(name).name for name in archive.namelist()}
        assert not {name for name in names if name.endswith(".safetensors")}
        assert "examples.parquet" not in names and "tokens.parquet" not in names
