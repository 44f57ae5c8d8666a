"""What came of a workflow, in a few lines: the best variant of each paper, and where to look."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minbert.evaluate.winner import winners
from minbert.grid.node import read_listing

_PLACES = (
    ("rows", "tables/index.md"),
    ("tables", "tables"),
    ("claims", "tables/claims.md"),
    ("figures", "figures"),
    ("report", "report.html"),
)


def summary(root: Path, stamp: str, command: str = "minbert") -> str:
    """Return the summary of what is published under `root`; `stamp` names its list.

    Only what is there is named. `command` is how `minbert` is called here. Raises `UserError` for
    a stamp that was never planned.
    """
    listed = read_listing(root, stamp)
    lines = [*_best(root, listed["papers"]), *_places(root)]
    if listed["tracking"]:
        ui = f"{shlex.quote(command)} ui --results {shlex.quote(str(root))}"
        lines.append(("runs", ui))
    width = max((len(name) for name, _ in lines), default=0)
    return "\n".join(f"{name.ljust(width)}  {what}" for name, what in lines)


def _best(root: Path, papers: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a line for each paper: its best variant and its overall dev score."""
    scores = root / "tables" / "scores.parquet"
    if not scores.exists():
        return
    best = winners(scores, {paper: of["rule"] for paper, of in papers.items()})
    for paper in papers:
        if paper not in best:
            yield paper, "no variant has an overall score yet"
            continue
        one = best[paper]
        of = f"mean of {len(one.dev)} seeds" if len(one.dev) > 1 else "one seed"
        yield paper, f"best: {one.variant}, overall dev score {one.score:.3f} ({of})"


def _places(root: Path) -> Iterator[tuple[str, str]]:
    return ((name, str(root / path)) for name, path in _PLACES if (root / path).exists())
