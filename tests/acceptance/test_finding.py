"""Finding what one has trained: what a user asks for after parts, edits, deletions and Ctrl-C."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from pipeline.edits import GRID, row
from pipeline.project import PAPER, Project, wait_for

import minbert
from minbert.base.errors import UserError
from minbert.commands.cli import main

pytestmark = pytest.mark.pipeline

PLAIN = ("published.json", "variants.tsv", "report.html", "tables", "figures")
SHOWN = ("plans", "scores", "table", "index", "report", "figure", "published")
Printed = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def parts(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Every row is trained; two parts were asked for: the best of two rows, then another row."""
    project = finished.copy(tmp_path_factory.mktemp("parts") / "project")
    project.configure(tracking="{enabled: false}")
    for path in (*PLAIN, *(f"store/{kind}" for kind in SHOWN)):
        at = project.root / path
        shutil.rmtree(at) if at.is_dir() else at.unlink()
    row("best: {best_of: [1-bert, 3-bert], best_by: task}")(project)
    for part in ("best", "sst-only"):
        project.snakemake("all", "--config", f"only={part}")
    return project


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"compare {PAPER}/sst-only 1-bert", f"{PAPER}/sst-only (main "),
        ("submit sst-only --out {folder}", "sst-dev-output.csv: 48 rows"),
        ("predict best --task sst film", "'best' is the best of several: sst from '"),
    ],
)
def test_a_variant_of_any_part_is_found(
    parts: Project, tmp_path: Path, capsys: Printed, words: str, said: str
) -> None:
    main([*words.format(folder=tmp_path).split(), "--results", str(parts.root)])
    assert said in "".join(capsys.readouterr())


def test_variants_of_parts_are_found_from_python(parts: Project, tmp_path: Path) -> None:
    results = minbert.open(parts.root)
    run = results.run("sst-only")
    assert (run.paper, run.variant, run.tasks) == (PAPER, "sst-only", ("sst",))
    assert results.specs("best")["stage"].to_list()
    folder = str(tmp_path / "model")
    main(["export", "3-bert", folder, "--task", "sst", "--results", str(parts.root)])
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert re.search(r"\n\| sst \| accuracy \| dev \| 0\.\d{4} \|\n", card)


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    copy = finished.copy(tmp_path / "project")
    copy.configure(tracking="{enabled: false}")
    return copy


def test_what_gc_deleted_after_an_edit_is_named_and_others_are_found(
    project: Project, capsys: Printed
) -> None:
    """The list still has the variant, and its weights are gone."""
    label = "    label: SST alone\n"
    project.edit(GRID, label, f"{label}    optimiser: {{lr: 2e-5}}\n")
    assert "deleted" in project.minbert("gc", "--delete")
    results = minbert.open(project.root)
    with pytest.raises(UserError) as raised:
        results.run("sst-only")
    with pytest.raises(SystemExit):
        main(["predict", "sst-only", "film", "--results", str(project.root)])
    for told in (capsys.readouterr().err, str(raised.value)):
        assert "variant 'sst-only'" in told and "`snakemake all --cores 2`" in told
        assert "`minbert gc --delete`, which deletes the weights too" in told
    assert len(results.run("1-bert").model("sst")("a film")) == 1
    for what in (results.specs, results.histories, results.predictions):
        assert "1-bert" in set(what()["variant"])


def test_after_ctrl_c_nothing_has_failed_and_the_plan_says_from_where_it_goes_on(
    project: Project,
) -> None:
    # No more trainings than are stopped: Snakemake loses a Ctrl-C that comes while it prints a
    # line, and then goes on with what is left.
    one_row = ("--config", "only=[1-bert]")
    project.configure(
        scale="{learning_rate: 50, epochs: 100}", checkpoint_seconds="0.2", seeds="[0, 1]"
    )
    shutil.rmtree(project.root / "store" / "train")
    process = project.start("snakemake", "--cores", "2", "all", *one_row, process_group=0)
    work = project.root / "work"

    def both_are_saved() -> bool:
        return len({path.parent for path in work.rglob("state-*.pt")}) == 2

    try:
        wait_for(both_are_saved, "no state is saved", seconds=240)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        printed = process.communicate(timeout=240)[0]
    line = [line for line in printed.splitlines() if " jobs done in " in line][-1]
    assert "2 interrupted" in line and "failed" not in line and "Traceback" not in printed
    states = sorted(work.rglob("state-*.pt"))
    assert len(states) == 2
    planned = project.minbert("plan", *one_row)
    for path in states:
        key, seed = path.parts[-3], path.parent.name.removeprefix("seed")
        (told,) = [line for line in planned.splitlines() if f" {key} " in line]
        assert f"seed {seed} interrupted at step {path.stem.removeprefix('state-')}" in told
