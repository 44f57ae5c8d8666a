"""The look that all figures share: panels, points with intervals, heat maps, how they are saved."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from minbert.base.files import whole
from minbert.evaluate.statistics import Interval
from minbert.figures.inputs import Values

SHEET, DENSE, SERIES = (
    Path(__file__).with_name(f"{name}.mplstyle") for name in ("figure", "dense", "series")
)
COLUMN, WIDE = 3.5, 7.0  # inches: a column of a two-column paper, and both
CROSS = "not above its floor"

# Of widespread fonts for scripts that matplotlib's own lacks, those that are installed are used.
_SCRIPTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "Droid Sans Fallback")

Look = dict[str, Any]
"""How a series differs from the others: in colour, line and marker at once."""
LOOKS: tuple[Look, ...] = tuple(mpl.rc_params_from_file(SERIES)["axes.prop_cycle"])
FLOOR: Look = {"color": "0.35", "linestyle": ":", "linewidth": 0.9, "label": "floor", "zorder": 1}
THIN: Look = {"color": "0.4", "linewidth": 0.6}
ZERO: Look = {"color": "0.5", "linewidth": 0.8, "zorder": 1}  # where values are equal


def look(index: int) -> Look:
    """Return the look of series `index`: the first 49 all differ, then they repeat."""
    other = LOOKS[(index + index // len(LOOKS)) % len(LOOKS)]
    return other | {"color": LOOKS[index % len(LOOKS)]["color"]}


@contextmanager
def style() -> Iterator[None]:
    """Use the shared style inside the block, ignoring the user's own settings."""
    installed = {font.name for font in fontManager.ttflist}
    with matplotlib.style.context(SHEET, after_reset=True):
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
        matplotlib.style.use(DENSE)
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
    about = {**look, "linestyle": "none", "label": label, "elinewidth": 0.9, "zorder": 3, **more}
    found = list(shown)
    for learned, marked in ((True, about), (False, about | {"label": CROSS, "marker": "x"})):
        part = [(at, one) for at, one in found if (one.learned is not False) == learned]
        places, means = [at for at, _ in part], [one.mean for _, one in part]
        x, y, reach = (means, places, "xerr") if across else (places, means, "yerr")
        if part:
            axes.errorbar(x, y, **{reach: bars(one for _, one in part), **marked})


def _limits(intervals: Iterable[Interval]) -> Values:
    """Return mean, low and high [3, intervals]; NaN for an end that is not known."""
    return np.array([one[:3] for one in intervals], dtype=float).T


def bars(intervals: Iterable[Interval]) -> Values:
    """Return how far each interval reaches below and above its mean; 0 without an interval."""
    mean, low, high = _limits(intervals)
    return np.nan_to_num(np.maximum([mean - low, high - mean], 0.0))


_BEYOND, _LEAST = 0.25, 0.1  # how far bars widen an axis on each side: of the points' span, least
_SPAN = 0.2  # of scores: a shorter axis would make differences that are noise look large


def ends(shown: Iterable[Interval], lines: Iterable[float] = ()) -> tuple[float, float]:
    """Return the ends of an axis: all points and `lines`, and the bars as far as that leaves them
    readable.

    Over two seeds an interval may be ten times as long as all points are apart.
    """
    values = _limits([*shown, *map(Interval, lines)])
    beyond = max(_LEAST, _BEYOND * np.ptp(values[0]))
    low = max(np.nanmin(values), values[0].min() - beyond)
    high = min(np.nanmax(values), values[0].max() + beyond)
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
    image = axes.imshow(values, cmap=colors, vmin=limits[0], vmax=limits[1], aspect="auto")
    axes.patch.set(facecolor="0.97", edgecolor="0.8", hatch="////", linewidth=0)
    axes.grid(visible=False)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    for row, column in np.ndindex(values.shape if words else (0, 0)):
        # By relative luminance (ITU-R BT.709); at 0.18 black and white contrast equally.
        rgb = np.array(image.to_rgba(values[row, column])[:3]) ** 2.2
        color = "black" if rgb @ (0.2126, 0.7152, 0.0722) > 0.18 else "white"
        about: Look = {"ha": "center", "va": "center", "fontsize": size, "color": color}
        axes.text(column, row, words[row][column], **about)


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
    large, small = mpl.rcParams["legend.title_fontsize"], mpl.rcParams["legend.fontsize"]
    room = width * 72 / small  # in units of the font size
    labels = [shorten(label, int(room / 0.6) - 7) for label in found]
    head = figure.legend(
        list(found.values()),
        labels,
        loc="outside upper center",
        title=textwrap.fill(title, int(width * 72 / large / 0.61)),
        ncols=max(1, int(room / (7 + 0.56 * max(map(len, labels), default=0)))),
    )
    lines = [*(note.replace(" %", "\N{NO-BREAK SPACE}%") for note in notes), stamp]
    text = "\n".join(textwrap.fill(line, int(room / 0.61)) for line in lines if line)
    foot = figure.supxlabel(text, x=0.01, ha="left", fontsize=small, color="0.3")
    if not size:
        more = sum(each.get_window_extent().height for each in (head, foot)) / figure.dpi
        figure.set_figheight(height + more)


_METADATA = {
    **{"png": ("Description", "Software"), "pdf": ("Subject", "CreationDate")},
    "svg": ("Description", "Date"),
}
"""By format: the names of the caption, and of what would differ between equal figures."""


def save(
    figure: Figure, stem: Path, title: str, caption: str, formats: Sequence[str] = ("png", "pdf")
) -> None:
    """Save `figure` as `STEM.FORMAT`: png has 300 dpi, the others are vectors.

    `title` and `caption` go into the files' metadata. The same figure has the same bytes.
    """
    for form in formats:
        caption_name, differing = _METADATA[form]
        metadata = {"Title": title, caption_name: caption, differing: None}
        with whole(stem.with_name(f"{stem.name}.{form}")) as temporary:
            figure.savefig(temporary, format=form, metadata=metadata)
        figure.set_layout_engine("none")  # the next file keeps this layout
