"""The token table, and tokens that are those of `transformers`, or their folder is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import encoders
import pytest
from tokenizers import BertWordPieceTokenizer, Tokenizer

from minbert.base.errors import UserError
from minbert.data.examples import Example, write_examples
from minbert.data.parquet import read_file
from minbert.data.tokenise import BATCH, SCHEMA, encode, tokenise
from minbert.data.tokenizer import folder_tokenizer, load_tokenizer, save_tokenizer
from minbert.spec.hugging_face import from_hugging_face
from minbert.train.examples import frame, special_tokens

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
    save_tokenizer(tokenizer, path)
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


Edit = Callable[[Path], None]
SETTINGS, ADDED = "tokenizer_config.json", "added_tokens.json"


def put(name: str, **values: Any) -> Edit:
    """Merge values into a JSON file of the folder."""

    def edit(folder: Path) -> None:
        found = json.loads((folder / name).read_text("utf-8")) if (folder / name).exists() else {}
        (folder / name).write_text(json.dumps(found | values), encoding="utf-8")

    return edit


def cased(folder: Path) -> None:
    """Make BERT's tokenizer keep case and accents, as it is saved then."""
    made = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    made["normalizer"] |= {"lowercase": False, "strip_accents": False}
    put("tokenizer.json", **made)(folder)
    put(SETTINGS, do_lower_case=False, strip_accents=False)(folder)


def saved(folder: Path) -> None:
    """Write all that `save_pretrained` writes of the folder's tokenizer, with tokens added."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["[USER]", "covid19"])
    tokenizer.save_pretrained(folder)


def folder_of(family: str, folder: Path, *edits: Edit) -> Path:
    """Fill a folder with the `config.json` and tokenizer of an encoder."""
    import transformers

    name, settings, write_tokenizer = encoders.CONFIGS[family]
    config = getattr(transformers, f"{name}Config")(**settings | {"vocab_size": 310})
    config.save_pretrained(folder)
    for edit in (write_tokenizer, *edits):
        edit(folder)
    return folder


TEXTS = [
    "[USER] and [user] liked covid19 and covid-19, isn't it?",
    "Café naïve ÉCOLE the東京film 😀 👍🏽",
    "a literal [SEP] and [MASK] , </s> and <mask>",
    "two  spaces\tand a tab",
    "the long film " * 9,
    "\u200d",  # nothing in a WordPiece vocabulary
]


@pytest.mark.parametrize(
    ("family", "edits"),
    [
        *((family, ()) for family in encoders.FAMILIES if family != "roberta"),
        *((family, (saved,)) for family in ("bert", "roberta", "modernbert")),
        ("bert", (cased, saved)),
    ],
)
def test_sentences_and_pairs_are_framed_and_cut_as_by_transformers(
    family: str, edits: tuple[Edit, ...], tmp_path: Path
) -> None:
    """Where both sentences are cut, the longer keeps the odd token: the second of two as long."""
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(folder_of(family, tmp_path, *edits))
    arch = from_hugging_face(tmp_path / "config.json")
    ids = encode(folder_tokenizer(tmp_path, arch), TEXTS)
    special = special_tokens(tmp_path / "tokenizer.json", arch.two_types)
    known = [(text, made) for text, made in zip(TEXTS, ids, strict=True) if made is not None]
    for longest in (500, 30, 13, 12):
        for text, a in known:
            for other, b in (("", None), *known):
                given = (text,) if b is None else (text, other)
                found = theirs(*given, truncation=True, max_length=longest)
                types = found.get("token_type_ids", []) if arch.two_types else []
                row, kinds = frame(a, b, special, longest).tolist()
                assert (row, sum(kinds)) == (found["input_ids"], sum(types)), (given, longest)


MORE = {"additional_special_tokens": ["[USER]"]}
MASK = {"9": {"content": "<M>", "lstrip": True}}


@pytest.mark.parametrize(
    ("family", "edit", "message"),
    [
        (
            "bert",
            put(SETTINGS, do_lower_case=False),
            "config.json: do_lower_case is not True as in",
        ),
        ("roberta", put(ADDED, covid19=7), "added_tokens.json: 'covid19' is no token of tokenizer"),
        (
            "electra",
            put("special_tokens_map.json", **MORE),
            "map.json: '.USER.' is no token of tok",
        ),
        (
            "modernbert",
            put(SETTINGS, added_tokens_decoder=MASK),
            "'<M>' is no token.* Make one tok",
        ),
        (
            "roberta",
            encoders.write_word_pieces,
            "json: bos_token_id is 0; the tokenizer belongs to",
        ),
        (
            "bert",
            put("config.json", vocab_size=100),
            "token id 299, .* vocab_size is 100; the token",
        ),
        ("bert", put("tokenizer.json", post_processor=None), "a pair becomes .* expected special"),
        (
            "bert",
            lambda folder: (folder / "tokenizer.json").unlink(),
            r"has no tokenizer.json. Make",
        ),
    ],
)
def test_a_folder_that_is_refused(family: str, edit: Edit, message: str, tmp_path: Path) -> None:
    folder_of(family, tmp_path, edit)
    with pytest.raises(UserError, match=message) as told:
        folder_tokenizer(tmp_path, from_hugging_face(tmp_path / "config.json"))
    assert str(tmp_path) in str(told.value) and "\n" not in str(told.value)
