"""The report's page, from made-up results: five seeds, some variants failed, some not run."""

from __future__ import annotations

import csv
import io
import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from figure_files import qualities, write_scores
from PIL import Image

from minbert.base.files import read_json, write_json, write_text
from minbert.evaluate.claims import COLUMNS
from minbert.evaluate.index import build_index
from minbert.evaluate.table import read_table, write_table
from minbert.evaluate.winner import winners
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.report.make import COMMAND, make
from minbert.report.pictures import COLOURS, WIDEST
from minbert.store.job import Job
from minbert.store.plans import description_path

ROOT = Path(__file__).parents[2]
SEEDS = (0, 1, 2, 3, 4)
PAPER = "hybrid-bert"
FAILED, NOT_RUN = "3-bert", "hybrid-bert-40"
HARM = "<script>alert('&')</script>"


class Page(HTMLParser):
    """What a page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, tag: str, name: str) -> list[str]:
        return [value for each, found in self.tags if each == tag and (value := found.get(name))]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Plan one paper with five seeds, and leave results of most of its variants."""
    folder = tmp_path_factory.mktemp("report")
    config: dict[str, Any] = {"grids": [PAPER], "seeds": SEEDS, "data": "builtin"}
    config |= {"backbone": "builtin", "results": str(folder), "course": "/home/someone/private"}
    made = Plan.load(config, ROOT)
    write(made)
    variants = made.grids[0].variants
    there = {n: q for n, q in qualities(variants).items() if n not in (FAILED, NOT_RUN)}
    tested = [name for name, variant in variants.items() if variant.test]
    outputs = made.outputs[PAPER]
    scores = outputs.scores.folder(made.root) / "scores.parquet"
    write_scores(scores, PAPER, there, SEEDS, tested=tested)
    for stage in made.stages:
        if stage.variant in there:
            for seed in SEEDS:
                path = made.train(stage).folder(made.root, seed) / "run.json"
                write_json(path, record(seed))
    filled = read_table(outputs.table.spec, scores, {})
    write_table(filled, outputs.table.folder(made.root))
    table = outputs.table.folder(made.root) / "table.csv"
    build_index(made.index.spec["published"], [table], made.index.folder(made.root))
    for name, node in made.figures.items():
        if not name.endswith("stability"):
            path = node.folder(made.root) / "figure.png"
            path.parent.mkdir(parents=True)
            Image.linear_gradient("L").resize((2100, 900)).save(path)
    for need in made.report.needs.values():
        if need.node.kind == "data":
            found = {"rows": {}, "overlaps": {"dev in train": 3}, "rejected": {"dev": 2}}
            write_json(need.path(made.root, None), found)
    write_claims(made)
    write_text(made.root / "logs" / COMMAND, f"snakemake --config note='{HARM}' all\n")
    return made


def record(seed: int) -> dict[str, Any]:
    """Return the record of a run."""
    where = {"commit": "abc+" if seed else "def", "device": "cpu", "packages": {"torch": "2.13"}}
    outcome = {"best_epoch": 9, "best_score": 0.7, "last_score": 0.69, "seconds": 60.0}
    return {"seed": seed, "parameters": 109_000_000, "outcome": outcome, "environment": where}


def write_claims(made: Plan) -> None:
    """Judge two claims; their text comes from a grid's file."""
    assert made.claims
    line = dict.fromkeys(COLUMNS, "") | {"paper": PAPER, "section": "4.3", "direction": "higher"}
    line |= {"claim": f"It is better. {HARM}", "variant": "1-bert", "against": "baseline"}
    line |= {"difference": 0.25, "low": 0.2, "high": 0.3, "p": 0.001, "p_holm": 0.002}
    line |= {"examples": 300, "task": "sst", "verdict": "holds", "seeds": 5, "seeds_against": 5}
    absent = dict.fromkeys(COLUMNS, "") | {"paper": PAPER, "section": "5", "variant": "3-bert"}
    absent |= {
        "against": "1-bert",
        "claim": "Is it?",
        "task": "sts",
        "direction": "lower",
        "verdict": "not run",
    }
    path = made.claims.folder(made.root) / "claims.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows([line, absent])


@pytest.fixture(scope="module")
def source(plan: Plan) -> str:
    """Return the report of a workflow in which one variant failed."""
    described = read_json(description_path(plan.root, "report", plan.report.key))
    why = f"stage 'main', seed 0: the loss is not finite {HARM}"
    job = Job(plan.root, described, None, 1, failures={(PAPER, FAILED): why})
    make(job)
    return (job.out / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(source: str) -> Page:
    return Page(source)


def test_nothing_comes_from_elsewhere_and_nothing_runs(page: Page, source: str) -> None:
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "iframe", "object", "embed"}
    assert all(src.startswith("data:image/png;base64,") for src in page.values("img", "src"))
    assert page.values("link", "href") == ["data:,"]
    assert "url(" not in source and "@import" not in source and "://" not in source
    assert len(source) < 10e6


