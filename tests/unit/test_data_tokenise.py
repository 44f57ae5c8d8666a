"""The token table."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import BertWordPieceTokenizer, Tokenizer

from minbert.base.errors import UserError
from minbert.data.examples import Example, write_examples
from minbert.data.parquet import read_file
from minbert.data.tokenise import BATCH, SCHEMA, encode, tokenise
from minbert.data.tokenizer import load_tokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS += ["a", "film", "fine", "##ly", "un", "##affable", "the", "is", "cafe", "!"]
THE, FILM, FINE, IS = (WORDS.index(word) for word in ("the", "film", "fine", "is"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a tokenizer."""
    made = BertWordPieceTokenizer({word: number for number, word in enumerate(WORDS)})
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_word_pieces_without_the_files_padding_and_truncation(path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=18)
    tokenizer.save(str(path))
    tokenizer = load_tokenizer(path)
    ids, none = encode(tokenizer, ["Unaffable film, finely CAFÉ!", None])
    assert none is None
    expected = ["un", "##affable", "film", "[UNK]", "fine", "##ly", "cafe", "!"]
    assert ids is not None and [tokenizer.id_to_token(i) for i in ids] == expected
    with pytest.raises(UserError, match=r"none: not a tokenizer\.json of `tok"):
        load_tokenizer(path.with_name("none"))


def test_token_table(path: Path, tmp_path: Path) -> None:
    rows = [
        Example("p1", "train", "The film", "is fine", 4.75),
        Example("p2", "test", "a", "the " * 600, None),
    ]
    counts = [1 + i % 7 for i in range(2 * BATCH + 1)]
    rows += [Example(str(i), "train", "the " * n, None, 1.0) for i, n in enumerate(counts)]
    write_examples(rows, tmp_path / "examples.parquet")
    tokenise(tmp_path / "examples.parquet", path, tmp_path / "tokens.parquet")
    table = read_file(tmp_path / "tokens.parquet")
    assert table.schema.equals(SCHEMA)
    first, second, *others = table.to_pylist()
    named = {"id": "p1", "split": "train", "label": 4.75}
    assert first == {**named, "tokens1": [THE, FILM], "tokens2": [IS, FINE]}
    assert second["label"] is None and second["tokens2"] == [THE] * 510
    assert [row["tokens1"] for row in others] == [[THE] * n for n in counts]
    assert {row["tokens2"] for row in others} == {None}
