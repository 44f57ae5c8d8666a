"""Bad input that no other test has: refused with its name and place, or read as it is."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from own_files import read

from minbert.base.errors import UserError
from minbert.base.files import LARGEST
from minbert.data.examples import write_examples
from minbert.data.parquet import read_file
from minbert.data.tokenise import MAX_TOKENS, encode, tokenise
from minbert.data.tokenizer import save_tokenizer
from minbert.data.wordpiece import SPECIAL_TOKENS, bert_tokenizer
from minbert.evaluate.text import latex, markdown
from minbert.plan.experiment import Sources
from minbert.spec.config import load_config

HEADER = "\tid\tsentence\tsentiment\n"
BERT = {
    **{"model_type": "bert", "vocab_size": 100, "hidden_size": 32, "hidden_act": "gelu"},
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64},
    **{"max_position_embeddings": 64, "type_vocab_size": 2},
}


def file(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "ids-sst-train.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_sentence_of_50_000_words_is_kept_and_cut_where_tokens_are(tmp_path: Path) -> None:
    sentence = "fine " * 50_000
    path = file(tmp_path, HEADER + f"0\ta\t{sentence}\t3\n1\tb\tfine\t3\n")
    examples, rejected, _ = read("sst", train=path)
    assert rejected == [] and examples[0].sentence1 == sentence.strip()
    write_examples("sst", examples, tmp_path / "data" / "examples.parquet")
    vocabulary = tmp_path / "tokenizer.json"
    save_tokenizer(
        bert_tokenizer({w: n for n, w in enumerate([*SPECIAL_TOKENS, "fine"])}), vocabulary
    )
    tokenise(tmp_path / "data" / "examples.parquet", vocabulary, tmp_path / "tokens.parquet")
    tokens = read_file(tmp_path / "tokens.parquet")["tokens1"].to_pylist()
    assert tokens == [[5] * MAX_TOKENS, [5]]


def test_a_nul_byte_rejects_only_its_row(tmp_path: Path) -> None:
    path = file(tmp_path, HEADER + "0\ta\tgo\0od\t3\n1\tb\tgood\t3\n")
    examples, (bad,), _ = read("sst", train=path)
    assert [e.id for e in examples] == ["b"]
    assert (bad.line, bad.reason) == (2, "sentence contains a NUL byte")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER.encode("utf-16"), r"is UTF-16, expected UTF-8 text; convert it: iconv -f utf-16"),
        (HEADER.replace("\n", "\r").encode(), r"lines end with carriage returns, .*convert"),
        (gzip.compress(HEADER.encode(), mtime=0), r"is a gzip file, .*; unpack it: gunzip"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer, .*git lfs pull"),
        (b"<!DOCTYPE html>\n<html>", "is an HTML page, expected UTF-8 text; download the file"),
    ],
)
def test_what_is_no_table_is_called_what_it_is(
    tmp_path: Path, content: bytes, message: str
) -> None:
    with pytest.raises(UserError, match=rf"train\.csv: .*{message}"):
        read("sst", train=file(tmp_path, content))


def test_a_quoted_header_is_read(tmp_path: Path) -> None:
    quoted = '\t"id"\t"sentence"\t"sentiment"\n'
    examples, *_ = read("sst", train=file(tmp_path, f"{quoted}0\ta\tgood\t3\n"))
    assert [example.id for example in examples] == ["a"]


def test_an_endless_file_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "train.csv").open("wb") as sparse:
        sparse.truncate(9 << 30)
    with pytest.raises(UserError, match=r"train\.csv: has more than 64 MiB, which are expected"):
        read("sst", train=tmp_path / "train.csv")


@pytest.mark.parametrize("row", ["\n", "x\n", "\U0001f600", "1\ta\tgood\t3\n"])
def test_no_file_takes_a_gigabyte(tmp_path: Path, row: str) -> None:
    """As many bytes as are read, in a process that may not have more memory."""
    file(tmp_path, HEADER + row * ((LARGEST - 100) // len(row.encode())))
    script = (
        "import resource, sys; from pathlib import Path; from own_files import read\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))\n"
        "try: found = read('sst', train=Path(sys.argv[1])); print(len(found[0]), found[1][0])\n"
        "except Exception as error: print(error)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "ids-sst-train.csv")]
    said = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    ).stdout
    expected = (
        "1 columns, but the header has 4"
        if row == "\U0001f600"
        else " lines, expected at most 1,000,000"
    )
    assert expected in said


@pytest.mark.parametrize("twice", ["id", "sentence", "sentiment"])
def test_two_columns_of_one_name(tmp_path: Path, twice: str) -> None:
    path = file(tmp_path, f"\tid\tsentence\tsentiment\t {twice}\n0\ta\tgood\t3\t1\n")
    expected = rf"train\.csv, line 1: 2 columns are called '{twice}', expected one; rename"
    with pytest.raises(UserError, match=expected):
        read("sst", train=path)


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("0_1", "label '0_1' is not a number"),
        ("\u0663", "label '\u0663' is not a number"),
        ("nan", "label 'nan' is not a number"),
        ("-inf", "label '-inf' is not a number"),
        ("1e999", "label inf is not between 0 and 5"),
        ("5.0000001", "label 5.0000001 is not between 0 and 5"),
        ("-1e-9", "label -1e-09 is not between 0 and 5"),
        ("7" * 5000, "label inf is not between 0 and 5"),
        ("x" * 5000, f"label '{'x' * 80}' is not a number"),
        ("0x1", "label '0x1' is not a number"),
    ],
)
def test_labels_that_only_python_takes_for_numbers(tmp_path: Path, label: str, reason: str) -> None:
    rows = f"0\ta\tgood\tfine\t{label}\n1\tb\tgood\tfine\t+4.5e0\n"
    path = file(tmp_path, "\tid\tsentence1\tsentence2\tsimilarity\n" + rows)
    (example,), (bad,), _ = read("sts", train=path)
    assert example.label == 4.5
    assert (bad.file, bad.line, bad.reason) == (path.name, 2, reason)


def test_labels_near_a_class_are_shown_with_all_digits(tmp_path: Path) -> None:
    path = file(tmp_path, HEADER + "0\ta\tgood\t2.0000001\n")
    (bad,) = read("sst", train=path)[1]
    assert bad.reason == "label 2.0000001 is not a whole number"


def test_a_sentence_of_megabytes_is_set_aside(tmp_path: Path) -> None:
    path = file(tmp_path, HEADER + f"0\ta\t{'fine ' * 200_001}\t3\n1\tb\tgood\t3\n")
    (example,), (bad,), _ = read("sst", train=path)
    assert example.id == "b"
    assert bad.reason == "sentence has 1,000,004 characters, more than 1,000,000"


def test_long_sentences_are_tokenised_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their encodings take a hundred times their space."""
    vocabulary = {w: n for n, w in enumerate([*SPECIAL_TOKENS, "fine", "good"])}
    tokenizer = bert_tokenizer(vocabulary)
    sentences = ["fine", None, "good fine " * 3, "", "fine good", "good"] * 3
    expected = encode(tokenizer, sentences)
    for most in (1, 7, 30):
        monkeypatch.setattr("minbert.data.tokenise._CHARACTERS", most)
        assert encode(tokenizer, sentences) == expected
    sizes: list[int] = []

    class Counting:
        def encode_batch_fast(self, batch: list[str], add_special_tokens: bool) -> list[Any]:
            sizes.append(sum(map(len, batch)))
            return tokenizer.encode_batch_fast(batch, add_special_tokens=add_special_tokens)

    encode(Counting(), sentences)  # type: ignore[arg-type]
    assert max(sizes) <= 30 + 30 and len(sizes) > 3


