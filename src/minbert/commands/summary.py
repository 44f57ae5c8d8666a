"""What came of a workflow, in a few lines: best variants, warnings, and where to look."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from tabulate import tabulate

from minbert.base.progress import counted
from minbert.evaluate.text import read_csv
from minbert.spec.task import use_tasks_of
from minbert.store.plans import SCORES, read_plan

PLACES = {
    "rows": "tables/index.md",
    "tables": "tables",
    "claims": "tables/claims.md",
    "figures": "figures",
    "report": "report.html",
}


def summary(root: Path, plan: str) -> str:
    """Return the summary of what is published under `root`; `plan` names its record.

    Raises `UserError` if there is no such record.
    """
    record = read_plan(root, plan)
    use_tasks_of(record)
    names = root / record["below"]
    found = [*_results(names, record["papers"])] if (names / SCORES).exists() else []
    return places(root, names, record["tracking"], *found)


def places(root: Path, names: Path, tracking: bool, *above: tuple[str, str]) -> str:
    """Return where the results are whose readable names are in `names`, below the lines `above`."""
    lines = [*above]
    lines += [(what, str(names / at)) for what, at in PLACES.items() if (names / at).exists()]
    if tracking:
        path = Path(sys.executable).with_name("minbert")
        minbert = "minbert" if shutil.which("minbert") == str(path) else os.path.relpath(path)
        lines.append(("runs", shlex.join([minbert, "ui", "--results", str(root)])))
    return tabulate(lines, tablefmt="plain", disable_numparse=True)


def _results(names: Path, papers: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the best variant of each of `papers`, then what a reader must know first."""
    from minbert.evaluate.index import NOT_CONFIGURED, in_words  # These load pyarrow,
    from minbert.evaluate.reading import read_scores, tested  # which `places` can do without.
    from minbert.evaluate.seeds import ranked

    scores = {paper: read_scores(names / SCORES, paper) for paper in papers}
    for paper, facts in papers.items():
        said = "no variant has an overall score yet"
        for best in ranked(scores[paper], facts["rule"])[:1]:
            values = [score.value for score in scores[paper][best].values()]
            said = f"best: {best.variant}, {best.measure} overall dev score {fmean(values):.3f}"
            said += f" ({counted(len(values), 'seed')})"
        yield paper, said
    runs = tested(scores.values()).values()
    if low := sum(not score.learned for score in runs):
        yield "warning", f"{low} of {len(runs)} dev scores are not clearly above their floor"
    index = names / "tables" / "index.csv"
    rows = read_csv(index) if index.exists() else []
    if rows := [line for line in rows if line["status"] != NOT_CONFIGURED]:
        yield "rows", in_words(rows)
    if any(of["source"] == "builtin" for of in papers.values()):
        yield "warning", "the data are generated: scores say nothing about the papers' methods"
    if any(len(of["seeds"]) == 1 for of in papers.values()):
        yield "warning", "one seed: differences between variants may be chance"
