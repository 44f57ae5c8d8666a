"""The pipeline as `workflow/Snakefile`, and as a module of another workflow."""

from __future__ import annotations

import shutil

import pytest
import yaml

from .project import CHECKOUT, CONFIG, PAPER, Project, planned_jobs

pytestmark = pytest.mark.pipeline

README = (CHECKOUT / "config" / "README.md").read_text("utf-8")
OTHER = README.partition("```python\n")[2].partition("```")[0]
"""The other workflow of the page on configuration."""


def another(project: Project, **changes: object) -> tuple[str, ...]:
    """Write the other workflow beside a project's, on its results; return how to run it."""
    folder = project.folder / "other"
    folder.mkdir()
    (folder / "Snakefile").write_text(
        OTHER.replace("minbert/workflow/Snakefile", "../workflow/Snakefile"), encoding="utf-8"
    )
    ours = {**yaml.safe_load(CONFIG), "results": str(project.root), **changes}
    ours["backbone"] = str(project.folder / "backbone")
    (folder / "other.yaml").write_text(yaml.safe_dump({"minbert": ours}), encoding="utf-8")
    words = ("--cores", "2", "--snakefile", "other/Snakefile", "--directory", "other")
    return ("snakemake", *words, "--configfile", "other/other.yaml")


def test_the_catalogs_snakefile_asks_for_all(project: Project) -> None:
    (project.root / "tables" / f"{PAPER}.csv").unlink()
    printed = project.snakemake("--snakefile", "workflow/Snakefile", "-n")
    assert planned_jobs(printed, project.variants) == {"publish"}


def test_a_module_finds_the_results_and_makes_what_another_workflow_asks_for(
    project: Project,
) -> None:
    folder = project.seed_folder("sst-only")
    shutil.rmtree(folder)
    for kind in ("table", "scores"):
        shutil.rmtree(project.root / "store" / kind)
    rows = len((project.root / "tables" / f"{PAPER}.csv").read_text("utf-8").splitlines())
    trained = project.trained()
    printed = project.run(*another(project, tracking={"enabled": False}))
    assert " jobs done in " in printed and (folder / "run.json").exists()
    assert project.trained().items() >= trained.items()
    assert int((project.folder / "other" / "rows.txt").read_text("utf-8")) == rows


def test_a_wrong_configuration_of_a_module_is_refused(project: Project) -> None:
    printed = project.run(*another(project, sedes=[0]), "-n", ends=1)
    assert "unknown key 'sedes'. Did you mean 'seeds'?" in printed and "Traceback" not in printed
