"""What an edit makes run again: exactly what depends on it."""

from __future__ import annotations

import pytest

import minbert.store.node as node_module

from .edits import CODE, EDITS, GRID, LR_1BERT, NO_EDITS, SHOWN, append, forget
from .project import PAPER, Project

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def edited(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a copy of the finished run whose configuration, grid and backbone tests edit."""
    project = finished.copy(tmp_path_factory.mktemp("edited") / "project")
    project.configure(tracking="{enabled: false}")
    return project


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_reruns_what_depends_on_it(edit: str, edited: Project) -> None:
    change, expected = EDITS[edit]
    names = ("config.yaml", GRID, "backbone/model.safetensors")
    before = {edited.folder / name: (edited.folder / name).read_bytes() for name in names}
    change(edited)
    try:
        assert edited.planned() == expected
    finally:
        for path, content in before.items():
            path.write_bytes(content)


@pytest.mark.parametrize("module", CODE)
def test_an_edit_of_code_reruns_what_uses_it(
    module: str, edited: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = node_module.code_modules
    name = f"minbert.{module}"

    def other(*given: object) -> dict[str, str]:
        found = digests(*given)
        return found | {name: "other"} if name in found else found

    monkeypatch.setattr(node_module, "code_modules", other)
    assert edited.planned() == CODE[module]


def test_what_changes_no_result_reruns_nothing(project: Project) -> None:
    for change in NO_EDITS.values():
        change(project)
    assert project.jobs() == set()


def test_snakemake_runs_what_the_plan_says(project: Project) -> None:
    for name in ("another seed", "a row's name"):
        EDITS[name][0](project)
    append("train/losses/mse.py")(project)
    assert project.jobs() == project.planned() >= CODE["train.losses.mse"]


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
    first = project.tables()
    for module in ("train/run.py", "train/frozen_probe.py"):
        append(module)(project)
    assert len(project.jobs()) > 10
    project.minbert("adopt", "--apply", "--reason", "a constant that nothing uses")
    assert project.jobs() == SHOWN
    project.snakemake("all")
    second = project.tables()
    for ending in ("md", "tex"):  # the csv and the scores name keys
        assert second[f"{PAPER}.{ending}"] == first[f"{PAPER}.{ending}"]
    assert project.jobs() == set()
