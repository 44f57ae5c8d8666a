"""The page's first screen: what was found, in sentences, and the best variant of each paper."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from minbert.evaluate.index import in_words
from minbert.evaluate.marks import GUESS
from minbert.evaluate.reading import Of
from minbert.evaluate.seeds import ranked
from minbert.evaluate.statistics import Interval
from minbert.evaluate.table_rows import SCORED
from minbert.report.floors import Verdicts
from minbert.report.material import Material
from minbert.report.tables import Claims
from minbert.spec.published import FIGURES
from minbert.spec.task import TASKS

Line = Mapping[str, str]
_TITLES = {"other": "Other tasks", "overall": "Overall"}


class Best(NamedTuple):
    """A paper's best variant by its own overall dev score `ours`; None if no variant has one.

    `published` is the best overall score on dev that the paper gives.
    """

    paper: str
    rule: str
    label: str | None
    ours: Interval | None
    published: float | None


def banner(material: Material) -> str:
    """Return what must be known before all else; nothing for the course's data."""
    if material.job.spec["data"] != "builtin":
        return ""
    return "Generated data: nothing here is about the papers. It shows that the pipeline works."


def findings(
    material: Material, index: Sequence[Line], verdicts: Verdicts, claims: Claims | None
) -> Iterator[str]:
    """Yield what was found. On generated data no score is held against a paper's."""
    if index:
        seeds = sorted({int(line["seeds"]) for line in index if line["status"] == SCORED})
        each = f", with {' or '.join(map(str, seeds))} seed{'s' * (seeds != [1])} each"
        yield f"{in_words(index)}{each * bool(seeds)}."
    if verdicts.tested:
        yield (
            f"{verdicts.above} of {verdicts.tested} dev scores (one per run and task) are above "
            f"the floor, {GUESS}, at the 5 % level; "
            f"{verdicts.single or 'none'} of the others {'is' if verdicts.single == 1 else 'are'} "
            "from runs that predict one class or number."
        )
    if claims:
        yield f"Claims of the papers: {claims.counted}."
    if material.job.spec["data"] != "builtin" and (said := _against_papers(index)):
        yield f"Our scores minus the papers' on dev, median over rows: {said}."


def _against_papers(index: Sequence[Line]) -> str:
    said = []
    for name in FIGURES:
        pairs = [
            (line[f"{name}_ours"], line[f"{name}_published"])
            for line in index
            if line["split"] == "dev"
        ]
        if gaps := [float(ours) - float(theirs) for ours, theirs in pairs if ours and theirs]:
            title = TASKS[name].title if name in TASKS else _TITLES[name]
            count = f"{len(gaps)} row{'s' * (len(gaps) != 1)}"
            said.append(f"{title} {median(gaps):+.3f} ({count})")
    return ", ".join(said).replace("-", "\N{MINUS SIGN}")


def best_variants(material: Material, index: Sequence[Line]) -> Iterator[Best]:
    """Yield the best variant of each paper, and the paper's best figure."""
    for paper in material.papers:
        rule = str(material.papers[paper]["rule"])
        best = next(iter(ranked(material.scores[paper], rule)), None)
        lines = [line for line in index if (line["paper"], line["split"]) == (paper, "dev")]
        figures = [line["overall_published"] for line in lines]
        published = max((float(text) for text in figures if text), default=None)
        label = ours = None
        if best:
            label = material.labels[paper, best]
            ours = material.means[paper][Of(best, "dev", rule)]
        yield Best(paper, rule, label, ours, published)
