"""A plan only looks, and says what Snakemake then does."""

from __future__ import annotations

import hashlib
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from minbert.evaluate.text import read_csv

from .project import PAPER, Project, made_by

pytestmark = pytest.mark.pipeline

LISTED = re.compile(r"(?m)^(\w+) +.*? +([0-9a-f]{16}) ")
STAGE = re.compile(r"(?m)^\S+ +\S+ +([0-9a-f]{16})  (?!done)")


def planned(project: Project) -> set[tuple[str, str]]:
    """Return kind and key of what `minbert plan` lists; a publishing has no key."""
    found: set[tuple[str, str]] = set()
    for block in project.minbert("plan").split("\n\n"):
        if block.startswith("Other jobs"):
            found |= {(kind, "" if kind == "publish" else k) for kind, k in LISTED.findall(block)}
        elif " stage " in block.partition("---")[0]:
            found |= {("train", key) for key in STAGE.findall(block)}
    return found


def would_run(project: Project) -> set[tuple[str, str]]:
    """Return what Snakemake lists."""
    return {(kind, key) for kind, key, _ in made_by(project.snakemake("-n", "all"))}


def content(root: Path) -> dict[str, str]:
    """Return the hash and time of every file below a folder."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix not in {".db", ".db-wal", ".db-shm"}:
            hashed = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(root))] = f"{hashed} {path.stat().st_mtime_ns}"
    return found


def test_looking_changes_nothing(project: Project) -> None:
    before = content(project.root)
    project.edit(f"workflow/grids/{PAPER}.yaml", "label: 1-bert", "label: one encoder")
    words = ("device=cuda:7", "seeds=[0,1]", "scale={epochs: 0.1}", "verify=true")
    project.minbert("plan", "--config", *words)
    project.snakemake("-n", "all", "--config", *words)
    assert content(project.root) == before
    fresh = project.copy(project.folder / "fresh")
    shutil.rmtree(fresh.root)
    fresh.minbert("plan")
    fresh.snakemake("-n", "all")
    assert not fresh.root.exists()


def test_a_copied_folder_is_whole(project: Project) -> None:
    shutil.copytree(project.root, project.folder / "copy", copy_function=shutil.copyfile)
    project.configure(results="copy")
    assert planned(project) == would_run(project) == set()


def test_a_deleted_training_below_finished_tables_is_trained_again(project: Project) -> None:
    tables = project.tables()
    shutil.rmtree(project.seed_folder("sst-only"))
    asked = {("train", project.key("sst-only"))}
    assert planned(project) == would_run(project) == asked
    told = project.minbert("predict", "sst-only", "a fine film .", ends=2)
    assert "snakemake --cores 2" in told
    project.snakemake("all")
    assert project.jobs() == set() and project.tables() == tables
    assert "prediction" in project.minbert("predict", "sst-only", "a fine film .")


def test_deleted_plain_files_come_back(project: Project) -> None:
    names = ("report.html", f"tables/{PAPER}.md", "variants.tsv", "tables/scores.parquet")
    before = [(project.root / name).read_bytes() for name in names]
    for name in names:
        (project.root / name).unlink()
    assert planned(project) == would_run(project) == {("publish", "")}
    project.snakemake("all")
    assert [(project.root / name).read_bytes() for name in names] == before
    assert project.jobs() == set()


def test_two_configurations_at_once_leave_one_of_them(project: Project) -> None:
    """Of two clones on one results folder one is refused, unless the first ended before it."""
    one, other = project, project.copy(project.folder.with_name("other"))
    for each, rate in ((one, "2e-5"), (other, "3e-5")):
        each.edit(
            f"workflow/grids/{PAPER}.yaml",
            "    label: SST alone\n",
            f"    label: SST alone\n    optimiser: {{lr: {rate}}}\n",
        )
        each.configure(results=str(one.root))
    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(lambda each: each.snakemake("all", ends=None), (one, other)))
    refused = [f"a workflow on {one.root} is already running" in printed for printed in told]
    assert not all(refused)
    for each, again in zip((one, other), refused, strict=True):
        if again:
            consistent(one.root, (one, other))
            each.snakemake("all")
    consistent(one.root, (one, other))


def consistent(root: Path, projects: tuple[Project, ...]) -> None:
    """Check that variants, scores and marks under `root` are of one of the projects."""
    keys = {row["variant"]: row["key"] for row in read_csv(root / "variants.tsv", "\t")}
    scores = pq.read_table(root / "tables" / "scores.parquet").to_pylist()
    assert {(row["variant"], row["key"]) for row in scores} == set(keys.items())
    (whose,) = [each for each in projects if each.key("sst-only") == keys["sst-only"]]
    for each in projects:
        assert (would_run(each) == set()) == (each is whose)


def test_one_row_asked_for_takes_no_others_off(project: Project) -> None:
    """Nor if it fails."""
    pages = {path: path.read_bytes() for path in (project.root / "tables").iterdir()}
    project.edit(f"workflow/grids/{PAPER}.yaml", "lr: 1e-5", "lr: 1e30")
    project.snakemake(project.target("sst-only", 0), ends=1)
    assert {path: path.read_bytes() for path in (project.root / "tables").iterdir()} == pages


def test_what_is_said_of_finished_results_comes_back(project: Project) -> None:
    project.snakemake("all")
    (record,) = (project.root / "store" / "plans").glob("*.json")
    described = project.root / "store" / "spec" / f"train-{project.key('sst-only')}.json"
    for path in (record, described):
        before = path.read_bytes()
        path.write_text("")
        told = project.minbert("predict", "sst-only", "a fine film .", ends=2)
        assert f"{path.name}: " in told and "snakemake all" in told
        path.write_bytes(before if path is record else b"")
    assert planned(project) == would_run(project) == {("publish", "")}
    project.snakemake("all")
    assert "prediction" in project.minbert("predict", "sst-only", "a fine film .")
