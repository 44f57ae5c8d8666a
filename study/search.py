"""The search for the study's rates and steps: train a row of each kind, and write the table.

python study/search.py train          # all settings, likeliest first; goes on where it was stopped
python study/search.py table          # study/search.csv, of what has finished

A setting is a factor on the papers' rates, a number of steps, and the schedule of rows whose grid
names none; `results/search/RATE-STEPS-SCHEDULE` has its runs.
"""

import subprocess
import sys
from itertools import product
from pathlib import Path

import pandas as pd
import yaml

import minbert
from minbert.base.errors import UserError

STUDY = Path(__file__).parent
RESULTS = STUDY.parent / "results" / "search"
SETTINGS = [
    (7.5, 800, "constant"),
    (7.5, 800, "linear"),
    (3.75, 800, "constant"),
    (7.5, 600, "constant"),
    (3.75, 600, "constant"),
    (15, 800, "constant"),
]
"""Factors on rates, steps and schedules, in the order in which they are tried."""

KINDS = {
    "minibert-unleashed/baseline": "one task after the other",
    "hybrid-bert/sequential": "constant rate",
    "hybrid-bert/1-bert": "all tasks, deep heads",
    "minbert-downstream/r2": "all tasks, linear heads",
    "adapter-fusion/full-cls": "one task",
    "adapter-fusion/adapter": "adapters",
    "adapter-fusion/adapter-fusion": "fusion",
    "minbert-downstream/r1": "heads",
}
FILES = ("workflow/overlays/minilm.yaml", "study/minilm.yaml", "study/search.yaml")
EPOCHS = 10
"""Dev scores of a run; the last tenth of a run is one of them."""


def train(only: str | None = None) -> None:
    """Train every row of `KINDS` (or one) in each of `SETTINGS`; finished runs are kept.

    One seed of all settings comes before the second.
    """
    for seeds, (rate, steps, schedule) in product(([0], [0, 100]), SETTINGS):
        folder = RESULTS / f"{rate}-{steps}-{schedule}"
        folder.mkdir(parents=True, exist_ok=True)
        scale = {
            "learning_rate": rate,
            "epochs": 1,
            "steps": {"per_epoch": steps // 20, "min": steps, "epochs": EPOCHS},
            "heads": {"learning_rate": rate, "epochs": 1},
        }
        given = {
            "results": f"results/search/{folder.name}",
            "scale": scale,
            "defaults": {"optimiser": {"schedule": {"name": schedule}}},
            "seeds": seeds,
        }
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(given | ({"only": [only]} if only else {})))
        words = ["snakemake", "all", "--cores", "2", "--configfile", *FILES]
        subprocess.run([*words, config], cwd=STUDY.parent, check=True)


def table() -> pd.DataFrame:
    """Return a line for each kind, stage, setting and task: dev scores by seed, and gains.

    `best` and `last` are means over seeds of the task's best score and of its last, `lowest` is the
    worst seed's best; `gain` is what the last tenth of the steps adds. A task that the stage only
    carries along has one score, and no line. Heads alone take all epochs, whatever the steps.
    """
    found = []
    for rate, steps, schedule in SETTINGS:
        try:
            history = minbert.open(RESULTS / f"{rate}-{steps}-{schedule}").histories()
        except UserError:  # Nothing has finished there yet.
            continue
        dev = history[(history["split"] == "dev") & history["metric"].isin(["accuracy", "pearson"])]
        for (paper, variant, stage, task), rows in dev.groupby(
            ["paper", "variant", "stage", "task"], sort=False
        ):
            by_seed = rows.pivot_table(index="epoch", columns="seed", values="value")
            if len(by_seed) < EPOCHS:
                continue
            found.append(
                {
                    "kind": KINDS[f"{paper}/{variant}"],
                    "row": f"{paper}/{variant}",
                    "stage": stage,
                    "task": task,
                    "rate": rate,
                    "steps": steps,
                    "schedule": schedule,
                    "seeds": by_seed.shape[1],
                    "best": by_seed.max().mean(),
                    "lowest": by_seed.max().min(),
                    "last": by_seed.iloc[-1].mean(),
                    "gain": (by_seed.iloc[-1] - by_seed.iloc[-2]).mean(),
                }
            )
    return pd.DataFrame(found)


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        train(*sys.argv[2:])
    else:
        made = table()
        made.to_csv(STUDY / "search.csv", index=False, float_format="%.3f")
        print(made.to_string(index=False))
