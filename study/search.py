"""The search for the study's rates and steps: train a row of each kind, and write the table.

python study/search.py train   # what the table has, in order; goes on where it was stopped
python study/search.py bundle  # into study/search/, what its bundles do not have
python study/search.py table   # study/search.csv, of what has finished

A setting is a factor on the papers' rates, a number of steps, and the schedule of rows whose grid
names none; `results/search/RATE-STEPS-SCHEDULE` has its runs, `search/RATE-STEPS-SCHEDULE*.zip` its
bundles.
"""

import argparse
import subprocess
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
import yaml

import minbert
from minbert.base.errors import UserError
from minbert.evaluate.scoring import score_task

STUDY = Path(__file__).parent
RESULTS = STUDY.parent / "results" / "search"
FILES = ("workflow/overlays/minilm.yaml", "study/study.yaml", "study/search.yaml")

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
FAILED = list(KINDS)[:3]
"""The rows that stayed at their floor in the first study."""

ENCODERS = [row for row, kind in KINDS.items() if kind not in ("adapters", "fusion", "heads")]
"""The rows that train the encoder. A lower factor is not tried for others: what is inserted into a
frozen encoder, and heads alone, train at 5 to 100 times its rate."""

LINE = ["kind", "row", "stage", "task", "rate", "schedule"]
"""What a line of the table is about."""

STEPS = 800
EPOCHS = 10
"""Dev scores of a run; the last tenth of a run is one of them."""

TRAINED = [
    (7.5, "linear", [0, 100], FAILED),
    (7.5, "constant", [0, 100], FAILED),
    (3.75, "constant", [0, 100], FAILED[:1]),
    (7.5, "constant", [0], list(KINDS)),
    (3.75, "constant", [0], ENCODERS),
]
"""Rates, schedules, seeds and rows, in the order in which they are trained."""


def train() -> None:
    """Train all of `TRAINED`; what has finished, here or in the bundles of `search`, is kept."""
    for rate, schedule, seeds, rows in TRAINED:
        folder = RESULTS / f"{rate}-{STEPS}-{schedule}"
        folder.mkdir(parents=True, exist_ok=True)
        given: dict[str, Any] = {
            "results": f"results/search/{folder.name}",
            "scale": {
                "learning_rate": rate,
                "epochs": 1,
                "steps": {"per_epoch": STEPS // 20, "min": STEPS, "epochs": EPOCHS},
                "heads": {"learning_rate": rate, "epochs": 1},
            },
            "defaults": {"optimiser": {"schedule": {"name": schedule}}},
            "seeds": seeds,
            "only": rows,
        }
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(given))
        files = ["--configfile", *FILES, str(config)]
        bundles = _bundles(folder.name)
        for bundle in bundles:
            _run("minbert", "unbundle", bundle, "--results", given["results"])
        if bundles:
            _run("minbert", "adopt", "--apply", *files)
        _run("snakemake", "all", "--cores", "2", *files)


def bundle() -> None:
    """Write a further bundle of each setting that has runs which are in none yet."""
    for folder in sorted(RESULTS.iterdir()):
        bundles = _bundles(folder.name)
        out = STUDY / "search" / f"{folder.name}-{len(bundles) + 1}.zip"
        without = ["--without", *bundles] if bundles else []
        words = ["minbert", "bundle", str(out), "--lean", "--results", str(folder), *without]
        subprocess.run(words, cwd=STUDY.parent, check=False)  # It says if there is none.


def _bundles(name: str) -> list[str]:
    return sorted(str(path) for path in (STUDY / "search").glob(f"{name}*.zip"))


def _run(*words: str) -> None:
    subprocess.run(words, cwd=STUDY.parent, check=True)


def table() -> pd.DataFrame:
    """Return a line for each kind, stage, setting and task that the stage trains.

    `best`, `last` and `at_80` are means over seeds of the task's best dev score in this stage, of
    the last, and of that after 80 % of the `steps`; `gain` is what the last tenth of them adds.
    `scored` is the mean of the row's own dev scores, after its last stage, `lowest` that of the
    worst seed, and `floor` what takes no learning. A row that names its schedule has that, once.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for rate, default in dict.fromkeys((rate, schedule) for rate, schedule, *_ in TRAINED):
        try:
            results = minbert.open(RESULTS / f"{rate}-{STEPS}-{default}")
            history, scores = _on_dev(results.histories()), _on_dev(results.scores)
            specs = results.specs().set_index(["paper", "variant", "stage"])
            predictions = results.predictions().query("split == 'dev'")
        except UserError:  # Nothing has finished there yet.
            continue
        for (paper, variant, stage, task), rows in history.groupby(
            ["paper", "variant", "stage", "task"], sort=False
        ):
            by_seed = rows.pivot_table(index="epoch", columns="seed", values="value")
            if len(by_seed) < EPOCHS:  # The stage only carries the task along.
                continue
            of = "paper == @paper and variant == @variant and task == @task"
            own = [
                score_task(task, of_seed["prediction"], of_seed["label"])
                for _, of_seed in predictions.query(of).groupby("seed")
            ]
            schedule = specs.loc[(paper, variant, stage), "optimiser.schedule.name"]
            row = f"{paper}/{variant}"
            found[KINDS[row], row, stage, task, rate, schedule] = {
                "steps": rows["step"].max(),
                "seeds": by_seed.shape[1],
                "best": by_seed.max().mean(),
                "at_80": by_seed.iloc[len(by_seed) * 4 // 5 - 1].mean(),
                "last": by_seed.iloc[-1].mean(),
                "gain": (by_seed.iloc[-1] - by_seed.iloc[-2]).mean(),
                "scored": fmean(own),
                "lowest": min(own),
                "floor": scores.query(of)["floor"].max(),
            }
    table = pd.DataFrame.from_dict(found, orient="index").rename_axis(LINE).reset_index()
    return table.round(3).replace(-0.0, 0.0)


def _on_dev(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the tasks' own metrics on dev."""
    return frame[(frame["split"] == "dev") & frame["metric"].isin(["accuracy", "pearson"])]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("train", "bundle", "table"))
    what = parser.parse_args().what
    if what == "train":
        train()
    elif what == "bundle":
        bundle()
    else:
        made = table()
        made.to_csv(STUDY / "search.csv", index=False, float_format="%.3f")
        print(made.to_string(index=False))
