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


def read(text: str | bytes, form: str, task: str = "sst") -> list[tuple[object, ...]]:
    content = text if isinstance(text, bytes) else text.encode()
    return [tuple(item)[1:] for item in from_bytes(content, "in", form, TASKS[task])]


def test_words_are_sentences_or_pairs() -> None:
    assert from_words(["a b", "c"], SST) == [
        Item("example 1", None, "a b", None),
        Item("example 2", None, "c", None),
    ]
    assert from_words(["a", "b", "c", "d"], PARA)[1] == Item("example 2", None, "c", "d")
    with pytest.raises(UserError, match=r"found 3 sentences.*Are quotes missing"):
        from_words(["a", "b", "c"], PARA)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("text", "one\u2028two, \"q\ttwo 'x'\n\n  \nthree\tfour\n"),
        ("text", "\ufeffone\u2028two, \"q\ttwo 'x'\r\nthree\tfour"),
        ("csv", 'sentence2,sentence1\ntwo \'x\',"one\u2028two, ""q"\nfour,three\n'),
        (
            "tsv",
            '\tsentence1\tlabel\tsentence2\n0\t"one\u2028two, ""q"\t1\ttwo \'x\'\n'
            "1\tthree\t0\tfour",
        ),
        (
            "jsonl",
            json.dumps({"sentence2": "two 'x'", "sentence1": 'one\u2028two, "q'})
            + '\n{"sentence1": "three", "sentence2": "four", "label": 1, "id": null}\n',
        ),
    ],
)
def test_each_format_reads_the_same_pairs(form: str, text: str) -> None:
    first = (None, 'one\u2028two, "q', "two 'x'")
    assert read(text, form, "para") == [first, (None, "three", "four")]


@pytest.mark.parametrize("name", ["sentence1", "sentence", "text"])
def test_a_single_sentence_has_three_names(name: str) -> None:
    expected = [("x-1", "a b", None)]
    assert read(f"id,{name}\nx-1,a b\n", "csv") == expected
    assert read(f"id\t{name}\nx-1\ta b\n", "tsv") == expected
    assert read(json.dumps({"id": "x-1", name: "a b", "sentence2": None}), "jsonl") == expected
    assert read(json.dumps({"id": 7, name: "a b"}), "jsonl") == [(7, "a b", None)]


MRPC = own("mrpc", kind="binary", sentence1="a", sentence2="b", id="uid")
NEWS = own("news", kind="classification", classes=4, sentence1="headline")


@pytest.mark.parametrize(
    ("task", "header", "row", "expected"),
    [
        (MRPC, "label,uid,b,a", "1,x,two,one", ("x", "one", "two")),
        (MRPC, "id,sentence2,sentence1", "x,two,one", ("x", "one", "two")),
        (MRPC, "b,a,text", "two,one,0", (None, "one", "two")),
        (NEWS, "topic,headline,text", "1,one,whole", (None, "one", None)),
        (NEWS, "text", "one", (None, "one", None)),
    ],
)
def test_a_task_of_ones_own_has_its_own_columns(
    task: Task, header: str, row: str, expected: tuple[object, ...]
) -> None:
    forms = {"csv": f"{header}\n{row}\n"}
    forms["tsv"] = forms["csv"].replace(",", "\t")
    forms["jsonl"] = json.dumps(dict(zip(header.split(","), row.split(","), strict=True)))
    for form, text in forms.items():
        (found,) = from_bytes(text.encode(), "in", form, task)
        assert tuple(found)[1:] == expected


def test_missing_columns_of_ones_own_are_named() -> None:
    with pytest.raises(UserError, match=r"no sentence1 \(the task's own: a, b\); found a, c, exp"):
        from_bytes(b"a,c\none,two\n", "in", "csv", MRPC)
    with pytest.raises(UserError, match=r"no sentence1 or sentence or text or headline; found c"):
        from_bytes(b"c\none\n", "in", "csv", NEWS)


@pytest.mark.parametrize(
    ("form", "task", "text", "message"),
    [
        ("text", "sst", "good\ta\n", r"in, line 1: found 2 fields .* one sentence \(task 'sst'"),
        ("text", "para", "a\tb\n\t\n", "in, line 2: a sentence is empty, expected two"),
        ("text", "para", "a\tb\nonly\n", "in, line 2: found 1 field .* expected two sentences"),
        ("text", "sst", "", r"in: found no sentences \(text\)"),
        ("text", "sst", b"a\nb\xe9\n", "in, line 2: byte 0xe9 .* is not UTF-8.*iconv"),
        ("csv", "sst", "id,sentence\n", r"in: found no sentences \(csv\)"),
        ("csv", "sst", "id,words\n1,a\n", "line 2: no sentence1 or sentence or text; found id, wo"),
        ("csv", "sst", "\tid\tsentence\na\n", "found .* It contains tabs: add --format tsv"),
        ("csv", "sst", "sentence1,sentence2\na,b\n", "found sentence1 and sentence2, expected one"),
        ("csv", "para", "sentence1,text\na,b\n", "line 2: no sentence2"),
        ("csv", "sst", 'text\n"a\nb"\nc,d\n', "in, line 4: 2 columns, but the header has 1"),
        ("jsonl", "sst", '{"text": "a"}\n\n{', "in, line 3: is not JSON"),
        ("jsonl", "sst", '{"text": 3}', "in, line 1: a sentence is 3, not text"),
        ("jsonl", "sst", '{"text": "a", "id": true}', "found id true, expected a string or"),
        ("jsonl", "para", '{"sentence1": "a", "sentence2": null}', "no sentence2; found sentence1"),
        ("jsonl", "sst", '{"text": "a", "id": "\\ud800"}', r"line 1: id contains U\+D800"),
        ("jsonl", "sst", '{"text": "a", "id": NaN}', "found id NaN, expected a string or"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    form: str, task: str, text: str | bytes, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read(text, form, task)


def test_what_is_found_is_cut_in_the_message() -> None:
    for form, text in {
        "csv": ",".join(f"column{n}" for n in range(50_000)) + "\n",
        "jsonl": json.dumps({"text": ["long"] * 50_000}),
    }.items():
        with pytest.raises(UserError) as refused:
            read(text, form)
        assert len(str(refused.value)) < 600


def test_a_field_may_be_longer_than_the_csv_modules_limit() -> None:
    assert read("text\n" + "a " * 100_000 + "\n", "csv")[0][1] == "a " * 100_000


def test_the_format_is_told_by_the_ending() -> None:
    names = {"a.txt": "text", "a.CSV": "csv", "a.b.tsv": "tsv", "a.jsonl": "jsonl"}
    assert {name: guess_format(Path(name)) for name in names} == names
    with pytest.raises(UserError, match=r"from the ending '.json'; add --format text or csv or"):
        guess_format(Path("a.json"))
