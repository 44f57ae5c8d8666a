"""The look that all figures share: panels, points with intervals, heat maps, how they are saved."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.patches import Rectangle

from minbert.base.files import whole
from minbert.evaluate.statistics import Interval
from minbert.figures.inputs import Values

COLUMN, WIDE = 3.5, 7.0  # inches: a column of a two-column paper, and both
CROSS = "not above its floor"

_TITLE, _SMALL = 8.5, 7  # points: the title; legend and notes

# Here and not in a .mplstyle file, as the digest of code has to know it.
_RC: dict[Any, Any] = {
    "figure.dpi": 150,
    "savefig.dpi": 300,
    "font.size": 8,
    "axes.titlesize": "medium",
    "legend.fontsize": _SMALL,
    "legend.title_fontsize": _TITLE,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "text.parse_math": False,  # a label is what the spec says, dollars and all
    "pdf.fonttype": 42,  # TrueType: text in the PDF can be searched and edited
    "svg.fonttype": "none",  # text stays text there too
    "svg.hashsalt": "minbert",  # the same names in each file
}
_DENSE: dict[Any, Any] = {
    **{"font.size": 6.5, "axes.titlelocation": "left", "xtick.labelsize": 6},
    **{"ytick.labelsize": 6, "lines.linewidth": 1.0, "lines.markersize": 2.2},
}

# Of widespread fonts for scripts that matplotlib's own lacks, those that are installed are used.
_SCRIPTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "Droid Sans Fallback")


class Look(NamedTuple):
    """How a series differs from the others: in colour, line and marker at once."""

    color: str
    linestyle: Any = "-"
    marker: str = ""


# The colours of Okabe and Ito (2008), which colour-blind readers can distinguish, ordered so that
# the first four and all neighbours also differ in lightness. Line and marker keep the others apart
# when printed in grey.
LOOKS = (
    Look("#0072B2", "-", "o"),
    Look("#E69F00", (0, (5, 1.5)), "s"),
    Look("#000000", (0, (1, 1)), "^"),
    Look("#D55E00", (0, (5, 1.5, 1, 1.5)), "D"),
    Look("#56B4E9", (0, (3, 1)), "v"),
    Look("#009E73", (0, (5, 1.5, 1, 1.5, 1, 1.5)), "P"),
    Look("#CC79A7", (0, (8, 2)), "X"),
)
FLOOR: dict[str, Any] = {
    **{"color": "0.35", "linestyle": (0, (1, 1.2)), "linewidth": 0.9},
    **{"label": "floor", "zorder": 1},
}
THIN: dict[str, Any] = {"color": "0.4", "linewidth": 0.6}
ZERO: dict[str, Any] = {"color": "0.5", "linewidth": 0.8, "zorder": 1}  # where values are equal


def look(index: int) -> Look:
    """Return the look of series `index`: the first 49 all differ, then they repeat."""
    turn = index // len(LOOKS)
    other = LOOKS[(index + turn) % len(LOOKS)]
    return Look(LOOKS[index % len(LOOKS)].color, other.linestyle, other.marker)


@contextmanager
def style() -> Iterator[None]:
    """Use the shared style inside the block, ignoring the user's own settings."""
    installed = {font.name for font in fontManager.ttflist}
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        mpl.rcParams["font.family"] = ["DejaVu Sans", *(n for n in _SCRIPTS if n in installed)]
        yield


