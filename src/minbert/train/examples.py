"""A task's examples as tokens on the device, batches of them, and whole splits encoded."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from minbert.data.parquet import read_splits
from minbert.data.tokenizer import Framing, framing, load_tokenizer
from minbert.model.packed import Packed
from minbert.spec.architecture import read_architecture

Pairing = Literal["siamese", "cross"] | None
"""How a pair is encoded; None for single sentences."""
TOKENS_A_BATCH = {"cpu": 4096, "mps": 4096, "cuda": 65536}  # padded, in evaluation


class Examples:
    """One task's examples of one split: ids, and labels [N], float32, NaN if not public.

    `inputs` holds the sequences, tokens (`Sequences`) or features; of siamese pairs 0..N-1 are
    first sentences, N..2N-1 second ones.
    """

    def __init__(self, table: pa.Table, siamese: bool, inputs: Any, device: torch.device) -> None:
        self.siamese, self.inputs = siamese, inputs
        self.ids: list[str] = table.column("id").to_pylist()
        labels = table.column("label").to_numpy().astype(np.float32)
        self.labels = torch.from_numpy(labels).to(device)

    def __len__(self) -> int:
        return len(self.ids)

    def sequences(self, rows: Tensor) -> np.ndarray:
        """Return the sequences of example `rows`: the same rows, or both sides' if siamese."""
        return (torch.cat([rows, rows + len(self)]) if self.siamese else rows).numpy()

    def lengths(self, rows: Tensor) -> np.ndarray:
        """Return the lengths of the sequences of example `rows`."""
        return np.asarray(self.inputs.lengths[self.sequences(rows)])

    def batch(self, rows: Tensor) -> tuple[Any, Tensor]:
        """Return the batch and the labels [B] of example `rows` (int64 [B], CPU)."""
        return self.inputs.pack(self.sequences(rows)), self.labels[rows.to(self.labels.device)]


class Sequences:
    """Token sequences as `frame` returns them, S in all, and batches of them on `device`."""

    def __init__(self, framed: list[np.ndarray], device: torch.device) -> None:
        self.framed, self.device = framed, device
        self.lengths = np.array([row.shape[1] for row in framed], np.int64)

    def pack(self, sequences: np.ndarray) -> Packed:
        """Return `sequences` (int64 [B]), in that order, as one packed batch."""
        rows = np.concatenate([self.framed[number] for number in sequences], axis=1)
        tokens, types = torch.from_numpy(rows).to(self.device, torch.int64)
        lengths = self.lengths[sequences]
        counts = torch.from_numpy(lengths).to(self.device)
        return Packed(tokens, types, counts, int(lengths.max()))

    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """Return one of each of the U sequences that differ [U], and each one's place there [S]."""
        first: dict[bytes, int] = {}
        same = [first.setdefault(row.tobytes(), n) for n, row in enumerate(self.framed)]
        return np.unique(same, return_inverse=True)

    @torch.no_grad()
    def pool(self, encode: Callable[[Packed], Tensor]) -> Tensor:
        """Return `encode` of each sequence, float32 [S, H]; equal ones are encoded once."""
        rows, places = self.distinct()
        batches = list(by_length(self.lengths[rows], TOKENS_A_BATCH[self.device.type]))
        found = torch.cat([encode(self.pack(rows[batch])).float() for batch in batches])
        back = np.argsort(np.concatenate(batches))[places]
        return found[torch.from_numpy(back).to(found.device)]


def by_length(lengths: np.ndarray, tokens: int) -> Iterator[np.ndarray]:
    """Yield positions in `lengths`, sorted by length, in batches of at most `tokens`, padded."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    for stop in range(1, len(order) + 1):
        if stop == len(order) or lengths[order[stop]] * (stop + 1 - start) > tokens:
            yield order[start:stop]
            start = stop


def framed_sequences(
    table: pa.Table, pairing: Pairing, backbone: Path, max_length: int, device: torch.device
) -> Sequences:
    """Return the sequences of a table of tokens, cut to `max_length` or to the positions."""
    arch = read_architecture(backbone / "config.json")
    special = special_tokens(backbone / "tokenizer.json", arch.two_types)
    longest = min(max_length, arch.positions)
    # With BERT `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]` with token types 0 and 1 (Devlin et al.,
    # 2019, section 3.2).
    sides = [table.column(name).to_numpy() for name in ("tokens1", "tokens2")]
    if pairing == "cross":
        framed = [frame(a, b, special, longest) for a, b in zip(*sides, strict=True)]
    else:
        alone = np.concatenate(sides if pairing else sides[:1])
        framed = [frame(tokens, None, special, longest) for tokens in alone]
    return Sequences(framed, device)


def read_examples(
    tokens: Path, pairing: Pairing, backbone: Path, max_length: int, device: torch.device
) -> dict[str, Examples]:
    """Return {split: examples} of a `tokens.parquet`."""
    how, siamese = (pairing, backbone, max_length, device), pairing == "siamese"
    return {
        name: Examples(table, siamese, framed_sequences(table, *how), device)
        for name, table in read_splits(tokens).items()
    }


@cache
def special_tokens(tokenizer: Path, two_types: bool) -> Framing:
    """Read from a `tokenizer.json` what stands around sentences; `two_types` is the encoder's."""
    special = framing(load_tokenizer(tokenizer), tokenizer)
    return special._replace(two_types=two_types and special.two_types)


def frame(a: np.ndarray, b: np.ndarray | None, special: Framing, max_length: int) -> np.ndarray:
    """Return tokens and token types of a sentence or a pair, int32 [2, n], n up to `max_length`."""
    before, between, after, two_types = special
    if b is None:
        b, between, two_types = a[:0], (), False
    room = max_length - len(before) - len(between) - len(after)
    if len(a) + len(b) > room:
        # The longer one is cut first, then both alike; an odd token goes to the longer, or the
        # second.
        shorter = min(len(a), len(b), room // 2)
        of_a = room - shorter if len(a) > len(b) else shorter
        a, b = a[:of_a], b[: room - of_a]
    tokens = np.concatenate([part for part in (before, a, between, b, after) if len(part)])
    row = np.zeros((2, len(tokens)), np.int32)
    row[0], row[1, len(tokens) - two_types * (len(b) + len(after)) :] = tokens, 1
    return row
