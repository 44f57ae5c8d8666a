"""Tables and claims of the report, with the same cells as in markdown and LaTeX."""

from collections.abc import Sequence
from typing import NamedTuple

from minbert.evaluate import claims
from minbert.evaluate.table import Section, sections
from minbert.evaluate.table_notes import remarks
from minbert.evaluate.table_rows import table_rows
from minbert.evaluate.text import Line
from minbert.report.material import Material

MARKS = {claims.FAILS: "fails", claims.HOLDS: "holds"}
"""The CSS class of each verdict; others have none."""


class Paper(NamedTuple):
    """A paper's part of the report, except its figures; `sources` are the rows with scores."""

    name: str
    title: str
    caption: str
    sections: Sequence[Section]
    remarks: Sequence[str]
    sources: Sequence[Line]


class Claims(NamedTuple):
    """The claims of all papers: (title, counted, lines of (class, cells)), and a warning first."""

    heads: Sequence[str]
    counted: str
    warning: Sequence[str]
    papers: list[tuple[str, str, list[tuple[str, Sequence[str]]]]]
    remarks: list[str]


def paper_tables(material: Material, paper: str) -> Paper:
    """Return the tables of a paper."""
    about = material.papers[paper]
    rows = table_rows(material.job, about)
    said = [*remarks(about, rows), *about["footnotes"]]
    sources = [row for row in rows if row["keys"]]
    return Paper(paper, about["title"], about["caption"], sections(about, rows), said, sources)


def claims_of(material: Material) -> Claims | None:
    """Return the claims with their verdicts; None if the grids make none."""
    if "claims" not in material.job.described["needs"]:
        return None
    spec = material.spec("claims")
    lines = claims.read_claims(material.job.need("claims"))
    papers = []
    for paper in (name for name in material.papers if name in spec["titles"]):
        of_paper = [line for line in lines if line["paper"] == paper]
        marks = [MARKS.get(line["verdict"], "") for line in of_paper]
        cells = [_verdict_early(claims.cells(line)) for line in of_paper]
        papers.append(
            (
                spec["titles"][paper],
                claims.counted(of_paper, spec["data"]),
                list(zip(marks, cells, strict=True)),
            )
        )
    heads = _verdict_early(claims.HEADS)
    counted, warning = claims.counted(lines, spec["data"]), claims.warning(spec["data"])
    return Claims(heads, counted, warning, papers, claims.remarks(spec))


def _verdict_early(cells: Sequence[str]) -> Sequence[str]:
    """Return the cells with the last one, the verdict, second, so that narrow screens show it."""
    return [cells[0], cells[-1], *cells[1:-1]]
