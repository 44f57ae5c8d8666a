"""What came of a workflow, in a few lines: the best variant of each paper, and where to look."""

import shlex
from pathlib import Path

from minbert.evaluate.winner import Winner, winners
from minbert.store.plans import read_plan

_PLACES = (
    ("rows", "tables/index.md"),
    ("tables", "tables"),
    ("claims", "tables/claims.md"),
    ("figures", "figures"),
    ("report", "report.html"),
)


def summary(root: Path, plan: str, command: str = "minbert") -> str:
    """Return the summary of what is published under `root`; `plan` names its record.

    `command` is how `minbert` is called here. Raises `UserError` if there is no such record.
    """
    listed = read_plan(root, plan)
    lines = []
    if (scores := root / "tables" / "scores.parquet").exists():
        best = winners(scores, {paper: of["rule"] for paper, of in listed["papers"].items()})
        lines += [(paper, _best(best.get(paper))) for paper in listed["papers"]]
    lines += [(name, str(root / path)) for name, path in _PLACES if (root / path).exists()]
    if listed["tracking"]:
        lines.append(("runs", f"{shlex.quote(command)} ui --results {shlex.quote(str(root))}"))
    width = max((len(name) for name, _ in lines), default=0)
    return "\n".join(f"{name.ljust(width)}  {what}" for name, what in lines)


def _best(one: Winner | None) -> str:
    if one is None:
        return "no variant has an overall score yet"
    of = f"mean of {len(one.dev)} seeds" if len(one.dev) > 1 else "one seed"
    return f"best: {one.variant}, overall dev score {one.score:.3f} ({of})"
