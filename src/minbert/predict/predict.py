"""`minbert predict`: sentences through a trained variant, as JSON lines in input order."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from minbert.common.errors import UserError
from minbert.common.files import whole
from minbert.grid.tasks import TASKS
from minbert.predict.inputs import Item, from_bytes, from_words, guess_format
from minbert.predict.labels import class_name
from minbert.predict.lookup import Run, choose_task, find

if TYPE_CHECKING:
    from minbert.predict.predictor import Predictor

CHUNK = 2048
"""Examples that are predicted, and written, at a time."""


def predict(
    root: Path,
    variant: str,
    *,
    paper: str | None = None,
    task: str | None = None,
    seed: int | None = None,
    sentences: Sequence[str] = (),
    source: str | None = None,
    form: str | None = None,
    out: Path | None = None,
    device: str = "auto",
) -> None:
    """Predict `sentences`, or those of the file `source` (`-`, or None: standard input).

    One JSON object a line goes to `out` (whole or not at all) or to standard output (a chunk of
    2,048 at a time): what the input had of id, sentence1 and sentence2, then task, prediction,
    label (the name of a class, if it has one), and `probabilities` of the classes or `score`.
    Raises `UserError` before anything is written for an unknown variant or task, weights that are
    not there, and any example that is not one of the task.
    """
    found = find(root, variant, paper)
    chosen = choose_task(found, task)
    run = found.runs([chosen], seed)[chosen]
    run.file("model.safetensors")
    items = _read(chosen, sentences, source, form)
    if found.wanted is None:
        owner = found.owners.get(run.key) or run.job.described["owner"]["variant"]
        print(
            f"minbert: '{found.name}' is the best of others: {chosen} by '{owner}', seed "
            f"{run.seed} ({run.key})",
            file=sys.stderr,
        )
    # Not before all is known to be well: torch takes seconds.
    from minbert.predict.predictor import Predictor

    predictor = Predictor(run, device)
    with _output(out) as stream:
        for lines in _chunks(predictor, run, items, quiet=out is None and sys.stdout.isatty()):
            stream.write(lines)
            stream.flush()


def _read(task: str, sentences: Sequence[str], source: str | None, form: str | None) -> list[Item]:
    if sentences:
        if source is not None:
            raise UserError(f"found sentences on the command line and --in {source}; give one")
        return from_words(sentences, TASKS[task])
    if source is None and sys.stdin.isatty():
        raise UserError(
            "no sentences: give them after the variant, in a file (--in FILE), or through a pipe"
        )
    if source in (None, "-"):
        content = sys.stdin.buffer.read()
        return from_bytes(content, "standard input", form or "text", TASKS[task])
    path = Path(str(source))
    form = form or guess_format(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    return from_bytes(content, str(path), form, TASKS[task])


@contextmanager
def _output(out: Path | None) -> Iterator[TextIO]:
    if out is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # JSON is UTF-8, whatever the terminal's locale.
            sys.stdout.reconfigure(encoding="utf-8")
        yield sys.stdout
        return
    try:
        with whole(out) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            yield file
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}") from None


def _chunks(predictor: Predictor, run: Run, items: list[Item], quiet: bool) -> Iterator[str]:
    """Yield the lines of each chunk; on long inputs tell standard error how far it is."""
    from tqdm import tqdm

    bar = tqdm(
        total=len(items),
        desc=f"{run.variant} {run.task}",
        unit=" examples",
        disable=quiet or len(items) <= CHUNK,
        # In a log every refresh is a line more.
        mininterval=0.1 if sys.stderr.isatty() else 30.0,
    )
    with bar:
        for start in range(0, len(items), CHUNK):
            chunk = items[start : start + CHUNK]
            made = predictor([i.sentence1 for i in chunk], [i.sentence2 for i in chunk])
            pairs = zip(chunk, made.prediction, made.scores, strict=True)
            yield "".join(_line(run, *pair) for pair in pairs)
            bar.update(len(chunk))


def _line(run: Run, item: Item, prediction: np.floating[Any], scores: np.ndarray) -> str:
    if not np.isfinite(prediction) or not np.isfinite(scores).all():
        raise UserError(
            f"{item.where}: variant '{run.variant}' gives no finite number for it; its training "
            "diverged: choose another seed or variant"
        )
    kind = TASKS[run.task].kind
    given = {"id": item.id, "sentence1": item.sentence1, "sentence2": item.sentence2}
    row: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    row["task"] = run.task
    row["prediction"] = _number(prediction) if kind == "regression" else int(prediction)
    if kind != "regression":
        label = class_name(run.task, int(prediction))
        row |= {} if label is None else {"label": label}
    values = [_number(score) for score in scores]
    row |= {"probabilities": values} if kind == "classification" else {"score": values[0]}
    return json.dumps(row, ensure_ascii=False) + "\n"


def _number(value: np.floating[Any]) -> float:
    """Return the shortest decimal that reads back as the same float32."""
    return float(str(np.float32(value)))