def test_html_in_a_sentence_is_text(tmp_path: Path) -> None:
    html = "<script>alert('x')</script> &amp; <img src=x onerror=y>"
    examples, rejected, _ = read("sst", train=file(tmp_path, HEADER + f"0\ta\t{html}\t3\n"))
    assert examples[0].sentence1 == html and rejected == []
    assert "<" not in markdown(html).replace(r"\<", "")
    assert "<" not in latex(html) and "&" not in latex(html).replace(r"\&", "")


def backbone(tmp_path: Path, config: str | bytes) -> Sources:
    folder = tmp_path / "bert"
    folder.mkdir()
    (folder / "config.json").write_bytes(config.encode() if isinstance(config, str) else config)
    values = {"grids": "g", "data": "builtin", "backbone": str(folder)}
    return Sources(load_config(values), tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "gpt2"},
            r"config\.json: model_type is 'gpt2'; known: bert, distilb",
        ),
        ({"model_type": "albert"}, r"Did you mean 'bert'\? Choose such a backbone, or add"),
        ({"model_type": None}, "model_type is 'None'"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'; only GELU is known: gelu, gelu_python, ge"),
        (
            {"hidden_size": "wide"},
            r"config\.json: 'hidden_size' is 'wide'; expected a whole number",
        ),
        ({"num_attention_heads": 5}, "hidden_size 32 is no multiple of num_attention_heads 5"),
        ({"num_hidden_layers": 0}, "num_hidden_layers' is 0; expected greater than"),
        ({"is_decoder": True}, r"config\.json: is_decoder is True; only False is known"),
        ({"add_cross_attention": True}, "add_cross_attention is True; only False"),
        ({"position_embedding_type": "relative_key"}, "is 'relative_key'; only 'absolute' is kno"),
        ({"hidden_act": ["gelu"] * 99}, r"hidden_act is \"\['gelu'[^N]{,80}; only GELU is known"),
        ({"layer_norm_eps": -1e-12}, "layer_norm_eps' is -1e-12; expected greater than 0"),
        ({"layer_norm_eps": 0}, "layer_norm_eps' is 0"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps' is nan"),
        ({"layer_norm_eps": 1e9}, "layer_norm_eps' is 1000000000.0; expected"),
        ({"layer_norm_eps": True}, "layer_norm_eps': expected a number, not true"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps' is 'small'"),
        ({"hidden_size": 32.0}, r"hidden_size' is 32\.0; expected a whole number"),
        ({"hidden_size": True}, "hidden_size': expected a number, not true"),
        ({"hidden_size": [32]}, r"hidden_size' is \[32\]"),
        ({"hidden_size": None}, "hidden_size' is None"),
        ({"vocab_size": 10**30}, "vocab_size' is 1000000000"),
        ({"vocab_size": -1}, "vocab_size' is -1"),
        (
            {"num_hidden_layers": 10**7},
            "is 10000000; expected less than or equal to 256",
        ),
        (
            {"max_position_embeddings": 1},
            "embeddings' is 1; expected greater than or equal to 8",
        ),
        ({"type_vocab_size": 0}, "type_vocab_size' is 0"),
    ],
)
def test_a_backbone_of_another_kind(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        backbone(tmp_path, json.dumps(BERT | config))


def test_all_that_is_wrong_with_a_backbone_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        backbone(tmp_path, json.dumps(BERT | {"hidden_size": 0, "vocab_size": "many"}))
    assert [line.split(";")[0].split(": ")[1] for line in str(refused.value).splitlines()] == [
        "'vocab_size' is 'many'",
        "'hidden_size' is 0",
    ]


def test_a_backbone_without_sizes(tmp_path: Path) -> None:
    sizes = {name: value for name, value in BERT.items() if name != "hidden_size"}
    with pytest.raises(UserError, match="has no hidden_size; is it a Hugging Face"):
        backbone(tmp_path, json.dumps(sizes))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "config.json: not valid JSON"),
        ("[]", "expected a JSON object, found list"),
        (b"\xff{}", "config.json: not valid JSON"),
        ("[" * 100_000, "config.json: not valid JSON"),
        ('{"vocab_size": ' + "9" * 5000 + "}", "config.json: not valid JSON"),
    ],
)
def test_a_backbone_whose_config_is_none(tmp_path: Path, config: str | bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        backbone(tmp_path, config)
