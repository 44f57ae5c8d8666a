"""Dev scores after each epoch, and the predictions of the best and the last one."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from minbert.spec.stage import SelectionSplit
from minbert.train.history import History
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


def dev_masks(ids: Sequence[str], selection_split: SelectionSplit) -> dict[str, np.ndarray]:
    """Return which dev examples scores are reported on, as bool [N] `dev`, and which ones choose.

    With `dev` they are the same, all of them, as in the papers, which flatters every run. With
    `half` those whose id has an even hash choose: `selection`, the same ones for every run.
    """
    if selection_split == "dev":
        return {"dev": np.ones(len(ids), dtype=bool)}
    even = np.array([sha256(one.encode()).digest()[0] % 2 == 0 for one in ids], dtype=bool)
    return {"dev": ~even, "selection": even}


def score_dev(
    model: TrainableModel, history: History, outputs: Outputs
) -> dict[str, dict[str, float]]:
    """Log and return the scores by task of the dev `outputs` of all trained tasks.

    They are by split: `dev` and, if a half of it chooses the epoch, `selection`. The last choose.
    """
    found, how = dict[str, dict[str, float]](), model.module.spec.selection_split
    masks = {task: dev_masks(model.examples[task]["dev"].ids, how) for task in outputs}
    for split in next(iter(masks.values())):
        scores = found[split] = {}
        for task, whole in outputs.items():
            of_task, rows = model.losses[task], torch.from_numpy(masks[task][split])
            output, labels = whole[rows], model.examples[task]["dev"].labels[rows]
            history.log(split, task, "loss", of_task.loss(output, labels).item())
            scores[task] = history.log_score(split, task, of_task.prediction(output), labels)
        history.log_overall(split, scores)
    return found


def predictions(model: TrainableModel, best: Outputs, last: Outputs) -> pa.Table:
    """Return the rows of `predictions.parquet`, those of a model with the best epoch's weights.

    `best` and `last` are the outputs of the best epoch and the last one, of the trained tasks. The
    column `last` is null for other splits and tasks. `split` is `selection` for dev examples that
    chose the epoch, if a half did.
    """
    spec, tables = model.module.spec, []
    for split in ("dev", "test"):
        for task in spec.ordered_tasks:
            examples, of_task = model.examples[task][split], model.losses[task]
            if not len(examples):
                continue
            splits = np.full(len(examples), split, dtype=object)
            before = torch.full_like(examples.labels, torch.nan)
            if split == "dev" and task in last:
                output = best[task].to(before.device)  # a resumed run's are on the CPU
                before = of_task.prediction(last[task])
            else:
                output = model.outputs(task, split)
            if split == "dev":
                for name, mask in dev_masks(examples.ids, spec.selection_split).items():
                    splits[mask] = name
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
