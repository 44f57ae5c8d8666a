"""The dev examples that a paper's variants get most wrong, as rows of a table."""

from collections.abc import Iterator
from textwrap import shorten
from typing import Any, NamedTuple

import numpy as np

from minbert.data.parquet import read_file
from minbert.evaluate.reading import Predicted
from minbert.evaluate.scoring import Floats
from minbert.evaluate.text import one_line
from minbert.report.papers import Paper, predicted
from minbert.spec.task import TASKS
from minbert.store.job import Job

WORST = 15
"""Examples of each task."""

LONGEST = 300
"""Characters of a text that are shown; a review has thousands."""


class OverRuns(NamedTuple):
    """What runs predict: the commonest class or mean value, the mean error, how many are right.

    An error is 1 minus the probability of the label, or the distance from it; of classes without
    probabilities, as from a lean bundle, 1 if wrong. A value is right within a tenth of the labels'
    range (of STS half a point).
    """

    said: Floats
    error: Floats
    right: Floats


def over_runs(task: str, one: Predicted) -> OverRuns:
    """Return what runs predict of a task, example by example."""
    known, right = TASKS[task], one.prediction == one.label
    if known.kind == "regression":
        said, error = one.prediction.mean(axis=0), np.abs(one.prediction - one.label)
        right = error <= (known.high - known.low) / 10
    else:
        classes = range(round(known.high) + 1)
        said = np.argmax([(one.prediction == of).sum(axis=0) for of in classes], axis=0)
        of_two = np.concatenate([1 - one.scores, one.scores], axis=2)
        shares = of_two if known.kind == "binary" else one.scores
        places = one.label.astype(int)[None, :, None]
        error = 1 - np.take_along_axis(shares, places, 2)[:, :, 0] if shares.size else ~right
    return OverRuns(said.astype(float), error.mean(axis=0), right.sum(axis=0).astype(float))


def worst(job: Job, paper: Paper) -> Iterator[dict[str, Any]]:
    """Yield the examples with the largest mean error over all runs of the paper, task by task.

    Tasks without texts, as from a bundle, have none: ids alone tell nothing.
    """
    has = {of.measure for of in paper.trained}
    for task, known in TASKS.items():
        if task not in has or not (examples := job.need(f"examples.{task}")).is_file():
            continue
        one = predicted(job, paper.trained, task)
        over = over_runs(task, one)
        chosen = np.argsort(-over.error, kind="stable")[:WORST].tolist()
        wanted = {"id": [one.ids[n] for n in chosen]}
        table = read_file(examples, ("id", "sentence1", "sentence2"), wanted).to_pylist()
        texts = {row.pop("id"): [of for of in row.values() if of] for row in table}
        digits = ".2f" if known.kind == "regression" else "g"
        for n in chosen:
            label, said = one.label[n], over.said[n]
            yield {
                "texts": [
                    shorten(one_line(t), LONGEST, placeholder="…") for t in texts[one.ids[n]]
                ],
                "task": known.title,
                "label": known.names[int(label)] if known.names else f"{label:g}",
                "said": known.names[int(said)] if known.names else f"{said:{digits}}",
                "error": f"{over.error[n]:.2f}",
                "right": f"{over.right[n]:.0f} of {len(one.prediction)}",
            }
