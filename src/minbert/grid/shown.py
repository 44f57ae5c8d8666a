"""What Snakemake's own report says of each product."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from minbert.grid.plan import Plan

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


def describe(plan: Plan, kind: str, key: str) -> Shown:
    """Return what is said of the product of this kind and key."""
    node = plan.node(kind, key)
    spec, folder = node.spec, node.folder(plan.root)
    names = (name for name, path in plan.products.items() if path.parent == folder)
    published = next(names).rpartition(".")[0]
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
