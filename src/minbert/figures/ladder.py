"""The ladder of an ablation: what each row gains over the one that it adds something to."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from pydantic import Field

from minbert.evaluate.reading import Of
from minbert.evaluate.statistics import Interval, interval
from minbert.figures import scored, style
from minbert.figures.inputs import Drawn, FigureSpec, Inputs, Variants
from minbert.figures.scored import Scores, marks


class Spec(FigureSpec):
    """Rows in the order of `variants`, each compared with the row above or, if named, `over`."""

    variants: Variants = Field(min_length=2)
    over: dict[str, str] = Field(default_factory=dict)

    def plot(self, inputs: Inputs) -> Drawn:
        self.check_variants((*self.over, *self.over.values()), "key 'over'")
        below = {name: self.over.get(name, before) for before, name in pairwise(self.variants)}
        paper = scored.paper_scores(inputs, self.variants)
        if not paper.measures:
            return style.nothing(), paper.absent
        labels, keys = self._labels(below)
        figure, panels = scored.rows_of_panels(labels, len(paper.measures))
        published = _published(inputs.facts["published"], paper.rule)
        counts = set()
        for axes, measure in zip(panels, paper.measures, strict=True):
            ours, said = (
                [gain(scores, name, other, measure) for name, other in below.items()]
                for scores in (paper.scores, published)
            )
            counts |= {one.n for one in ours if one is not None}
            axes.axvline(0, color="0.5", linewidth=0.8, zorder=1)
            marks(axes, ours, style.look(0), label="ours")
            marks(axes, said, style.look(4), filled=False, label="published", lower=0.22)
            axes.set_xlabel(f"Gain in\n{scored.TITLES[measure].replace('Overall', 'overall')}")
        scored.rows_legend(panels)
        first = next(iter(self.variants.values()))
        of_all = f"Overall: {paper.rule} mean of SST, paraphrase and STS, on dev."
        over = "; ".join([f"Each row over the one above, the first over {first}", *keys])
        return figure, [of_all, f"{over}.", *scored.seeds_note(counts, "Gains"), *paper.absent]

    def _labels(self, below: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """Return the rows' labels, and the key to the letters of rows not over the row above."""
        labels: list[str] = []
        letters: dict[str, str] = {}
        for (before, name), other in zip(pairwise(self.variants), below.values(), strict=True):
            mark = ""
            if other != before:
                mark = f" ({letters.setdefault(other, chr(ord('a') + len(letters) % 26))})"
            labels.append(f"{style.shorten(self.variants[name], scored.LABEL - len(mark))}{mark}")
        return labels, [f"({mark}) over {self.variants[of]}" for of, mark in letters.items()]


def gain(scores: Scores, name: str, other: str, measure: str) -> Interval | None:
    """Return the mean gain over the seeds that both have, with its interval; None without any."""
    one, below = (scores.get(Of(variant, "dev", measure), {}) for variant in (name, other))
    both = sorted(set(one) & set(below))
    return interval([one[seed] - below[seed] for seed in both]) if both else None


def _published(rows: Iterable[Mapping[str, Any]], rule: str) -> Scores:
    """Return the published dev scores as those of one seed."""
    return {
        Of(row["variant"], "dev", rule if task == "overall" else task): {0: value}
        for row in rows
        for task, value in row["figures"].items()
        if row["split"] == "dev" and value is not None
    }
