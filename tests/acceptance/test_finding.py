"""Finding what one has trained: what a user asks for after parts, edits, deletions and Ctrl-C.

Each case is a command, or a call from Python, on a finished project, and what it says.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import encoders
import pytest
from pipeline.project import CHECKOUT, PAPER, Project, wait_for

import minbert
from minbert.base.errors import UserError

from .later import later

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
def one_part(unpublished: Project) -> Project:
    """The best of two rows was asked for, alone."""
    project = unpublished.copy(unpublished.folder.with_name("one"))
    run_part(project, "best")
    return project


@pytest.fixture(scope="module")
def parts(one_part: Project) -> Project:
    """Three parts were asked for, one after the other."""
    project = one_part.copy(one_part.folder.with_name("several"))
    run_part(project, "sst-only", "1-bert")
    run_part(project, "1-bert", "3-bert")
    return project


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    return quiet(finished, tmp_path / "project")


class TestParts:
    """`only=[a, b]`, then `only=[b, c]`: `a` is trained, and found."""

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["predict", "sst-only", "a film"], '"task": "sst"'),
            (["compare", f"{PAPER}/sst-only", "1-bert"], f"{PAPER}/sst-only (main "),
            (["predict", "3-bert", "--task", "sst", "a film"], '"task": "sst"'),
            (["submit", "sst-only", "--out", "submitted"], "sst-dev-output.csv: 48 rows"),
            pytest.param(
                ["predict", "best", "--task", "sst", "a film"],
                '"task": "sst"',
                marks=later("predict", "the best of others is found after another part has run"),
            ),
        ],
        ids=lambda each: " ".join(each[:3]) if isinstance(each, list) else "",
    )
    def test_a_trained_variant_is_found(self, parts: Project, words: list[str], said: str) -> None:
        assert said in parts.minbert(*words)

    def test_the_best_of_a_part_is_found(self, one_part: Project) -> None:
        told = one_part.minbert("predict", "best", "--task", "sst", "a film")
        assert "'best' is the best of others: sst from '" in told and '"task": "sst"' in told

    def test_a_trained_variant_is_found_from_python(self, parts: Project) -> None:
        run = minbert.open(parts.root).run("sst-only")
        assert (run.paper, run.variant, run.tasks) == (PAPER, "sst-only", ("sst",))

    def test_the_best_of_a_part_is_found_from_python(self, one_part: Project) -> None:
        assert minbert.open(one_part.root).specs("best")["stage"].to_list()

    def test_an_unknown_name_is_told_the_nearest_of_all_parts(self, parts: Project) -> None:
        told = parts.minbert("predict", "sst-onyl", "a film", ends=2)
        assert "Did you mean 'sst-only'?" in told

    @pytest.mark.parametrize("variant", ["3-bert", "1-bert", "sst-only"])
    def test_the_card_of_an_exported_model_has_its_scores(
        self, parts: Project, tmp_path: Path, variant: str
    ) -> None:
        word = ["--task", "sst"] if variant == "3-bert" else []
        parts.minbert("export", variant, str(tmp_path / "model"), *word)
        card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
        assert re.search(r"\n\| sst \| accuracy \| dev \| 0\.\d{4} \|\n", card)


@pytest.fixture(scope="module")
def cleared(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A row was edited, and what its old setting had made was deleted."""
    project = quiet(finished, tmp_path_factory.mktemp("cleared") / "project")
    project.edit(GRID, LABEL, f"{LABEL}    optimiser: {{lr: 2e-5}}\n")
    assert "deleted" in project.minbert("gc", "--delete")
    return project


PYTHON: dict[str, Callable[[Any], object]] = {
    "run": lambda results: results.run("sst-only"),
    "specs": lambda results: results.specs("sst-only"),
    "histories": lambda results: results.histories("sst-only"),
}


