"""The look that all figures share: panels, legends, heat maps, footers, and how they are saved."""

import re
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, fontManager, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.figures.inputs import Values

COLUMN, WIDE = 3.5, 7.0  # inches: a column of a two-column paper, and both
PANEL = 2.0  # inches: the least width of one of several panels in a row

_TITLE, _SMALL = 8.5, 7  # points: titles; legends, notes and stamp
_LINE = 1.3 / 72  # inches: the height of a line, by points

# Here and not in a .mplstyle file, as the digest of code has to know it.
_RC: dict[Any, Any] = {
    "figure.dpi": 150,
    "savefig.dpi": 300,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": _TITLE,
    "figure.titlesize": _TITLE,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": _SMALL,
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
    "svg.fonttype": "none",  # text stays text there too
    "svg.hashsalt": "minbert",  # the same names in each file
}


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
DOTS = (0, (1, 1.2))  # the style of a dotted line
FLOOR: dict[str, Any] = {"color": "0.35", "linestyle": DOTS, "linewidth": 0.9, "label": "floor"}
ZERO: dict[str, Any] = {"color": "0.5", "linewidth": 0.8, "zorder": 1}  # of a line of no difference


def look(index: int) -> Look:
    """Return the look of series `index`: the first 49 all differ, then they repeat."""
    turn = index // len(LOOKS)
    other = LOOKS[(index + turn) % len(LOOKS)]
    return Look(LOOKS[index % len(LOOKS)].color, other.linestyle, other.marker)


def cross(look: Look) -> Look:
    """Return the look of a point of this series whose run is not above its floor."""
    return look._replace(marker="x")


_asked: ContextVar[float | None] = ContextVar("width", default=None)


@contextmanager
def style(width: float | None = None, text: str = "") -> Iterator[None]:
    """Use the shared style inside the block, ignoring the user's own settings.

    All figures are then `width` inches wide (default: one column, or both), and can write `text`.
    """
    token = _asked.set(width)
    try:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(_RC)
            mpl.rcParams["font.family"] = _families(text)
            yield
    finally:
        _asked.reset(token)


def _families(text: str) -> list[str]:
    """Return the usual font, and installed ones for what it lacks of `text`; say what all lack."""
    found = [str(_RC["font.family"])]
    lacking = {c for c in text if c.isprintable()} - _written_by(findfont(found[0]))
    # TrueType first, as a PDF can hold it as it is, and upright fonts of the usual weight.
    installed = sorted(
        (f for f in fontManager.ttflist if not re.match(r"\.?Last ?Resort", f.name)),  # of boxes
        key=lambda f: (not f.fname.endswith(".ttf"), f.style != "normal", f.weight != 400, f.name),
    )
    for font in installed if lacking else ():
        if more := lacking & _written_by(font.fname):
            found.append(font.name)
            lacking -= more
    if lacking:
        boxes = "".join(sorted(lacking))
        print(f"no installed font has {boxes}: boxes stand for it in figures", file=sys.stderr)
    return found


def _written_by(path: str) -> set[str]:
    """Return the characters that a font has."""
    with suppress(RuntimeError):  # a damaged file
        return set(map(chr, get_font(path).get_charmap()))
    return set()


def column() -> float:
    """Return the width of a figure of one column in inches."""
    return _asked.get() or COLUMN


def wide() -> float:
    """Return the width of a figure over both columns in inches."""
    return _asked.get() or WIDE


