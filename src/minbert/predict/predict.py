"""`minbert predict`: predictions of a trained variant, as JSON lines in the order of the input."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.predict.inputs import STANDARD_INPUT, from_file, from_words
from minbert.predict.resolve_run import find
from minbert.spec.task import TASKS


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
            f"minbert: '{run.variant.name}' is the best of others: {run.task} from '{stage}', "
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
    text = "".join(tqdm(lines, variant, len(items), disable=None))
    if out.is_file() or not out.exists():
        write_text(out.resolve(), text)
    else:  # a pipe or a device
        out.write_text(text, encoding="utf-8")
