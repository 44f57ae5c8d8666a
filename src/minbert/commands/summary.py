"""What came of a workflow, in a few lines: best variants, warnings, and where to look."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minbert.spec.task import use_tasks_of
from minbert.store.plans import SCORES, read_plan

if TYPE_CHECKING:
    from minbert.evaluate.winner import Winner

_PLACES = (
    ("rows", "tables/index.md"),
    ("tables", "tables"),
    ("claims", "tables/claims.md"),
    ("figures", "figures"),
    ("report", "report.html"),
)
Lines = list[tuple[str, str]]


def summary(root: Path, plan: str, command: str = "minbert") -> str:
    """Return the summary of what is published under `root`; `plan` names its record.

    `command` is how `minbert` is called here. Raises `UserError` if there is no such record.
    """
    listed = read_plan(root, plan)
    use_tasks_of(listed)
    names = root / listed["below"]
    lines = _results(names, listed["papers"]) + _places(root, names, listed["tracking"], command)
    return _aligned(lines)


def places(root: Path, names: Path, tracking: bool, command: str = "minbert") -> str:
    """Return where the results are whose plain names are in `names`; quick, as it reads none."""
    return _aligned(_places(root, names, tracking, command))


def called() -> str:
    """Return how to call `minbert` here: by its path if the name alone finds another one."""
    beside = Path(sys.executable).with_name("minbert")
    if shutil.which("minbert") == str(beside) or not beside.exists():
        return "minbert"
    with suppress(ValueError):
        return str(beside.relative_to(Path.cwd()))
    return str(beside)


def _places(root: Path, names: Path, tracking: bool, command: str) -> Lines:
    lines = [(name, str(names / path)) for name, path in _PLACES if (names / path).exists()]
    if tracking:
        lines.append(("runs", f"{shlex.quote(command)} ui --results {shlex.quote(str(root))}"))
    return lines


def _results(names: Path, papers: Mapping[str, Mapping[str, Any]]) -> Lines:
    """Return the best variant of each of `papers`, then the warnings."""
    from minbert.evaluate.winner import winners  # loads pyarrow, which `places` can do without

    scores = names / SCORES
    if not scores.exists():
        return []
    best = winners(scores, {paper: of["rule"] for paper, of in papers.items()})
    lines = [(paper, _best(best.get(paper))) for paper in papers]
    return lines + [("warning", text) for text in _warnings(names, scores, papers)]


def _best(one: Winner | None) -> str:
    if one is None:
        return "no variant has an overall score yet"
    of = f"mean of {len(one.dev)} seeds" if len(one.dev) > 1 else "one seed"
    return f"best: {one.variant}, {one.rule} overall dev score {one.score:.3f} ({of})"


def _warnings(names: Path, scores: Path, papers: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield what a reader must know first; the report has all of it, case by case."""
    from minbert.evaluate.index import NOT_CONFIGURED, in_words
    from minbert.evaluate.reading import read_scores
    from minbert.evaluate.table_rows import SCORED
    from minbert.evaluate.text import read_csv
    from minbert.spec.task import TASKS

    runs = {
        (score.key, of.measure, seed): score
        for paper in papers
        for of, by_seed in read_scores(scores, paper).items()
        for seed, score in by_seed.items()
        if of.split == "dev" and of.measure in TASKS and score.learned is not None
    }
    if low := [score for score in runs.values() if not score.learned]:
        said = f"{len(low)} of {len(runs)} dev scores are not above their floor"
        constant = sum(bool(score.constant) for score in low)
        yield said + f", {constant} from runs that predict one class or number" * bool(constant)
    index = names / "tables" / "index.csv"
    found = read_csv(index) if index.exists() else []
    lines = [line for line in found if line["status"] != NOT_CONFIGURED]
    if any(line["status"] != SCORED for line in lines):
        yield in_words(lines)
    if any(of["source"] == "builtin" for of in papers.values()):
        yield "the data are generated: scores say nothing about the papers' methods"
    if any(len(of["seeds"]) == 1 for of in papers.values()):
        yield "one seed: differences between variants may be chance"


def _aligned(lines: Lines) -> str:
    width = max((len(name) for name, _ in lines), default=0)
    return "\n".join(f"{name.ljust(width)}  {what}" for name, what in lines)