def new_figure(width: float | None = None, height: float = 2.6) -> Figure:
    """Return an empty figure of `width` (default: a column) by `height` inches."""
    figure = Figure(figsize=(width or column(), height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def grid(
    rows: int,
    columns: int,
    height: float,
    entries: Sequence[Any] = (),
    width: float | None = None,
    **more: Any,
) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure, and its axes by row; each row is `height` inches high.

    `entries` make one legend above all panels. `width` is in inches (default: both columns). `more`
    is for `Figure.subplots`.
    """
    figure = new_figure(width or wide(), 0.2 + rows * height)
    axes: list[list[Axes]] = figure.subplots(rows, columns, squeeze=False, **more).tolist()
    if entries:
        add_legend(figure, entries)
    return figure, axes


def panels(
    count: int, height: float, most: int = 3, entries: Sequence[Any] = ()
) -> tuple[Figure, list[Axes]]:
    """Return a figure of `count` panels, each `height` inches high, and their axes.

    A single panel is one column wide; several span both columns, at most `most` in a row.
    """
    columns = min(count, most, max(1, int(wide() / PANEL)))
    width = column() if count == 1 else wide()
    figure, rows = grid(-(-count // columns), columns, height, entries, width)
    every = [axes for row in rows for axes in row]
    for axes in every[count:]:
        axes.set_axis_off()
    return figure, every[:count]


def entry(label: str, look: Look, **change: Any) -> Line2D:
    """Return the legend entry of what is drawn with this look."""
    return Line2D([], [], label=label, **{**look._asdict(), **change})


def floor_entry(known: Any) -> list[Line2D]:
    """Return the legend entry of floors, if any are known."""
    return [Line2D([], [], **FLOOR)] if known else []


def add_legend(figure: Figure, entries: Iterable[Any]) -> None:
    """Put one legend above all panels, in as many columns as fit."""
    if not (handles := list(entries)):
        return
    room = figure.get_figwidth() * 72 / _SMALL  # in units of the font size
    short = [shorten(str(handle.get_label()), int(room / 0.6) - 7) for handle in handles]
    columns = max(1, min(len(short), int(room / (7 + 0.56 * max(map(len, short))))))
    about: dict[str, Any] = {"ncols": columns, "handlelength": 3.2, "columnspacing": 1.2}
    legend = figure.legend(handles, short, loc="upper center", borderaxespad=0, **about)
    legend.set_in_layout(False)  # `finish` gives it its place


def points(axes: Axes, x: Sequence[float], y: Sequence[float], look: Look, **more: Any) -> None:
    """Draw points with the error bars in `more` (`xerr`, `yerr`), without a line."""
    about = {"linestyle": "none", "elinewidth": 0.9, "zorder": 3}
    if look.marker == "x":  # it has no face
        about |= {"markeredgewidth": 1.3}
        more = {name: value for name, value in more.items() if name != "markerfacecolor"}
    axes.errorbar(x, y, color=look.color, marker=look.marker, **{**about, **more})


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
    for row, column in np.argwhere(np.isnan(values)):
        cell = Rectangle((column - 0.5, row - 0.5), 1, 1, hatch="////", lw=0)
        axes.add_patch(cell).set(facecolor="0.97", edgecolor="0.8")
    for row, column in np.ndindex(values.shape if words else (0, 0)):
        value = values[row, column]
        light = np.isnan(value) or _luminance(colormaps[colors](scale(value))[:3]) > 0.18
        about: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": size}
        axes.text(column, row, words[row][column], color="black" if light else "white", **about)


def _luminance(rgb: Sequence[float]) -> float:
    """Return the relative luminance (ITU-R BT.709); at 0.18 black and white contrast equally."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def say(axes: Axes, text: str) -> None:
    """Write in the middle of the axes that there is nothing to show."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="0.4")


def nothing(text: str = "no run yet") -> Figure:
    """Return a figure that only says that there is nothing to show."""
    figure = new_figure(height=1.0)
    say(figure.add_subplot(), text)
    return figure


def characters(width: float, size: float) -> int:
    """Return how many characters of `size` points fit into `width` inches."""
    return int(width * 72 / (size * 0.61))


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
    """Write the title above the figure, and `notes` and, lighter, `stamp` below it.

    The figure grows by them, or has `size` in inches with them; `UserError` if that leaves no room
    for a panel.
    """
    width, height = size or figure.get_size_inches()
    across = characters(width, _SMALL)
    shades = [(note.replace(" %", "\N{NO-BREAK SPACE}%"), "0.25") for note in notes]
    lines = [(ln, c) for text, c in (*shades, (stamp, "0.5")) for ln in textwrap.wrap(text, across)]
    head = textwrap.wrap(title, characters(width, _TITLE))
    title_height = _LINE * _TITLE * len(head) + 0.06
    legends = [legend.get_window_extent().height / figure.dpi for legend in figure.legends]
    above, below = title_height + sum(legends), _LINE * _SMALL * (len(lines) + 0.6)
    if not size:
        height += above + below
    figure.set_size_inches(width, height)
    if head:
        figure.suptitle("\n".join(head), y=1 - 0.04 / height, va="top").set_in_layout(False)
    for n, (line, color) in enumerate(lines):
        at = (0.01, _LINE * _SMALL * (len(lines) - n - 0.6) / height)
        figure.text(*at, line, fontsize=_SMALL, color=color, va="bottom")
    rest = max(0.01, 1 - (above + below) / height)
    figure.set_layout_engine("constrained", rect=(0, below / height, 1, rest))
    for legend in figure.legends:
        legend.set_bbox_to_anchor((0, 0, 1, 1 - title_height / height), figure.transFigure)
    if size:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "constrained_layout not applied")
            try:
                figure.draw_without_rendering()
            except UserWarning as error:
                raise UserError(
                    f"size {width:g}x{height:g}: title and notes leave no room for the figure's "
                    "panels; ask for a larger one"
                ) from error


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
