"""Finding what one has trained: what a user asks for after parts, edits, deletions and Ctrl-C.

Each case is a command, or a call from Python, on a finished project, and what it says.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import encoders
import pytest
from pipeline.project import PAPER, Project, wait_for

import minbert
from minbert.base.errors import UserError

pytestmark = pytest.mark.pipeline

GRID = f"workflow/grids/{PAPER}.yaml"
LABEL = "    label: SST alone\n"
BEST = "  best: {best_of: [1-bert, 3-bert], best_by: task}\n"
PLAIN = ("published.json", "variants.tsv", "report.html", "tables", "figures")
SHOWN = ("plans", "scores", "table", "index", "report", "figure", "published")


def quiet(project: Project, folder: Path) -> Project:
    copy = project.copy(folder)
    copy.configure(tracking="{enabled: false}")
    return copy


def run_part(project: Project, *variants: str) -> None:
    project.snakemake("all", "--config", f"only=[{','.join(variants)}]")


@pytest.fixture(scope="module")
def unpublished(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Every row is trained, and no plan and nothing published tells of it."""
    project = quiet(finished, tmp_path_factory.mktemp("parts") / "unpublished")
    for path in (*PLAIN, *(f"store/{kind}" for kind in SHOWN)):
        at = project.root / path
        shutil.rmtree(at) if at.is_dir() else at.unlink()
    project.edit(GRID, "variants:\n", f"variants:\n{BEST}")
    return project


@pytest.fixture(scope="module")
def parts(unpublished: Project) -> Project:
    """Three parts were asked for, one after the other: the best of two rows, then others."""
    run_part(unpublished, "best")
    run_part(unpublished, "sst-only", "1-bert")
    run_part(unpublished, "1-bert", "3-bert")
    return unpublished


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    return quiet(finished, tmp_path / "project")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("predict sst-only film", '"task": "sst"'),
        (f"compare {PAPER}/sst-only 1-bert", f"{PAPER}/sst-only (main "),
        ("predict 3-bert --task sst film", '"task": "sst"'),
        ("submit sst-only --out submitted", "sst-dev-output.csv: 48 rows"),
        ("predict best --task sst film", "'best' is the best of others: sst from '"),
    ],
)
def test_a_variant_of_any_part_is_found(parts: Project, words: str, said: str) -> None:
    assert said in parts.minbert(*words.split())


def test_variants_of_parts_are_found_from_python_and_unknown_ones_told(parts: Project) -> None:
    results = minbert.open(parts.root)
    run = results.run("sst-only")
    assert (run.paper, run.variant, run.tasks) == (PAPER, "sst-only", ("sst",))
    assert results.specs("best")["stage"].to_list()
    with pytest.raises(UserError, match=r"Did you mean 'sst-only'\?"):
        results.run("sst-onyl")
    with pytest.raises(UserError, match=r"sst, para, sts; name one .*in Python `task=\"sst\"`"):
        results.run("1-bert").model()


@pytest.mark.parametrize("words", ["3-bert --task sst", "sst-only"])
def test_the_card_of_an_exported_model_has_its_scores(
    parts: Project, tmp_path: Path, words: str
) -> None:
    variant, *more = words.split()
    parts.minbert("export", variant, str(tmp_path / "model"), *more)
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert re.search(r"\n\| sst \| accuracy \| dev \| 0\.\d{4} \|\n", card)


def test_what_gc_deleted_after_an_edit_is_named_and_others_are_found(project: Project) -> None:
    """The list still has the variant, and its weights are gone."""
    project.edit(GRID, LABEL, f"{LABEL}    optimiser: {{lr: 2e-5}}\n")
    assert "deleted" in project.minbert("gc", "--delete")
    results = minbert.open(project.root)
    with pytest.raises(UserError) as raised:
        results.run("sst-only")
    for told in (project.minbert("predict", "sst-only", "film", ends=2), str(raised.value)):
        assert "variant 'sst-only'" in told and "`snakemake --cores 2 all` trains" in told
        assert "`minbert gc --delete`, which deletes the weights too" in told
    assert len(results.run("1-bert").model("sst")("a film")) == 1
    for what in (results.specs, results.histories, results.predictions):
        assert "1-bert" in set(what()["variant"])


