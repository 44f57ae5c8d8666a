"""A frozen encoder's features, kept: every distinct sequence of a task is encoded once."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from minbert.model.encoder import compute_in
from minbert.model.packed import Packed
from minbert.model.sharing import SharedEncoder
from minbert.model.weights import load_weights, save_weights
from minbert.spec.architecture import WEIGHTS, read_architecture, shared_parts
from minbert.spec.parts import load_part
from minbert.spec.stage import Dropout
from minbert.store.job import Job
from minbert.train.device import set_up
from minbert.train.examples import Pairing, reader


def make(job: Job) -> None:
    device, precision = set_up(job.device, job.extra["precision"], job.threads)
    cache_features(
        **{name: job.spec[name] for name in ("task", "pooling", "pairing", "max_length")},
        backbone=job.need("weights").parent,
        tokens=job.need("tokens"),
        out=job.out / "features.safetensors",
        device=device,
        precision=precision,
    )


def cache_features(
    task: str,
    pooling: str,
    pairing: Pairing,
    max_length: int,
    backbone: Path,
    tokens: Path,
    out: Path,
    device: torch.device,
    precision: str = "fp32",
) -> None:
    """Write the pooled embeddings of `task`'s sequences, float32, as safetensors {split: [S, H]}.

    S is the number of sequences: as many as examples, or twice as many for siamese pairs (first
    sentences, then second ones). The encoder runs without dropout.
    """
    arch = read_architecture(backbone / "config.json")
    encoder = SharedEncoder(arch, [task], shared_parts("all", "bottom", arch.layers), Dropout())
    encoder.load_backbone(load_weights(backbone / WEIGHTS))
    encoder.eval().to(device)
    compute_in(encoder, precision)
    pool = load_part("pooling", pooling)()

    def pooled(batches: Sequence[tuple[str, Packed]]) -> list[Tensor]:
        ((_, batch),), (hidden,) = batches, encoder(batches, [pool.first_only])
        return [pool(hidden.float(), batch, encoder.pooler(task))]

    splits = reader(backbone, max_length, device)(tokens, task, pairing)
    save_weights(out, {name: of.pool(pooled) for name, of in splits.items() if len(of)})