class TestDeleted:
    """`minbert gc --delete` after an edit: the list still has the variant, its weights are gone."""

    @staticmethod
    def check(told: str) -> None:
        assert "no train with key" not in told
        assert "variant 'sst-only'" in told
        assert "`minbert gc --delete`, which deletes the weights too" in told
        assert "`snakemake --cores 2 all` trains" in told

    @pytest.mark.parametrize(
        "words",
        [
            ["predict", "sst-only", "a film"],
            ["export", "sst-only", "model"],
            ["submit", "sst-only"],
            ["compare", "sst-only", "1-bert"],
        ],
        ids=lambda words: words[0],
    )
    def test_a_command_says_so(self, cleared: Project, words: list[str]) -> None:
        self.check(cleared.minbert(*words, ends=2))

    @pytest.mark.parametrize("name", PYTHON)
    def test_python_says_so(self, cleared: Project, name: str) -> None:
        with pytest.raises(UserError) as told:
            PYTHON[name](minbert.open(cleared.root))
        self.check(str(told.value))

    def test_others_are_still_found(self, cleared: Project) -> None:
        run = minbert.open(cleared.root).run("1-bert")
        assert len(run.model("sst")("a film")) == 1

    @pytest.mark.parametrize("what", ["specs", "histories", "predictions"])
    @pytest.mark.xfail(
        strict=True,
        raises=UserError,
        reason="explore: frames of all variants leave out one whose results were deleted",
    )
    def test_frames_of_all_variants_leave_it_out(self, cleared: Project, what: str) -> None:
        frame = getattr(minbert.open(cleared.root), what)()
        assert "1-bert" in set(frame["variant"])


class TestPython:
    """What is missing is named as one writes it in Python."""

    def test_which_task(self, finished: Project) -> None:
        run = minbert.open(finished.root).run("1-bert")
        with pytest.raises(UserError, match=r"sst, para, sts; name one .*in Python `task=\"sst\"`"):
            run.model()
        assert len(run.model(task="sst")("a film")) == 1

    def test_which_folder(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"has no results; .*in Python `minbert.open\(ROOT\)`"):
            minbert.open(tmp_path)


def example() -> str:
    """Return the first example of docs/adding.md."""
    text = (CHECKOUT / "docs" / "adding.md").read_text(encoding="utf-8")
    return re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0]


def share(project: Project, layers: int, given: str) -> None:
    """Add a row `shares` that shares `given` layers of an encoder of so many."""
    shutil.rmtree(project.folder / "backbone")
    encoders.write_tiny(project.folder / "backbone", layers=layers)
    row = f"  shares: {{extends: hybrid-bert, shared_layers: {given}}}\n"
    project.edit(GRID, "variants:\n", f"variants:\n{row}")


class TestFractions:
    """`shared_layers: 0.25` of two layers is none of them."""

    @pytest.mark.parametrize(
        ("layers", "given", "became"),
        [(2, "0.25", 0), (2, "0.75", 2), (3, "0.5", 2), (6, "0.25", 2)],
    )
    def test_the_plan_says_what_a_fraction_became(
        self, project: Project, layers: int, given: str, became: int
    ) -> None:
        share(project, layers, given)
        said = f"shares/main: 'shared_layers: {given}' of {layers} layers became {became}."
        assert said in project.minbert("plan")

    @pytest.mark.parametrize(("layers", "given"), [(2, "0.5"), (6, "0.3333"), (12, "0.67")])
    def test_of_a_whole_number_nothing_is_said(
        self, project: Project, layers: int, given: str
    ) -> None:
        share(project, layers, given)
        told = project.minbert("plan")
        assert "shares" in told and "became" not in told

    def test_the_table_says_it_too(self, project: Project) -> None:
        share(project, 2, "0.25")
        run_part(project, "shares")
        table = (project.root / "only" / "tables" / f"{PAPER}.md").read_text(encoding="utf-8")
        assert "of 2 layers became 0." in table

    def test_the_first_example_of_the_docs_is_another_row(self, project: Project) -> None:
        (project.folder / "workflow" / "grids" / "depth.yaml").write_text(example(), "utf-8")
        project.configure(grids=f"[{PAPER}, depth]")
        told = project.minbert("plan")
        assert "became" not in told and "7 training jobs, 1 to run" in told


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


