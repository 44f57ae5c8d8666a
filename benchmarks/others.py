"""What a user would write with `transformers`: padded batches, autograd, fused AdamW."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertModel

from benchmarks.workload import Workload
from minbert.spec.stage import StageSpec
from minbert.train.examples import Examples
from minbert.train.samplers import Step
from minbert.train.trainable import Finetuned


def cross_entropy(output: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(output, labels.long())


def binary_cross_entropy(output: Tensor, labels: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(output[:, 0], labels)


def mse(output: Tensor, labels: Tensor) -> Tensor:
    return F.mse_loss(output[:, 0], labels)


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": cross_entropy,
    "binary_cross_entropy": binary_cross_entropy,
    "mse": mse,
}


def autocast(device: torch.device, precision: str) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


class Padded:
    """A split's sequences as lists of ids, padded batch by batch to the longest (a collator)."""

    def __init__(self, examples: Examples, device: torch.device) -> None:
        self.ids = [tokens for tokens, _ in examples.inputs.framed]
        self.types = [types for _, types in examples.inputs.framed]
        self.examples = examples
        self.device = device

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Return what `BertModel` takes for sequences `rows`."""
        longest = max(len(self.ids[row]) for row in rows)
        ids = np.zeros((len(rows), longest), np.int64)
        types, mask = np.zeros_like(ids), np.zeros_like(ids)
        for n, row in enumerate(rows):
            length = len(self.ids[row])
            ids[n, :length] = self.ids[row]
            types[n, :length] = self.types[row]
            mask[n, :length] = 1
        names = {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}
        return {k: torch.from_numpy(v).to(self.device) for k, v in names.items()}


class Transformers:
    """One `BertModel` a task, or one for all, with linear heads and one AdamW over all of it.

    `attention` is `sdpa` or `eager`; `fused` is AdamW's. With `surgery` the tasks' gradients go
    through `torchjd`'s PCGrad. Heads start as ours, so that losses can be compared.
    """

    def __init__(
        self,
        spec: StageSpec,
        workload: Workload,
        ours: Finetuned,
        device: torch.device,
        precision: str,
        *,
        attention: str = "sdpa",
        fused: bool = True,
        adapt: Callable[[Any], Any] | None = None,
    ) -> None:
        self.spec = spec
        self.device = device
        self.autocast = autocast(device, precision)
        alone = spec.shared_layers == "none"
        names = list(spec.ordered_tasks)
        encoders = [self._encoder(workload, attention) for _ in (names if alone else [""])]
        if adapt:
            encoders = [adapt(encoder) for encoder in encoders]
        self.encoder = dict(zip(names, encoders * (1 if alone else len(names)), strict=True))
        self.heads = nn.ModuleDict()
        for name in names:
            theirs = cast(Any, ours.module).heads[name].linears[0]
            head = nn.Linear(theirs.in_features, theirs.out_features)
            head.load_state_dict(theirs.state_dict())
            self.heads[name] = head.to(device)
        self.shared = [p for p in encoders[0].parameters() if p.requires_grad]
        trained = [p for e in encoders for p in e.parameters() if p.requires_grad]
        trained += list(self.heads.parameters())
        self.modules = nn.ModuleList([*encoders, self.heads]).train()
        chosen = spec.optimiser
        self.optimiser = torch.optim.AdamW(
            trained, lr=chosen.lr, eps=chosen.eps, weight_decay=chosen.weight_decay, fused=fused
        )
        self.data = {
            (task, split): Padded(ours.examples[task][split], device)
            for task in names
            for split in ("train", "dev")
        }

    def _encoder(self, workload: Workload, attention: str) -> BertModel:
        dropout = self.spec.dropout
        model = BertModel.from_pretrained(
            workload.hugging_face,
            attn_implementation=attention,
            hidden_dropout_prob=dropout.sublayer,
            attention_probs_dropout_prob=dropout.attention,
        )
        return cast(BertModel, model.to(self.device))

    def _output(self, task: str, split: str, rows: np.ndarray) -> Tensor:
        data = self.data[task, split]
        sequences = data.examples.sequences(torch.from_numpy(rows))
        pooled = self.encoder[task](**data.batch(sequences)).pooler_output
        if self.spec.tasks[task].pairing == "siamese":
            u, v = pooled.chunk(2)
            pooled = torch.cat([u, v, (u - v).abs()], dim=1)
        return cast(Tensor, self.heads[task](pooled))

    def train(self, steps: Sequence[Step]) -> list[Tensor]:
        """Make one optimiser step a batch of each task; return the tasks' losses."""
        found = []
        for step in steps:
            self.optimiser.zero_grad(set_to_none=True)
            losses = []
            for task, rows in step:
                with self.autocast:
                    output = self._output(task, "train", rows.numpy())
                labels = self.data[task, "train"].examples.labels[rows.to(self.device)]
                loss = LOSSES[self.spec.tasks[task].loss](output.float(), labels)
                losses.append(loss)
                if not self.spec.surgery:
                    loss.backward()
            if self.spec.surgery:
                self._operate(losses)
            self.optimiser.step()
            found += [loss.detach() for loss in losses]
        return found

    def _operate(self, losses: list[Tensor]) -> None:
        from torchjd.aggregation import PCGrad

        heads = list(self.heads.parameters())
        rows = []
        for loss in losses:
            gradients = torch.autograd.grad(loss, [*self.shared, *heads], allow_unused=True)
            pairs = zip(self.shared, gradients[: len(self.shared)], strict=True)
            shared = [torch.zeros_like(p) if g is None else g for p, g in pairs]
            rows.append(torch.cat([g.flatten() for g in shared]))
            for head, gradient in zip(heads, gradients[len(self.shared) :], strict=True):
                if gradient is not None:
                    head.grad = gradient
        combined = PCGrad()(torch.stack(rows))
        parts = combined.split([p.numel() for p in self.shared])
        for parameter, part in zip(self.shared, parts, strict=True):
            parameter.grad = part.view_as(parameter)

    @torch.no_grad()
    def predict(self, task: str, batch: int = 32) -> Tensor:
        """Return the outputs of a whole dev set, in batches of `batch` in file order."""
        self.modules.eval()
        count = len(self.data[task, "dev"].examples)
        with self.autocast:
            found = [
                self._output(task, "dev", np.arange(start, min(start + batch, count))).float()
                for start in range(0, count, batch)
            ]
        return torch.cat(found)


