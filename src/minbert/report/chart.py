"""The chart of the first screen: published scores, ours and the floor, as places in pixels."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil, floor
from typing import NamedTuple

from minbert.evaluate.reading import METRIC_TITLES
from minbert.report.material import Material
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS

MEASURES = (*OVERALL_TASKS, "other", "overall")
"""The published figures of a row, as the index calls them."""

WIDTH, MARGIN = 300, 16
"""Of a panel, and left and right of its scale."""
STRIP = 46
"""The height of a paper's strip: its name, its figures and ours, one under the other."""

Line = Mapping[str, str]


class Row(NamedTuple):
    """A row of a paper, its published figure and our score; either may be missing."""

    variant: str
    label: str
    published: float | None
    ours: float | None


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


def title_of(name: str) -> str:
    """Return the title of a task, of the `other` ones or of the `overall` score."""
    return TASKS[name].title if name in TASKS else {"other": "Other tasks"}.get(name, "Overall")


def panels(material: Material, index: Sequence[Line]) -> Iterator[Panel]:
    """Yield a panel for each measure on dev that `rows_of` a paper have."""
    for name in dict.fromkeys((*MEASURES[:-1], *TASKS, "overall")):
        found = {paper: rows_of(material, index, paper, name) for paper in material.papers}
        of_papers = {paper: rows for paper, rows in found.items() if rows}
        floors = {
            paper: floor_of(material, paper, name, {row.variant for row in rows})
            for paper, rows in of_papers.items()
        }
        values = [value for rows in of_papers.values() for row in rows for value in row[2:]]
        if not (known := [v for v in (*values, *floors.values()) if v is not None]):
            continue
        ticks = ticks_over(known)
        strips = []
        for paper, rows in of_papers.items():
            theirs = _marks(ticks, [(f"{row.label}, published", row.published) for row in rows])
            ours = _marks(ticks, [(f"{row.label}, ours", row.ours) for row in rows])
            line = _marks(ticks, [(f"{paper}, floor", floors[paper])])
            strips.append(Strip(paper, theirs, ours, line[0] if line else None))
        of_other = METRIC_TITLES["accuracy"] if name == "other" else "the paper's own rule"
        metric = METRIC_TITLES[TASKS[name].metric] if name in TASKS else of_other
        scale = [Mark(place(tick, ticks), f"{tick:.1f}") for tick in ticks]
        yield Panel(title_of(name), metric, strips, scale)


def rows_of(material: Material, index: Sequence[Line], paper: str, name: str) -> list[Row]:
    """Return the rows for which a paper gives a figure on dev.

    Of a task of one's own, and of a paper without published rows, all variants that train.
    """
    lines = [line for line in index if line["paper"] == paper]
    if lines and name not in {task.name for task in TASKS.own}:
        return [
            Row(line["variant"], line["row"], float(said), float(ours) if ours else None)
            for line in lines
            if line["split"] == "dev" and (said := line.get(f"{name}_published"))
            for ours in [line[f"{name}_ours"]]
        ]
    wanted = ("dev", material.measure(paper, name))
    return [
        Row(of.variant, material.labels[paper, of.variant], None, one.mean)
        for of, one in material.means[paper].items()
        if of[1:] == wanted and (paper, of.variant) in material.labels
    ]


def ticks_over(values: Collection[float]) -> list[float]:
    """Return a scale that holds all values, with a tick at each fifth, or tenth if narrow."""
    step = 0.2 if max(values) - min(values) > 0.5 else 0.1
    first, last = floor(min(values) / step + 1e-9), ceil(max(values) / step - 1e-9)
    return [round(n * step, 1) for n in range(first, max(last, first + 1) + 1)]


def place(value: float, ticks: Sequence[float]) -> float:
    """Return where a value stands on a scale."""
    share = (value - ticks[0]) / (ticks[-1] - ticks[0])
    return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)


def _marks(ticks: Sequence[float], found: Iterable[tuple[str, float | None]]) -> list[Mark]:
    return [Mark(place(v, ticks), f"{said}: {v:.3f}") for said, v in found if v is not None]


def floor_of(material: Material, paper: str, name: str, variants: Collection[str]) -> float | None:
    """Return what takes no learning on the dev examples that `variants` are scored on.

    None before a run has finished, and if they are scored on different examples.
    """
    wanted = ("dev", material.measure(paper, name))
    means = material.means[paper].items()
    found = {one.floor for of, one in means if of[1:] == wanted and of.variant in variants}
    return found.pop() if len(found) == 1 else None
