"""`minbert predict` and `minbert submit`: what a trained variant predicts.

That is of new sentences, as JSON lines in the order of the input; and of dev and test, as files in
the format of the CS 224N default project.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from minbert.base.errors import UserError
from minbert.base.files import whole, write_text
from minbert.base.progress import counted
from minbert.data.parquet import read_file
from minbert.predict.inputs import STANDARD_INPUT, from_file, from_words
from minbert.predict.resolve_run import find
from minbert.spec.task import TASKS

HEADERS = {
    "sst": "id \t Predicted_Sentiment \n",
    "para": "id \t Predicted_Is_Paraphrase \n",
    "sts": "id \t Predicted_Similiary \n",
}
"""The first line of each task's files, as the course's starter code writes and spells it."""

SPLITS = {"dev": ["dev", "selection"], "test": ["test"]}
"""If a half of dev chose the epoch, its rows have a separate split."""


def predict(
    results: Path,
    variant: str,
    *,
    task: str | None = None,
    seed: int | None = None,
    sentences: Sequence[str] = (),
    source: Path | None = None,
    form: str | None = None,
    out: Path | None = None,
    device: str = "auto",
) -> None:
    """Predict `sentences`, or those of the file `source` (default: standard input).

    Writes one JSON object per line to `out` or to standard output: the example's id, sentence1 and
    sentence2 as far as given, then task, prediction, label (if the class has a name), and
    `probabilities` of the classes or `score`.
    Raises `UserError` before anything is written for an unknown variant or task, missing weights,
    and an example that does not suit the task.
    """
    run = find(results, variant).run(task, seed)
    if (source and sentences) or not (source or sentences or not sys.stdin.isatty()):
        raise UserError(
            "give sentences in one way: after the variant, in a file (--in FILE), or through a pipe"
        )
    if sentences:
        items = from_words(sentences, TASKS[run.task])
    else:
        items = from_file(source or STANDARD_INPUT, form, TASKS[run.task])
    stage = next(name for name, key in run.variant.stages.items() if key == run.key)
    if "/" in stage:
        print(
            f"minbert: '{run.variant.name}' is the best of several: {run.task} from '{stage}', "
            f"seed {run.seed} ({run.key})",
            file=sys.stderr,
        )
    # Only once everything is checked: importing torch takes seconds.
    from tqdm import tqdm

    from minbert.predict.predictor import Predictor

    rows = Predictor.of(run, device).rows(items)
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if out is None:
        sys.stdout.writelines(lines)
        return
    # A pipe or a device is written into.
    place = nullcontext(out) if out.exists() and not out.is_file() else whole(out.resolve())
    with place as path, path.open("w", encoding="utf-8") as stream:
        stream.writelines(tqdm(lines, variant, len(items), disable=None))


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