def share(project: Project, layers: int, given: str) -> None:
    """Add a row `shares` that shares `given` layers of an encoder of so many."""
    shutil.rmtree(project.folder / "backbone")
    encoders.write_tiny(project.folder / "backbone", layers=layers)
    row = f"  shares: {{extends: hybrid-bert, shared_layers: {given}}}\n"
    project.edit(GRID, "variants:\n", f"variants:\n{row}")


@pytest.mark.parametrize(("layers", "given", "became"), [(3, "0.5", 2), (12, "0.67", None)])
def test_the_plan_says_what_a_fraction_became_if_it_was_rounded(
    project: Project, layers: int, given: str, became: int | None
) -> None:
    share(project, layers, given)
    told = project.minbert("plan")
    if became is None:
        assert "shares" in told and "became" not in told
    else:
        said = f"shares/main: 'shared_layers: {given}' of {layers} layers became {became}."
        assert said in told


def test_the_table_says_it_too(project: Project) -> None:
    share(project, 2, "0.25")
    run_part(project, "shares")
    table = (project.root / "only" / "tables" / f"{PAPER}.md").read_text(encoding="utf-8")
    assert "of 2 layers became 0." in table


# No more trainings than are stopped: Snakemake loses a Ctrl-C that comes while it prints a line,
# and then goes on with what is left.
ONE_ROW = ("--config", "only=[1-bert]")


@pytest.fixture(scope="module")
def stopped(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, str]:
    """A project of which Ctrl-C has stopped two long trainings, and what it printed."""
    project = quiet(finished, tmp_path_factory.mktemp("interrupted") / "project")
    project.configure(
        scale="{learning_rate: 50, epochs: 100}", checkpoint_seconds="0.2", seeds="[0, 1]"
    )
    shutil.rmtree(project.root / "store" / "train")
    words = ("snakemake", "--cores", "2", "all", *ONE_ROW)
    process = project.start(*words, process_group=0)
    work = project.root / "work"

    def both_are_saved() -> bool:
        return len({path.parent for path in work.rglob("state-*.pt")}) == 2

    try:
        wait_for(both_are_saved, "no state is saved", seconds=240)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        printed = process.communicate(timeout=240)[0]
    return project, printed


def test_after_ctrl_c_nothing_has_failed_and_the_plan_says_from_where_it_goes_on(
    stopped: tuple[Project, str],
) -> None:
    project, printed = stopped
    (line,) = [line for line in printed.splitlines() if line.startswith("ran ")]
    assert "2 interrupted" in line and "failed" not in line
    states = sorted((project.root / "work").rglob("state-*.pt"))
    assert len(states) == 2
    planned = project.minbert("plan", *ONE_ROW)
    for path in states:
        key, seed = path.parts[-3], path.parent.name.removeprefix("seed")
        (row,) = [line for line in planned.splitlines() if f" {key} " in line]
        assert f"seed {seed} interrupted at step {path.stem.removeprefix('state-')}" in row


def planned(project: Project, *words: str) -> str:
    """Return the plan's line of the row that trains SST alone."""
    told = project.minbert("plan", *words)
    (row,) = [line for line in told.splitlines() if line.startswith("sst-only ")]
    return row


def test_the_plan_says_that_a_training_failed(project: Project) -> None:
    project.edit(GRID, LABEL, f"{LABEL}    optimiser: {{lr: 1e30}}\n")
    assert "Error" in project.snakemake(project.target("sst-only", 0), ends=1)
    assert "seed 0 failed: " in planned(project)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param((GRID, LABEL, f"{LABEL}    optimiser: {{lr: 2e-5}}\n"), id="a setting"),
        pytest.param(
            ("src/minbert/train/finetune.py", "\nimport ", "\nEXTRA = 1\nimport "), id="code"
        ),
    ],
)
def test_an_edit_that_was_undone_is_no_reason(project: Project, edit: tuple[str, str, str]) -> None:
    """The plan compares with the finished run that is most like the new one."""
    path, old, new = edit
    project.edit(path, old, new)
    project.snakemake(project.target("sst-only", 0))
    project.edit(path, new, old)
    project.edit(GRID, LABEL, f"{LABEL}    max_length: 64\n")
    assert planned(project).endswith("  max_length: 512 -> 64")
    # What rows outside the part have measured counts.
    part = planned(project, "--config", "only=sst-only")
    assert part.split() == planned(project).split()
    assert " est. " in planned(project)
