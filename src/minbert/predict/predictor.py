"""A trained model of one task, and its predictions for new sentences."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from pydantic import ValidationError

from minbert.base.errors import UserError
from minbert.data.tokenise import encode
from minbert.data.tokenizer import load_tokenizer
from minbert.model.encoder import compute_in
from minbert.model.multitask import MultitaskModel
from minbert.model.weights import load_weights
from minbert.predict.resolve_run import Run
from minbert.spec.architecture import WEIGHTS, read_architecture
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.store.code import differs
from minbert.store.node import node_code
from minbert.store.plans import read_record
from minbert.train.device import choose_device, set_up_memory
from minbert.train.examples import special_tokens, token_examples
from minbert.train.losses import task_loss
from minbert.train.trainable import TrainableModel


def load_trained(spec: StageSpec, backbone: Path, weights: Path) -> MultitaskModel:
    """Return a finished stage's model with the weights it was scored with, in evaluation mode.

    `backbone` is a folder in the store, `weights` a `model.safetensors`, which holds what was
    trained; the backbone's weights are read if it was frozen. Raises `UserError` naming the file
    if the two do not belong together.
    """
    kind: type[TrainableModel] = load_part("trainable", spec.trainable)
    state = load_weights(weights)
    model = MultitaskModel(read_architecture(backbone / "config.json"), spec)
    if not model.state_dict().keys() <= state.keys():
        model.encoder.load_backbone(load_weights(backbone / WEIGHTS))
    kind.insert(model.encoder, spec, state)
    saved = kind.trained(model.state_dict())
    ours, theirs = ({n: t.shape for n, t in tensors.items()} for tensors in (saved, state))
    strange = sorted(n for n in ours.keys() | theirs.keys() if ours.get(n) != theirs.get(n))
    if strange:
        raise UserError(f"{weights}: not the weights of this stage (tensor '{strange[0]}')")
    model.load_state_dict(state, strict=False)
    return model.eval()


_CODE = (
    "minbert.model.",
    "minbert.train.examples",
    "minbert.train.losses.",
    "minbert.data.tokenizer",
)
"""Prefixes of the modules that decide what trained weights predict."""

Predictions = tuple[np.ndarray, np.ndarray]
"""For N examples, the class, 0 or 1, or value [N], and the task's scores [N, n]."""


@dataclass(frozen=True)
class Source:
    """What the model of a variant's task is made of.

    `precision` is that of its training, fp32 or bf16. `weights` is a `model.safetensors` of its
    stage, `backbone` a folder with `config.json`, `tokenizer.json` and, for a stage that freezes
    it, `model.safetensors`.
    """

    variant: str
    task: str
    spec: StageSpec
    precision: str
    weights: Path
    backbone: Path


def source_of(run: Run) -> Source:
    """Return what the model of `run` is made of, in the store.

    Raises `UserError` if a file is missing, or if the run was planned by a version of the code with
    other settings; other code is told on standard error.
    """
    weights = run.file(WEIGHTS)
    backbone = run.job.need("backbone.config.json").parent
    try:
        spec = StageSpec.model_validate(run.job.spec["stage"])
    except ValidationError as error:
        raise UserError(
            f"train {run.key}: was planned by another version of minbert "
            f"({error.errors()[0]['msg']}); `snakemake --cores 2 all` plans it again"
        ) from None
    _warn_of_changes(run)
    precision = str(read_record(run.file("run.json"))["environment"].get("precision", "fp32"))
    return Source(run.variant, run.task, spec, precision, weights, backbone)


class Predictor:
    """A task's model with its tokenizer and framing, on `device` (as in config.yaml).

    Tokens, truncation, precision and model are those of training, so dev sentences get the same
    predictions as in training. Raises `UserError` if a file is missing or damaged.
    """

    def __init__(self, source: Source, device: str = "auto") -> None:
        self.task, self.spec = source.task, source.spec
        set_up_memory()
        self.device = choose_device(device)
        self.arch = read_architecture(source.backbone / "config.json")
        self.max_length = min(self.spec.max_length, self.arch.positions)
        tokenizer = source.backbone / "tokenizer.json"
        self.tokenizer = load_tokenizer(tokenizer)
        self.special = special_tokens(tokenizer, self.arch.two_types)
        model = load_trained(self.spec, source.backbone, source.weights)
        self.model = model.to(self.device)
        compute_in(self.model, source.precision)
        self.loss = task_loss(self.spec.tasks[self.task].loss, self.model.heads[self.task])

    @torch.no_grad()
    def __call__(self, first: Sequence[str], second: Sequence[str | None]) -> Predictions:
        """Return the predictions for N examples; `second` is None for single sentences."""
        tokens = [
            pa.array(encode(self.tokenizer, sentences), pa.list_(pa.int32()))
            for sentences in (first, second)
        ]
        ids, labels = pa.array(map(str, range(len(first)))), pa.nulls(len(first), pa.float32())
        table = pa.table([ids, labels, *tokens], ["id", "label", "tokens1", "tokens2"])
        pairing = self.spec.tasks[self.task].pairing
        examples = token_examples(table, pairing, self.special, self.max_length, self.device)
        pooled = examples.inputs.pool(lambda batch: self.model.pooled([(self.task, batch)])[0])
        output = self.model.from_pooled(self.task, pooled)
        prediction, scores = self.loss.prediction(output), self.loss.scores(output)
        return prediction.cpu().numpy(), scores.cpu().numpy()


def _warn_of_changes(run: Run) -> None:
    described = run.job.described
    # Older versions did not record their maker, so all their code counts as other.
    known = "maker" in described
    now = node_code("train", described["maker"], described["parts"]) if known else {}
    if ours := [name for name in differs(described["code"], now) if name.startswith(_CODE)]:
        print(
            f"minbert: the code of {', '.join(ours)} has changed since {run.variant} was planned, "
            "so its predictions may differ from those of training; see `minbert plan`",
            file=sys.stderr,
        )
