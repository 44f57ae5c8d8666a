"""Asking for a part: `only`, one file by its readable name, and `minbert figure`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PIL import Image

from minbert.commands.cli import main

from .edits import GRID, SHOWN
from .project import PAPER, Project, planned_jobs
from .test_looking import content

pytestmark = pytest.mark.pipeline

ONLY = ("--config", f"only={PAPER}/1-bert")
FIGURE = f"figures/{PAPER}/multitask-loss"
TITLE = ("title: Multitask training loss", "title: Losses")


def published(project: Project) -> dict[str, str]:
    """Return the hash and time of what is published of the whole grid."""
    found = content(project.root)
    return {name: of for name, of in found.items() if name.startswith(("tables", "figures", "rep"))}


def test_only_runs_its_own_jobs_and_leaves_the_rest(project: Project) -> None:
    project.edit(GRID, "label: 1-bert", "label: one encoder")
    shutil.rmtree(project.seed_folder("1-bert"))
    shutil.rmtree(project.seed_folder("3-bert"))
    before = published(project)
    jobs = planned_jobs(project.snakemake("-n", "all", *ONLY), project.variants)
    assert jobs == {"train 1-bert 0"} | SHOWN
    assert "1 training job, 1 to run" in project.minbert("plan", *ONLY)
    said = project.snakemake("all", *ONLY)
    assert " jobs done in " in said and "results/only/tables" in said
    assert published(project) == before
    table = (project.root / "only" / "tables" / f"{PAPER}.md").read_text("utf-8")
    assert "1-bert" in table and "3-bert" not in table
    assert "train 3-bert 0" in project.jobs() and "train 1-bert 0" not in project.jobs()


def test_one_file_by_its_plain_name(project: Project) -> None:
    target = str((project.root / FIGURE).relative_to(project.folder)) + ".pdf"
    file = project.folder / target
    first = file.read_bytes()
    project.edit(GRID, *TITLE)
    before = {name: of for name, of in published(project).items() if name != f"{FIGURE}.pdf"}
    project.snakemake(target)
    assert file.read_bytes() != first
    assert {n: of for n, of in published(project).items() if n != f"{FIGURE}.pdf"} == before
    assert "Nothing to be done" in project.snakemake(target)
    project.edit(GRID, *TITLE[::-1])
    assert project.jobs() == {"publish"}, "a figure of another configuration lies among the others"
    said = project.snakemake(target.replace("loss", "los"), ends=1)
    assert f"makes no such file. Did you mean '{FIGURE}.pdf'?" in said


def test_a_figure_in_another_format_and_size(
    finished: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def draw(*words: str, name: str = "multitask-loss") -> None:
        main(["figure", f"{PAPER}/{name}", *words, "--results", str(finished.root)])

    small = tmp_path / "small.png"
    draw("--size", "3.3x2.5", "--out", str(small))
    assert capsys.readouterr().out.strip() == str(small)
    with Image.open(small) as image:
        assert image.size == (990, 750)  # 300 dpi
    texts = []
    for bare in ((), ("--no-title",)):
        draw(*bare, "--out", str(tmp_path / "drawn.svg"))
        texts.append((tmp_path / "drawn.svg").read_text("utf-8"))
    title, stamp = ">hybrid-bert: Multitask training loss</text", ">commit "
    assert title in texts[0] and stamp in texts[0]
    assert title not in texts[1] and stamp not in texts[1] and "3-bert" in texts[1]
    with pytest.raises(SystemExit):
        draw("--out", str(tmp_path / "drawn.eps"))
    with pytest.raises(SystemExit):
        draw(name="multitask-los")
    said = capsys.readouterr().err
    assert "drawn.eps: expected a file that ends in .pdf, .png, .svg" in said
    assert f"Did you mean '{PAPER}/multitask-loss'?" in said
