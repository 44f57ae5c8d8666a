"""The report's page, from made-up results: three seeds, some variants failed, some not run."""

from __future__ import annotations

import hashlib
import io
import re
from base64 import b64decode, b64encode
from html.parser import HTMLParser
from statistics import fmean, median

import pytest
from PIL import Image
from reporting import CONSTANT, HARM, HOSTILE, PAPER, SEEDS, job_of, write_report

from minbert.evaluate.reading import GUESS, Of, Score
from minbert.evaluate.text import read_csv
from minbert.plan.plan import Plan
from minbert.report.make import Paper, against_papers, read_papers, unlearned


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
def papers(reported: Plan) -> list[Paper]:
    return list(read_papers(job_of(reported, reported.shown["report"])))


@pytest.fixture(scope="module")
def source(reported: Plan) -> str:
    """Return the report of a workflow in which one variant failed."""
    return write_report(reported).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(source: str) -> Page:
    return Page(source)


def test_nothing_comes_from_elsewhere(page: Page, source: str) -> None:
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"iframe", "object", "embed"}
    assert all(src.startswith("data:image/webp;base64,") for src in page.values("img", "src"))
    assert page.values("link", "href") == ["data:,"]
    assert "url(" not in source and "@import" not in source and "://" not in source
    assert len(source) < 10e6
    ids = [found["id"] for _, found in page.tags if "id" in found]
    inside = {link[1:] for link in page.values("a", "href") if link.startswith("#")}
    assert len(ids) == len(set(ids)) and len(inside) > 8 and inside <= set(ids)


def test_the_policy_lets_only_the_own_script_and_style_in(page: Page, source: str) -> None:
    (policy,) = [v for v in page.values("meta", "content") if v.startswith("default-src 'none'")]
    for tag in ("script", "style"):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", source, re.DOTALL)
        digest = b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy and "img-src data:;" in policy
    assert "require-trusted-types-for 'script'" in policy


def test_texts_from_data_and_errors_are_escaped(page: Page, source: str) -> None:
    scripts = [found for tag, found in page.tags if tag == "script"]
    assert scripts == [{}]
    assert source.count("<script") == source.count("</script") == 1
    assert not [name for _, found in page.tags for name in found if name.startswith("on")]
    assert not [link for link in page.values("a", "href") if "script:" in link]
    assert page.text.count(HARM) >= 5, "of a claim, an error, the command, a label, an example"
    for harm in HOSTILE:
        assert harm in page.text
    assert "\u202e" not in source and "\x1b" not in source, "of texts that hide others"


def test_every_figure_is_there_or_said_to_be_absent(page: Page, reported: Plan) -> None:
    titles = {
        name: node.spec["draw"]["title"]
        for name, node in reported.shown.items()
        if node.kind == "figure"
    }
    assert all(title in page.text for title in titles.values())
    absent = titles["figures/hybrid-bert/stability"]
    assert "Figures that could not be drawn.\nfigures/hybrid-bert/stability" in page.text
    assert f"{absent}: could not be drawn; the log of the run says why." in page.text
    assert all(len(text) > 20 for text in page.values("img", "alt"))
    sources, widths = page.values("img", "src"), page.values("img", "width")
    assert len(sources) == len(titles) - 1
    for width, source in zip(widths, sources, strict=True):
        with Image.open(io.BytesIO(b64decode(source.partition(",")[2]))) as image:
            assert int(width) == image.width == 1100, "half of the file for print"


def test_rows_show_scores_with_intervals_or_why_there_are_none(page: Page, reported: Plan) -> None:
    lines = page.text.splitlines()
    assert re.search(r"1-bert \[\d+\]dev0\.497\d\.\d{3} ± 0\.\d{3}", page.text)
    assert any(re.match(r"3-bert.*dev.*failed", line) for line in lines)
    assert any(re.match(r"hybrid-bert.*test.*not run", line) for line in lines)
    wanted = len({reported.train(stage).key for stage in reported.stages}) * len(SEEDS)
    assert re.search(rf"\d+ of {wanted} finished", page.text)


