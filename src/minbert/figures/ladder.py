"""The ladder of an ablation: what each row gains over the one that it adds something to."""

from collections.abc import Mapping
from itertools import pairwise

from pydantic import Field

from minbert.base.errors import UserError, did_you_mean
from minbert.evaluate.reading import Of
from minbert.figures import gains, rows, scored, style
from minbert.figures.inputs import Drawn, Inputs, VariantsSpec, mean_of

_PLUS = " + "
_AT_FLOOR = "ours: a compared row is at its floor"


class Spec(VariantsSpec):
    """Rows in the order of `variants`, each compared with the row above or, if named, `over`.

    `names` spells out what the labels abbreviate.
    """

    over: dict[str, str] = Field(default_factory=dict)
    names: dict[str, str] = Field(default_factory=dict)

    def plot(self, inputs: Inputs) -> Drawn:
        self.check_variants((*self.over, *self.over.values()), "key 'over'")
        self._check_names()
        below = {name: self.over.get(name, before) for before, name in pairwise(self.variants)}
        paper = scored.paper_scores(inputs, self.variants)
        if not paper.measures:
            return style.nothing(), paper.absent
        labels, keys = self._labels(below)
        titles = [scored.title_of(m).replace("Overall", "overall") for m in paper.measures]
        figure, panels = rows.rows_of_panels(labels, [f"Gain in\n{title}" for title in titles])
        published = gains.published(inputs.facts["published"], paper.rule)
        systems = gains.systems(inputs, self.variants)
        flat = scored.unlearned(paper.scores, paper.overall_tasks)
        cut = False
        for axes, measure in zip(panels, paper.measures, strict=True):
            pairs = list(below.items())
            low = [any(Of(name, "dev", measure) in flat for name in pair) for pair in pairs]
            ours = [gains.gain(systems, *pair, measure) for pair in pairs]
            said = [gains.printed(published, *pair, measure) for pair in pairs]
            axes.axvline(0, color="0.5", linewidth=0.8, zorder=1)
            for at_floor, label in ((False, "ours"), (True, _AT_FLOOR)):
                shown = [one if at is at_floor else None for one, at in zip(ours, low, strict=True)]
                rows.marks(axes, shown, style.look(0), filled=not at_floor, label=label)
            rows.marks(axes, said, style.look(2), filled=False, label="published", lower=0.22)
            cut |= rows.limit(axes, [*ours, *said], [0.0])
        rows.rows_legend(panels)
        first = next(iter(self.variants.values()))
        of_all = f"Overall: {scored.overall_note(paper.rule, paper.overall_tasks)}."
        over = "; ".join([f"Each row against the one above, the first against {first}", *keys])
        seeds = mean_of(len(paper.shown[name]) for name in self.variants if paper.shown[name])
        bars = f"Gains: {seeds}; bars: 95 % interval over examples"
        bars += " and seeds (bootstrap)." if seeds != "1 seed" else ", not over seeds (bootstrap)."
        scales = "; scales differ" if len(panels) > 1 else ""
        notes = [f"Scores on dev{scales}. {of_all}", f"{over}."]
        notes += [f"At its floor: {scored.NOT_ABOVE}."] if flat else []
        return figure, [*notes, f"{bars} {scored.CUT}" if cut else bars, *paper.absent]

    def _check_names(self) -> None:
        """Raise `UserError` if `names` has what no label has."""
        known = {part for label in self.variants.values() for part in label.split(_PLUS)}
        for name in self.names:
            if name not in known:
                raise UserError(
                    f"figure '{self.title}', key 'names': no variant's label has '{name}' between "
                    f"its pluses.{did_you_mean(name, known)}"
                )

    def _labels(self, below: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """Return the rows' labels, and the key to the letters of those too long for what they are
        against, if that is not the row above."""
        labels: list[str] = []
        letters: dict[str, str] = {}
        for (before, name), other in zip(pairwise(self.variants), below.values(), strict=True):
            change = step(self.variants[name], self.variants[other], self.names)
            mark = "" if other == before else f" on {self.variants[other]}"
            if len(change + mark) > rows.LABEL:
                mark = f" ({letters.setdefault(other, chr(ord('a') + len(letters) % 26))})"
            labels.append(f"{style.shorten(change, rows.LABEL - len(mark))}{mark}")
        return labels, [f"({mark}) against {self.variants[of]}" for of, mark in letters.items()]


def step(label: str, other: str, names: Mapping[str, str]) -> str:
    """Return what `label` adds to `other`: "+ GS", or "MP → MTP" if it replaces something.

    What is added is spelled out if it is among `names`: "+ gradient surgery (GS)".
    """
    here, there = label.split(_PLUS), other.split(_PLUS)
    spelled = {part: f"{names[part]} ({part})" if part in names else part for part in here}
    added = _PLUS.join(spelled[part] for part in here if part not in there)
    gone = _PLUS.join(part for part in there if part not in here)
    if gone:
        return f"{gone} \u2192 {added}" if added else f"without {gone}"
    return f"+ {added}" if added else label
