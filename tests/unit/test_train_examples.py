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
from model_batches import alone
from torch import Tensor

from minbert.base.errors import UserError
from minbert.data.tokenizer import Framing
from minbert.model.packed import Packed
from minbert.train.examples import Examples, by_length, frame, reader
from minbert.train.finetune import Finetuned

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
    assert labels.dtype == torch.float32


def test_labels_stay_real_numbers_and_absent_ones_are_nan(
    tokens: dict[str, Path], read: Any
) -> None:
    found = read(tokens["sts"], "sts", "cross")
    assert not torch.equal(found["dev"].labels, found["dev"].labels.round())
    assert len(found["test"]) == 5 and bool(found["test"].labels.isnan().all())
    assert found["test"].ids == [f"sts-test-{n}" for n in range(5)]


def one_row(write_tokens: Any, folder: Path, *tokens: int) -> Path:
    row = {"id": "a", "split": "train", "label": 1.0, "tokens1": tokens, "tokens2": None}
    path: Path = write_tokens(folder / "tokens.parquet", [row])
    return path


def test_a_split_without_rows(write_tokens: Any, tmp_path: Path, read: Any) -> None:
    splits = read(one_row(write_tokens, tmp_path, 7), "sst", None)
    assert [len(splits[split]) for split in ("train", "dev", "test")] == [1, 0, 0]
    with pytest.raises(ValueError, match="no examples of task 'sst'"):
        splits["dev"].pool(lambda batches: [batches[0][1].tokens[:, None].float()])


@pytest.mark.parametrize("token", [-1, 60, 2**31 - 1])
def test_tokens_beyond_the_vocabulary_are_refused(
    write_tokens: Any, tmp_path: Path, token: int, read: Any
) -> None:
    wrong = rf"tokens.parquet: train has tokens from .*{token}.*, expected 0 to 59 .*; delete "
    with pytest.raises(UserError, match=wrong):
        read(one_row(write_tokens, tmp_path, 7, token), "sst", None)


def test_distinct_sequences_are_told_apart_by_tokens_and_types(
    write_tokens: Any, tmp_path: Path, read: Any
) -> None:
    # A literal [SEP] in a sentence: the same tokens can be two different pairs.
    pairs = [([7], [8, SEP, 9]), ([7, SEP, 8], [9]), ([7, 8, SEP], [9]), ([7], [8, SEP, 9])]
    rows = [
        {"id": f"{n}", "split": "train", "label": 1.0, "tokens1": a, "tokens2": b}
        for n, (a, b) in enumerate(pairs)
    ]
    path = write_tokens(tmp_path / "tokens.parquet", rows)
    found, places = read(path, "para", "cross")["train"].distinct()
    assert found.tolist() == [0, 1, 2] and places.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(("limit", "count"), [(1, 9), (20, 5), (64, 3), (10_000, 1)])
def test_evaluation_batches_cover_each_row_once_within_the_limit(limit: int, count: int) -> None:
    lengths = np.array([5, 30, 2, 2, 9, 17, 2, 30, 4])
    parts = list(by_length(lengths, limit))
    assert sorted(np.concatenate(parts).tolist()) == list(range(9)) and len(parts) == count
    assert all(len(p) == 1 or len(p) * lengths[p].max() <= limit for p in parts)


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


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@every_case
def test_outputs_of_a_split_are_those_of_its_examples_one_by_one(
    task: str, pairing: Any, pooling: str, make_spec: Any, sources: Any
) -> None:
    chosen = {"pooling": pooling, "features": ("u", "v", "|u-v|") if pairing == "siamese" else ()}
    spec = make_spec({task: chosen | ({"pairing": pairing} if pairing else {})})
    model = Finetuned(spec, sources(task), CPU)
    model.module.eval()
    found, examples = model.outputs(task, "dev"), model.examples[task]["dev"]
    assert not found.requires_grad
    with torch.no_grad():
        rows = (examples.batch(torch.tensor([n]))[0] for n in range(len(examples)))
        singles = [alone(model.module, task, row) for row in rows]
    torch.testing.assert_close(found, torch.cat(singles), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("asked", "found"), [(512, 24), (10, 10)])
def test_sequences_are_cut_to_the_backbones_positions(
    asked: int, found: int, make_spec: Any, sources: Any
) -> None:
    model = Finetuned(make_spec(("sst",), max_length=asked), sources("sst"), CPU)
    assert model.examples["sst"]["train"].lengths.max() == found
