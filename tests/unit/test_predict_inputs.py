"""Sentences and pairs from words, text, tables and JSON lines; what is wrong is named."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from own_tasks import own

from minbert.base.errors import UserError
from minbert.predict.inputs import STANDARD_INPUT, Item, from_file, from_words
from minbert.spec.task import TASKS, Task

SST, PARA = TASKS["sst"], TASKS["para"]
MRPC = own("mrpc", kind="binary", sentence1="a", sentence2="b", id="uid")
NEWS = own("news", kind="classification", classes=4, sentence1="headline")


def read(folder: Path, name: str, content: str | bytes, task: Task) -> list[Item]:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return from_file(folder / name, None, task)


def test_words_are_sentences_or_pairs() -> None:
    assert from_words(["a b", "c"], SST) == [{"sentence1": "a b"}, {"sentence1": "c"}]
    pairs = from_words(["a", "b", "c", "d"], PARA)
    assert pairs[1] == {"sentence1": "c", "sentence2": "d"}
    with pytest.raises(UserError, match=r"example 2: found 1 sentence, expected 2 \(task 'para'"):
        from_words(["a", "b", "c"], PARA)
    with pytest.raises(UserError, match=r"cannot read none.txt: there is no such file"):
        from_file(Path("none.txt"), None, SST)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("in.TXT", "\ufeffone\u2028two, \"q\ttwo 'x'\r\n\n  \nthree\tfour"),
        ("in.CSV", 'sentence2,sentence1\ntwo \'x\',"one\u2028two, ""q"\nfour,three\n'),
        ("a.tsv", '\tsentence1\tsentence2\n0\t"one\u2028two, ""q"\ttwo \'x\'\n1\tthree\tfour'),
        (
            "in.jsonl",
            json.dumps({"sentence2": "two 'x'", "sentence1": 'one\u2028two, "q'})
            + '\n{"sentence1": "three", "sentence2": "four", "label": 1, "id": null}\n',
        ),
    ],
)
def test_each_format_reads_the_same_pairs(tmp_path: Path, name: str, text: str) -> None:
    first = {"sentence1": 'one\u2028two, "q', "sentence2": "two 'x'"}
    assert read(tmp_path, name, text, PARA) == [first, {"sentence1": "three", "sentence2": "four"}]


@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_standard_input_is_read_by_its_handle(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "good" if form == "text" else '{"text": "good"}'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert from_file(STANDARD_INPUT, form, SST) == [{"sentence1": "good"}]


@pytest.mark.parametrize(
    ("task", "row", "expected"),
    [
        (SST, {"id": " x-1", "sentence1": " a b "}, ["x-1", "a b"]),
        (SST, {"text": "a b", "words": "c"}, ["a b"]),
        (MRPC, {"label": "1", "uid": "x", "b": "two", "a": "one"}, ["x", "one", "two"]),
        (MRPC, {"id": "x", "sentence2": "two", "sentence1": "one"}, ["x", "one", "two"]),
        (NEWS, {"topic": "1", "headline": "one", "text": "whole"}, ["one"]),
    ],
)
def test_columns_and_keys_have_the_tasks_names_or_common_ones(
    tmp_path: Path, task: Task, row: dict[str, str], expected: list[str]
) -> None:
    csv = f"{','.join(row)}\n{','.join(row.values())}\n"
    forms = {"csv": csv, "tsv": csv.replace(",", "\t"), "jsonl": json.dumps(row)}
    for form, text in forms.items():
        (found,) = read(tmp_path, f"in.{form}", text, task)
        assert list(found.values()) == expected
