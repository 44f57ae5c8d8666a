"""A frozen encoder's features: every distinct sequence of a task encoded once, then kept."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from minbert.grid.architecture import read_architecture
from minbert.grid.parts import load_part
from minbert.grid.spec import Dropout
from minbert.model.packed import Packed
from minbert.model.sharing import SharedEncoder
from minbert.model.weights import load_weights, save_weights
from minbert.train.examples import read_examples, special_tokens
from minbert.train.inference import pool_all


def cache_features(
    task: str,
    pooling: str,
    pairing: Literal["siamese", "cross"] | None,
    max_length: int,
    backbone: Path,
    tokens: Path,
    out: Path,
    device: torch.device,
) -> None:
    """Write the pooled embeddings of `task`'s sequences, float32, as safetensors {split: [S, H]}.

    S is the number of sequences: that of examples, or twice that for siamese pairs (first
    sentences, then second ones). The encoder runs without dropout, in evaluation mode.
    """
    architecture = read_architecture(backbone / "config.json")
    length = min(max_length, architecture.positions)
    encoder = SharedEncoder(architecture, [task], architecture.layers, Dropout())
    encoder.load_backbone(load_weights(backbone / "model.safetensors"))
    encoder.to(device).eval()
    pool = load_part("pooling", pooling)()

    def pooled(batch: Packed) -> torch.Tensor:
        hidden = encoder(task, batch, first_only=pool.first_only)
        return pool(hidden, batch, encoder.pooler(task))

    special = special_tokens(backbone / "tokenizer.json")
    splits = read_examples(tokens, task, pairing, special, length, device)
    found = {
        split: pool_all(pooled, examples) for split, examples in splits.items() if len(examples)
    }
    save_weights(out, found)
