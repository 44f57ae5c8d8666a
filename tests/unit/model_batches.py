"""Small encoders and batches for the tests of `minbert.model`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from minbert.model.encoder import initialise, whole_encoder
from minbert.model.packed import Packed
from minbert.spec.architecture import Architecture
from minbert.spec.stage import Dropout

TINY = Architecture(vocab_size=50, hidden=12, layers=3, heads=2, intermediate=20, positions=40)
STILL = Dropout(embedding=0.0, sublayer=0.0, attention=0.0)
MIXED = (5, 17, 1, 30, 9, 17)


def pack(tokens: Any, types: Any, lengths: Any) -> Packed:
    """Return a batch of whole numbers, given as tensors or sequences."""
    ids, kinds, counts = (torch.as_tensor(n, dtype=torch.int64) for n in (tokens, types, lengths))
    return Packed(ids, kinds, counts, int(counts.max()))


def initial_backbone(arch: Architecture, seed: int) -> dict[str, Tensor]:
    """Return the state of a backbone with BERT's random initialisation, decided by `seed`."""
    encoder = whole_encoder(arch, Dropout())
    initialise(encoder, torch.Generator().manual_seed(seed))
    return {name: tensor.detach() for name, tensor in encoder.state_dict().items()}


def random_batch(
    lengths: tuple[int, ...] = MIXED, vocabulary: int = TINY.vocab_size, seed: int = 0
) -> Packed:
    """Return rows of the given lengths; no token is 0, which is BERT's padding."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, vocabulary, (sum(lengths),), generator=generator)
    types = torch.randint(0, 2, (sum(lengths),), generator=generator)
    return pack(tokens, types, lengths)


def one_by_one(batch: Packed) -> list[Packed]:
    """Return each row of `batch` as a batch of its own."""
    lengths = batch.lengths.tolist()
    parts = zip(batch.tokens.split(lengths), batch.types.split(lengths), lengths, strict=True)
    return [pack(tokens, types, [length]) for tokens, types, length in parts]


def alone(model: Any, task: str, batch: Packed, noise: Tensor | None = None) -> Tensor:
    """Return what a model makes of one task's batch."""
    (found,) = model([(task, batch)], noise)
    return found


def states_of(encoder: Any, task: str, batch: Packed, first_only: bool = False) -> Tensor:
    """Return what a shared encoder makes of one task's batch."""
    (found,) = encoder([(task, batch)], [first_only])
    return found
