"""Fine-tuning: encoder and heads are trained on packed batches of tokens."""

from __future__ import annotations

from functools import partial

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import Parameter

from minbert.common.errors import UserError
from minbert.grid.architecture import read_architecture
from minbert.grid.spec import StageSpec
from minbert.model.multitask import MultitaskModel
from minbert.model.weights import load_backbone_file
from minbert.train.examples import Examples, read_examples, special_tokens
from minbert.train.inference import pool_all
from minbert.train.learner import Sources


class Finetuned:
    """All weights are trained. Heads start anew unless the start stage has the same task's."""

    def __init__(self, spec: StageSpec, sources: Sources, device: torch.device) -> None:
        architecture = read_architecture(sources.backbone / "config.json")
        if spec.max_length > architecture.positions:
            spec = spec.model_copy(update={"max_length": architecture.positions})
        self.module = MultitaskModel(architecture, spec)
        self.module.encoder.load_backbone(
            load_backbone_file(sources.backbone / "model.safetensors")
        )
        if sources.start is not None:
            self._start_from(load_file(sources.start), str(sources.start))
        self.module.to(device)
        special = special_tokens(sources.backbone / "tokenizer.json")
        self.examples: dict[str, dict[str, Examples]] = {
            task: read_examples(
                path, task, spec.tasks[task].pairing, special, spec.max_length, device
            )
            for task, path in sources.tokens.items()
        }
        self.tokens_seen = 0

    def _start_from(self, state: dict[str, Tensor], where: str) -> None:
        ours = self.module.state_dict()
        fits = {k: v for k, v in state.items() if k in ours and ours[k].shape == v.shape}
        missing = [k for k in ours if k.startswith("encoder.") and k not in fits]
        if missing:
            raise UserError(
                f"{where}: does not hold the encoder's {missing[0]} (and {len(missing) - 1} more); "
                "the stage it starts from must share layers in the same way"
            )
        self.module.load_state_dict(fits, strict=False)

    def size(self, task: str, split: str) -> int:
        return len(self.examples[task][split])

    def ids(self, task: str, split: str) -> list[str]:
        return self.examples[task][split].ids

    def labels(self, task: str, split: str) -> Tensor:
        return self.examples[task][split].labels

    def output(self, task: str, rows: Tensor) -> tuple[Tensor, Tensor]:
        batch, labels = self.examples[task]["train"].batch(rows)
        self.tokens_seen += batch.tokens.shape[0]
        return self.module(task, batch), labels

    def outputs(self, task: str, split: str) -> Tensor:
        pooled = pool_all(partial(self.module.pooled, task), self.examples[task][split])
        with torch.no_grad():
            return self.module.from_pooled(task, pooled)

    def shared_parameters(self) -> list[Parameter]:
        return self.module.shared_parameters()

    def own_parameters(self, task: str) -> list[Parameter]:
        return self.module.own_parameters(task)

    def weights(self) -> dict[str, Tensor]:
        return self.module.state_dict()