def panels(
    count: int, height: float, columns: int = 3, dense: bool = False, **more: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure of `count` panels, each `height` inches high, and their axes.

    A single panel is one column wide; several span both columns. Those of a `dense` figure have
    smaller texts. `more` is for `Figure.subplots`.
    """
    columns = min(count, columns)
    rows = -(-count // columns)
    if dense:
        mpl.rcParams.update(_DENSE)
    size = (COLUMN if count == 1 else WIDE, 0.2 + rows * height)
    figure = Figure(size, layout="constrained")
    every = figure.subplots(rows, columns, squeeze=False, **more).ravel().tolist()
    for axes in every[count:]:
        axes.remove()
    return figure, every[:count]


def nothing(text: str = "no run yet") -> Figure:
    """Return a figure that only says that there is nothing to show."""
    figure, (axes,) = panels(1, 0.8)
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="0.4")
    return figure


def points(
    axes: Axes,
    shown: Iterable[tuple[float, Interval]],
    look: Look,
    label: str = "",
    across: bool = False,
    **more: Any,
) -> None:
    """Draw means and their intervals, each at a place on the x axis, or `across` on the y axis.

    Those of rows that have not learnt are crosses.
    """
    about: dict[str, Any] = {"linestyle": "none", "elinewidth": 0.9, "zorder": 3, **more}
    found = list(shown)
    for learned, name, marker in ((True, label, look.marker), (False, CROSS, "x")):
        part = [(at, one) for at, one in found if (one.learned is not False) == learned]
        places, means = [at for at, _ in part], [one.mean for _, one in part]
        reach: dict[str, Any] = {"xerr" if across else "yerr": bars(one for _, one in part)}
        if part:
            x, y = (means, places) if across else (places, means)
            axes.errorbar(x, y, **reach, color=look.color, marker=marker, label=name, **about)


def bars(intervals: Iterable[Interval]) -> list[list[float]]:
    """Return how far each interval reaches below and above its mean; 0 without an interval."""
    known = [(one.mean, one.low, one.high) for one in intervals]
    below = [0.0 if low is None else max(0.0, mean - low) for mean, low, _ in known]
    return [below, [0.0 if high is None else max(0.0, high - mean) for mean, _, high in known]]


_BEYOND, _LEAST = 0.25, 0.1  # how far bars widen an axis on each side: of the points' span, least
_SPAN = 0.2  # of scores: a shorter axis would make differences that are noise look large


def ends(shown: Sequence[Interval], lines: Iterable[float] = ()) -> tuple[float, float]:
    """Return the ends of an axis: all points and `lines`, and the bars as far as that leaves them
    readable.

    Over two seeds an interval may be ten times as long as all points are apart.
    """
    means = [*(one.mean for one in shown), *lines]
    beyond = max(_LEAST, _BEYOND * (max(means) - min(means)))
    reached = [*means, *(value for one in shown for value in one[1:3] if value is not None)]
    low = max(min(reached), min(means) - beyond)
    high = min(max(reached), max(means) + beyond)
    room = max(0.06 * (high - low), (_SPAN - (high - low)) / 2)
    return low - room, high + room


def heat_map(
    axes: Axes,
    values: Values,
    words: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
    limits: tuple[float, float],
    colors: str = "Blues",
    size: float = 6.0,
) -> None:
    """Draw `values` [rows, columns] between `limits` as colours, with `words` in the cells, if any.

    NaN cells are hatched. Text is black on light cells and white on dark ones.
    """
    scale = Normalize(*limits)
    axes.imshow(values, cmap=colors, norm=scale, aspect="auto")
    axes.grid(visible=False)
    axes.set_xticks(range(len(columns)), list(columns))
    axes.set_yticks(range(len(rows)), list(rows))
    axes.tick_params(length=0)
    for row, column in np.ndindex(values.shape if words else (0, 0)):
        value = values[row, column]
        if hatched := bool(np.isnan(value)):
            cell = Rectangle((column - 0.5, row - 0.5), 1, 1, hatch="////", lw=0)
            axes.add_patch(cell).set(facecolor="0.97", edgecolor="0.8")
        # By relative luminance (ITU-R BT.709); at 0.18 black and white contrast equally.
        rgb = np.array(colormaps[colors](scale(value))[:3]) ** 2.2
        light = hatched or rgb @ (0.2126, 0.7152, 0.0722) > 0.18
        about: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": size}
        axes.text(column, row, words[row][column], color="black" if light else "white", **about)


def shorten(label: str, characters: int) -> str:
    """Return `label` on one line, its middle cut out: a grid's labels often differ at the end."""
    label = " ".join(label.split())
    if len(label) <= characters:
        return label
    end = (characters - 1) // 2
    return f"{label[: characters - 1 - end].rstrip()}\u2026{label[-end:].lstrip()}"


def finish(
    figure: Figure,
    notes: Iterable[str],
    stamp: str = "",
    title: str = "",
    size: tuple[float, float] | None = None,
) -> None:
    """Write the title and one legend of all labels above the figure, `notes` and `stamp` below it.

    The figure grows by them, or has `size` in inches with them.
    """
    width, height = size or figure.get_size_inches()
    figure.set_size_inches(width, height)
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    room = width * 72 / _SMALL  # in units of the font size
    labels = [shorten(label, int(room / 0.6) - 7) for label in found]
    columns = max(1, min(len(labels), int(room / (7 + 0.56 * max(map(len, labels), default=0)))))
    above, below = (int(width * 72 / (size * 0.61)) for size in (_TITLE, _SMALL))  # characters
    head = figure.legend(
        list(found.values()),
        labels,
        loc="outside upper center",
        title=textwrap.fill(title, above),
        ncols=columns,
        handlelength=3.2,
        columnspacing=1.2,
        borderaxespad=0.3,
    )
    lines = [*(note.replace(" %", "\N{NO-BREAK SPACE}%") for note in notes if note), stamp]
    text = "\n".join(textwrap.fill(line, below) for line in lines if line)
    foot = figure.supxlabel(text, x=0.01, ha="left", fontsize=_SMALL, color="0.3")
    if not size:
        more = sum(each.get_window_extent().height for each in (head, foot)) / figure.dpi
        figure.set_figheight(height + more)


def save(
    figure: Figure, stem: Path, title: str, caption: str, formats: Sequence[str] = ("png", "pdf")
) -> None:
    """Save `figure` as `STEM.FORMAT`: png has 300 dpi, the others are vectors.

    `title` and `caption` go into the files' metadata. The files have no date, so that the same
    figure has the same bytes.
    """
    metadata: dict[str, dict[str, str | None]] = {
        "png": {"Software": None, "Title": title, "Description": caption},
        "pdf": {"CreationDate": None, "Title": title, "Subject": caption},
        "svg": {"Date": None, "Title": title, "Description": caption},
    }
    for form in formats:
        with whole(stem.with_name(f"{stem.name}.{form}")) as temporary:
            figure.savefig(temporary, format=form, dpi=300, metadata=metadata[form])
        figure.set_layout_engine("none")  # the next file keeps this layout
