"""A trained model of one task, and its predictions for new sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import torch
from pandas import DataFrame
from torch import Tensor

from minbert.base.errors import UserError
from minbert.data.tokenise import encode
from minbert.data.tokenizer import load_tokenizer
from minbert.model.encoder import compute_in
from minbert.model.multitask import MultitaskModel
from minbert.model.weights import load_weights
from minbert.predict.inputs import Item, item
from minbert.predict.resolve_run import TrainedTask
from minbert.spec.architecture import WEIGHTS, read_architecture
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS, Task
from minbert.spec.yaml import validated
from minbert.store.plans import read_record
from minbert.train.device import choose_device, set_up_memory
from minbert.train.examples import framed_sequences
from minbert.train.losses import task_loss

CHUNK = 2048
"""Examples that are predicted at a time."""


def load_trained(spec: StageSpec, backbone: Path, weights: Path) -> MultitaskModel:
    """Return a finished stage's model with the weights it was scored with, in evaluation mode.

    `backbone` is a folder in the store, `weights` a `model.safetensors`, which holds what was
    trained; the backbone's weights are read if it was frozen. Raises `UserError` naming the file
    if the two do not belong together.
    """
    kind = load_part("trainable", spec.trainable)
    state = load_weights(weights)
    model = MultitaskModel(read_architecture(backbone / "config.json"), spec)
    if not model.state_dict().keys() <= state.keys():
        model.encoder.load_backbone(load_weights(backbone / WEIGHTS))
    kind.insert(model.encoder, spec, state)
    if strange := kind.trained(model.state_dict()).keys() ^ state.keys():
        raise UserError(f"{weights}: not the weights of this stage (tensor '{min(strange)}')")
    model.load_state_dict(state, strict=False)
    return model.eval()


@dataclass(frozen=True)
class Predictor:
    """A trained model as it is used for one task, with its tokenizer.

    Tokens, truncation, precision and the torch `module`, in evaluation mode, are those of training,
    so dev sentences get the same predictions as in training.
    """

    task: Task
    module: MultitaskModel
    backbone: Path
    device: torch.device

    @classmethod
    def of(cls, run: TrainedTask, device: str = "auto") -> Self:
        """Return that of a run; `device` as in config.yaml.

        Raises `UserError` if a file is missing or damaged.
        """
        weights, backbone = run.file(WEIGHTS), run.file("backbone.tokenizer.json").parent
        spec = validated(StageSpec, run.job.spec["stage"], f"train {run.key}")
        set_up_memory()
        place = choose_device(device)
        model = load_trained(spec, backbone, weights).to(place)
        compute_in(model, read_record(run.file("run.json"))["environment"]["precision"])
        return cls(TASKS[run.task], model, backbone, place)

    def __call__(self, *sides: str | Sequence[str]) -> DataFrame:
        """Return a row for each sentence of one side, or for each pair of two sides.

        Columns are those of `minbert predict` (docs/predicting.md). Raises `UserError` for a
        sentence that is empty or lacks its partner.
        """
        columns = [[of] if isinstance(of, str) else of for of in sides]
        rows = enumerate(zip_longest(*columns))
        return DataFrame(self.rows([item(self.task, f"example {n}", each) for n, each in rows]))

    def logits(self, items: Sequence[Item]) -> Tensor:
        """Return the output of the task's head for N examples [N, n]."""
        tokenizer = load_tokenizer(self.backbone / "tokenizer.json")
        columns = {}
        for side in ("1", "2"):
            ids = encode(tokenizer, [item.get(f"sentence{side}") for item in items])
            columns[f"tokens{side}"] = pa.array(ids, pa.list_(pa.int32()))
        name, spec = self.task.name, self.module.spec
        how = spec.tasks[name].pairing, self.backbone, spec.max_length, self.device
        return self.module.outputs(name, framed_sequences(pa.table(columns), *how))

    def rows(self, items: Sequence[Item]) -> Iterator[dict[str, Any]]:
        """Yield what is told of each example (docs/predicting.md).

        Raises `UserError` if the model predicts no finite number.
        """
        task = self.task
        loss = task_loss(self.module.spec.tasks[task.name].loss, self.module.heads[task.name])
        for start in range(0, len(items), CHUNK):
            chunk = items[start : start + CHUNK]
            output = self.logits(chunk)
            if not output.isfinite().all():
                raise UserError(
                    "the model predicts no finite number: its training diverged; choose a "
                    "different seed or variant"
                )
            made = loss.prediction(output).tolist(), loss.scores(output).tolist()
            for given, prediction, scores in zip(chunk, *made, strict=True):
                said = prediction if task.kind == "regression" else int(prediction)
                row = {**given, "task": task.name, "prediction": said}
                if task.names:
                    row["label"] = task.names[said]
                if task.kind == "classification":
                    row["probabilities"] = scores
                else:
                    row["score"] = scores[0]
                yield row
