"""`minbert submit`: prediction files in the format of the CS 224N default project."""

import math
import sys
from pathlib import Path

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.predict.output import written
from minbert.predict.resolve_run import Run, find

HEADERS = {
    "sst": "id \t Predicted_Sentiment \n",
    "para": "id \t Predicted_Is_Paraphrase \n",
    "sts": "id \t Predicted_Similiary \n",
}
"""The first line of each task's files, as the course's starter code writes and spells it."""


def submit(
    results: Path,
    variant: str,
    *,
    seed: int | None = None,
    out: Path | None = None,
) -> dict[Path, int]:
    """Write {sst,para,sts}-{dev,test}-output.csv of `variant`; return {path: rows}.

    Only tasks that the course asks for are written, in the order of the data. The default of
    `out` is `submissions/PAPER/VARIANT/seedN` in the results folder. Nothing is written unless all
    files are valid. Raises `UserError` for a variant that is unknown, not trained, or has none of
    the three tasks.
    """
    found = find(results, variant)
    tasks = [task for task in found.tasks if task in HEADERS]
    said = f"the course asks only for {', '.join(HEADERS)}"
    if not tasks:
        have = f"{found.paper}: variant '{found.name}' has {', '.join(found.tasks)}"
        raise UserError(f"{have}, but {said}")
    if others := [task for task in found.tasks if task not in tasks]:
        print(f"minbert: left out {', '.join(others)}: {said}", file=sys.stderr)
    runs = found.runs(tasks, seed)
    used = runs[tasks[0]].seed
    folder = out or results / "submissions" / found.paper / found.name / f"seed{used}"
    files = {}
    for task, run in runs.items():
        for split in ("dev", "test"):
            if rows := _rows(run, split):
                files[folder / f"{task}-{split}-output.csv"] = [HEADERS[task], *rows]
            else:
                print(f"minbert: {task} has no {split} examples, so no file", file=sys.stderr)
    for path, lines in files.items():
        with written(path) as file:
            file.writelines(lines)
    return {path: len(lines) - 1 for path, lines in files.items()}


def _rows(run: Run, split: str) -> list[str]:
    path = run.file("predictions.parquet")
    # If a half of dev chose the epoch, its rows have a split of their own.
    splits = [split, "selection"] if split == "dev" else [split]
    wanted = {"task": run.task, "split": splits}
    table = read_file(path, ("id", "prediction"), wanted)
    # The starter code prints an int64 and two float32; in an f-string a float32 shows all digits
    # of the double: 0.1 as 0.10000000149011612.
    value = int if run.task == "sst" else float
    rows = []
    for identity, predicted in zip(*table.to_pydict().values(), strict=True):
        if predicted is None or not math.isfinite(predicted):
            raise UserError(
                f"{path}: the prediction of '{identity}' ({run.task}, {split}) is {predicted}, "
                "expected a number; train the run again, or choose another seed"
            )
        rows.append(f"{identity} , {value(predicted)} \n")
    return rows
