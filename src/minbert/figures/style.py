"""The look that all figures share, and how they are saved."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from minbert.common.files import whole

COLUMN = 3.5  # inches: a column of a two-column paper
WIDE = 7.0  # inches: both columns

_DPI = 300
_POINTS = 72
_LEGEND = 7  # points
_LEGEND_ROWS = 3  # with more the figure grows, so that the axes keep their room
_SMALL = 5.5  # points: notes and stamp

_RC: dict[Any, Any] = {
    "figure.dpi": 150,
    "savefig.dpi": _DPI,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "figure.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": _LEGEND,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "text.parse_math": False,  # a label is what the spec says, dollars and all
    "pdf.fonttype": 42,  # TrueType: text in the PDF can be searched and edited
}


class Look(NamedTuple):
    """How one series is told from the others: by colour, line and marker at once."""

    color: str
    linestyle: Any
    marker: str


# Okabe and Ito's colours (2008), which the colour-blind tell apart, in an order whose neighbours
# also differ in lightness; line and marker carry the distinction into grey print.
LOOKS = (
    Look("#0072B2", "-", "o"),
    Look("#E69F00", (0, (5, 1.5)), "s"),
    Look("#000000", (0, (1, 1)), "^"),
    Look("#56B4E9", (0, (5, 1.5, 1, 1.5)), "D"),
    Look("#D55E00", (0, (3, 1)), "v"),
    Look("#009E73", (0, (5, 1.5, 1, 1.5, 1, 1.5)), "P"),
    Look("#CC79A7", (0, (8, 2)), "X"),
)


def look(index: int) -> Look:
    """Return the look of series `index`: all differ for the first 49, and repeat after that.

    The colours start anew after seven, with the lines and markers moved on by one.
    """
    turn = index // len(LOOKS)
    other = LOOKS[(index + turn) % len(LOOKS)]
    return Look(LOOKS[index % len(LOOKS)].color, other.linestyle, other.marker)


@contextmanager
def style() -> Iterator[None]:
    """Draw in the shared style inside the block, whatever the user's own settings are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def new_figure(width: float = COLUMN, height: float = 2.6) -> Figure:
    """Return an empty figure of `width` by `height` inches, its footer not counted."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(count: int, height: float, most: int = 3) -> tuple[Figure, list[Axes]]:
    """Return a figure of `count` panels, each `height` inches high, and their axes.

    One panel is a column wide; more stand side by side over both columns, up to `most` a row.
    """
    columns = min(count, most)
    rows = -(-count // columns)
    figure = new_figure(COLUMN if count == 1 else WIDE, 0.45 + rows * height)
    grid = figure.add_gridspec(rows, columns)
    return figure, [figure.add_subplot(grid[divmod(n, columns)]) for n in range(count)]


def nothing(title: str, text: str = "no run yet") -> Figure:
    """Return a figure that only says that there is nothing to show."""
    figure = new_figure(COLUMN, 1.0)
    axes = figure.add_subplot()
    axes.set_axis_off()
    figure.suptitle(title)
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="0.4")
    return figure


def shorten(label: str, characters: int) -> str:
    """Return `label` on one line of at most so many characters.

    What must go is cut out of the middle: labels of a grid often differ in their ends.
    """
    label = " ".join(label.split())
    if len(label) <= characters:
        return label
    end = (characters - 1) // 2
    return f"{label[: characters - 1 - end].rstrip()}\u2026{label[-end:].lstrip()}"


def add_footer(figure: Figure, notes: list[str], stamp: str) -> None:
    """Write `notes` and, last and lighter, `stamp` below the axes, wrapped to the width.

    The figure grows by what they need, so that axes are as large with many notes as with none.
    """
    width, height = figure.get_size_inches()
    characters = int(width * _POINTS / (_SMALL * 0.56))
    lines = [
        (line, color)
        for texts, color in ((notes, "0.25"), ([stamp], "0.5"))
        for text in texts
        for line in textwrap.wrap(text, characters)
    ]
    line_height = _SMALL * 1.3 / _POINTS  # inches
    height += (len(lines) + 0.6) * line_height
    figure.set_size_inches(width, height)
    step = line_height / height
    for i, (line, color) in enumerate(lines):
        y = (len(lines) - i - 0.6) * step
        figure.text(0.01, y, line, fontsize=_SMALL, color=color, va="bottom")
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        footer = (len(lines) + 0.6) * step
        engine.set(rect=(0, footer, 1, 1 - footer))


def add_legend(axes: Axes) -> None:
    """Put the legend above the axes, where it hides no data, in as many columns as fit."""
    handles, labels = axes.get_legend_handles_labels()
    width = axes.figure.bbox.width / axes.figure.dpi * _POINTS
    labels = [shorten(label, int(width / _LEGEND / 0.6) - 7) for label in labels]
    entry = _LEGEND * (6 + 0.56 * max(len(label) for label in labels))
    columns = max(1, min(len(labels), int(width / entry)))
    more = -(-len(labels) // columns) - _LEGEND_ROWS
    figure = axes.get_figure(root=True)
    if more > 0 and figure is not None:
        _, high = figure.get_size_inches()
        figure.set_figheight(high + more * 1.5 * _LEGEND / _POINTS)
    axes.legend(
        handles,
        labels,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=columns,
        handlelength=3.2,
        columnspacing=1.2,
    )


def save(
    figure: Figure,
    stem: Path,
    stamp: str,
    *,
    notes: list[str] | None = None,
    title: str = "",
    caption: str = "",
) -> None:
    """Save `figure` as `STEM.pdf` (vectors) and `STEM.png` (300 dpi), `stamp` at the bottom.

    `stamp` says what the figure was made from (commit, backbone, data, seeds); `notes` are lines
    above it that the reader needs; `title` and `caption` go into the files' metadata. The files
    carry no date, so that the same figure is the same bytes.
    """
    stem = Path(stem)
    add_footer(figure, notes or [], stamp)
    metadata: dict[str, dict[str, str | None]] = {
        "png": {"Software": None, "Title": title, "Description": caption},
        "pdf": {"CreationDate": None, "Title": title, "Subject": caption},
    }
    for extension, about in metadata.items():
        with whole(stem.with_name(f"{stem.name}.{extension}")) as temporary:
            figure.savefig(temporary, format=extension, dpi=_DPI, metadata=about)
        figure.set_layout_engine("none")  # The next file is laid out as this one is.
