"""A task's examples as tokens on the device, and the packed batches made of them."""

from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.data.tokenizer import Framing, framing, load_tokenizer
from minbert.model.packed import Packed
from minbert.spec.protocol import SPLITS
from minbert.spec.task import TASKS

Pairing = Literal["siamese", "cross"] | None
"""How a pair is encoded; None for single sentences."""


def special_tokens(tokenizer: Path, two_types: bool) -> Framing:
    """Read from a `tokenizer.json` what stands around sentences; `two_types` is the encoder's."""
    special = framing(load_tokenizer(tokenizer), tokenizer)
    return special._replace(two_types=two_types and special.two_types)


class Sequences:
    """Token sequences `rows` end to end; the last `seconds` tokens of each are of type 1."""

    def __init__(self, rows: list[np.ndarray], seconds: list[int], device: torch.device) -> None:
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        self.lengths = lengths
        ends = np.cumsum(lengths)
        self.starts = ends - lengths
        flat = np.concatenate(rows) if rows else np.zeros(0, np.int32)
        self.flat = torch.from_numpy(flat.astype(np.int64)).to(device)
        second = np.arange(len(flat)) >= np.repeat(ends - seconds, lengths)
        self.types = torch.from_numpy(second.astype(np.int64)).to(device)
        self.device = device

    def __len__(self) -> int:
        return len(self.lengths)

    def pack(self, rows: np.ndarray) -> Packed:
        """Return the sequences `rows` (int64 [B]), in that order, as one packed batch."""
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths)
        offsets = np.repeat(self.starts[rows] - (ends - lengths), lengths)
        index = torch.from_numpy(offsets + np.arange(ends[-1])).to(self.device)
        return Packed(
            self.flat[index],
            self.types[index],
            torch.from_numpy(lengths).to(self.device),
            int(lengths.max()),
        )


class Labelled:
    """One task's examples of one split: ids, and labels [N], float32, NaN if not public.

    For siamese pairs sequences 0..N-1 are the first sentences and N..2N-1 the second ones.
    """

    def __init__(self, table: pa.Table, siamese: bool, device: torch.device) -> None:
        self.siamese = siamese
        self.ids: list[str] = table.column("id").to_pylist()
        label = table.column("label").to_numpy(zero_copy_only=False).astype(np.float32)
        self.labels = torch.from_numpy(label.copy()).to(device)

    def __len__(self) -> int:
        return len(self.ids)

    def sequence_rows(self, rows: Tensor) -> Tensor:
        """Return the sequences of example `rows`: the same rows, or both sides' if siamese."""
        return torch.cat([rows, rows + len(self)]) if self.siamese else rows


class Examples(Labelled):
    """Labelled examples with the tokens of their sequences.

    With BERT a single sentence is `[CLS] a [SEP]`, a cross-encoded pair `[CLS] a [SEP] b [SEP]`
    with token types 0 and 1 (Devlin et al., 2019, section 3.2).
    """

    def __init__(
        self,
        table: pa.Table,
        task: str,
        pairing: Pairing,
        special: Framing,
        max_length: int,
        device: torch.device,
    ) -> None:
        super().__init__(table, pairing == "siamese", device)
        self.task = task
        first = _lists(table.column("tokens1"))
        second = _lists(table.column("tokens2")) if TASKS[task].pair else []
        if pairing == "cross":
            framed = [frame(a, b, special, max_length) for a, b in zip(first, second, strict=True)]
        else:
            framed = [frame(tokens, None, special, max_length) for tokens in first + second]
        rows, seconds = [row for row, _ in framed], [n for _, n in framed]
        self.sequences = Sequences(rows, seconds, device)

    def lengths(self, rows: Tensor) -> np.ndarray:
        """Return the number of tokens in each sequence of example `rows` (int64, CPU)."""
        return self.sequences.lengths[self.sequence_rows(rows).numpy()]

    def batch(self, rows: Tensor) -> tuple[Packed, Tensor]:
        """Return the packed batch and the labels [B] of example `rows` (int64 [B], CPU)."""
        packed = self.sequences.pack(self.sequence_rows(rows).numpy())
        return packed, self.labels[rows.to(self.labels.device)]


def read_splits(tokens: Path, columns: list[str] | None = None) -> dict[str, pa.Table]:
    """Return the rows of train, dev and test of a `tokens.parquet`, which may be none."""
    table = read_file(tokens, columns)
    of = table.column("split")
    return {split: table.filter(pc.equal(of, split)) for split in SPLITS}


def read_examples(
    tokens: Path,
    task: str,
    pairing: Pairing,
    special: Framing,
    max_length: int,
    device: torch.device,
    vocabulary: int,
) -> dict[str, Examples]:
    """Read a `tokens.parquet` into {split: Examples} for train, dev and test.

    Raises `UserError` for tokens that are not in a vocabulary of that size.
    """
    found = {
        split: Examples(table, task, pairing, special, max_length, device)
        for split, table in read_splits(tokens).items()
    }
    for split, examples in found.items():
        flat = examples.sequences.flat
        if len(flat) and (flat.min() < 0 or flat.max() >= vocabulary):
            raise UserError(
                f"{tokens}: {split} has tokens from {int(flat.min())} to {int(flat.max())}, "
                f"expected 0 to {vocabulary - 1} as the backbone has; delete {tokens.parent} and "
                "run snakemake to make it again"
            )
    return found


def _lists(column: pa.ChunkedArray) -> list[np.ndarray]:
    array = column.combine_chunks()
    values = array.values.to_numpy()
    return [values[a:b] for a, b in pairwise(array.offsets.to_numpy())]


def frame(
    a: np.ndarray, b: np.ndarray | None, special: Framing, max_length: int
) -> tuple[np.ndarray, int]:
    """Return the sequence of a sentence `a`, or of a pair, and how much of its end is of type 1.

    It has at most `max_length` tokens: the longer sentence is cut first, then both alike. If they
    cannot be alike, the longer one keeps a token more, the second of two as long.
    """
    before, between, after, two_types = special
    room = max_length - len(before) - len(after)
    if b is None:
        return np.concatenate([before, a[:room], after]), 0
    room -= len(between)
    if len(a) + len(b) > room:
        shorter = min(len(a), len(b), room // 2)
        of_a = room - shorter if len(a) > len(b) else shorter
        a, b = a[:of_a], b[: room - of_a]
    row = np.concatenate([before, a, between, b, after])
    return row, (len(b) + len(after)) * two_types
