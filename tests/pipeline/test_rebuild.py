"""What an edit makes run again: exactly what depends on it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from .changes import GRID, Change, append, forget
from .course import run_on_files
from .edits import EDITS, FILE_EDITS, FILE_NO_EDITS, LOSSES, LR_1BERT, NO_EDITS, SHOWN
from .project import PAPER, Project

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def run_of_files(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Run two rows on data from files; nobody may change it."""
    project = finished.copy(tmp_path_factory.mktemp("files") / "finished")
    project.configure(tracking="{enabled: false}")
    run_on_files(project)
    return project


def every(changes: dict[str, Change]) -> Change:
    """Return all changes as one."""

    def change(project: Project) -> None:
        for each in changes.values():
            each(project)

    return change


CASES: dict[str, tuple[Change, set[str]]] = {
    **EDITS,
    **{name: (change, set()) for name, change in LOSSES.items()},
    "all that changes no result": (every(NO_EDITS), set()),
}
FILE_CASES: dict[str, tuple[Change, set[str]]] = {
    **FILE_EDITS,
    "identical files": (every(FILE_NO_EDITS), set()),
}


def jobs_of_plan(printed: str) -> set[str]:
    """Read out of `minbert plan` what would run, as `Project.jobs` says it."""
    found = set()
    for block in printed.split("\n\n"):
        _, head, _, *lines = [*block.splitlines(), "", ""]
        rows = [line.split() for line in lines if line]
        if head.startswith("kind "):
            found |= {kind for kind, *_ in rows}
        elif head.startswith("variant "):
            for variant, _, _, done, _, wanted, *_ in (
                r for r in rows if r[3] not in ("done", "-")
            ):
                # Seeds are from 0 on, and so are those that are done.
                found |= {f"train {variant} {seed}" for seed in range(int(done), int(wanted))}
    return found


def plan_after(change: Change, finished: Project, folder: Path) -> set[str]:
    """Return what would run after a change of a copy, which goes again."""
    copy = finished.copy(folder)
    copy.configure(tracking="{enabled: false}")
    change(copy)
    jobs = jobs_of_plan(copy.minbert("plan"))
    shutil.rmtree(folder)
    return jobs


@pytest.fixture(scope="module")
def planned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[set[str]]]]:
    """Plan after each edit whose test was chosen, two side by side."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    chosen = {i.callspec.params.get("edit") for i in items if hasattr(i, "callspec")}
    with ThreadPoolExecutor(2) as pool:
        found: dict[str, Future[set[str]]] = {}
        for base, cases in (("finished", CASES), ("run_of_files", FILE_CASES)):
            for name in [name for name in cases if name in chosen]:
                project = request.getfixturevalue(base)
                folder = tmp_path_factory.mktemp("edit") / "project"
                found[name] = pool.submit(plan_after, cases[name][0], project, folder)
        yield found


@pytest.mark.parametrize("edit", CASES | FILE_CASES)
def test_an_edit_reruns_what_depends_on_it(edit: str, planned: dict[str, Future[set[str]]]) -> None:
    assert planned[edit].result() == (CASES | FILE_CASES)[edit][1]


@pytest.mark.parametrize("changed", ["another seed", "a row's name", "the backbone"])
def test_snakemake_means_the_same_jobs(changed: str, project: Project) -> None:
    change, expected = EDITS[changed]
    change(project)
    assert project.jobs() == expected


def test_going_back_finds_the_first_results(project: Project) -> None:
    first, trained = project.tables(), project.trained()
    grid_file = project.folder / GRID
    before = grid_file.read_text(encoding="utf-8")

    LR_1BERT(project)
    project.snakemake("all")
    other = project.tables()
    assert other["scores.parquet"] != first["scores.parquet"]
    assert other[f"{PAPER}.md"] != first[f"{PAPER}.md"]

    forget(project)
    grid_file.write_text(before, encoding="utf-8")
    assert project.jobs() == {"publish"}
    project.snakemake("all")
    assert project.tables() == first
    assert project.trained().items() >= trained.items()
    assert project.jobs() == set()


def test_a_declared_refactoring_trains_nothing(project: Project) -> None:
    first, trained = project.tables(), project.trained()
    for module in ("train/run.py", "train/frozen_probe.py"):
        append(module)(project)
    assert len(project.jobs()) > 10
    printed = project.minbert("adopt")
    assert "other code" in printed and "not accepted" not in printed
    assert project.trained() == trained
    project.minbert("adopt", "--apply", "--reason", "a constant that nothing uses")
    assert project.jobs() == SHOWN
    project.snakemake("all")
    second = project.tables()
    for ending in ("md", "tex"):  # the csv and the scores name keys
        assert second[f"{PAPER}.{ending}"] == first[f"{PAPER}.{ending}"]
    assert project.jobs() == set()

    freed = project.minbert("gc", "--delete")
    assert "deleted" in freed and project.jobs() == set()
    assert (project.seed_folder("3-bert") / "adopted.json").exists()