class TestInterrupted:
    """After Ctrl-C nothing has failed, and the plan says from where training goes on."""

    def test_the_summary_says_interrupted(self, stopped: tuple[Project, str]) -> None:
        (line,) = [line for line in stopped[1].splitlines() if line.startswith("ran ")]
        assert "2 interrupted" in line and "failed" not in line

    def test_the_plan_says_at_which_step(self, stopped: tuple[Project, str]) -> None:
        project = stopped[0]
        states = sorted((project.root / "work").rglob("state-*.pt"))
        assert len(states) == 2
        planned = project.minbert("plan", *ONE_ROW)
        for path in states:
            key, seed = path.parts[-3], path.parent.name.removeprefix("seed")
            step = path.stem.removeprefix("state-")
            (row,) = [line for line in planned.splitlines() if f" {key} " in line]
            assert f"seed {seed} interrupted at step {step}" in row
            assert "has never run" not in row

    @later("commands", "the plan says that a training failed, and with what, not 'has never run'")
    def test_the_plan_says_that_a_training_failed(self, project: Project) -> None:
        project.edit(GRID, LABEL, f"{LABEL}    optimiser: {{lr: 1e30}}\n")
        target = project.target("sst-only", 0)
        if "Error" not in project.snakemake(target, ends=None):
            raise RuntimeError("the training was to fail")
        (row,) = [r for r in project.minbert("plan").splitlines() if r.startswith("sst-only ")]
        assert "failed" in row


class TestReasons:
    """The plan compares with the finished run that is most like the new one."""

    def made(self, project: Project, edit: tuple[str, str, str]) -> None:
        """Edit, train one row, and undo the edit."""
        path, old, new = edit
        project.edit(path, old, new)
        project.snakemake(project.target("sst-only", 0))
        project.edit(path, new, old)

    @pytest.mark.parametrize(
        "edit",
        [
            pytest.param((GRID, LABEL, f"{LABEL}    optimiser: {{lr: 2e-5}}\n"), id="a setting"),
            pytest.param(
                ("src/minbert/train/finetune.py", "\nimport ", "\nEXTRA = 1\nimport "), id="code"
            ),
        ],
    )
    def test_an_edit_that_was_undone_is_no_reason(
        self, project: Project, edit: tuple[str, str, str]
    ) -> None:
        self.made(project, edit)
        assert "6 training jobs, 0 to run" in project.minbert("plan")
        project.edit(GRID, LABEL, f"{LABEL}    max_length: 64\n")
        (row,) = [r for r in project.minbert("plan").splitlines() if r.startswith("sst-only ")]
        assert row.endswith("  max_length: 512 -> 64")
        told = project.minbert("plan", "--why", "sst-only").splitlines()
        assert told[1:] == ["  max_length: 512 -> 64"]


class TestRates:
    """What rows outside the part have measured counts."""

    def test_a_part_takes_as_long_as_in_the_whole(self, project: Project) -> None:
        project.edit(GRID, LABEL, f"{LABEL}    max_length: 64\n")
        whole, part = (
            project.minbert("plan", *words) for words in ([], ["--config", "only=sst-only"])
        )
        rows = [line for told in (whole, part) for line in told.splitlines() if "64" in line[-9:]]
        assert len(rows) == 2 and rows[0].split() == rows[1].split() and " est. " in rows[0]
        assert "(as in finished runs)" in whole and "(as in finished runs)" in part


class TestWords:
    """Words after an option of several values belong where they can belong."""

    @pytest.mark.parametrize(
        "words",
        [
            "out.zip --seeds 0",
            pytest.param(
                "--seeds 0 out.zip", marks=later("commands", "bundle takes OUT.zip after --seeds")
            ),
        ],
    )
    def test_bundle_takes_its_file_after_seeds(
        self, finished: Project, tmp_path: Path, words: str
    ) -> None:
        at = words.replace("out.zip", str(tmp_path / "out.zip")).split()
        finished.minbert("bundle", *at)
        assert (tmp_path / "out.zip").is_file()
