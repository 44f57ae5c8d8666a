"""The ladder of an ablation: what each row gains over the one that it adds something to."""

from collections.abc import Mapping
from itertools import pairwise

from minbert.base.errors import UserError, did_you_mean
from minbert.figures import gains, rows, scored, style
from minbert.figures.inputs import Drawn, Inputs, mean_of
from minbert.spec.figures import Ladder

_PLUS = " + "
_AT_FLOOR = "ours: a compared row is at its floor"


def plot(options: Ladder, inputs: Inputs) -> Drawn:
    """Draw the rows in their order, each compared with the row above or, if named, `over`."""
    labels = inputs.variants
    known = {part for label in labels.values() for part in label.split(_PLUS)}
    for name in options.names:
        if name not in known:
            raise UserError(
                f"figure 'ladder', option 'names': no variant's label has '{name}' between its "
                f"pluses.{did_you_mean(name, known)}"
            )
    pairs = [(name, options.over.get(name, before)) for before, name in pairwise(labels)]
    paper = scored.paper_scores(inputs)
    if not paper.measures:
        return style.nothing(), paper.absent
    steps, keys = _steps(labels, pairs, options.names)
    titles = [scored.title_of(m).replace("Overall", "overall") for m in paper.measures]
    figure, panels = rows.rows_of_panels(steps, [f"Gain in\n{title}" for title in titles])
    published = gains.published(inputs.facts["published"], paper.rule)
    systems = gains.systems(inputs)
    cut = False
    for axes, measure in zip(panels, paper.measures, strict=True):
        low = [paper.flat_one(pair, measure) for pair in pairs]
        ours = [gains.gain(systems, *pair, measure) for pair in pairs]
        said = [gains.printed(published, *pair, measure) for pair in pairs]
        axes.axvline(0, **style.ZERO)
        for at_floor, label in ((False, "ours"), (True, _AT_FLOOR)):
            shown = [one if at is at_floor else None for one, at in zip(ours, low, strict=True)]
            rows.marks(axes, shown, filled=not at_floor, label=label)
        rows.marks(axes, said, style.look(2), filled=False, label="published", lower=0.22)
        cut |= rows.limit(axes, [*ours, *said], [0.0])
    rows.rows_legend(figure, panels)
    seeds = mean_of(len(of) for of in paper.shown.values() if of)
    over = "examples, not over seeds" if seeds == "1 seed" else "examples and seeds"
    first = next(iter(labels.values()))
    return figure, [
        f"Scores on dev{'; scales differ' * (len(panels) > 1)}. Overall: {paper.overall}.",
        "; ".join([f"Each row against the one above, the first against {first}", *keys]) + ".",
        f"At its floor: {scored.NOT_ABOVE}." * bool(paper.flat),
        f"Gains: {seeds}; bars: 95 % interval over {over} (bootstrap).{f' {scored.CUT}' * cut}",
        *paper.absent,
    ]


def _steps(
    labels: Mapping[str, str], pairs: list[tuple[str, str]], names: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Return what the rows are called, and the key to the letters of those too long for what they
    are against, if that is not the row above."""
    made: list[str] = []
    letters: dict[str, str] = {}
    for before, (name, other) in zip(labels, pairs, strict=False):
        change = step(labels[name], labels[other], names)
        mark = "" if other == before else f" on {labels[other]}"
        if len(change + mark) > rows.LABEL:
            mark = f" ({letters.setdefault(other, chr(ord('a') + len(letters) % 26))})"
        made.append(f"{style.shorten(change, rows.LABEL - len(mark))}{mark}")
    return made, [f"({mark}) against {labels[of]}" for of, mark in letters.items()]


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
