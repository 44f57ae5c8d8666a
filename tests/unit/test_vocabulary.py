"""The WordPiece vocabulary: same in every process, whole words first, nothing unknown."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from minbert.base.errors import UserError
from minbert.data.corpus.pretraining import pretraining_text
from minbert.data.vocabulary import train_vocabulary
from minbert.data.wordpiece import SPECIAL_TOKENS


def texts(n: int) -> list[str]:
    return [t for x in pretraining_text(0, n) for t in ([x] if isinstance(x, str) else x)]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    out = tmp_path_factory.mktemp("vocabulary") / "tokenizer.json"
    train_vocabulary(texts(4_000), 2_000, out)
    return Tokenizer.from_file(str(out))


def test_size_and_special_tokens(tokenizer: Tokenizer) -> None:
    assert 1_500 < tokenizer.get_vocab_size() <= 2_000
    assert [tokenizer.token_to_id(t) for t in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]


def test_words_of_the_corpus_are_mostly_whole_and_never_unknown(tokenizer: Tokenizer) -> None:
    pieces = words = 0
    for text in texts(500):
        tokens = tokenizer.encode(text, add_special_tokens=False).tokens
        assert "[UNK]" not in tokens
        pieces, words = pieces + len(tokens), words + len(text.split())
    assert 1.0 <= pieces / words < 1.1


def test_other_words_are_spelt_out(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("It isn't a Café, 42 xylophones!", add_special_tokens=False).tokens
    assert "[UNK]" not in tokens
    assert "".join(t.removeprefix("##") for t in tokens) == "itisn'tacafe,42xylophones!"


def test_special_tokens_stand_round_sentences(tokenizer: Tokenizer) -> None:
    encoded = tokenizer.encode("a chef", "a baker")
    assert encoded.tokens == ["[CLS]", "a", "chef", "[SEP]", "a", "baker", "[SEP]"]
    assert encoded.type_ids == [0, 0, 0, 0, 1, 1, 1]


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    """Hash seeds differ between processes; the file does not."""
    script = (
        "import sys; from pathlib import Path\n"
        "from minbert.data.vocabulary import train_vocabulary\n"
        "train_vocabulary(['the cat sat', 'the hat', 'a mat', 'tin man can'] * 3, 120,"
        " Path(sys.argv[1]))\n"
    )
    found = []
    for seed in ("1", "2"):
        out = tmp_path / f"{seed}.json"
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, "-c", script, str(out)], check=True, env=environment)
        found.append(hashlib.sha256(out.read_bytes()).hexdigest())
    assert found[0] == found[1]


def test_frequent_words_come_first_and_ties_by_text(tmp_path: Path) -> None:
    out = tmp_path / "tokenizer.json"
    train_vocabulary(["bb aa", "cc cc"], 120, out)
    vocabulary = Tokenizer.from_file(str(out)).get_vocab()
    assert vocabulary["cc"] < vocabulary["aa"] < vocabulary["bb"]


def test_pieces_cover_words_left_out(tmp_path: Path) -> None:
    out = tmp_path / "tokenizer.json"
    common = [f"{a}{b}" for a in "abcdefgh" for b in "klmnopqr"]
    train_vocabulary([*common * 3, "zsinging zbringing"], 170, out)
    tokens = Tokenizer.from_file(str(out)).encode("zsinging", add_special_tokens=False).tokens
    assert "zsinging" not in tokens and 1 < len(tokens) < 8


def test_a_vocabulary_too_small_for_the_characters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a vocabulary of 20 entries is too small"):
        train_vocabulary(["a chef"], 20, tmp_path / "tokenizer.json")
    assert list(tmp_path.iterdir()) == []
