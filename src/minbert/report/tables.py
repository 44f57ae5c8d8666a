"""Tables and claims of the report, with the cells that markdown and LaTeX have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from minbert.evaluate import claims_text, table_text
from minbert.evaluate.table_rows import FAILED, SCORED, Row, collect
from minbert.evaluate.table_spec import parse_table
from minbert.evaluate.verdict import FAILS, HOLDS

if TYPE_CHECKING:
    from minbert.report.make import Material

NUMBERS = ("published_difference", "difference", "low", "high", "p", "p_holm", "margin")
COUNTS = ("examples", "seeds", "seeds_against")
MARKS = {HOLDS: "holds", FAILS: "fails"}
"""The class of each verdict in the page; others have none."""


class Section(NamedTuple):
    """One of a paper's tables: its heads as (group, columns), its lines and notes."""

    heading: str
    anchor: str
    groups: list[tuple[str, int]]
    heads: list[str]
    lines: list[tuple[str, list[str]]]
    """(status as a CSS class, cells)"""
    notes: list[str]


class Source(NamedTuple):
    """Where a row's numbers come from."""

    row: str
    variant: str
    keys: tuple[str, ...]


class Paper(NamedTuple):
    """All that a paper's part of the report shows, but its figures."""

    name: str
    title: str
    caption: str
    rule: str
    sections: list[Section]
    remarks: list[str]
    sources: list[Source]


class Claims(NamedTuple):
    """The claims of all papers: (paper, title, counted, lines of (class, cells))."""

    heads: Sequence[str]
    counted: str
    papers: list[tuple[str, str, str, list[tuple[str, Sequence[str]]]]]
    remarks: list[str]


def paper_tables(material: Material, paper: str) -> Paper:
    """Return the tables of a paper, each row with its status."""
    table = parse_table(material.spec(f"table/{paper}"))
    scores = material.file(f"scores/{paper}")
    failed = {variant: why for (p, variant), why in material.failures.items() if p == paper}
    rows = collect(table, scores, failed) if scores else []
    sections = []
    for heading, of_section in table_text.sections(rows) if rows else []:
        heads = table_text.header(table, of_section)
        groups = [(name, len(list(of))) for name, of in groupby(group for group, _ in heads)]
        cells = table_text.body(table, of_section)
        lines = [(_status(row), line) for row, line in zip(of_section, cells, strict=True)]
        anchor = f"{paper}-{heading or 'table'}".lower().replace(" ", "-")
        notes = table_text.numbered(of_section)
        sections.append(Section(heading, anchor, groups, [h for _, h in heads], lines, notes))
    remarks = [*table_text.remarks(table, rows), *table.footnotes]
    sources = [Source(row.spec.row, row.spec.variant, row.keys) for row in rows if row.keys]
    return Paper(paper, table.title, table.caption, table.rule, sections, remarks, sources)


def _status(row: Row) -> str:
    return {SCORED: "", FAILED: "failed"}.get(row.status, "absent")


def claims_of(material: Material) -> Claims | None:
    """Return the claims with their verdicts; None if the grids make none."""
    if "claims" not in material.job.described["needs"]:
        return None
    spec = material.spec("claims")
    lines = [_typed(line) for line in material.lines("claims")]
    papers = []
    for paper, title in sorted(spec["titles"].items(), key=lambda n: material.papers.index(n[0])):
        of_paper = [line for line in lines if line["paper"] == paper]
        shown: list[tuple[str, Sequence[str]]] = [
            (MARKS.get(line["verdict"], ""), _verdict_early(claims_text.cells(line)))
            for line in of_paper
        ]
        papers.append((paper, title, claims_text.counted(of_paper), shown))
    remarks = claims_text.remarks(spec)
    heads = _verdict_early(claims_text.HEADS)
    return Claims(heads, claims_text.counted(lines), papers, remarks)


def _verdict_early(cells: Sequence[str]) -> list[str]:
    """Return the cells with the last one, the verdict, second: a narrow screen shows it too."""
    return [cells[0], cells[-1], *cells[1:-1]]


def _typed(line: Mapping[str, str]) -> dict[str, Any]:
    """Return a line of the csv as `claims_text.cells` takes it: what is not there is left out."""
    found: dict[str, Any] = {name: text for name, text in line.items() if text != ""}
    found |= {name: float(line[name]) for name in NUMBERS if name in found}
    found |= {name: int(line[name]) for name in COUNTS if name in found}
    defaults = {"published_difference": None, "margin": "", "seeds_against": None}
    return {**defaults, **found}
