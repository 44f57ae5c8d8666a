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

COLUMN = 3.5  # inches: a column of a two-column paper
WIDE = 7.0  # inches: both columns
PANEL = 2.0  # inches: the least width of one of several panels in a row
LEAST = 1.0  # inches: the least height of a figure besides title and notes
LEAST_PANEL = 0.6  # inches: the least width and height of a panel, without its labels

_DPI = 300
_POINTS = 72
_LEGEND = 7  # points
_LEGEND_ROWS = 3  # with more the figure grows, so that the axes keep their size
_LEGEND_LINE = 1.45 * _LEGEND / _POINTS  # inches: a row of the legend above a grid of panels
_SMALL = 7  # points: notes and stamp

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
    "svg.fonttype": "none",  # text stays text there too
    "svg.hashsalt": "minbert",  # the same names in each file
}

DOTS = (0, (1, 1.2))  # the style of a dotted line
FLOOR: dict[str, Any] = {"color": "0.35", "linestyle": DOTS, "linewidth": 0.9}  # of a floor's line


class Look(NamedTuple):
    """How a series differs from the others: in colour, line and marker at once."""

    color: str
    linestyle: Any
    marker: str


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
    """Return an empty figure of `width` (default: a column) by `height` inches, without footer."""
    figure = Figure(figsize=(width or column(), height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(count: int, height: float, most: int = 3) -> tuple[Figure, list[Axes]]:
    """Return a figure of `count` panels, each `height` inches high, and their axes.

    A single panel is one column wide; several span both columns, at most `most` in a row.
    """
    columns = min(count, most, max(1, int(wide() / PANEL)))
    rows = -(-count // columns)
    figure = new_figure(column() if count == 1 else wide(), 0.45 + rows * height)
    grid = figure.add_gridspec(rows, columns)
    return figure, [figure.add_subplot(grid[divmod(n, columns)]) for n in range(count)]


def panel_grid(
    rows: int, columns: int, height: float, entries: Sequence[Line2D]
) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure over both columns, and its axes by row; each row is `height` inches high.

    `entries` make one legend above all panels, by which the figure grows.
    """
    labels = [str(line.get_label()) for line in entries]
    labels, across = _legend_columns(labels, wide() * _POINTS, 7)
    above = _LEGEND_LINE * -(-len(labels) // across)
    figure = new_figure(wide(), 0.35 + above + rows * height)
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=[above, *[height] * rows])
    legend = figure.add_subplot(grid[0, :])
    legend.set_axis_off()
    about: dict[str, Any] = {"loc": "center", "ncols": across, "borderpad": 0}
    legend.legend(list(entries), labels, handlelength=3.2, columnspacing=1.2, **about)
    return figure, [
        [figure.add_subplot(grid[row, column]) for column in range(columns)]
        for row in range(1, rows + 1)
    ]


def panel_pairs(count: int, entries: Sequence[Line2D]) -> tuple[Figure, list[Axes]]:
    """Return the `panel_grid` of `count` panels, two in a row, and the axes of these panels."""
    columns = min(2, count)
    figure, grid = panel_grid(-(-count // columns), columns, 1.75, entries)
    panels = [axes for row in grid for axes in row]
    for axes in panels[count:]:
        axes.set_axis_off()
    return figure, panels[:count]


def entry(label: str, look: Look, **change: Any) -> Line2D:
    """Return the legend entry of what is drawn with this look."""
    return Line2D([], [], label=label, **{**look._asdict(), **change})


def entries_of(labels: Iterable[str]) -> list[Line2D]:
    """Return an entry for each label, with the looks in order."""
    return [entry(label, look(n)) for n, label in enumerate(labels)]


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


def at_least(axes: Axes, span: float) -> None:
    """Make the axes' height at least `span`: a shorter one would show noise as differences."""
    low, high = axes.get_ylim()
    short = max(0.0, span - (high - low)) / 2
    axes.set_ylim(low - short, high + short)


def share_height(panels: Sequence[Axes]) -> None:
    """Give the panels that show something one scale, so that they can be compared."""
    used = [axes for axes in panels if axes.has_data()]
    ends = [axes.get_ylim() for axes in used]
    for axes in used:
        axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))


def hide_empty(grid: Iterable[Iterable[Axes]]) -> None:
    """Hide the panels that show nothing."""
    for axes in (axes for row in grid for axes in row if not axes.has_data()):
        axes.set_axis_off()


def say(axes: Axes, text: str = "no run yet", **more: Any) -> None:
    """Write in the middle of the axes that there is nothing to show."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", color="0.4", **more)


def nothing(text: str = "no run yet") -> Figure:
    """Return a figure that only says that there is nothing to show."""
    figure = new_figure(height=1.0)
    axes = figure.add_subplot()
    axes.set_axis_off()
    say(axes, textwrap.fill(text, characters(column(), 8)), va="center")
    return figure


def add_title(figure: Figure, title: str) -> None:
    """Write the title above the figure, in as many lines as it needs."""
    width, height = figure.get_size_inches()
    lines, more = _title_lines(title, width)
    figure.set_size_inches(width, height + more)
    figure.suptitle("\n".join(lines))


def _title_lines(title: str, width: float) -> tuple[list[str], float]:
    """Return the lines of a title, and the inches by which those after the first grow a figure."""
    lines = textwrap.wrap(title, characters(width, _RC["figure.titlesize"]))
    return lines, max(0, len(lines) - 1) * 1.3 * _RC["figure.titlesize"] / _POINTS


def fit(
    figure: Figure, size: tuple[float, float], title: str, notes: Sequence[str], stamp: str
) -> None:
    """Make the figure so large that it has `size` in inches once title and footer are added.

    Raises `UserError` if they leave too little of it.
    """
    width, height = size
    rest = height - _title_lines(title, width)[1] - _footer_lines(notes, stamp, width)[1]
    if rest < LEAST:
        raise UserError(
            f"size {width:g}x{height:g}: title and notes leave {max(rest, 0):.1f} inches of the "
            f"height, and the figure needs {LEAST:g}: ask for a larger one"
        )
    figure.set_size_inches(width, rest)


def check_panels(figure: Figure) -> None:
    """Refuse a figure of a size that somebody asked for if a panel has no room left in it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        figure.draw_without_rendering()
    boxes = [axes.get_window_extent() for axes in figure.axes if axes.axison and axes.has_data()]
    least = min((side for box in boxes for side in (box.width, box.height)), default=np.inf)
    if any("constrained_layout" in str(each.message) for each in said):
        least = 0.0  # The layout was given up: panels overlap their labels.
    if least < LEAST_PANEL * figure.dpi:
        width, height = figure.get_size_inches()
        left = max(least, 0) / figure.dpi
        raise UserError(
            f"size {width:g}x{height:g}: a panel of the figure would be {left:.1f} inches wide or "
            f"high, and needs {LEAST_PANEL:g}: ask for a larger one"
        )


def characters(width: float, size: float) -> int:
    """Return how many characters of `size` points fit into `width` inches."""
    return int(width * _POINTS / (size * 0.61))


def shorten(label: str, characters: int) -> str:
    """Return `label` on one line, its middle cut out: a grid's labels often differ at the end."""
    label = " ".join(label.split())
    if len(label) <= characters:
        return label
    end = (characters - 1) // 2
    return f"{label[: characters - 1 - end].rstrip()}\u2026{label[-end:].lstrip()}"


def add_footer(figure: Figure, notes: Sequence[str], stamp: str) -> None:
    """Write `notes` and, lighter, `stamp`, if any, below the axes; the figure grows by them."""
    width, height = figure.get_size_inches()
    lines, more = _footer_lines(notes, stamp, width)
    line_height = _SMALL * 1.3 / _POINTS  # inches
    height += more
    figure.set_size_inches(width, height)
    step = line_height / height
    for i, (line, color) in enumerate(lines):
        at = (0.01, (len(lines) - i - 0.6) * step)
        figure.text(*at, line, fontsize=_SMALL, color=color, va="bottom")
    footer = (len(lines) + 0.6) * step
    figure.set_layout_engine("constrained", rect=(0, footer, 1, 1 - footer))


def _footer_lines(
    notes: Sequence[str], stamp: str, width: float
) -> tuple[list[tuple[str, str]], float]:
    """Return the lines of a footer with their colours, and its height in inches."""
    colors = [(note, "0.25") for note in notes] + [(stamp, "0.5")]
    across = characters(width, _SMALL)
    kept = ((text.replace(" %", "\N{NO-BREAK SPACE}%"), color) for text, color in colors)
    lines = [(line, color) for text, color in kept for line in textwrap.wrap(text, across)]
    return lines, (len(lines) + 0.6) * _SMALL * 1.3 / _POINTS


def _legend_columns(labels: list[str], width: float, handle: int) -> tuple[list[str], int]:
    """Return the labels, shortened to `width` points, and how many columns of them fit there.

    `handle` is the width of a line and its spacing in units of the font size.
    """
    short = [shorten(label, int(width / _LEGEND / 0.6) - 7) for label in labels]
    widest = _LEGEND * (handle + 0.56 * max(map(len, short)))
    return short, max(1, min(len(short), int(width / widest)))


def add_legend(axes: Axes) -> None:
    """Put the legend above the axes, where it hides no data, in as many columns as fit."""
    handles, labels = axes.get_legend_handles_labels()
    figure = axes.get_figure(root=True)
    assert figure is not None
    width, height = figure.get_size_inches()
    labels, columns = _legend_columns(labels, width * _POINTS, 6)
    more = max(0, -(-len(labels) // columns) - _LEGEND_ROWS)
    figure.set_figheight(height + more * 1.5 * _LEGEND / _POINTS)
    about: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": columns}
    axes.legend(handles, labels, handlelength=3.2, columnspacing=1.2, **about)


def save(
    figure: Figure,
    stem: Path,
    stamp: str,
    *,
    notes: Sequence[str],
    title: str,
    caption: str,
    formats: Sequence[str] = ("png", "pdf"),
) -> None:
    """Save `figure` as `STEM.FORMAT`, with `notes` and stamp below: png has 300 dpi, the others
    are vectors.

    `stamp` says what the figure was made from, or is empty; `title` and `caption` go into the
    files' metadata. The files have no date, so that the same figure has the same bytes.
    """
    add_footer(figure, notes, stamp)
    if _asked.get():
        check_panels(figure)
    metadata: dict[str, dict[str, str | None]] = {
        "png": {"Software": None, "Title": title, "Description": caption},
        "pdf": {"CreationDate": None, "Title": title, "Subject": caption},
        "svg": {"Date": None, "Title": title, "Description": caption},
    }
    for extension in formats:
        with whole(stem.with_name(f"{stem.name}.{extension}")) as temporary:
            figure.savefig(temporary, format=extension, dpi=_DPI, metadata=metadata[extension])
        figure.set_layout_engine("none")  # the next file keeps this layout
