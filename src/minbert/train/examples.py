"""A task's examples as tokens on the device, batches of them, and whole splits encoded."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from minbert.data.parquet import read_file
from minbert.data.tokenizer import Framing, framing, load_tokenizer
from minbert.model.packed import Packed
from minbert.spec.architecture import read_architecture
from minbert.spec.protocol import SPLITS
from minbert.spec.task import TASKS

Pairing = Literal["siamese", "cross"] | None
"""How a pair is encoded; None for single sentences."""

TOKENS_A_BATCH = {"cpu": 4096, "mps": 4096, "cuda": 65536}  # padded, in evaluation


def special_tokens(tokenizer: Path, two_types: bool) -> Framing:
    """Read from a `tokenizer.json` what stands around sentences; `two_types` is the encoder's."""
    special = framing(load_tokenizer(tokenizer), tokenizer)
    return special._replace(two_types=two_types and special.two_types)


class Labelled:
    """One task's examples of one split: ids, and labels [N], float32, NaN if not public.

    For siamese pairs sequences 0..N-1 are the first sentences and N..2N-1 the second ones.
    """

    def __init__(self, table: pa.Table, siamese: bool, device: torch.device) -> None:
        self.siamese = siamese
        self.ids: list[str] = table.column("id").to_pylist()
        label = table.column("label").to_numpy(zero_copy_only=False).astype(np.float32)
        self.labels = torch.from_numpy(label).to(device)

    def __len__(self) -> int:
        return len(self.ids)

    def sequence_rows(self, rows: Tensor) -> Tensor:
        """Return the sequences of example `rows`: the same rows, or both sides' if siamese."""
        return torch.cat([rows, rows + len(self)]) if self.siamese else rows


class Sequences:
    """Token sequences end to end, from what `frame` returns for each of them.

    `tokens` and `types` are int64 [T]; sequence n has `lengths[n]` tokens from `starts[n]` on.
    """

    def __init__(self, framed: list[tuple[np.ndarray, int]], device: torch.device) -> None:
        self.lengths = np.array([len(row) for row, _ in framed], np.int64)
        ends = np.cumsum(self.lengths)
        self.starts = ends - self.lengths
        flat = np.concatenate([np.zeros(0, np.int64), *(row for row, _ in framed)])
        seconds = np.array([second for _, second in framed], np.int64)
        types = np.arange(len(flat)) >= np.repeat(ends - seconds, self.lengths)
        self.tokens, self.types = (
            torch.from_numpy(numbers.astype(np.int64)).to(device) for numbers in (flat, types)
        )

    def pack(self, sequences: np.ndarray) -> Packed:
        """Return `sequences` (int64 [B]), in that order, as one packed batch."""
        device = self.tokens.device
        lengths = self.lengths[sequences]
        ends = np.cumsum(lengths)
        offsets = np.repeat(self.starts[sequences] - (ends - lengths), lengths)
        index = torch.from_numpy(offsets + np.arange(ends[-1])).to(device)
        counts = torch.from_numpy(lengths).to(device)
        return Packed(self.tokens[index], self.types[index], counts, int(lengths.max()))

    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """Return one of each of the U sequences that differ [U], and each one's place there [N]."""
        tokens, types = self.tokens.cpu().numpy(), self.types.cpu().numpy()
        spans = [slice(a, a + n) for a, n in zip(self.starts, self.lengths, strict=True)]
        first: dict[bytes, int] = {}
        same = [
            first.setdefault(tokens[span].tobytes() + types[span].tobytes(), number)
            for number, span in enumerate(spans)
        ]
        return np.unique(same, return_inverse=True)


class Examples(Labelled, Sequences):
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
        Labelled.__init__(self, table, pairing == "siamese", device)
        self.task = task
        first = _lists(table.column("tokens1"))
        second = _lists(table.column("tokens2")) if TASKS[task].pair else []
        if pairing == "cross":
            framed = [frame(a, b, special, max_length) for a, b in zip(first, second, strict=True)]
        else:
            framed = [frame(tokens, None, special, max_length) for tokens in first + second]
        Sequences.__init__(self, framed, device)

    def batch(self, rows: Tensor) -> tuple[Packed, Tensor]:
        """Return the packed batch and the labels [B] of example `rows` (int64 [B], CPU)."""
        packed = self.pack(self.sequence_rows(rows).numpy())
        return packed, self.labels[rows.to(self.labels.device)]

    @torch.no_grad()
    def pool(self, pooled: Callable[[Sequence[tuple[str, Packed]]], list[Tensor]]) -> Tensor:
        """Return the pooled embedding of every sequence, float32 [sequences, H].

        Each distinct one is encoded once, in batches of similar lengths, by `pooled`, which maps
        batches with their tasks to embeddings [B, H], as that of `MultitaskModel` does.
        """
        rows, places = self.distinct()
        limit = TOKENS_A_BATCH[self.tokens.device.type]
        order = list(by_length(self.lengths[rows], limit))
        batches = ((self.task, self.pack(rows[batch])) for batch in order)
        found = torch.cat([pooled([batch])[0].float() for batch in batches])
        back = np.argsort(np.concatenate(order))[places]
        return found[torch.from_numpy(back).to(found.device)]


Splits = dict[str, Examples]


def by_length(lengths: np.ndarray, tokens: int) -> Iterator[np.ndarray]:
    """Yield positions in `lengths`, sorted by length, in batches of at most `tokens`, padded."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    for stop in range(1, len(order) + 1):
        if stop == len(order) or lengths[order[stop]] * (stop + 1 - start) > tokens:
            yield order[start:stop]
            start = stop


def read_splits(tokens: Path, columns: list[str] | None = None) -> dict[str, pa.Table]:
    """Return the rows of train, dev and test of a `tokens.parquet`, which may be none."""
    table = read_file(tokens, columns)
    of = table.column("split")
    return {split: table.filter(pc.equal(of, split)) for split in SPLITS}


def reader(
    backbone: Path, max_length: int, device: torch.device
) -> Callable[[Path, str, Pairing], Splits]:
    """Return a function from a `tokens.parquet`, its task and its pairing to {split: Examples}.

    Splits are train, dev and test. Sequences are cut to `max_length` tokens, or to the positions
    that the `backbone` (a folder) knows.
    """
    arch = read_architecture(backbone / "config.json")
    special = special_tokens(backbone / "tokenizer.json", arch.two_types)
    longest = min(max_length, arch.positions)

    def read(path: Path, task: str, pairing: Pairing) -> Splits:
        return {
            split: Examples(table, task, pairing, special, longest, device)
            for split, table in read_splits(path).items()
        }

    return read


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
