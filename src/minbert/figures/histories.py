"""What runs recorded over their epochs: read from histories, as curves over seeds."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from minbert.data.parquet import read_file
from minbert.figures.inputs import Inputs, OfSeeds, present
from minbert.spec.task import TASKS

_COLUMNS = ("step", "epoch", "split", "task", "metric", "value")

Curves = dict[tuple[str, str, str], pd.DataFrame]
"""The curves of a stage's runs, by split, task and metric.

A curve has a column for each seed, and a row for each point at which one has a value, by epochs:
0.25 is after a quarter of the first one.
"""


def read_histories(of_seeds: OfSeeds) -> Curves:
    """Return the curves of the seeds whose files exist."""
    frames = []
    for seed, path in present(of_seeds).items():
        table = read_file(path, _COLUMNS)
        frame = pd.DataFrame({name: table[name].to_numpy() for name in _COLUMNS}).assign(seed=seed)
        # All epochs have as many steps, and dev is scored after the last.
        frame["epoch"] = frame["step"] / (frame["step"].max() / frame["epoch"].max())
        frames.append(frame)
    if not frames:
        return {}
    groups: Any = pd.concat(frames).groupby(["split", "task", "metric"], sort=False)
    return {of: rows.pivot(index="epoch", columns="seed", values="value") for of, rows in groups}


def last_stages(inputs: Inputs) -> dict[str, Curves]:
    """Return the curves of each variant's last stage, if it has any."""
    files = {name: [*inputs.histories[name].values()][-1] for name in inputs.variants}
    return {name: curves for name in files if (curves := read_histories(files[name]))}


def dev_measures(inputs: Inputs, found: Mapping[str, Curves]) -> list[tuple[str, str]]:
    """Return (task, metric) of the dev scores that the runs have: overall first, by the rule."""
    known = [("overall", inputs.about["rule"]), *((t, of.metric) for t, of in TASKS.items())]
    return [of for of in known if any(("dev", *of) in curves for curves in found.values())]
