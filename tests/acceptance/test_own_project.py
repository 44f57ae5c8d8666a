"""What is said of a finished project with two own tasks, and what can be asked of it."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from pipeline import own_data
from pipeline.project import Project, copy_workflow

pytestmark = pytest.mark.usefixtures("own_folder")

PROJECT = """\
grids: [mine]
data: builtin
backbone: builtin
device: cpu
precision: fp32
threads: 1
tracking: {enabled: false}
scale: {learning_rate: 60, epochs: 0.5}
tasks:
  news: {kind: classification, classes: [world, sports, business, technology], title: News topics,
    files: news, sentence1: text, label: topic}
  mrpc: {kind: binary, classes: [different, same], files: mrpc.tsv, dev: 0.1, test: 0.1,
    id: id, sentence1: a, sentence2: b, label: same}
"""
GRID = """\
paper: mine
title: Two tasks
variants:
  shared: {tasks: {news: {loss: cross_entropy}, mrpc: {loss: binary_cross_entropy, pairing: cross}}}
figures:
  topics: {kind: confusion-matrix, title: Topics, options: {task: news}}
  chinese: {kind: confusion-matrix, title: "Topics, \u65b0\u805e", options: {task: news}}
  cuneiform: {kind: confusion-matrix, title: "Topics, \U00012000", options: {task: news}}
claims:
  - {text: It learns the topics., variant: shared, against: majority, task: news}
"""


class Finished(NamedTuple):
    project: Project
    printed: str

    def text(self, name: str) -> str:
        """Return a file of the results; a page without tags, scripts and embedded images."""
        found = (self.project.root / name).read_text(encoding="utf-8")
        if name.endswith(".html"):
            for inner in (r"<style>.*?</style>", r"<script\b.*?</script>", r"<[^>]+>"):
                found = re.sub(inner, " ", found, flags=re.DOTALL)
        return " ".join(html.unescape(found).split())


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A finished project whose two tasks are its user's own, beside the common figures."""
    folder = tmp_path_factory.mktemp("own") / "checkout"
    copy_workflow(folder)
    own_data.write(folder)
    (folder / "config.yaml").write_text(PROJECT, encoding="utf-8")
    (folder / "workflow/grids/mine.yaml").write_text(GRID, encoding="utf-8")
    project = Project(folder)
    return Finished(project, project.snakemake("all"))


SUMMARY = "what the run printed"
SAID = [
    (SUMMARY, "best: shared, normalised overall dev score", True),
    (SUMMARY, "generated", False),
    ("report.html", "Generated data", False),
    ("report.html", "on generated data", False),
    ("tables/claims.md", "generated", False),
    ("tables/claims.md", r"Data: own files\.", True),
    ("tables/claims.md", "1 comparison: 1 as claimed", True),
    ("tables/mine.md", r"Data: own files: mrpc and News topics\.", True),
    ("report.html", "News topics (world|sports|business|technology) ", True),
    ("report.html", "mrpc (same|different) ", True),
    ("report.html", "all published rows and their status", False),
    ("report.html", "Published scores and ours", False),
    ("report.html", "Published and reproduced scores", False),
    ("report.html", '<figure class="chart">', True),
]


@pytest.mark.pipeline
@pytest.mark.parametrize(
    ("place", "said", "there"),
    SAID,
)
def test_what_is_said_of_own_tasks_is_true(
    own: Finished, place: str, said: str, there: bool
) -> None:
    text = own.printed if place == SUMMARY else own.text(place)
    if "<" in said:
        text = (own.project.root / place).read_text(encoding="utf-8")
    assert bool(re.search(said, text)) == there, text


@pytest.mark.pipeline
def test_what_published_rows_would_fill_is_not_made_without_any(own: Finished) -> None:
    there = ("tables/mine.csv", "figures/mine/topics.png", "figures/all/dev-test.png")
    none = ("tables/index.md", "tables/index.csv", "figures/all/published-reproduced.png")
    assert [(own.project.root / name).is_file() for name in (*there, *none)] == [True] * 3 + [
        False
    ] * 3


def font(path: Path, characters: str) -> None:
    """Write a TrueType font that has these characters, as squares."""
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for corner in ((0, 700), (700, 700), (700, 0)):
        pen.lineTo(corner)
    pen.closePath()
    square = pen.glyph()
    names = [".notdef", *(f"u{ord(each):X}" for each in characters)]
    made = FontBuilder(1000, isTTF=True)
    made.setupGlyphOrder(names)
    made.setupCharacterMap({ord(each): f"u{ord(each):X}" for each in characters})
    made.setupGlyf(dict.fromkeys(names, square))
    made.setupHorizontalMetrics(dict.fromkeys(names, (800, 50)))
    made.setupHorizontalHeader(ascent=800, descent=-200)
    made.setupNameTable({"familyName": "Squares", "styleName": "Regular", "psName": "Squares"})
    made.setupOS2(sTypoAscender=800, usWinAscent=800, usWinDescent=200)
    made.setupPost()
    path.parent.mkdir(parents=True, exist_ok=True)
    made.save(path)


@pytest.mark.pipeline
@pytest.mark.parametrize(
    ("figure", "characters", "boxes"),
    [
        ("chinese", "\u65b0\u805e", ""),
        ("cuneiform", "\u65b0\u805e", "\U00012000"),
    ],
    ids=["an installed font has it", "no font has it"],
)
def test_figures_write_names_in_any_script(
    own: Finished, figure: str, characters: str, boxes: str, tmp_path: Path
) -> None:
    if characters:
        font(tmp_path / "share" / "fonts" / "squares.ttf", characters)
    env = {
        "XDG_DATA_HOME": tmp_path / "share",
        "MPLCONFIGDIR": tmp_path,
        "PYTHONIOENCODING": "utf-8",
    }
    words = [f"{name}={value}" for name, value in env.items()]
    out = tmp_path / "drawn.pdf"
    printed = own.project.run(
        *("env", *words, sys.executable, "-m", "minbert", "figure", f"mine/{figure}"),
        *("--out", str(out)),
    )
    assert ("no installed font has" in printed) == bool(boxes), printed
    assert boxes in printed
    fonts = set(re.findall(rb"/FontName /(?:[A-Z]{6}\+)?(\w+)", out.read_bytes()))
    fonts -= {b"DejaVuSans", b"LastResortHE"}  # the second is matplotlib's, of boxes
    assert bool(fonts) == (characters != "" and not boxes), fonts
