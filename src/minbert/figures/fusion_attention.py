"""Which adapters a fusion attends to, layer by layer (Pfeiffer et al., 2021, Figure 4)."""

import pandas as pd

from minbert.figures import style
from minbert.figures.histories import Curves, read_histories, seeds_of
from minbert.figures.inputs import Drawn, Inputs, OfSeeds, mean_of, missing_notes, task_title
from minbert.spec.figures import Options


def fusion_attention(_: Options, inputs: Inputs) -> Drawn:
    """Draw a panel for each fusion of the variants: its mean attention over adapters.

    A row is a sublayer, with the first layer at the bottom; a column is an adapter. A row adds up
    to 1: it is the mean over all tokens of the target's dev set, and over seeds.
    """
    failed: set[str] = set()
    files: dict[str, OfSeeds] = {}
    found: dict[str, Curves] = {}
    tables: dict[str, pd.DataFrame] = {}
    for name, label in inputs.variants.items():
        for stage in (of for of in inputs.about["stages"][name] if of["fused"]):
            adapters = [task_title(ref.partition("/")[2]) for ref in stage["fused"]]
            for task in (task for task, of in stage["spec"]["tasks"].items() if of["trained"]):
                title = f"{label}, " * (len(inputs.variants) > 1) + task_title(task)
                failed |= {title} if name in inputs.failed else set()
                files[title] = inputs.histories[name][stage["name"]]
                if recorded := read_histories(files[title]):
                    found[title], tables[title] = recorded, _weights(recorded, task, adapters)
    notes = missing_notes({title: title for title in files}, files, failed)
    if not found:
        return style.nothing("no attention yet"), notes
    figure, panels = style.panels(len(found), 1.1 + 0.15 * max(map(len, tables.values())), 4)
    for axes, (title, table) in zip(panels, tables.items(), strict=True):
        words = table.map("{:.2f}".format).to_numpy().tolist()
        names = [style.shorten(name, 12) for name in table.columns]
        style.heat_map(axes, table.to_numpy(), words, [*table.index], names, (0, 1), size=5.5)
        axes.tick_params(axis="y", labelsize=5.5)
        axes.tick_params(axis="x", rotation=90)
        axes.set_title(f"target:\n{style.shorten(title, 22)}", loc="right")
        axes.set_xlabel("adapter")
    panels[0].set_ylabel("layer")
    even = " or ".join(sorted({f"{1 / len(table.columns):.2f}" for table in tables.values()}))
    said = f"Mean over the tokens of the target's dev set, {mean_of(seeds_of(found))}."
    return figure, [f"{said} Rows add up to 1. Uniform attention: {even}.", *notes]


def _weights(recorded: Curves, task: str, adapters: list[str]) -> pd.DataFrame:
    """Return the mean weights of the runs [sublayers, adapters], the last layer first."""
    cells = {}
    for (_, of, metric), curve in recorded.items():
        if of == task and metric.startswith("fusion_attention/"):
            _, layer, place, adapter = metric.split("/")
            # Each run has one value, at its best epoch.
            cells[int(layer), place.replace("_", "-"), int(adapter)] = curve.mean().mean()
    table = pd.Series(cells).unstack().sort_index(ascending=False)
    table.index = pd.Index(f"{layer} {place}" for layer, place in table.index)
    return table.set_axis(adapters, axis="columns")
