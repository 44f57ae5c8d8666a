"""Which adapters a fusion attends to, layer by layer (Pfeiffer et al., 2021, Figure 4)."""

from typing import Any

import pandas as pd

from minbert.figures import style
from minbert.figures.histories import read_histories
from minbert.figures.inputs import Drawn, Inputs, task_title
from minbert.spec.figures import Options


def fusion_attention(options: Options, inputs: Inputs) -> Drawn | None:
    """Draw a panel for each fusion of the variants: its mean attention over adapters.

    A row is a sublayer, with the first layer at the bottom; a column is an adapter. A row adds up
    to 1: it is the mean over all tokens of the target's dev set, and over seeds.
    """
    cells: dict[str, dict[tuple[Any, ...], float]] = {}
    adapters = {}
    for name, label in inputs.variants.items():
        for stage in (of for of in inputs.about["stages"][name] if of["fused"]):
            recorded = read_histories(inputs.histories[name][stage["name"]])
            for (_, task, metric), curve in recorded.items():
                if metric.startswith("fusion_attention/"):
                    title = f"{label}, " * (len(inputs.variants) > 1) + task_title(task)
                    adapters[title] = [task_title(ref.partition("/")[2]) for ref in stage["fused"]]
                    _, layer, place, adapter = metric.split("/")
                    at = int(layer), place.replace("_", "-"), int(adapter)
                    # Each run has one value, at its best epoch.
                    cells.setdefault(title, {})[at] = curve.mean().mean()
    # The last layer first.
    tables = {of: pd.Series(cells[of]).unstack().sort_index(ascending=False) for of in cells}
    if not tables:
        return None
    figure, panels = style.panels(len(tables), 1.1 + 0.15 * max(map(len, tables.values())), 4)
    for axes, (title, table) in zip(panels, tables.items(), strict=True):
        words = table.map("{:.2f}".format).to_numpy().tolist()
        rows = [f"{layer} {place}" for layer, place in table.index]
        columns = [style.shorten(name, 12) for name in adapters[title]]
        style.heat_map(axes, table.to_numpy(), words, rows, columns, (0, 1), size=5.5)
        axes.tick_params(axis="y", labelsize=5.5)
        axes.tick_params(axis="x", rotation=90)
        axes.set_title(f"target:\n{style.shorten(title, 22)}", loc="right")
        axes.set_xlabel("adapter")
    panels[0].set_ylabel("layer")
    said = "Mean over the tokens of the target's dev set, and over seeds. Rows add up to 1."
    return figure, [said]
