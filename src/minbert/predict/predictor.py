"""A trained model of one task, and the predictions it makes of new sentences."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from pydantic import ValidationError

from minbert.common.errors import UserError
from minbert.data.tokenise import encode
from minbert.grid.architecture import read_architecture
from minbert.grid.code import code_modules, differs
from minbert.grid.parts import load_part
from minbert.grid.spec import StageSpec
from minbert.predict.lookup import Run
from minbert.train.device import choose_device, choose_precision
from minbert.train.examples import Examples, special_tokens
from minbert.train.inference import pool_all
from minbert.train.trained import load_trained
from minbert.wordpiece import load_wordpiece

_CODE = ("minbert.model.", "minbert.train.examples", "minbert.train.losses.", "minbert.wordpiece")
"""Beginnings of the modules whose change may change what trained weights predict."""


class Predictions(NamedTuple):
    """Of N examples: the class, 0 or 1, or the value [N]; and the task's scores [N, n]."""

    prediction: np.ndarray
    scores: np.ndarray


class Predictor:
    """The model of `run`'s task, with its tokenizer and framing, on `device` (as in config.yaml).

    Tokens, cuts, precision and the model are those of training, so that its dev sentences get the
    predictions that training wrote of them. Raises `UserError` if a file is missing, or the run
    was planned by a version of the code that had other settings.
    """

    def __init__(self, run: Run, device: str = "auto") -> None:
        weights = run.file("model.safetensors")
        backbone = run.job.need("backbone.config.json").parent
        self.task = run.task
        self.device = choose_device(device)
        self.precision = choose_precision(run.job.extra["precision"], self.device)
        try:
            self.spec = StageSpec.model_validate(run.job.spec["stage"])
        except ValidationError as error:
            raise UserError(
                f"train {run.key}: was planned by another version of minbert "
                f"({error.errors()[0]['msg']}); `snakemake -n all` plans it anew"
            ) from None
        _warn_of_changes(run)
        positions = read_architecture(backbone / "config.json").positions
        self.max_length = min(self.spec.max_length, positions)
        self.tokenizer = load_wordpiece(backbone / "tokenizer.json")
        self.special = special_tokens(backbone / "tokenizer.json")
        self.model = load_trained(self.spec, backbone, weights).to(self.device).eval()
        self.loss = load_part("loss", self.spec.tasks[self.task].loss)()

    @torch.no_grad()
    def __call__(self, first: Sequence[str], second: Sequence[str | None]) -> Predictions:
        """Return the predictions of N examples; `second` holds None for single sentences."""
        tokens = {
            "tokens1": encode(self.tokenizer, list(first)),
            "tokens2": encode(self.tokenizer, list(second)),
        }
        lists = pa.list_(pa.int32())
        count = len(first)
        table = pa.table(
            {
                "id": [str(number) for number in range(count)],
                "label": pa.nulls(count, pa.float32()),
                **{name: pa.array(ids, lists) for name, ids in tokens.items()},
            }
        )
        pairing = self.spec.tasks[self.task].pairing
        examples = Examples(table, self.task, pairing, self.special, self.max_length, self.device)
        bf16 = self.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16) if bf16 else nullcontext():
            pooled = pool_all(partial(self.model.pooled, self.task), examples)
            output = self.model.from_pooled(self.task, pooled).float()
        prediction, scores = self.loss.prediction(output), self.loss.scores(output)
        return Predictions(prediction.cpu().numpy(), scores.cpu().numpy())


def _warn_of_changes(run: Run) -> None:
    described = run.job.described
    changed = differs(described["code"], code_modules(described["roots"]))
    ours = [name for name in changed if name.startswith(_CODE)]
    if ours:
        print(
            f"minbert: the code of {', '.join(ours)} has changed since {run.variant} was planned: "
            "its weights may predict something else than they did; `minbert plan` says more",
            file=sys.stderr,
        )
