"""Examples as packed batches, and whole splits encoded."""

from __future__ import annotations

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
from minbert.train.examples import Examples, Sequences, frame, read_examples

CPU = torch.device("cpu")
SPECIAL = Framing((2,), (3,), (3,))
CLS, SEP = 2, 3
MAX = 14

Row = tuple[list[int], list[int]]
Case = tuple[dict[str, Examples], str | None, list[dict[str, Any]]]


def framed(a: list[int], b: list[int] | None, longest: int = MAX) -> np.ndarray:
    first, second = (None if side is None else np.array(side, np.int32) for side in (a, b))
    assert first is not None
    return frame(first, second, SPECIAL, longest)


def naive(first: list[int], second: list[int] | None, longest: int = MAX) -> Row:
    """Frame one sentence or a pair, a token at a time; return ids and token types."""
    a, b = list(first), list(second or [])
    if second is None:
        a = a[: longest - 2]
        return [CLS, *a, SEP], [0] * (len(a) + 2)
    while len(a) + len(b) > longest - 3:
        # Of two as long, that loses a token first which was not the longer one.
        (a if (len(a), len(second)) > (len(b), len(first) - 1) else b).pop()
    return [CLS, *a, SEP, *b, SEP], [0] * (len(a) + 2) + [1] * (len(b) + 1)


def expected_rows(case: Case, split: str) -> list[Row]:
    _, pairing, table = case
    rows = [row for row in table if row["split"] == split]
    if pairing == "cross":
        return [naive(r["tokens1"], r["tokens2"]) for r in rows]
    sides = ["tokens1", "tokens2"] if pairing else ["tokens1"]
    return [naive(r[side], None) for side in sides for r in rows]


@pytest.fixture(params=[("sst", None), ("para", "cross"), ("para", "siamese"), ("sts", "cross")])
def case(request: Any, tokens: dict[str, Path], backbone: Path) -> Case:
    """A task's examples by split, how its pairs are encoded, and the rows of its tokens."""
    task, pairing = request.param
    found = read_examples(tokens[task], pairing, backbone, MAX, CPU)
    return found, pairing, pq.read_table(tokens[task]).to_pylist()


@settings(max_examples=200)
@given(
    a=st.lists(st.integers(5, 99), max_size=20),
    b=st.lists(st.integers(5, 99), min_size=1, max_size=20) | st.none(),
    longest=st.integers(8, 24),
)
def test_frames_lose_the_longer_sentences_end_first(
    a: list[int], b: list[int] | None, longest: int
) -> None:
    assert tuple(framed(a, b, longest).tolist()) == naive(a, b, longest)


def test_batches_are_what_a_plain_construction_gives(case: Case) -> None:
    examples, everything = case[0]["train"], expected_rows(case, "train")
    chosen = [4, 1, 0, 1, len(examples) - 1]
    packed, labels = examples.batch(torch.tensor(chosen))
    sides = [0, len(examples)] if case[1] == "siamese" else [0]
    expected = [everything[side + row] for side in sides for row in chosen]
    assert packed.tokens.tolist() == [token for ids, _ in expected for token in ids]
    assert packed.types.tolist() == [kind for _, types in expected for kind in types]
    assert packed.lengths.tolist() == [len(ids) for ids, _ in expected]
    assert packed.longest == max(len(ids) for ids, _ in expected) == MAX
    assert packed.tokens.dtype == packed.types.dtype == packed.lengths.dtype == torch.int64
    assert labels.tolist() == [case[2][row]["label"] for row in chosen]
    assert case[0]["test"].labels.isnan().all()


def test_distinct_sequences_are_told_apart_by_tokens_and_types() -> None:
    # A literal [SEP] in a sentence: the same tokens can be two different pairs.
    pairs = [([7], [8, SEP, 9]), ([7, SEP, 8], [9]), ([7, 8, SEP], [9]), ([7], [8, SEP, 9])]
    found, places = Sequences([framed(a, b) for a, b in pairs], CPU).distinct()
    assert found.tolist() == [0, 1, 2] and places.tolist() == [0, 1, 2, 0]


def test_each_distinct_sequence_is_encoded_once_and_order_restored(case: Case) -> None:
    seen: list[tuple[int, ...]] = []

    def first_and_last(batch: Packed) -> Tensor:
        rows = batch.tokens.split(batch.lengths.tolist())
        seen.extend(tuple(row.tolist()) for row in rows)
        return torch.stack([row[[1, -2]] for row in rows]).double()

    found = case[0]["dev"].inputs.pool(first_and_last)
    expected = [ids for ids, _ in expected_rows(case, "dev")]
    assert found.dtype == torch.float32
    assert found.tolist() == [[float(ids[1]), float(ids[-2])] for ids in expected]
    assert len(seen) == len(set(seen)) < len(expected)
    assert set(seen) == {tuple(ids) for ids in expected}
