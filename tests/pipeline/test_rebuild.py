"""What an edit makes run again: exactly what depends on it."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable

import pytest

from .project import PAPER, Project

pytestmark = pytest.mark.pipeline

GRID = f"workflow/grids/{PAPER}.yaml"
ALL = {"sst-only", "baseline", "1-bert", "3-bert", "hybrid-bert", "hybrid-bert-40"}
WITH_STS = ALL - {"sst-only"}
PCGRAD = {"1-bert", "hybrid-bert", "hybrid-bert-40"}
TABLE = {"table", "index", "publish"}
SCORED = {"scores", *TABLE}
SHOWN = {"figure", *SCORED}


def trains(variants: set[str], seed: int = 0) -> set[str]:
    """Return the training jobs of some variants."""
    return {f"train {variant} {seed}" for variant in variants}


def grid(old: str, new: str) -> Callable[[Project], None]:
    """Return an edit of the grid."""
    return lambda project: project.edit(GRID, old, new)


def code(module: str, old: str, new: str) -> Callable[[Project], None]:
    """Return an edit of a module of the package."""
    return lambda project: project.edit(f"src/minbert/{module}", old, new)


def config(**values: str) -> Callable[[Project], None]:
    """Return an edit of config.yaml."""
    return lambda project: project.configure(**values)


def lose_times(project: Project) -> None:
    """Give what is costly to make random times and lose the metadata, as a copy may."""
    forget(project)
    draw = random.Random(3)
    for kind in ("data", "vocabulary", "backbone", "tokens", "features", "train"):
        for path in (project.root / "store" / kind).rglob("*"):
            os.utime(path, (time := draw.uniform(1.6e9, 1.7e9), time))


def forget(project: Project) -> None:
    """Lose Snakemake's metadata."""
    shutil.rmtree(project.folder / ".snakemake")


def drop_tokens(project: Project) -> None:
    """Delete files that only jobs in between need."""
    shutil.rmtree(project.root / "store" / "tokens")


LR_1BERT = grid(
    "  1-bert:\n    extends: multitask\n",
    "  1-bert:\n    extends: [multitask]\n    optimiser: {lr: 2e-5}\n",
)

NO_EDITS: list[Callable[[Project], None]] = [
    grid("lr: 1e-5", "lr: 0.00001"),
    grid("shared_layers: all", "shared_layers: 1.0"),
    code("model/encoder.py", "\nimport", "\n# A comment.\nimport"),
    code("model/encoder.py", '"""', '"""Well. '),
    lambda project: append(project, "track/follower.py"),
    config(device="cuda:3", precision="bf16", threads="2", keep_weights="false"),
    config(course="/another/folder"),
]
"""What changes no result: spelling, comments, docstrings, where and how fast it runs."""

EDITS: dict[str, tuple[Callable[[Project], None], set[str]]] = {
    "a second seed": (config(seeds="[0, 1]"), trains(ALL, 1) | SHOWN),
    "the rate of a row in the figure": (LR_1BERT, trains({"1-bert"}) | SHOWN),
    "the rate of a row in no figure": (
        grid("    label: SST alone\n", "    label: SST alone\n    optimiser: {lr: 2e-5}\n"),
        trains({"sst-only"}) | SCORED,
    ),
    "a template's rate": (grid("lr: 1e-5", "lr: 2e-5"), trains(ALL) | SHOWN),
    "the label of a row in the figure": (
        grid("label: 1-bert", "label: one encoder"),
        {"figure", "publish"},
    ),
    "the label of a row in no figure": (grid("label: SST alone", "label: SST only"), TABLE),
    "a note": (grid("note: One encoder for all tasks.", "note: One encoder."), TABLE),
    "a figure's title": (grid("title: Multitask training", "title: Our"), {"figure", "publish"}),
    "a new row with a stage that is there": (
        grid("variants:\n", "variants:\n  again: {extends: 3-bert}\n"),
        SCORED,
    ),
    "a row that is the best of others": (
        grid("variants:\n", "variants:\n  best: {best_of: [1-bert, 3-bert]}\n"),
        SCORED,
    ),
    "a new row": (
        grid("variants:\n", "variants:\n  new: {extends: 3-bert, epochs: 100}\n"),
        trains({"new"}) | SCORED,
    ),
    "a row's data": (
        lambda project: project.edit("config.yaml", "sts: {train: 48", "sts: {train: 40"),
        {"data", "tokens", "features"} | trains(WITH_STS) | SHOWN,
    ),
    "the encoder": (
        lambda project: append(project, "model/encoder.py"),
        {"backbone", "tokens", "features"} | trains(ALL) | SHOWN,
    ),
    "the squared error": (
        code("train/losses/mse.py", "F.mse_loss(", "2.0 * F.mse_loss("),
        trains(WITH_STS) | SHOWN,
    ),
    "gradient surgery": (
        code("train/surgery/pcgrad.py", "max=0.0", "max=-0.0001"),
        trains(PCGRAD) | SHOWN,
    ),
    "training on cached features": (
        lambda project: append(project, "train/cached.py"),
        trains({"baseline"}) | SCORED,
    ),
    "how scores are made": (lambda project: append(project, "evaluate/score.py"), SCORED),
    "how tables are set": (lambda project: append(project, "evaluate/table_text.py"), TABLE),
    "how a figure is drawn": (
        lambda project: append(project, "figures/loss_curves.py"),
        {"figure", "publish"},
    ),
}


def append(project: Project, module: str) -> None:
    """Add a constant to a module."""
    with (project.folder / "src" / "minbert" / module).open("a", encoding="utf-8") as file:
        file.write("\n\nEXTRA = 1\n")


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_reruns_what_depends_on_it(edit: str, project: Project) -> None:
    change, expected = EDITS[edit]
    change(project)
    assert project.jobs() == expected


def test_edits_that_change_no_result_rerun_nothing(project: Project) -> None:
    for change in NO_EDITS:
        change(project)
    assert project.jobs() == set()


@pytest.mark.parametrize("lose", [forget, lose_times, drop_tokens])
def test_what_snakemake_forgets_or_needs_no_more_reruns_nothing(
    lose: Callable[[Project], None], project: Project
) -> None:
    lose(project)
    assert project.jobs() == set()


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