def test_texts_from_data_and_errors_are_escaped(page: Page, source: str) -> None:
    assert "<script" not in source
    assert page.text.count(HARM) >= 3, "of a claim, an error, the command"


def test_every_figure_is_there_or_said_to_be_absent(page: Page, plan: Plan) -> None:
    assert len(page.values("img", "src")) == len(plan.figures) - 1
    for node in plan.figures.values():
        assert node.spec["draw"]["title"] in page.text
    assert all(len(text) > 20 for text in page.values("img", "alt"))
    assert "Figures that could not be drawn.\nfigures/hybrid-bert/stability" in page.text
    shown = [int(width) for width in page.values("img", "width")]
    for width, source in zip(shown, page.values("img", "src"), strict=True):
        with Image.open(io.BytesIO(b64decode(source.partition(",")[2]))) as image:
            assert image.width <= WIDEST and width == image.width // 2  # sharp on dense screens
            assert len(image.getcolors(COLOURS) or []) > 1
    assert max(shown) == WIDEST // 2


def test_links_inside_the_page_lead_somewhere(page: Page) -> None:
    ids = [found["id"] for _, found in page.tags if "id" in found]
    assert len(ids) == len(set(ids))
    inside = [link for link in page.values("a", "href") if link.startswith("#")]
    assert len(inside) > 8 and {link[1:] for link in inside} <= set(ids)


def test_rows_show_scores_with_intervals_or_why_there_are_none(page: Page, plan: Plan) -> None:
    assert re.search(r"1-bert \[\d+\]dev0\.497\d\.\d{3} ± 0\.\d{3}", page.text)
    rows = [line for line in page.text.splitlines() if re.match(r"3-bert.*dev", line)]
    assert rows and "failed" in rows[0]
    assert any(re.match(r"hybrid-bert.*test.*not run", row) for row in page.text.splitlines())
    wanted = len({plan.train(stage).key for stage in plan.stages}) * len(SEEDS)
    assert re.search(rf"\d+ of {wanted} finished", page.text)


def test_warnings_name_their_cases(page: Page) -> None:
    for said in (
        "hybrid-bert / 3-bert: stage 'main', seed 0: the loss is not finite",
        "SST: 3 texts of dev in train",
        "SST: 2 rows of dev",
        "Dev chose the epoch of every run",
        "The data are generated text.",
        "The runs do not all have the same commit.",
        "Runs were made with code that was not committed.",
    ):
        assert said in page.text, said
    assert "One seed." not in page.text
    assert "/home/someone" not in page.text, "of folders nothing is told"


def test_damaged_records_are_named_and_left_out(plan: Plan, source: str) -> None:
    stage = next(stage for stage in plan.stages if stage.variant == "1-bert")
    run = plan.train(stage).folder(plan.root, 2) / "run.json"
    data = next(n for n in plan.report.needs.values() if n.node.kind == "data")
    kept = {path: path.read_text("utf-8") for path in (run, data.path(plan.root, None))}
    described = read_json(description_path(plan.root, "report", plan.report.key))
    job = Job(plan.root, described, None, 1)
    try:
        for path in kept:
            path.write_text("", encoding="utf-8")
        make(job)
    finally:
        for path, text in kept.items():
            path.write_text(text, encoding="utf-8")
    page = Page((job.out / "report.html").read_text("utf-8"))
    finished = [re.findall(r"(\d+) of \d+ finished", each.text)[0] for each in (Page(source), page)]
    assert int(finished[0]) - int(finished[1]) == 1
    for path in kept:
        assert str(path.relative_to(plan.root)) in page.text
    assert "Delete the folder of each, and store/report; the next `snakemake all`" in page.text


def test_claims_show_their_verdicts(page: Page) -> None:
    assert f"It is better. {HARM}holds" in page.text
    assert "+0.250+0.200 to +0.3000.0023005/5" in page.text
    assert "Is it?not run" in page.text


def test_the_best_variant_has_its_interval_over_seeds(page: Page, plan: Plan) -> None:
    scores = plan.outputs[PAPER].scores.folder(plan.root) / "scores.parquet"
    best = winners(scores, {PAPER: "normalised"})[PAPER]
    label = plan.grids[0].variants[best.variant].label
    assert len(best.dev) == len(SEEDS)
    said = rf"{PAPER}\s+{re.escape(label)}{best.score:.3f} ± 0\.\d{{3}} \(normalised\)"
    assert re.search(said, page.text)


def test_the_report_has_the_key_of_what_it_shows(plan: Plan) -> None:
    config = plan.config.model_dump(mode="json")
    same = Plan.load(config | {"device": "cuda", "threads": 3, "course": "/elsewhere"}, ROOT)
    other = Plan.load(config | {"seeds": [0, 1]}, ROOT)
    assert same.report.key == plan.report.key != other.report.key
