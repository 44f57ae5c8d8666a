"""A frozen encoder's features, kept: every distinct sequence of a task is encoded once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minbert.model.encoder import compute_in, whole_encoder
from minbert.model.packed import Packed
from minbert.model.weights import load_weights, save_weights
from minbert.spec.architecture import WEIGHTS, read_architecture
from minbert.spec.parts import load_part
from minbert.spec.stage import Dropout
from minbert.store.job import Job
from minbert.train.device import set_up
from minbert.train.examples import read_examples


def make(job: Job) -> None:
    device, precision = set_up(job.device, job.extra["precision"], job.threads)
    backbone, tokens = job.need("weights").parent, job.need("tokens")
    cache_features(job.spec, backbone, tokens, job.out / "features.safetensors", device, precision)


def cache_features(
    spec: Mapping[str, Any],
    backbone: Path,
    tokens: Path,
    out: Path,
    device: torch.device,
    precision: str = "fp32",
) -> None:
    """Write the pooled embeddings of a task's sequences, float32, as safetensors {split: [S, H]}.

    `spec` has `pooling`, `pairing` and `max_length`. S is the number of sequences: as many
    as examples, or twice as many for siamese pairs (first sentences, then second ones). The encoder
    runs without dropout.
    """
    encoder = whole_encoder(read_architecture(backbone / "config.json"), Dropout())
    encoder.load_state_dict(load_weights(backbone / WEIGHTS))
    encoder.eval().to(device)
    compute_in(encoder, precision)
    pool = load_part("pooling", spec["pooling"])()

    def encode(batch: Packed) -> Tensor:
        hidden = encoder(batch, first_only=pool.first_only)
        return pool(hidden.float(), batch, encoder.pooler)

    splits = read_examples(tokens, spec["pairing"], backbone, spec["max_length"], device)
    save_weights(out, {name: of.inputs.pool(encode) for name, of in splits.items() if len(of)})
