"""What is wrong in a configuration or grid is told before any job starts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from .edits import GRID, Change, config, grid
from .project import CHECKOUT, Project

pytestmark = pytest.mark.pipeline

MISTAKES: dict[str, tuple[Change, list[str]]] = {
    "unknown key in config.yaml": (
        config(sed="[0]"),
        ["config.yaml: unknown key 'sed'", "Did you mean 'seeds'?"],
    ),
    "unknown part in a grid": (
        grid("surgery: pcgrad", "surgery: pcgard"),
        [GRID, "'variants.1-bert.surgery'", "pcgard", "Did you mean 'pcgrad'?"],
    ),
    "no such folder of data": (
        config(data="real", course="/no/such/folder"),
        ["there is no such file; check the path"],
    ),
}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project in which nothing has run; tests put back what they change."""
    return Project.make(tmp_path_factory.mktemp("refusals") / "project")


@pytest.fixture
def restored(planned: Project) -> Project:
    """Return the project with config and grid as they were."""
    fresh = planned.folder.parent / "fresh"
    if not fresh.exists():
        fresh.mkdir()
        shutil.copy2(planned.folder / "config.yaml", fresh / "config.yaml")
        shutil.copy2(planned.folder / GRID, fresh / "grid.yaml")
    shutil.copy2(fresh / "config.yaml", planned.folder / "config.yaml")
    shutil.copy2(fresh / "grid.yaml", planned.folder / GRID)
    return planned


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_before_any_job(mistake: str, restored: Project) -> None:
    change, words = MISTAKES[mistake]
    change(restored)
    printed = restored.snakemake("all", ends=1)
    for word in words:
        assert word in printed
    assert "Traceback" not in printed
    assert len(printed.splitlines()) < 12, printed
    assert not (restored.root / "store" / "data").exists()


def test_a_store_that_can_be_none_is_told_before_any_job(restored: Project) -> None:
    uri = "mysql://me:secret@127.0.0.1:9/runs"
    words = [f"MLFLOW_TRACKING_URI={uri}", "snakemake", "--cores", "2", "all"]
    printed = restored.run("env", *words, ends=1)
    assert f"no run can be stored at '{uri.replace('me:secret', '***')}'" in printed
    assert "Traceback" not in printed
    assert not (restored.root / "store" / "data").exists()
    assert not (restored.folder / "runs").exists()


def test_the_plan_and_snakemake_read_one_yaml(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    # In YAML 1.1 these are 8, 10 and 90.
    project.configure(seeds="010", course="1_0", lmrd="1:30")
    profile = project.folder / "mine"
    profile.mkdir()
    (profile / "config.yaml").write_text("configfile: [over.yaml, last.yaml]\n")
    (project.folder / "over.yaml").write_text("scale: {epochs: 010, learning_rate: 2}\n")
    (project.folder / "last.yaml").write_text("scale: {learning_rate: 1_0.0}\n")
    given = ["--config", "override={max_length: 011}", "scale={learning_rate: 0.5}"]
    run = project.snakemake("-n", "all", "--workflow-profile", "mine", *given)
    plan = project.minbert("plan", "--configfile", "over.yaml", "last.yaml", *given)
    found = {(key, seed) for key, seed in re.findall(r"wildcards: key=(\w+), seed=(\d+)", run)}
    keys = set(re.findall(r"/?main +([0-9a-f]{16}) ", plan))
    assert found and {seed for _, seed in found} == {"10"}
    assert {key for key, _ in found} == keys

    (project.folder / "last.yaml").write_text("scale:\n  epochs: 1\n  epochs: 2\n")
    for command in ("snakemake -n all", "minbert plan"):
        printed = project.run(*command.split(), "--configfile", "last.yaml", ends=None)
        assert "last.yaml, line 3, column 3: duplicate key 'epochs'" in printed
        assert "Traceback" not in printed


def test_a_hub_backbone_without_network_names_the_ways_out(restored: Project) -> None:
    restored.configure(backbone="google-bert/bert-base-uncased", revision=f"'{'8' * 40}'")
    (key,) = re.findall(r"(?m)^backbone .*? ([0-9a-f]{16}) ", restored.minbert("plan"))
    target = f"results/store/backbone/{key}/model.safetensors"
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(restored.folder / "hub")}
    words = [f"{name}={value}" for name, value in environment.items()]
    printed = restored.run("env", *words, "snakemake", "--cores", "1", target, ends=1)
    assert "minbert: backbone 'google-bert/bert-base-uncased' at 888888888888" in printed
    assert "set `backbone` to their folder" in printed and "backbone: builtin" in printed
    assert "Traceback" not in printed


def test_the_workflow_is_formatted_and_linted(restored: Project) -> None:
    assert "good condition" in restored.run("snakemake", "--lint")
    restored.run("snakefmt", "--check", str(CHECKOUT / "Snakefile"), str(CHECKOUT / "workflow"))
