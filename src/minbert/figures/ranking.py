"""A paper's variants from best to worst: overall score and each task, with intervals and floors."""

from statistics import fmean
from typing import Any, Literal

from minbert.data.parquet import read_file
from minbert.evaluate.means import over_seeds
from minbert.evaluate.reading import Of
from minbert.evaluate.statistics import Interval
from minbert.evaluate.winner import ranked
from minbert.figures import rows, scored, style
from minbert.figures.inputs import Drawn, FigureSpec, Inputs, listed
from minbert.spec.task import TASKS
from minbert.train.selection import report_mask


class Spec(FigureSpec):
    """All variants of one paper by their scores on `split`.

    The first is the paper's best, as everywhere (`evaluate.winner`); rows that are the best of
    others are left out. Variants without an overall score come last, by their mean over tasks.
    """

    split: Literal["dev", "test"] = "dev"

    def plot(self, inputs: Inputs) -> Drawn:
        paper = scored.paper_scores(inputs, self.variants, self.split)
        found = over_seeds(paper.scores, paper.overall_tasks)

        def over_tasks(name: str) -> float:
            of_tasks = (found.get(Of(name, self.split, task)) for task in TASKS)
            return fmean(one.mean for one in of_tasks if one)

        best_first = [n for n in ranked(paper.scores, paper.rule, self.split) if n in paper.shown]
        whole = {of.variant for of in found if of.measure == paper.rule}
        parts = [name for name in self.variants if paper.shown[name] and name not in whole]
        names = [*best_first, *sorted(parts, key=over_tasks, reverse=True)]
        if not names:
            return style.nothing(), paper.absent
        labels = [self.variants[name] for name in names]
        titles = [f"{scored.two_lines(m)}{self._counted(inputs, m)}" for m in paper.measures]
        figure, panels = rows.rows_of_panels(labels, titles)
        flat = scored.unlearned(paper.scores, paper.overall_tasks)
        floors = scored.floors(paper.scores)
        shown: list[Interval] = []
        cut = False
        for axes, measure in zip(panels, paper.measures, strict=True):
            of_rows = [Of(name, self.split, measure) for name in names]
            crossed = {row for row, of in enumerate(of_rows) if of in flat}
            rows.marks(axes, [found.get(of) for of in of_rows], crossed=crossed)
            rows.floor_lines(axes, [floors.get(of) for of in of_rows])
            there = [found[of] for of in of_rows if of in found]
            cut |= rows.limit(axes, there, scored.floors_of(floors, names, measure))
            shown += there
        rows.rows_legend(panels)
        said = f"Overall: {scored.overall_note(paper.rule, paper.overall_tasks)}, on {self.split}."
        crosses = [scored.CROSSED] if flat else []
        over = scored.seeds_note(shown)
        over = [" ".join([*over, scored.CUT])] if cut else over
        notes = [f"{said} {scored.FLOOR}", *crosses, *over]
        best_of = [self.variants[n] for n in self.variants if n in whole and n not in best_first]
        left_out = [f"Not ranked: {listed(best_of)}, the best of others."] if best_of else []
        return figure, [*notes, *left_out, *paper.absent]

    def _counted(self, inputs: Inputs, measure: str) -> str:
        """Return the line on how many examples a task's scores are over, if that is one number."""
        how: Any = inputs.facts.get("selection_split", "dev") if self.split == "dev" else "dev"
        if measure not in inputs.rows or how == "both":
            return ""
        wanted = {"split": self.split}
        rows = read_file(inputs.rows[measure], ["id", "label"], wanted)
        ids = rows.filter(rows["label"].is_valid())["id"].to_pylist()
        return f"\nn = {report_mask(ids, how).sum()}"
