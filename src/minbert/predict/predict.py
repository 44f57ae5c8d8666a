"""`minbert predict`: predictions of a trained variant, as JSON lines in the order of the input."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minbert.base.errors import UserError
from minbert.predict.inputs import Item, from_bytes, from_words, guess_format
from minbert.predict.output import written
from minbert.predict.resolve_run import Run, find
from minbert.spec.task import TASKS

if TYPE_CHECKING:
    from minbert.predict.predictor import Predictor, Source

CHUNK = 2048
"""Examples that are predicted and written at a time."""


def predict(
    results: Path,
    variant: str,
    *,
    task: str | None = None,
    seed: int | None = None,
    sentences: Sequence[str] = (),
    source: str | None = None,
    form: str | None = None,
    out: Path | None = None,
    device: str = "auto",
) -> None:
    """Predict `sentences`, or those of the file `source` (`-` or None: standard input).

    Writes one JSON object per line to `out` (`written`) or to standard output, in chunks: the
    example's id, sentence1 and sentence2 as far as given, then task, prediction, label (if the
    class has a name), and `probabilities` of the classes or `score`.
    Raises `UserError` before anything is written for an unknown variant or task, missing weights,
    and an example that does not suit the task.
    """
    found = find(results, variant)
    chosen = found.choose_task(task)
    run = found.runs([chosen], seed)[chosen]
    run.file("model.safetensors")
    items = _read(chosen, sentences, source, form)
    if found.wanted is None:
        stage = next(name for name, key in found.stages.items() if key == run.key)
        print(
            f"minbert: '{found.name}' is the best of others: {chosen} from '{stage}', seed "
            f"{run.seed} ({run.key})",
            file=sys.stderr,
        )
    # Only once everything is checked: importing torch takes seconds.
    from tqdm import tqdm

    from minbert.predict.predictor import Predictor, source_of

    chunks = predicted(Predictor(source_of(run), device), run, items)
    total = math.ceil(len(items) / CHUNK)
    quiet = total == 1 or (out is None and sys.stdout.isatty())
    with nullcontext(sys.stdout) if out is None else written(out) as stream:
        for rows in tqdm(chunks, f"{variant} {chosen}", total, unit="chunk", disable=quiet):
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            stream.flush()


def _read(task: str, sentences: Sequence[str], source: str | None, form: str | None) -> list[Item]:
    if sentences and source is None:
        return from_words(sentences, TASKS[task])
    if sentences or (source is None and sys.stdin.isatty()):
        raise UserError(
            "give sentences after the variant, or in a file (--in FILE), or by a pipe: one of them"
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


def predicted(
    predictor: Predictor, run: Run | Source, items: Sequence[Item]
) -> Iterator[list[dict[str, Any]]]:
    """Yield what is told of each example, `CHUNK` at a time (docs/predicting.md).

    Raises `UserError` if the model predicts no finite number.
    """
    for start in range(0, len(items), CHUNK):
        chunk = items[start : start + CHUNK]
        made = predictor([i.sentence1 for i in chunk], [i.sentence2 for i in chunk])
        yield [_row(run, *each) for each in zip(chunk, *made, strict=True)]


def _row(
    run: Run | Source, item: Item, prediction: np.floating[Any], scores: np.ndarray
) -> dict[str, Any]:
    if not np.isfinite([prediction, *scores]).all():
        raise UserError(
            f"{item.where}: variant '{run.variant}' predicts no finite number; its training "
            "diverged: choose another seed or variant"
        )
    task = TASKS[run.task]
    found = {name: value for name, value in item._asdict().items() if value is not None}
    del found["where"]
    found["task"] = task.name
    found["prediction"] = _number(prediction) if task.kind == "regression" else int(prediction)
    if task.names:
        found["label"] = task.names[int(prediction)]
    if task.kind == "classification":
        return found | {"probabilities": [_number(score) for score in scores]}
    return found | {"score": _number(scores[0])}


def _number(value: np.floating[Any]) -> float:
    return float(str(np.float32(value)))  # the shortest decimal that is the same float32
