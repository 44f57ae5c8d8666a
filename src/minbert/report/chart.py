"""The chart of the first screen: published scores, ours and the floor, as places in pixels."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import NamedTuple

from minbert.evaluate.reading import METRIC_TITLES
from minbert.report.material import Material
from minbert.spec.task import TASKS

TITLES = {
    **{"sst": "SST", "para": "Paraphrase", "sts": "STS", "other": "Other tasks"},
    "overall": "Overall",
}
"""The panels: what the index calls the measure, and their titles."""

WIDTH, MARGIN = 300, 16
"""Of a panel, and left and right of its scale."""
STRIP = 46
"""The height of a paper's strip: its name, its figures and ours, one under the other."""

Line = Mapping[str, str]


class Mark(NamedTuple):
    """A place on the scale; `said` is shown to people who point at it."""

    x: float
    said: str


class Strip(NamedTuple):
    """A paper's figures, ours of the same rows, and the floor, if that is known."""

    paper: str
    published: list[Mark]
    ours: list[Mark]
    floor: Mark | None


class Panel(NamedTuple):
    """One measure: a strip for each paper, and the numbers of its scale."""

    title: str
    metric: str
    strips: list[Strip]
    ticks: list[Mark]

    @property
    def height(self) -> int:
        """Of all strips, in pixels."""
        return len(self.strips) * STRIP


@dataclass(frozen=True)
class Scale:
    """Where a value stands between the first tick and the last."""

    ticks: Sequence[float]

    @classmethod
    def over(cls, values: Sequence[float]) -> "Scale":
        """Return the scale that holds all values, with a tick at each fifth, or tenth if narrow."""
        step = 0.2 if max(values) - min(values) > 0.5 else 0.1
        first, last = floor(min(values) / step + 1e-9), ceil(max(values) / step - 1e-9)
        return cls([round(n * step, 1) for n in range(first, max(last, first + 1) + 1)])

    def mark(self, value: float, said: str) -> Mark:
        """Return the mark of a value."""
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return Mark(round(MARGIN + share * (WIDTH - 2 * MARGIN), 1), said)


def panels(material: Material, index: Sequence[Line]) -> Iterator[Panel]:
    """Yield a panel for each measure that the papers give on dev."""
    for name, title in TITLES.items():
        given = [line for line in index if line["split"] == "dev" and line[f"{name}_published"]]
        rows = {paper: [r for r in given if r["paper"] == paper] for paper in material.papers}
        rows = {paper: lines for paper, lines in rows.items() if lines}
        floors = {
            paper: floor_of(material, paper, name, {line["variant"] for line in lines})
            for paper, lines in rows.items()
        }
        if not rows:
            continue
        values = [_value(line, name, side) for line in given for side in ("published", "ours")]
        scale = Scale.over([v for v in (*values, *floors.values()) if v is not None])
        strips = []
        for paper, lines in rows.items():
            theirs, ours = (_marks(scale, lines, name, side) for side in ("published", "ours"))
            at = floors[paper]
            line = None if at is None else scale.mark(at, f"{paper}, floor: {at:.3f}")
            strips.append(Strip(paper, theirs, ours, line))
        of_other = METRIC_TITLES["accuracy"] if name == "other" else "the paper's own rule"
        metric = METRIC_TITLES[TASKS[name].metric] if name in TASKS else of_other
        yield Panel(title, metric, strips, [scale.mark(t, f"{t:.1f}") for t in scale.ticks])


def _marks(scale: Scale, lines: Sequence[Line], name: str, side: str) -> list[Mark]:
    found = [(line["row"], _value(line, name, side)) for line in lines]
    return [scale.mark(v, f"{row}, {side}: {v:.3f}") for row, v in found if v is not None]


def _value(line: Line, name: str, side: str) -> float | None:
    text = line[f"{name}_{side}"]
    return float(text) if text else None


def floor_of(
    material: Material, paper: str, measure: str, variants: Collection[str]
) -> float | None:
    """Return what takes no learning on the dev examples that `variants` are scored on.

    None before a run has finished, and if they are scored on different examples.
    """
    rule = material.spec(f"table/{paper}")["rule"]
    wanted = rule if measure == "overall" else measure
    found = {
        one.floor
        for of, one in material.means(paper).items()
        if (of.split, of.measure) == ("dev", wanted) and of.variant in variants
    }
    return found.pop() if len(found) == 1 else None
