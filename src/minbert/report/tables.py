"""Tables and claims of the report, with the same cells as in markdown and LaTeX."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from minbert.evaluate import claims, table
from minbert.evaluate.statistics import Interval, interval
from minbert.evaluate.text import read_csv
from minbert.evaluate.winner import winners
from minbert.report.material import Material

NUMBERS = ("published_difference", "difference", "low", "high", "p", "p_holm", "margin")
COUNTS = ("examples", "seeds", "seeds_against")
MARKS = {claims.HOLDS: "holds", claims.FAILS: "fails"}
"""The CSS class of each verdict; others have none."""


class Paper(NamedTuple):
    """A paper's part of the report, except its figures.

    `sources` are the rows with scores. `best` is the label of the best variant, and `score` its
    overall dev score over seeds; both are None if no variant has one.
    """

    name: str
    title: str
    caption: str
    rule: str
    sections: Sequence[table.Section]
    remarks: Sequence[str]
    sources: Sequence[table.Row]
    best: str | None = None
    score: Interval | None = None


class Claims(NamedTuple):
    """The claims of all papers: (title, counted, lines of (class, cells))."""

    heads: Sequence[str]
    counted: str
    papers: list[tuple[str, str, list[tuple[str, Sequence[str]]]]]
    remarks: list[str]


def paper_tables(material: Material, paper: str) -> Paper:
    """Return the tables of a paper."""
    job = material.job
    scores = job.need(f"scores/{paper}")
    made = table.read_table(material.spec(f"table/{paper}"), scores, job.failed(paper))
    remarks = [*table.remarks(made, made.rows), *made.footnotes]
    sections = table.sections(made) if made.rows else []
    sources = [row for row in made.rows if row.keys]
    about = Paper(paper, made.title, made.caption, made.rule, sections, remarks, sources)
    best = winners(scores, {paper: made.rule}).get(paper)
    if best is None:
        return about
    labels = {(of["paper"], of["variant"]): of["label"] for of in job.spec["stages"]}
    score = interval(list(best.dev.values()))
    return about._replace(best=labels[paper, best.variant], score=score)


def claims_of(material: Material) -> Claims | None:
    """Return the claims with their verdicts; None if the grids make none."""
    if "claims" not in material.job.described["needs"]:
        return None
    spec = material.spec("claims")
    lines = [_typed(line) for line in read_csv(material.job.need("claims"))]
    papers = []
    for paper, title in sorted(spec["titles"].items(), key=lambda n: material.papers.index(n[0])):
        of_paper = [line for line in lines if line["paper"] == paper]
        marks = [MARKS.get(line["verdict"], "") for line in of_paper]
        cells = [_verdict_early(claims.cells(line)) for line in of_paper]
        papers.append((title, claims.counted(of_paper), list(zip(marks, cells, strict=True))))
    heads = _verdict_early(claims.HEADS)
    return Claims(heads, claims.counted(lines), papers, claims.remarks(spec))


def _verdict_early(cells: Sequence[str]) -> Sequence[str]:
    """Return the cells with the last one, the verdict, second, so that narrow screens show it."""
    return [cells[0], cells[-1], *cells[1:-1]]


def _typed(line: Mapping[str, str]) -> dict[str, Any]:
    """Return a line of the csv as `claims.cells` takes it, without empty values."""
    types = dict.fromkeys(NUMBERS, float) | dict.fromkeys(COUNTS, int)
    found = {name: types.get(name, str)(text) for name, text in line.items() if text != ""}
    return {"published_difference": None, "margin": "", "seeds_against": None, **found}
