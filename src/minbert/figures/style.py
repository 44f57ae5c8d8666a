"""The look that all figures share: panels, points with intervals, heat maps, how they are saved."""

import logging
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from minbert.base.files import whole
from minbert.evaluate.seeds import Interval

SHEETS = Path(__file__).parent
COLUMN, WIDE = 3.5, 7.0  # inches: a column of a two-column paper, and both

# Not every font of the sheet is installed.
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)

Look = dict[str, Any]
"""How a series differs from the others: in colour, line and marker at once."""
LOOKS: list[Look] = [*mpl.rc_params_from_file(SHEETS / "series.mplstyle")["axes.prop_cycle"]]
FLOOR: Look = {"color": "0.35", "linestyle": ":", "linewidth": 0.9, "label": "floor", "zorder": 1}
CROSS = "not clearly above its floor"  # the label of crosses
ZERO: Look = {"color": "0.5", "linewidth": 0.8, "zorder": 1}  # where values are equal


class NothingToShow(Exception):
    """Of what a figure shows, no run or score is there yet."""


def look(index: int) -> Look:
    """Return the look of series `index`: the first 56 all differ, then they repeat."""
    return LOOKS[index % len(LOOKS)]


def style() -> AbstractContextManager[None]:
    """Use the shared style inside the block, ignoring the user's own settings."""
    return matplotlib.style.context(SHEETS / "figure.mplstyle", after_reset=True)


def panels(
    count: int,
    height: float,
    columns: int = 3,
    xlabel: str = "",
    dense: bool = False,
    **more: Any,
) -> tuple[Figure, list[Axes]]:
    """Return a figure of `count` panels, each `height` inches high, and their axes.

    A single panel is one column wide; several span both columns. The lowest have the `xlabel`.
    Those of a `dense` figure have smaller texts. `more` is for `Figure.subplots`. Raises
    `NothingToShow` if there is none.
    """
    if not count:
        raise NothingToShow
    columns = min(count, columns)
    rows = -(-count // columns)
    if dense:
        matplotlib.style.use(SHEETS / "dense.mplstyle")
    width = COLUMN if count == 1 else WIDE
    figure = Figure((width, 0.2 + rows * height), layout="constrained")
    every = figure.subplots(rows, columns, squeeze=False, **more).ravel().tolist()
    for axes in every[count:]:
        axes.remove()
    for axes in every[:count][-columns:]:
        axes.set_xlabel(xlabel)
    return figure, every[:count]


def nothing(text: str = "nothing to show yet") -> Figure:
    """Return a figure that only says that there is nothing to show."""
    figure, (axes,) = panels(1, 0.8)
    axes.text(0.5, 0.5, text, ha="center", va="center", color="0.4")
    axes.set_axis_off()
    return figure


def point(
    axes: Axes, x: float | Interval, y: float | Interval, look: Look, label: str = ""
) -> None:
    """Draw a point with the intervals of its sides: a cross, if a side has not learned its task."""
    about = {**look, "label": label, "linestyle": "none", "elinewidth": 0.9, "zorder": 3}
    for axis, side in ("x", x), ("y", y):
        one = side if isinstance(side, Interval) else Interval(side)
        about[axis] = one.mean
        if one.low is not None:
            about[f"{axis}err"] = np.abs(np.array(one[1:3], dtype=float) - one.mean)[:, None]
        if one.learned is False:
            about |= {"label": CROSS, "marker": "x"}
    axes.errorbar(**about)


def ends(shown: Iterable[Interval]) -> tuple[float, float]:
    """Return the ends of an axis: all points, and bars as far as all stay readable.

    Over two seeds an interval may be ten times as long as all points are apart.
    """
    found = np.array([one[:3] for one in shown], dtype=float)
    means = found[:, 0]
    beyond = max(0.1, np.ptp(means) / 4)  # how far bars widen an axis on each side
    kept = found.clip(means.min() - beyond, means.max() + beyond)
    low, high = np.nanmin(kept), np.nanmax(kept)
    # An axis shorter than 0.2 would make differences that are noise look large.
    room = max(0.06 * (high - low), 0.1 - (high - low) / 2)
    return low - room, high + room


def heat_map(axes: Axes, values: pd.DataFrame, words: pd.DataFrame) -> None:
    """Draw `values` between 0 and 1 as colours, with `words` in the cells.

    Text is black on light cells and white on dark ones.
    """
    image = axes.imshow(values, cmap="Blues", clim=(0, 1), aspect="auto")
    axes.grid(visible=False)
    axes.set_xticks(range(len(values.columns)), values.columns)
    axes.set_yticks(range(len(values)), values.index)
    axes.tick_params(length=0)
    # By relative luminance (ITU-R BT.709); at 0.18 black and white contrast equally.
    rgb = image.to_rgba(values.to_numpy())[:, :, :3] ** 2.2
    inks = np.where(rgb @ (0.2126, 0.7152, 0.0722) > 0.18, "black", "white")
    for (row, column), word in np.ndenumerate(words):
        ink = inks[row, column]
        axes.text(column, row, word, ha="center", va="center", color=ink, fontsize=5.5)


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
    title: str = "",
    size: tuple[float, float] | None = None,
) -> None:
    """Write the title and one legend of all labels above the figure, and `notes` below it.

    The figure grows by them, or has `size` in inches with them.
    """
    if size:
        figure.set_size_inches(size)
    legends = (axes.get_legend_handles_labels() for axes in figure.axes)
    found = {label: handle for legend in legends for handle, label in zip(*legend, strict=True)}
    if CROSS in found:  # in any series' colour
        found[CROSS] = Line2D([], [], color="0.3", marker="x", linestyle="none")
    small = mpl.rcParams["legend.fontsize"]
    room = int(figure.get_figwidth() * 72 / small / 0.61)  # characters
    labels = [shorten(label, room - 11) for label in found]
    head = figure.legend(
        [*found.values()],
        labels,
        loc="outside upper center",
        title=textwrap.fill(title, int(0.82 * room)),
        ncols=max(1, room // (11 + max(map(len, labels), default=0))),
    )
    # No line ends before a percent sign.
    kept = (textwrap.fill(of.replace(" %", "\N{NO-BREAK SPACE}%"), room) for of in notes if of)
    foot = figure.supxlabel("\n".join(kept), x=0.01, ha="left", fontsize=small, color="0.3")
    if not size:
        more = sum(each.get_window_extent().height for each in (head, foot)) / figure.dpi
        figure.set_figheight(figure.get_figheight() + more)


FORMATS = {
    "pdf": ("Subject", "CreationDate"),
    "png": ("Description", "Software"),
    "svg": ("Description", "Date"),
}
"""By format, what the caption is called, and what may differ between equal figures."""


def save(
    figure: Figure, stem: Path, title: str, caption: str, formats: Sequence[str] = ("png", "pdf")
) -> None:
    """Save `figure` as `STEM.FORMAT`: png has 300 dpi, the others are vectors.

    `title` and `caption` go into the files' metadata. The same figure has the same bytes.
    """
    for form in formats:
        told, differing = FORMATS[form]
        metadata = {"Title": title, told: caption, differing: None}
        with whole(stem.with_name(f"{stem.name}.{form}")) as temporary:
            figure.savefig(temporary, format=form, metadata=metadata)
        figure.set_layout_engine("none")  # the next file keeps this layout
