"""Examples as packed batches, and whole splits encoded."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_batches import pack
from torch import Tensor

from minbert.base.errors import UserError
from minbert.data.tokenizer import Framing
from minbert.model.packed import Packed
from minbert.train.examples import (
    Examples,
    Sequences,
    frame,
    read_examples,
    special_tokens,
)
from minbert.train.finetune import Finetuned
from minbert.train.inference import batches, distinct, pool_all

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


def read(tokens: dict[str, Path], task: str, pairing: Any, split: str = "train") -> Examples:
    return read_examples(tokens[task], task, pairing, SPECIAL, MAX, CPU, 1000)[split]


def written(tokens: dict[str, Path], task: str, split: str = "train") -> list[dict[str, Any]]:
    return [row for row in pq.read_table(tokens[task]).to_pylist() if row["split"] == split]


CASES = [("sst", None), ("para", "cross"), ("para", "siamese"), ("sts", "cross")]


def test_special_tokens_of_the_tokenizer(backbone: Path) -> None:
    assert special_tokens(backbone / "tokenizer.json", two_types=True) == SPECIAL


def test_frames() -> None:
    one, none = frame(array(7, 8), None, SPECIAL, 10)
    assert one.tolist() == [CLS, 7, 8, SEP] and none == 0
    pair, second = frame(array(7, 8), array(9), SPECIAL, 10)
    assert pair.tolist() == [CLS, 7, 8, SEP, 9, SEP] and second == 2


@settings(max_examples=200)
@given(
    a=st.lists(st.integers(5, 99), max_size=20),
    b=st.lists(st.integers(5, 99), min_size=1, max_size=20),
    longest=st.integers(8, 24),
)
def test_frames_lose_the_longer_sentences_end_first(
    a: list[int], b: list[int], longest: int
) -> None:
    row, second = frame(array(*a), array(*b), SPECIAL, longest)
    ids, types = naive(a, b, longest)
    assert row.tolist() == ids and second == sum(types)
    row, second = frame(array(*a), None, SPECIAL, longest)
    assert row.tolist() == naive(a, None, longest)[0] and second == 0


@pytest.mark.parametrize(("task", "pairing"), CASES)
def test_batches_are_what_a_plain_construction_gives(
    task: str, pairing: Any, tokens: dict[str, Path]
) -> None:
    examples = read(tokens, task, pairing)
    table = written(tokens, task)
    everything = expected_rows(table, pairing)
    chosen = [4, 1, 0, 1, len(table) - 1]
    packed, labels = examples.batch(torch.tensor(chosen))
    sides = [0, len(table)] if pairing == "siamese" else [0]
    expected = [everything[side + row] for side in sides for row in chosen]
    assert packed.tokens.tolist() == [token for ids, _ in expected for token in ids]
    assert packed.types.tolist() == [kind for _, types in expected for kind in types]
    assert packed.lengths.tolist() == [len(ids) for ids, _ in expected]
    assert packed.longest == max(len(ids) for ids, _ in expected) == MAX
    assert packed.tokens.dtype == packed.types.dtype == packed.lengths.dtype == torch.int64
    assert labels.tolist() == [table[row]["label"] for row in chosen]
    assert labels.dtype == torch.float32


def test_a_batch_equals_packeds_own_building(tokens: dict[str, Path]) -> None:
    found, _ = read(tokens, "para", "cross").batch(torch.tensor([3, 2, 7]))
    built = pack(found.tokens, found.types, found.lengths)
    assert torch.equal(found.positions, built.positions) and found.longest == built.longest


def test_labels_stay_real_numbers_and_absent_ones_are_nan(tokens: dict[str, Path]) -> None:
    dev = read(tokens, "sts", "cross", "dev")
    assert not torch.equal(dev.labels, dev.labels.round())
    test = read(tokens, "sts", "cross", "test")
    assert len(test) == 5 and bool(test.labels.isnan().all())
    assert test.ids == [f"sts-test-{n}" for n in range(5)]


def test_a_split_without_rows(write_tokens: Any, tmp_path: Path) -> None:
    row = {"id": "a", "split": "train", "label": 1.0, "tokens1": [7], "tokens2": None}
    path = write_tokens(tmp_path / "tokens.parquet", [row])
    splits = read_examples(path, "sst", None, SPECIAL, MAX, CPU, 1000)
    assert [len(splits[split]) for split in ("train", "dev", "test")] == [1, 0, 0]
    with pytest.raises(ValueError, match="no examples of task 'sst'"):
        pool_all(lambda batch: batch.tokens[:, None].float(), splits["dev"])


@pytest.mark.parametrize("token", [-1, 1000, 2**31 - 1])
def test_tokens_beyond_the_vocabulary_are_refused(
    write_tokens: Any, tmp_path: Path, token: int
) -> None:
    row = {"id": "a", "split": "dev", "label": 1.0, "tokens1": [7, token], "tokens2": None}
    path = write_tokens(tmp_path / "tokens.parquet", [row])
    wrong = rf"tokens.parquet: dev has tokens from .*{token}.*, expected 0 to 999 .*; delete "
    with pytest.raises(UserError, match=wrong):
        read_examples(path, "sst", None, SPECIAL, MAX, CPU, 1000)


def test_distinct_sequences_are_told_apart_by_tokens_and_types() -> None:
    # A literal [SEP] in a sentence: the same tokens can be two different pairs.
    framed = [
        frame(array(7, SEP, 8), array(9), SPECIAL, MAX),
        frame(array(7), array(8, SEP, 9), SPECIAL, MAX),
        frame(array(7, 8, SEP), array(9), SPECIAL, MAX),
        frame(array(7), array(8, SEP, 9), SPECIAL, MAX),
    ]
    framed[0] = (framed[1][0], framed[0][1])
    rows, places = distinct(Sequences([r for r, _ in framed], [n for _, n in framed], CPU))
    assert rows.tolist() == [0, 1, 2] and places.tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize("limit", [1, 20, 64, 10_000])
def test_evaluation_batches_cover_each_row_once_within_the_limit(limit: int) -> None:
    lengths = np.array([5, 30, 2, 2, 9, 17, 2, 30, 4])
    parts = list(batches(lengths, limit))
    assert sorted(np.concatenate(parts).tolist()) == list(range(9))
    assert all(len(p) == 1 or len(p) * lengths[p].max() <= limit for p in parts)
    assert len(parts) == {1: 9, 20: 5, 64: 3, 10_000: 1}[limit]


@pytest.mark.parametrize(("task", "pairing"), CASES)
def test_each_distinct_sequence_is_encoded_once_and_order_restored(
    task: str, pairing: Any, tokens: dict[str, Path]
) -> None:
    examples = read(tokens, task, pairing, "dev")
    seen: list[tuple[int, ...]] = []

    def first_and_last(batch: Packed) -> Tensor:
        rows = batch.tokens.split(batch.lengths.tolist())
        seen.extend(tuple(row.tolist()) for row in rows)
        return torch.stack([row[[1, -2]] for row in rows]).double()

    found = pool_all(first_and_last, examples)
    expected = [ids for ids, _ in expected_rows(written(tokens, task, "dev"), pairing)]
    assert found.dtype == torch.float32
    assert found.tolist() == [[float(ids[1]), float(ids[-2])] for ids in expected]
    assert len(seen) == len(set(seen)) < len(expected)
    assert set(seen) == {tuple(ids) for ids in expected}


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize(("task", "pairing"), CASES)
def test_outputs_of_a_split_are_those_of_its_examples_one_by_one(
    task: str, pairing: Any, pooling: str, make_spec: Any, sources: Any
) -> None:
    chosen: dict[str, Any] = {"pooling": pooling}
    if pairing:
        chosen["pairing"] = pairing
    if pairing == "siamese":
        chosen["features"] = ["u", "v", "|u-v|"]
    spec = make_spec({task: chosen})
    learner = Finetuned(spec, sources(task), CPU)
    learner.module.eval()
    found = learner.outputs(task, "dev")
    assert not found.requires_grad
    examples = learner.examples[task]["dev"]
    with torch.no_grad():
        forward = partial(learner.module, task)
        singles = [forward(examples.batch(torch.tensor([n]))[0]) for n in range(len(examples))]
    torch.testing.assert_close(found, torch.cat(singles), rtol=1e-5, atol=1e-5)


def test_sequences_are_cut_to_the_backbones_positions(make_spec: Any, sources: Any) -> None:
    learner = Finetuned(make_spec(("sst",), max_length=512), sources("sst"), CPU)
    assert learner.examples["sst"]["train"].sequences.lengths.max() == 24
    shorter = Finetuned(make_spec(("sst",), max_length=10), sources("sst"), CPU)
    assert shorter.examples["sst"]["train"].sequences.lengths.max() == 10