def houlsby(spec: StageSpec) -> Callable[[Any], Any]:
    """Return a function that gives a `BertModel` the `adapters` package's bottlenecks."""
    import adapters

    assert spec.adapter is not None
    width = spec.adapter.width

    def add(encoder: Any) -> Any:
        adapters.init(encoder)
        factor = encoder.config.hidden_size / width
        encoder.add_adapter(
            "task", config=adapters.DoubleSeqBnConfig(reduction_factor=factor, non_linearity="gelu")
        )
        encoder.train_adapter("task")
        return encoder

    return add


def encode(
    ours: Finetuned, task: str, workload: Workload, device: torch.device, precision: str
) -> Callable[[], object]:
    """Return a pass of `SentenceTransformer.encode` over both sides of a dev set's pairs."""
    from sentence_transformers import SentenceTransformer, models

    transformer = models.Transformer(str(workload.hugging_face))
    pooling = models.Pooling(transformer.get_word_embedding_dimension(), pooling_mode="cls")
    model = SentenceTransformer(modules=[transformer, pooling], device=device.type)
    examples = ours.examples[task]["dev"]
    # Without [CLS] and [SEP]: its own tokenizer adds them.
    words = np.array(list(transformer.tokenizer.get_vocab()))
    order = np.argsort([transformer.tokenizer.get_vocab()[word] for word in words])
    names = words[order]
    texts = [" ".join(names[tokens[1:-1]]) for tokens, _ in examples.inputs.framed]

    def encode_all() -> object:
        with autocast(device, precision):
            return model.encode(texts, batch_size=32)

    return encode_all
