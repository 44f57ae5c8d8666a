"""Sentences and pairs from words, text, tables and JSON lines; what is wrong is named."""

from __future__ import annotations

import gzip
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
        ("text", "one\u2028two, \"q\ttwo 'x'\nthree\tfour\n"),
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


BLANK = {
    "text": "one\n\ntwo\n  \n",
    "tsv": "text\n\none\ntwo\n\n",
    "csv": "text\none\n\ntwo\n\n",
    "jsonl": '{"text": "one"}\n\n{"text": "two"}\n\n',
}


@pytest.mark.parametrize("form", BLANK)
@pytest.mark.parametrize("end", ["\n", "\r\r\n"], ids=["LF", "CR CR LF"])
def test_blank_lines_are_not_predicted(form: str, end: str) -> None:
    found = read(BLANK[form].replace("\n", end), form)
    assert [row[1] for row in found] == ["one", "two"]


def test_quoted_line_breaks_are_predicted() -> None:
    found = read('id\ttext\n1\t"one\ntwo"\n2\tthree\n', "tsv")
    assert [row[1] for row in found] == ["one\ntwo", "three"]


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


def test_quotes_that_make_no_fields_of_a_tsv_line_are_text() -> None:
    text = 'id\tsentence1\tsentence2\n1\t"A" b\t"c\td"\n2\t"one"\t"two ""2"""\n'
    with pytest.raises(UserError, match=r"in, line 2: 4 columns, but the header has 3"):
        read(text, "tsv", "para")
    assert read(text.replace("c\td", "c d"), "tsv", "para") == [
        ("1", '"A" b', '"c d"'),
        ("2", "one", 'two "2"'),
    ]


def test_missing_columns_of_ones_own_are_named() -> None:
    with pytest.raises(UserError, match=r"no sentence1 \(the task's own: a, b\); found a, c, exp"):
        from_bytes(b"a,c\none,two\n", "in", "csv", MRPC)
    with pytest.raises(UserError, match=r"no sentence1 or sentence or text or headline; found c"):
        from_bytes(b"c\none\n", "in", "csv", NEWS)
    with pytest.raises(UserError, match=r"line 1: 2 columns are called 'uid', expected one"):
        from_bytes(b"uid,a,uid,b\n1,one,1,two\n", "in", "csv", MRPC)


@pytest.mark.parametrize(
    ("form", "task", "text", "message"),
    [
        ("text", "sst", "good\ta\n", r"in, line 1: found 2 fields .* one sentence \(task 'sst'"),
        ("text", "para", "a\tb\n\t\n", "in, line 2: a sentence is empty, expected two"),
        ("text", "para", "a\tb\nonly\n", "in, line 2: found 1 field .* expected two sentences"),
        ("text", "sst", "a\0b", r"in, line 1: a sentence contains U\+0000"),
        ("text", "sst", "", r"in: found no sentences \(text\)"),
        ("text", "sst", b"a\nb\xe9\n", "in, line 2: byte 0xe9 .* is not UTF-8.*iconv"),
        ("csv", "sst", "id,sentence\n", r"in: found no sentences \(csv\)"),
        ("csv", "sst", "", r"in: found no sentences \(csv\)"),
        ("csv", "sst", "id,words\n1,a\n", "line 2: no sentence1 or sentence or text; found id, wo"),
        ("csv", "sst", "\tid\tsentence\na\n", "found .* It contains tabs: add --format tsv"),
        ("csv", "sst", "sentence1,sentence2\na,b\n", "found sentence1 and sentence2, expected one"),
        ("csv", "para", "sentence1,text\na,b\n", "line 2: no sentence2"),
        ("csv", "sst", 'text\n"a\nb"\nc,d\n', "in, line 4: 2 columns, but the header has 1"),
        ("csv", "para", "sentence1,sentence2\na,b\n\nc\n", "in, line 4: 1 columns, but"),
        ("csv", "sst", 'text\nfine\n"open\nmore\n', "in, line 3: found malformed quotes"),
        ("tsv", "sst", 'id\ttext\n1\t"open\n2\n', "in, line 3: 1 columns, but"),
        ("jsonl", "sst", '{"text": "a"}\n\n{', "in, line 3: is not JSON"),
        (
            "jsonl",
            "sst",
            '["a"]\n["b"]',
            "in, line 1: is no JSON object; expected one in each line",
        ),
        ("jsonl", "sst", '{"text": 3}', "in, line 1: a sentence is 3, not text"),
        ("jsonl", "sst", '{"text": "a", "id": true}', "found id true, expected a string or"),
        ("jsonl", "sst", '{"text": "\\ud800"}', r"in, line 1: a sentence contains U\+D800"),
        ("jsonl", "para", '{"sentence1": "a", "sentence2": null}', "no sentence2; found sentence1"),
        ("tsv", "sst", "id\tid\ttext\n1\t2\ta\n", "line 1: 2 columns are called 'id'"),
        ("jsonl", "sst", '{"text": "a", "id": "\\ud800"}', r"line 1: id contains U\+D800"),
        ("jsonl", "sst", '{"text": "a", "id": NaN}', "found id NaN, expected a string or"),
        ("text", "sst", "a " * 500_001, "in, line 1: a sentence has 1,000,002 characters, more"),
        (
            "text",
            "sst",
            gzip.compress(b"good\n", mtime=0),
            "in: is a gzip file, expected UTF-8 text; ",
        ),
        ("text", "sst", "it\x92s\n", r"in, line 1: a sentence contains U\+0092, .*1252"),
        ("text", "sst", b"it\x92s\n", "windows-1252"),
        ("tsv", "sst", 'id\ttext\n1\t"a\n2\tb\nc"\n', "line 2: lines 2 to 4 can be one row, or"),
        ("csv", "sst", b"PK\x03\x04...", "in: is a zip archive"),
        (
            "text",
            "sst",
            "a\n".encode("utf-16"),
            "in: is UTF-16, .*; convert it: iconv",
        ),
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
