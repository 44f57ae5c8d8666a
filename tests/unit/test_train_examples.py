"""Examples as packed batches, and whole splits encoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from minbert.data.tokenizer import Framing
from minbert.model.packed import Packed
from minbert.train.examples import Examples, Sequences, frame, reader

CPU = torch.device("cpu")
SPECIAL = Framing((2,), (3,), (3,))
CLS, SEP = 2, 3
MAX = 14

Row = tuple[list[int], list[int]]


def array(*tokens: int) -> np.ndarray:
    return np.array(tokens, np.int32)


def naive(first: list[int], second: list[int] | None, longest: int) -> Row:
    """Frame one sentence or a pair, a token at a time; return ids and token types."""
    a, b = list(first), list(second or [])
    if second is None:
        a = a[: longest - 2]
        return [CLS, *a, SEP], [0] * (len(a) + 2)
    while len(a) + len(b) > longest - 3:
        # Of two as long, that loses a token first which was not the longer one.
        (a if (len(a), len(second)) > (len(b), len(first) - 1) else b).pop()
    return [CLS, *a, SEP, *b, SEP], [0] * (len(a) + 2) + [1] * (len(b) + 1)


def expected_rows(table: list[dict[str, Any]], pairing: str | None) -> list[Row]:
    if pairing == "cross":
        return [naive(r["tokens1"], r["tokens2"], MAX) for r in table]
    sides = ["tokens1", "tokens2"] if pairing else ["tokens1"]
    return [naive(r[side], None, MAX) for side in sides for r in table]


@pytest.fixture
def read(backbone: Path) -> Callable[..., dict[str, Examples]]:
    """Return a function from a file of tokens, its task and pairing to its examples."""
    return reader(backbone, MAX, CPU)


def rows_of(path: Path, split: str) -> list[dict[str, Any]]:
    return [row for row in pq.read_table(path).to_pylist() if row["split"] == split]


every_case = pytest.mark.parametrize(
    ("task", "pairing"), [("sst", None), ("para", "cross"), ("para", "siamese"), ("sts", "cross")]
)


@settings(max_examples=200)
@given(
    a=st.lists(st.integers(5, 99), max_size=20),
    b=st.lists(st.integers(5, 99), min_size=1, max_size=20),
    longest=st.integers(8, 24),
)
def test_frames_lose_the_longer_sentences_end_first(
    a: list[int], b: list[int], longest: int
) -> None:
    for second in (b, None):
        row, of_type_1 = frame(
            array(*a), None if second is None else array(*second), SPECIAL, longest
        )
        ids, types = naive(a, second, longest)
        assert row.tolist() == ids and of_type_1 == sum(types)


@every_case
def test_batches_are_what_a_plain_construction_gives(
    task: str, pairing: Any, tokens: dict[str, Path], read: Any
) -> None:
    table = rows_of(tokens[task], "train")
    everything = expected_rows(table, pairing)
    chosen = [4, 1, 0, 1, len(table) - 1]
    packed, labels = read(tokens[task], task, pairing)["train"].batch(torch.tensor(chosen))
    sides = [0, len(table)] if pairing == "siamese" else [0]
    expected = [everything[side + row] for side in sides for row in chosen]
    assert packed.tokens.tolist() == [token for ids, _ in expected for token in ids]
    assert packed.types.tolist() == [kind for _, types in expected for kind in types]
    assert packed.lengths.tolist() == [len(ids) for ids, _ in expected]
    assert packed.longest == max(len(ids) for ids, _ in expected) == MAX
    assert packed.tokens.dtype == packed.types.dtype == packed.lengths.dtype == torch.int64
    assert labels.tolist() == [table[row]["label"] for row in chosen]
    assert read(tokens[task], task, pairing)["test"].labels.isnan().all()


def test_distinct_sequences_are_told_apart_by_tokens_and_types() -> None:
    # A literal [SEP] in a sentence: the same tokens can be two different pairs.
    pairs = [([7], [8, SEP, 9]), ([7, SEP, 8], [9]), ([7, 8, SEP], [9]), ([7], [8, SEP, 9])]
    framed = [frame(array(*a), array(*b), SPECIAL, MAX) for a, b in pairs]
    found, places = Sequences(framed, CPU).distinct()
    assert found.tolist() == [0, 1, 2] and places.tolist() == [0, 1, 2, 0]


@every_case
def test_each_distinct_sequence_is_encoded_once_and_order_restored(
    task: str, pairing: Any, tokens: dict[str, Path], read: Any
) -> None:
    seen: list[tuple[int, ...]] = []

    def first_and_last(batches: Sequence[tuple[str, Packed]]) -> list[Tensor]:
        ((_, batch),) = batches
        rows = batch.tokens.split(batch.lengths.tolist())
        seen.extend(tuple(row.tolist()) for row in rows)
        return [torch.stack([row[[1, -2]] for row in rows]).double()]

    found = read(tokens[task], task, pairing)["dev"].pool(first_and_last)
    expected = [ids for ids, _ in expected_rows(rows_of(tokens[task], "dev"), pairing)]
    assert found.dtype == torch.float32
    assert found.tolist() == [[float(ids[1]), float(ids[-2])] for ids in expected]
    assert len(seen) == len(set(seen)) < len(expected)
    assert set(seen) == {tuple(ids) for ids in expected}
