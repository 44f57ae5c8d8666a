"""The token table. That ids are those of `transformers`: `tests/acceptance/test_tokens.py`."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer

from minbert.base.errors import UserError
from minbert.data.examples import Example, write_examples
from minbert.data.parquet import read_file
from minbert.data.tokenise import SCHEMA, encode, tokenise
from minbert.data.tokenizer import load_tokenizer, save_tokenizer
from minbert.data.wordpiece import SPECIAL_TOKENS, bert_tokenizer

WORDS = [*SPECIAL_TOKENS, "a", "film", "fine", "##ly", "un", "##affable", "the", "is", "cafe", "!"]
THE, FILM, FINE, IS = (WORDS.index(word) for word in ("the", "film", "fine", "is"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a tokenizer."""
    made = bert_tokenizer({word: number for number, word in enumerate(WORDS)})
    save_tokenizer(made, tmp_path / "tokenizer.json")
    return tmp_path / "tokenizer.json"


def test_word_pieces(path: Path) -> None:
    tokenizer = load_tokenizer(path)
    ids, none = encode(tokenizer, ["Unaffable film, finely CAFÉ!", None])
    assert none is None
    expected = ["un", "##affable", "film", "[UNK]", "fine", "##ly", "cafe", "!"]
    assert ids is not None and [tokenizer.id_to_token(i) for i in ids] == expected


def test_padding_and_truncation_of_the_file_are_switched_off(path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=8)
    save_tokenizer(tokenizer, path)
    assert [
        len(ids) for ids in encode(load_tokenizer(path), ["a", "a a a a"]) if ids is not None
    ] == [1, 4]


def test_token_table(path: Path, tmp_path: Path) -> None:
    rows = [
        Example("p1", "train", "The film", "is fine", 4.75),
        Example("p2", "test", "a", "the " * 600, None),
    ]
    write_examples(rows, tmp_path / "examples.parquet")
    made = [tmp_path / "tokens.parquet", tmp_path / "again.parquet"]
    for out in made:
        tokenise(tmp_path / "examples.parquet", path, out)
    assert made[0].read_bytes() == made[1].read_bytes()
    table = read_file(made[0])
    assert table.schema.equals(SCHEMA)
    first, second = table.to_pylist()
    named = {"id": "p1", "split": "train", "label": 4.75}
    assert first == {**named, "tokens1": [THE, FILM], "tokens2": [IS, FINE]}
    assert second["label"] is None and second["tokens2"] == [THE] * 510
    assert os.environ["TOKENIZERS_PARALLELISM"] in ("true", "false")


def test_batches_are_limited_by_their_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[list[int]] = []

    def encoded(texts: list[str], add_special_tokens: bool) -> list[SimpleNamespace]:
        batches.append([len(text) for text in texts])
        return [SimpleNamespace(ids=[len(text)]) for text in texts]

    monkeypatch.setattr("minbert.data.tokenise.CHARACTERS", 10)
    lengths = [3, 3, 3, 9, 25, 1, 4]
    found = encode(SimpleNamespace(encode_batch_fast=encoded), ["a" * n for n in lengths])
    assert [*map(list, found)] == [[n] for n in lengths]
    assert batches == [[3, 3, 3], [9], [25, 1, 4]]


def test_order_survives_more_rows_than_a_batch(path: Path, tmp_path: Path) -> None:
    counts = [1 + i % 7 for i in range(2500)]
    rows = [Example(str(i), "train", "the " * n, None, 1.0) for i, n in enumerate(counts)]
    write_examples(rows, tmp_path / "e.parquet")
    tokenise(tmp_path / "e.parquet", path, tmp_path / "t.parquet")
    table = read_file(tmp_path / "t.parquet")
    assert table["tokens1"].to_pylist() == [[THE] * n for n in counts]
    assert set(table["tokens2"].to_pylist()) == {None}


def test_no_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such tokenizer: .*tokenizer\.json"):
        load_tokenizer(tmp_path / "tokenizer.json")
