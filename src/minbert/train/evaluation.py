"""Dev scores after each epoch, and the predictions of the best and the last one."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from minbert.train.history import History
from minbert.train.selection import dev_masks
from minbert.train.trainable import TrainableModel

PREDICTIONS = pa.schema(
    {
        "id": pa.string(),
        "task": pa.string(),
        "split": pa.string(),
        "prediction": pa.float64(),
        "scores": pa.list_(pa.float32()),
        "label": pa.float64(),
        "last": pa.float64(),
    }
)

Outputs = Mapping[str, Tensor]
"""A model's outputs of dev, by task."""


def masks(model: TrainableModel, task: str) -> dict[str, np.ndarray]:
    """Return which dev examples of `task` are reported on, and which choose (`dev_masks`)."""
    return dev_masks(model.examples[task]["dev"].ids, model.module.spec.selection_split)


def score_dev(
    model: TrainableModel, history: History, outputs: Outputs
) -> dict[str, dict[str, float]]:
    """Log and return the scores by task of the dev `outputs` of all trained tasks.

    They are by split: `dev` and, if a half of it chooses the epoch, `selection`. The last choose.
    """
    found: dict[str, dict[str, float]] = {}
    for split in masks(model, next(iter(outputs))):
        scores = found[split] = {}
        for task, whole in outputs.items():
            of_task, rows = model.losses[task], torch.from_numpy(masks(model, task)[split])
            output, labels = whole[rows], model.examples[task]["dev"].labels[rows]
            history.log(split, task, "loss", of_task.loss(output, labels).item())
            prediction = of_task.prediction(output).cpu()
            scores[task] = history.log_score(split, task, prediction, labels.cpu())
        history.log_overall(split, scores)
    return found


def predictions(model: TrainableModel, last: Outputs) -> pa.Table:
    """Return the rows of `predictions.parquet`, those of a model with the best epoch's weights.

    The column `last` is dev's prediction after the last epoch, from its outputs `last`: null for
    other splits and tasks that are not trained. `split` is `selection` for dev examples that chose
    the epoch, if a half did.
    """
    tables = []
    for split in ("dev", "test"):
        for task in model.module.spec.ordered_tasks:
            examples, of_task = model.examples[task][split], model.losses[task]
            if not len(examples):
                continue
            output = model.outputs(task, split)
            splits = np.full(len(examples), split, dtype=object)
            before = torch.full_like(examples.labels, torch.nan)
            if split == "dev":
                for name, mask in masks(model, task).items():
                    splits[mask] = name
                if task in last:
                    before = of_task.prediction(last[task])
            columns = {
                "id": examples.ids,
                "task": [task] * len(examples),
                "split": splits,
                "prediction": _numbers(of_task.prediction(output)),
                "scores": list(of_task.scores(output).cpu().numpy()),
                "label": pa.array(_numbers(examples.labels), from_pandas=True),  # NaN is null.
                "last": pa.array(_numbers(before), from_pandas=True),
            }
            tables.append(pa.table(columns, schema=PREDICTIONS))
    return pa.concat_tables(tables)


def _numbers(values: Tensor) -> np.ndarray:
    return values.cpu().numpy().astype(np.float64)