def test_warnings_name_their_cases(page: Page) -> None:
    for said in (
        "hybrid-bert / 3-bert: stage 'main', seed 0: the loss is not finite",
        "SST: 3 texts of dev in train",
        "SST: 2 rows of dev",
        f"SST: no row of {HARM}",
        "Dev was also used to choose the epoch of every run",
        "The runs differ in their commit.",
        "Runs were made with code that was not committed.",
    ):
        assert said in page.text, said
    assert "One seed." not in page.text and "from a bundle" not in page.text
    assert "/home/someone" not in page.text, "of folders nothing is told"


def test_the_first_warnings_are_of_runs_that_learned_nothing(
    page: Page, papers: list[Paper]
) -> None:
    found = unlearned(papers)
    (paper,) = papers
    floor = paper.scores[Of("1-bert", "dev", "sst")][0].floor
    label = paper.about["labels"][CONSTANT]
    (case,) = (of for of in found["constant"] if of.startswith(f"{PAPER} / {label}: SST"))
    assert case.endswith(f"floor {floor:.3f} (seeds 0, 1, 2)")
    assert found["single"] == 3 < found["tested"] - found["above"]
    assert f"{PAPER} / {paper.about['labels']['baseline']}: " in " ".join(found["low"])
    warnings = page.text[page.text.index("\nWarnings\n") :]
    assert -1 < warnings.find("predict the same class") < warnings.find("not clearly above their")
    assert f"{found['above']} of {found['tested']} dev scores" in page.text and GUESS in page.text
    assert "3 of the others are from runs that predict one class or number" in page.text
    assert f"with {len(SEEDS)} seeds each." in page.text


def test_a_row_that_trains_nothing_has_no_warning_of_its_own() -> None:
    low = Score(0.2, "a" * 16, floor=0.25, p_floor=0.9, constant=False)
    variants = [
        {"name": "a", "tasks": ["sst"], "tried": []},
        {"name": "best", "tasks": [], "tried": []},
    ]
    about = {"labels": {"a": "A", "best": "Best of A"}, "variants": variants}
    scores = {Of(name, "dev", "sst"): {1: low} for name in about["labels"]}
    assert unlearned([Paper("p", about, scores)])["low"] == [
        "p / A: SST 0.200; floor 0.250 (seed 1)"
    ]


def test_on_real_data_our_scores_are_held_against_the_papers(page: Page, reported: Plan) -> None:
    assert "say nothing about the papers" in page.text
    assert "Our scores minus" not in page.text, "on generated data"
    index = read_csv(job_of(reported, reported.shown["report"]).need("index"))
    lines = [line for line in index if line["split"] == "dev" and line["sst_ours"]]
    lines[0] |= {"other_published": "0.776", "other_ours": "0.85"}
    gaps = [
        float(line["sst_ours"]) - float(line["sst_published"])
        for line in lines
        if line["sst_published"]
    ]
    said = list(against_papers(index))
    assert f"SST {median(gaps):+.3f} ({len(gaps)} rows)".replace("-", "\u2212") == said[0]
    assert "Other tasks +0.074 (1 row)" in said


def test_the_best_variant_stands_beside_its_floor_and_the_papers_best(
    page: Page, papers: list[Paper]
) -> None:
    (paper,) = papers
    means = {
        of.variant: fmean(score.value for score in by_seed.values())
        for of, by_seed in paper.scores.items()
        if (of.split, of.measure) == ("dev", "normalised")
    }
    best = max(means, key=lambda name: means[name])
    label = re.escape(paper.about["labels"][best])
    shown = rf"{PAPER}{label}{means[best]:.3f} ± .*0\.\d+0\.772normalised"
    assert re.search(shown, page.text)


def test_claims_show_their_verdicts(page: Page, reported: Plan) -> None:
    lines = read_csv(job_of(reported, reported.shown["report"]).need("claims"))
    verdicts = [line["verdict"] for line in lines]
    assert len(set(verdicts)) > 2 and "not run" in verdicts
    assert f"{HARM}{verdicts[0]}" in page.text, "the verdict is second, for narrow screens"
    for verdict, name in (("holds", "holds"), ("does not hold", "fails")):
        assert page.values("td", "class").count(name) == verdicts.count(verdict) > 0
