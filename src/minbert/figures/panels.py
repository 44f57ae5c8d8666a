"""Panels of curves over epochs, or over layers."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minbert.figures import style
from minbert.figures.histories import Curve, running_mean
from minbert.figures.inputs import mean_of

DEV, TRAIN = style.LOOKS[0], style.LOOKS[1]
_POINTS = 400  # of a line at most: more would only make the PDF large


class Line(NamedTuple):
    """A line of a panel: mean and band over seeds, smoothed over a `window` of epochs.

    A `faint` line also has its raw mean. A `thin` one has neither marker nor band.
    """

    curve: Curve | None
    look: style.Look
    label: str = ""
    window: float = 0.0
    faint: bool = False
    thin: bool = False


class Panel(NamedTuple):
    """Curves over epochs or, if there are `ticks`, over layers; those of one `scale` share it."""

    title: str
    lines: Sequence[Line]
    ylabel: str = ""
    floors: Sequence[float] = ()
    scale: Any = None
    zero: bool = False
    ticks: Sequence[str] = ()

    @property
    def xlabel(self) -> str:
        """What the panel is over."""
        return "Layer (E: embeddings, P: pooler)" if self.ticks else "Epoch"


def draw(panels: Sequence[Panel | None], columns: int, height: float) -> Figure:
    """Return a figure of panels in rows, each `height` inches high; those without curves say so."""
    across = {6: 22, 4: 24}.get(columns, 36)  # characters of a title
    figure, every = style.panels(len(panels), height, columns, dense=columns > 3)
    first: dict[Any, Axes] = {}
    for n, (axes, panel) in enumerate(zip(every, panels, strict=True)):
        title = panel.title if panel else ""
        axes.set_title("\n".join(style.shorten(line, across) for line in title.splitlines()))
        if not panel or not any(line.curve for line in panel.lines):
            axes.text(0.5, 0.5, "no run" * bool(panel), transform=axes.transAxes, ha="center")
            axes.set_axis_off()
            continue
        if panel.scale is not None and first.setdefault(panel.scale, axes) is not axes:
            axes.sharey(first[panel.scale])
        _draw_panel(axes, panel)
        below = panels[n + columns] if n + columns < len(panels) else None
        left = panels[n - 1] if n % columns else None
        if not below or below.xlabel != panel.xlabel:
            axes.set_xlabel(panel.xlabel)
        if not left or left.ylabel != panel.ylabel:
            axes.set_ylabel(panel.ylabel)
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    for line in panel.lines:
        if line.curve is not None:
            _draw_curve(axes, line, line.curve)
    for at in panel.floors:
        axes.axhline(at, **style.FLOOR)
    if panel.zero:
        axes.axhline(0, **style.ZERO)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.margins(x=0.03)
    if panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), panel.ticks)
    else:
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))


def _draw_curve(axes: Axes, line: Line, curve: Curve) -> None:
    color, linestyle, marker = line.look.values()
    epochs, smooth = curve.epochs, running_mean(curve.epochs, curve.values, line.window)
    if line.faint and line.window:
        raw = curve.values.mean(axis=0)
        axes.plot(epochs, raw, color=color, linewidth=0.4, alpha=0.25, zorder=1)
    shown = np.linspace(0, len(epochs) - 1, min(len(epochs), _POINTS)).round().astype(int)
    epochs, smooth, mean = epochs[shown], smooth[:, shown], smooth.mean(axis=0)[shown]
    if line.thin:
        axes.plot(epochs, mean, color=color, linewidth=0.6, zorder=2)
        return
    if len(smooth) > 1:
        ends = smooth.min(axis=0), smooth.max(axis=0)
        axes.fill_between(epochs, *ends, color=color, alpha=0.2, linewidth=0, zorder=2)
    about: dict[str, Any] = {"linestyle": linestyle, "marker": marker, "zorder": 3}
    every = max(1, len(shown) // 8)
    axes.plot(epochs, mean, color=color, label=line.label, markevery=every, **about)


def lines_note(counts: Iterable[int], smoothed: str = "") -> str:
    """Return the note on lines and bands over so many seeds."""
    line = mean_of(counts)
    band = "" if line == "1 seed" else " Bands: smallest to largest seed."
    return f"Lines: {line}{smoothed}.{band}"


def smoothed_note(lines: Iterable[Line], window: float, where: str) -> str:
    """Return the note on lines smoothed over `window` epochs, if that is more than none."""
    said = f", running mean over {window:.2g} epoch{'s' * (f'{window:.2g}' != '1')} ({where})"
    return lines_note((len(of.curve.values) for of in lines if of.curve), said * bool(window))
