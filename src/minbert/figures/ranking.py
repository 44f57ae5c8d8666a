"""A paper's variants from best to worst: overall score and each task, with intervals and floors."""

from statistics import fmean
from typing import Any

from minbert.data.parquet import read_file
from minbert.evaluate.seeds import ranked
from minbert.evaluate.statistics import Interval
from minbert.figures import rows, scored, style
from minbert.figures.inputs import Drawn, Inputs, listed
from minbert.spec.figures import Ranking
from minbert.spec.task import TASKS
from minbert.train.selection import report_mask


def plot(options: Ranking, inputs: Inputs) -> Drawn:
    """Draw all variants of one paper by their scores on a split.

    The first is the paper's best, as everywhere (`evaluate.seeds`); rows that are the best of
    others are left out. Variants without an overall score come last, by their mean over tasks.
    """
    labels, split = inputs.variants, options.split
    paper = scored.paper_scores(inputs, split)

    def over_tasks(name: str) -> float:
        of_tasks = (paper.get(name, task) for task in TASKS)
        return fmean(one.mean for one in of_tasks if one)

    best_first = [n for n in ranked(paper.scores, paper.rule, split) if n in paper.shown]
    whole = {name for name in labels if paper.get(name, paper.rule)}
    parts = [name for name in labels if paper.shown[name] and name not in whole]
    names = [*best_first, *sorted(parts, key=over_tasks, reverse=True)]
    if not names:
        return style.nothing(), paper.absent
    titles = [f"{scored.two_lines(m)}{_counted(inputs, split, m)}" for m in paper.measures]
    figure, panels = rows.rows_of_panels([labels[name] for name in names], titles)
    shown: list[Interval] = []
    cut = False
    for axes, measure in zip(panels, paper.measures, strict=True):
        found = [paper.get(name, measure) for name in names]
        rows.marks(axes, found)
        rows.floor_lines(axes, found)
        cut |= rows.limit(axes, found, paper.floors(names, measure))
        shown += filter(None, found)
    rows.rows_legend(figure, panels)
    best_of = [labels[n] for n in labels if n in whole and n not in best_first]
    return figure, [
        f"Overall: {paper.overall}, on {split}. {scored.FLOOR}",
        scored.crossed_note(shown),
        scored.seeds_note(shown, cut=cut),
        f"Not ranked: {listed(best_of)}, the best of others." * bool(best_of),
        *paper.absent,
    ]


def _counted(inputs: Inputs, split: str, measure: str) -> str:
    """Return the line on how many examples a task's scores are over, if that is one number."""
    how: Any = inputs.facts.get("selection_split", "dev") if split == "dev" else "dev"
    if measure not in inputs.rows or how == "both":
        return ""
    table = read_file(inputs.rows[measure], ["id", "label"], {"split": split})
    ids = table.filter(table["label"].is_valid())["id"].to_pylist()
    return f"\nn = {report_mask(ids, how).sum()}"
