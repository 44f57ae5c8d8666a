"""Heat maps whose cells say their number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

Values = NDArray[np.float64]


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
    """Draw `values` [rows, columns] between `limits` as colours, and `words` in their cells.

    A cell that is NaN is hatched, and says nothing unless it has a word. Letters are black on
    light cells and white on dark ones, which holds in grey as well: what counts is the luminance.
    """
    scale = Normalize(*limits)
    axes.imshow(values, cmap=colors, norm=scale, aspect="auto")
    axes.grid(visible=False)
    axes.set_xticks(range(len(columns)), list(columns))
    axes.set_yticks(range(len(rows)), list(rows))
    axes.tick_params(length=0)
    for (row, column), value in np.ndenumerate(values):
        if np.isnan(value):
            corner = (column - 0.5, row - 0.5)
            axes.add_patch(
                Rectangle(corner, 1, 1, facecolor="0.97", edgecolor="0.8", hatch="////", lw=0)
            )
        ink = _ink(colors, 0.0 if np.isnan(value) else float(scale(value)), np.isnan(value))
        said = words[row][column]
        axes.text(column, row, said, fontsize=size, ha="center", va="center", color=ink)


def _ink(colors: str, place: float, empty: bool) -> str:
    if empty:
        return "black"
    red, green, blue, _ = colormaps[colors](place)
    # Relative luminance (ITU-R BT.709); black and white contrast alike where it is about 0.18.
    luminance = 0.2126 * _linear(red) + 0.7152 * _linear(green) + 0.0722 * _linear(blue)
    return "black" if luminance > 0.18 else "white"


def _linear(share: float) -> float:
    """Return the light of a colour's share as a screen shows it (sRGB)."""
    return share / 12.92 if share <= 0.04045 else float(((share + 0.055) / 1.055) ** 2.4)
