"""The study's bundles, in a folder of their own without data: nothing is left to train."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

import pytest
from pages.study import PAGE, STUDY, about, filled, verdicts

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


def test_no_score_on_its_page_is_written_by_hand() -> None:
    written = re.sub(r"<!-- .*?<!-- end -->", "", PAGE.read_text("utf-8"), flags=re.DOTALL)
    assert not re.findall(r"\d?\.\d{3}\b", written)


def test_the_numbers_in_readme_are_those_of_the_page() -> None:
    readme = (CHECKOUT / "README.md").read_text("utf-8")
    ((total, *counts),) = re.findall(
        r"Of (\d+) claims, (\d+) hold, (\d+) do not and (\d+) are within noise", readme
    )
    (signs,) = re.findall(r"always has the published sign: (\d+ of \d+)", readme)
    (_, holds, noise, fails, _, in_all, _, clear) = [*verdicts()][-1]
    assert ([holds, fails, noise], in_all, clear) == (counts, total, signs)
    (ours, paper) = re.findall(r"\(\+(\.\d{3}) overall, published \+(\.\d{3})\)", readme)[0]
    (overall, *_) = about("minibert-unleashed/rss-mp/rss")
    found = [overall[of] for of in ("difference", "published_difference")]
    assert [float(ours), float(paper)] == [round(of, 3) for of in found]


def test_bundles_have_neither_texts_nor_weights_and_are_small() -> None:
    assert sum(path.stat().st_size for path in BUNDLES) < 15e6
    for path in BUNDLES:
        with zipfile.ZipFile(path) as archive:
            names = {Path(name).name for name in archive.namelist()}
        assert not {name for name in names if name.endswith(".safetensors")}
        assert "examples.parquet" not in names and "tokens.parquet" not in names
