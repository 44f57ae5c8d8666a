"""Dev scores after each epoch, and the predictions of the best and the last one."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from minbert.spec.stage import StageSpec
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


class Evaluation:
    """Scores a model's trained tasks on dev, logs the scores, and keeps the outputs.

    `masks` are those of `dev_masks`, by task.
    """

    def __init__(self, spec: StageSpec, model: TrainableModel, history: History) -> None:
        self.spec = spec
        self.model = model
        self.history = history
        self.masks = {
            task: dev_masks(of["dev"].ids, spec.selection_split)
            for task, of in model.examples.items()
        }
        self.last: Mapping[str, Tensor] = {}  # dev outputs by task, of the last epoch
        self.best: Mapping[str, Tensor] = {}  # and of the best one, unless that was before a resume

    def score(self) -> dict[str, dict[str, float]]:
        """Return the scores by task on `dev` and, if a half of it chooses the epoch, `selection`.

        Those that come last choose.
        """
        self.model.module.eval()
        tasks = self.spec.trained_tasks
        self.last = {task: self.model.outputs(task, "dev") for task in tasks}
        found: dict[str, dict[str, float]] = {}
        for split in self.masks[tasks[0]]:
            scores = found[split] = {}
            for task, outputs in self.last.items():
                of_task = self.model.losses[task]
                rows = torch.from_numpy(self.masks[task][split]).to(outputs.device)
                output, labels = outputs[rows], self.model.examples[task]["dev"].labels[rows]
                self.history.log(split, task, "loss", of_task.loss(output, labels).item())
                prediction = of_task.prediction(output).cpu()
                scores[task] = self.history.log_score(split, task, prediction, labels.cpu())
            self.history.log_overall(split, scores)
        return found

    def predictions(self) -> pa.Table:
        """Return the rows of `predictions.parquet`, once the best epoch's weights are restored.

        `last` is dev's prediction after the last epoch, null for other splits and tasks that are
        not trained. `split` is `selection` for dev examples that chose the epoch, if a half did.
        Dev outputs of the best epoch are kept and not computed again.
        """
        self.model.module.eval()
        return pa.concat_tables(
            self._predictions(task, split)
            for split in ("dev", "test")
            for task in self.spec.ordered_tasks
            if len(self.model.examples[task][split])
        )

    def _predictions(self, task: str, split: str) -> pa.Table:
        examples, of_task = self.model.examples[task][split], self.model.losses[task]
        output = self.best.get(task) if split == "dev" else None
        if output is None:
            output = self.model.outputs(task, split)
        splits = np.full(len(examples), split, dtype=object)
        last = torch.full((len(examples),), torch.nan)
        if split == "dev":
            for name, mask in self.masks[task].items():
                splits[mask] = name
            if task in self.last:
                last = of_task.prediction(self.last[task])

        def numbers(values: Tensor) -> np.ndarray:
            return values.cpu().numpy().astype(np.float64)

        columns = {
            "id": examples.ids,
            "task": [task] * len(examples),
            "split": splits,
            "prediction": numbers(of_task.prediction(output)),
            "scores": list(of_task.scores(output).cpu().numpy()),
            "label": pa.array(numbers(examples.labels), from_pandas=True),  # NaN is null.
            "last": pa.array(numbers(last), from_pandas=True),
        }
        return pa.table(columns, schema=PREDICTIONS)
