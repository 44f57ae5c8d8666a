"""What Snakemake's own report says of each product."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

ALL = "All papers"
REPORT = "Report"
TITLES = {
    "index": "Every published row",
    "claims": "What the papers claim",
    "report": "The whole report",
}
CAPTIONS = {
    "table": "Published figures beside ours.",
    "index": "Every row of the papers' tables: its status, the published figures, and ours.",
    "claims": "What each paper claims: the variants compared, their difference, a verdict.",
    "report": "Summary, warnings, claims, tables, figures and run times in one page.",
}


class Shown(NamedTuple):
    """A product: where it stands, its title, its caption (reStructuredText), its plain name."""

    category: str
    title: str
    caption: str
    published: str


def describe(kind: str, spec: Mapping[str, Any], published: str) -> Shown:
    """Return what is said of a product of this kind and spec, published under this name."""
    if kind == "figure":
        draw = spec["draw"]
        paper = ALL if spec["paper"] == "all" else spec["paper"]
        return Shown(paper, draw["title"], escape(draw["caption"] or draw["title"]), published)
    if kind == "table":
        caption = " ".join(part for part in (spec["caption"], CAPTIONS[kind]) if part)
        return Shown(spec["paper"], f"Tables: {spec['title']}", escape(caption), published)
    category = REPORT if kind == "report" else ALL
    return Shown(category, TITLES[kind], escape(CAPTIONS[kind]), published)


def escape(text: str) -> str:
    """Return plain text as reStructuredText that shows just it."""
    return re.sub(r"([^\w\s])", r"\\\1", " ".join(text.split()))
