"""`minbert submit`: prediction files in the format of the CS 224N default project."""

from pathlib import Path

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.base.progress import counted
from minbert.data.parquet import read_file
from minbert.predict.resolve_run import find

HEADERS = {
    "sst": "id \t Predicted_Sentiment \n",
    "para": "id \t Predicted_Is_Paraphrase \n",
    "sts": "id \t Predicted_Similiary \n",
}
"""The first line of each task's files, as the course's starter code writes and spells it."""

SPLITS = {"dev": ["dev", "selection"], "test": ["test"]}
"""If a half of dev chose the epoch, its rows have a separate split."""


def submit(
    results: Path,
    variant: str,
    *,
    seed: int | None = None,
    out: Path | None = None,
) -> str:
    """Write {sst,para,sts}-{dev,test}-output.csv of `variant`; say how many rows each has.

    Only tasks that the course asks for are written, in the order of the data, and no empty files.
    The default of `out` is `submissions/PAPER/VARIANT/seedN` in the results folder. Raises
    `UserError` for a variant that is unknown, not trained, or has none of the three tasks.
    """
    found = find(results, variant)
    tasks = [task for task in found.chosen if task in HEADERS]
    if not tasks:
        raise UserError(
            f"{found.paper}: variant '{found.name}' has {', '.join(found.chosen)}; the course asks "
            f"only for {', '.join(HEADERS)}"
        )
    said = []
    for task, run in found.runs(tasks, seed).items():
        folder = out or results / "submissions" / found.paper / found.name / f"seed{run.seed}"
        for split, names in SPLITS.items():
            where = {"task": task, "split": names}
            table = read_file(run.file("predictions.parquet"), ("id", "prediction"), where)
            # The starter code prints an int64 and two float32; in an f-string a float32 shows all
            # digits of the double: 0.1 as 0.10000000149011612.
            value = int if task == "sst" else float
            pairs = zip(*table.to_pydict().values(), strict=True)
            rows = [f"{identity} , {value(predicted)} \n" for identity, predicted in pairs]
            if rows:
                path = folder / f"{task}-{split}-output.csv"
                write_text(path, HEADERS[task] + "".join(rows))
                said.append(f"{path}: {counted(len(rows), 'row')}")
    return "\n".join(said)
