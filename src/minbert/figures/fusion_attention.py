"""Which adapters a fusion attends to, layer by layer (Pfeiffer et al., 2021, Figure 4)."""

import pandas as pd

from minbert.figures import style
from minbert.figures.read import Drawn, Inputs, task_title
from minbert.spec.figures import Options


def fusion_attention(options: Options, inputs: Inputs) -> Drawn:
    """Draw a panel for each fusion of the variants: its mean attention over adapters.

    A row is a sublayer, with the first layer at the bottom; a column is an adapter. A row is the
    mean attention over all tokens of the target's dev set, and over seeds, and adds up to 1.
    """
    tables: dict[tuple[str, str], pd.DataFrame] = {}
    adapters = {}
    for name, label in inputs.variants.items():
        for stage in (of for of in inputs.about["stages"][name] if of["fused"]):
            # Layers and adapters are in their order; each run has one value, at its best epoch.
            recorded = inputs.curves(stage)
            for (_, task, metric), curve in recorded.items():
                if metric.startswith("fusion_attention/"):
                    of = label, task_title(task)
                    adapters[of] = [task_title(ref.partition("/")[2]) for ref in stage["fused"]]
                    _, layer, place, adapter = metric.split("/")
                    table = tables.setdefault(of, pd.DataFrame())
                    table.loc[f"{layer} {place.replace('_', '-')}", adapter] = curve.mean().mean()
    if not tables:
        return None
    figure, panels = style.panels(len(tables), 1.1 + 0.15 * max(map(len, tables.values())), 4)
    for axes, (of, upwards) in zip(panels, tables.items(), strict=True):
        label, target = of
        table = upwards[::-1].set_axis([style.shorten(at, 12) for at in adapters[of]], axis=1)
        style.heat_map(axes, table, table.map("{:.2f}".format))
        axes.tick_params(axis="y", labelsize=5.5)
        axes.tick_params(axis="x", rotation=90)
        axes.set_title(f"{style.shorten(label, 22)}\ntarget: {target}", loc="right")
        axes.set_xlabel("adapter")
    panels[0].set_ylabel("layer")
    said = "Mean over the tokens of the target's dev set, and over seeds. Rows add up to 1."
    return figure, [said]
