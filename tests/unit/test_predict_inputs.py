"""Sentences and pairs from words, text, tables and JSON lines; what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from own_tasks import own

from minbert.base.errors import UserError
from minbert.predict.inputs import Item, from_bytes, from_words, guess_format
from minbert.spec.task import TASKS, Task

SST, PARA = TASKS["sst"], TASKS["para"]
MRPC = own("mrpc", kind="binary", sentence1="a", sentence2="b", id="uid")
NEWS = own("news", kind="classification", classes=4, sentence1="headline")


def read(text: str | bytes, form: str, task: Task = SST) -> list[tuple[object, ...]]:
    content = text if isinstance(text, bytes) else text.encode()
    return [tuple(item)[1:] for item in from_bytes(content, "in", form, task)]


def test_words_are_sentences_or_pairs() -> None:
    assert from_words(["a b", "c"], SST)[1] == Item("example 2", None, "c", None)
    assert from_words(["a", "b", "c", "d"], PARA)[1] == Item("example 2", None, "c", "d")
    with pytest.raises(UserError, match=r"found 3 sentences.*Are quotes missing"):
        from_words(["a", "b", "c"], PARA)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("text", "\ufeffone\u2028two, \"q\ttwo 'x'\r\n\n  \nthree\tfour"),
        ("csv", 'sentence2,sentence1\ntwo \'x\',"one\u2028two, ""q"\nfour,three\n'),
        ("tsv", '\tsentence1\tsentence2\n0\t"one\u2028two, ""q"\ttwo \'x\'\n1\tthree\tfour'),
        (
            "jsonl",
            json.dumps({"sentence2": "two 'x'", "sentence1": 'one\u2028two, "q'})
            + '\n{"sentence1": "three", "sentence2": "four", "label": 1, "id": null}\n',
        ),
    ],
)
def test_each_format_reads_the_same_pairs(form: str, text: str) -> None:
    first = (None, 'one\u2028two, "q', "two 'x'")
    assert read(text, form, PARA) == [first, (None, "three", "four")]


@pytest.mark.parametrize(
    ("task", "row", "expected"),
    [
        (SST, {"id": "x-1", "sentence1": "a b"}, ("x-1", "a b", None)),
        (SST, {"text": "a b", "words": "c"}, (None, "a b", None)),
        (MRPC, {"label": "1", "uid": "x", "b": "two", "a": "one"}, ("x", "one", "two")),
        (MRPC, {"id": "x", "sentence2": "two", "sentence1": "one"}, ("x", "one", "two")),
        (NEWS, {"topic": "1", "headline": "one", "text": "whole"}, (None, "one", None)),
    ],
)
def test_columns_and_keys_have_the_tasks_names_or_common_ones(
    task: Task, row: dict[str, str], expected: tuple[object, ...]
) -> None:
    csv = f"{','.join(row)}\n{','.join(row.values())}\n"
    forms = {"csv": csv, "tsv": csv.replace(",", "\t"), "jsonl": json.dumps(row)}
    for form, text in forms.items():
        assert read(text, form, task) == [expected]


@pytest.mark.parametrize(
    ("form", "task", "text", "message"),
    [
        ("text", SST, "good\ta\n", r"in, line 1: found 2 fields, .* one sentence \(task 'sst'"),
        ("text", PARA, "a\tb\n\t\n", "in, line 2: a sentence is empty, expected two"),
        ("text", SST, b"a\nb\xe9\n", "in, line 2: byte 0xe9 is not UTF-8.*iconv"),
        ("csv", SST, "id,sentence\n", r"in: found no sentences \(csv\)"),
        ("csv", SST, "id,words\n1,a\n", "2: found id, words, expected sentence or sentence1 or t"),
        ("csv", SST, 'text\n"a\nb"\nc,d\n', "in, line 4: 2 columns, but the header has 1"),
        ("jsonl", SST, '{"text": "a"}\n\n{', "in, line 3: is not JSON"),
        ("jsonl", SST, '{"text": "a", "id": NaN}', "found id nan, expected a string or"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    form: str, task: Task, text: str | bytes, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read(text, form, task)


def test_the_format_is_told_by_the_ending() -> None:
    names = {"a.txt": "text", "a.CSV": "csv", "a.b.tsv": "tsv", "a.jsonl": "jsonl"}
    assert {name: guess_format(Path(name)) for name in names} == names
    with pytest.raises(UserError, match=r"from the ending '.json'; add --format text or csv or"):
        guess_format(Path("a.json"))
