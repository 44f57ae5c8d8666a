"""The study's bundles, in a folder of their own without data: nothing is left to train."""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from pages.study import PAGE, STUDY, about, filled, ranks, verdicts

from study.tables import first_keys, with_first_keys

from .project import CHECKOUT, Project, copy_workflow

pytestmark = pytest.mark.pipeline

BUNDLES = sorted(STUDY.glob("*.zip"))
SETTINGS = ("--configfile", "study/v1/settings.yaml", "study/minilm.yaml")
MAKEFILE = CHECKOUT / "Makefile"
TABLE = {"gte": "hybrid-bert", "tuned": "tuned-sum"}
"""The table of a part."""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("study") / "clone"
    copy_workflow(folder)
    shutil.copy2(MAKEFILE, folder)
    shutil.copy2(CHECKOUT / "config.yaml", folder)
    shutil.copytree(STUDY, folder / "study")
    project = Project(folder)
    # In the environment of this process.
    words = (f"VENV={sys.prefix}", "-o", f"{sys.prefix}/.installed", "PARTS=gte tuned")
    project.run("make", "study-runs", *words)
    return project


def test_nothing_is_left_to_train(study: Project) -> None:
    printed = study.minbert("plan", *SETTINGS)
    assert ", 0 to run" in printed, printed


@pytest.mark.parametrize("part", TABLE)
def test_a_table_is_the_same_to_the_byte(study: Project, part: str) -> None:
    """The shortest, as all take minutes: `make study` compares them."""
    made = f"results/study-{part}/only/tables"
    names = [f"{TABLE[part]}.{ending}" for ending in ("csv", "md")]
    study.snakemake(*(f"{made}/{name}" for name in names), *SETTINGS, f"study/{part}.yaml")
    first = first_keys(study.folder / "results" / f"study-{part}")
    for name in names:
        text = (study.folder / made / name).read_bytes().decode()
        assert with_first_keys(text, first).encode() == (
            (STUDY / "tables" / part / name).read_bytes()
        ), "run `make study`, and look at what changed"


def test_make_and_the_bundles_have_the_same_parts() -> None:
    (parts,) = re.findall(r"^PARTS := ([a-z ]+?) *(?:#|$)", MAKEFILE.read_text(), re.MULTILINE)
    assert {*parts.split()} == {path.stem for path in BUNDLES if not path.stem.startswith("seed-")}


def test_its_page_has_the_numbers_of_its_tables() -> None:
    page = PAGE.read_text("utf-8")
    assert filled(page) == page, "run cd tests && python -m pages.study"


def test_no_score_on_its_page_is_written_by_hand() -> None:
    written = re.sub(r"<!-- .*?<!-- end -->", "", PAGE.read_text("utf-8"), flags=re.DOTALL)
    assert not re.findall(r"\d?\.\d{3}\b", written)


def test_the_counts_and_ranks_of_claims_are_those_of_the_tables() -> None:
    (_, total, fails, holds, part, noise, small, unjudged, _) = [*verdicts()][-1]
    for path, few in ((CHECKOUT / "README.md", "cannot be tested"), (PAGE, "are not testable")):
        text = " ".join(path.read_text("utf-8").split())
        (counts,) = re.findall(
            r"Of (\d+) claims, (\d+) hold and (\d+) in part, (\d+) do not,? (?:and )?(\d+) are "
            rf"within noise[,;] (\d+) {few} with so few runs, and (\d+) cannot be judged",
            text,
        )
        assert [*counts] == [total, holds, part, fails, noise, small, unjudged]
    text = " ".join((CHECKOUT / "README.md").read_text("utf-8").split())
    (said,) = re.findall(
        r"rho (\.\d\d) and (\.\d\d)\), but not on SST of the latter \((.*?)\)", text
    )
    _, hybrid, *_, unleashed = ranks()
    ours = [cell.split()[0].replace("0.", ".") for cell in (hybrid[2], unleashed[2], unleashed[1])]
    assert [*said] == ours


def test_the_gain_in_readme_is_that_of_the_claims() -> None:
    readme = (CHECKOUT / "README.md").read_text("utf-8")
    ((ours, paper),) = re.findall(r"\(\+(\.\d{3}) overall, published \+(\.\d{3})\)", readme)
    (overall, *_) = about("minibert-unleashed/rss-mp/rss")
    found = [overall[of] for of in ("difference", "published_difference")]
    assert [float(ours), float(paper)] == [round(float(of), 3) for of in found]


def test_bundles_are_small_and_have_no_texts_or_weights_or_descriptions_of_other_runs() -> None:
    assert sum(path.stat().st_size for path in BUNDLES) < 15e6
    for path in BUNDLES:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        files = {Path(name).name for name in names}
        assert files.isdisjoint({"model.safetensors", "examples.parquet", "tokens.parquet"})
        runs = {name.split("/")[1] for name in names if name.startswith("train/")}
        assert {f"spec/train-{key}.json" for key in runs} == {
            name for name in names if name.startswith("spec/train-")
        }
