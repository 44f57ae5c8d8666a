"""Public labels of test rows: original files, texts spelt otherwise, and what cannot be joined."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_text
from minbert.data.course import COURSE_FILES, read_course
from minbert.data.examples import Example
from minbert.data.labels import caseless, exact, in_words, join, letters, read_labels
from minbert.data.originals import label_files, read_originals

SHARED = Path(os.environ.get("MINBERT_SHARED", Path(__file__).parents[3] / "shared"))
COURSE = SHARED / "data" / "cs224n"
needs_course = pytest.mark.skipif(not COURSE.is_dir(), reason=f"no course files in {COURSE}")

Rows = Sequence[Example]
Form = Callable[[Path, Rows], None]


def treebank(folder: Path, rows: Rows) -> None:
    """Write the treebank's phrases, with plain brackets and slashes, and their sentiments."""
    lines = ["phrase ids|sentiment values"]
    phrases = []
    for number, row in enumerate(rows):
        assert row.label is not None
        text = row.sentence1.replace("-LRB-", "(").replace("-RRB-", ")").replace("\\/", "/")
        phrases.append(f"{text}|{number}")
        lines.append(f"{number}|{row.label / 5 + 0.2}")  # the upper end of its class
    write_text(folder / "stanfordSentimentTreebank" / "dictionary.txt", "\n".join(phrases) + "\n")
    write_text(folder / "stanfordSentimentTreebank" / "sentiment_labels.txt", "\n".join(lines))


def trees(folder: Path, rows: Rows) -> None:
    lines = []
    for row in rows:
        first, *rest = row.sentence1.split(" ")
        tree = f"(2 {first})"
        for word in rest:
            tree = f"(2 {tree} (1 {word}))"
        lines.append(f"({row.label:.0f}{tree[2:]}")
    write_text(folder / "trees" / "test.txt", "\n".join(lines) + "\n")


def sts_benchmark(folder: Path, rows: Rows) -> None:
    lines = [
        f"main-news\theadlines\t2015\t{number:04}\t{row.label:.3f}\t{row.sentence1}\t{row.sentence2}"
        for number, row in enumerate(rows)
    ]
    write_text(folder / "stsbenchmark" / "sts-test.csv", "\n".join(lines) + "\n")


def glue_sts(folder: Path, rows: Rows) -> None:
    lines = ["index\tgenre\tsentence1\tsentence2\tscore"]
    lines += [f"{n}\tx\t{r.sentence1}\t{r.sentence2}\t{r.label}" for n, r in enumerate(rows)]
    write_text(folder / "glue_data" / "STS-B" / "dev.tsv", "\n".join(lines) + "\n")


def quora(folder: Path, rows: Rows, name: str = "quora_duplicate_questions.tsv") -> None:
    lines = ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"]
    lines += [f"{n}\t1\t2\t{r.sentence1}\t{r.sentence2}\t{r.label:.0f}" for n, r in enumerate(rows)]
    write_text(folder / name, "\n".join(lines) + "\n")


def glue_quora(folder: Path, rows: Rows) -> None:
    quora(folder, rows, "QQP/train.tsv")


FORMS: dict[Form, str] = {
    treebank: "sst",
    trees: "sst",
    sts_benchmark: "sts",
    glue_sts: "sts",
    quora: "para",
    glue_quora: "para",
}
ROWS: dict[str, list[Example]] = {
    "sst": [
        Example("s0", "test", "It 's `` fun '' -LRB- or not -RRB- .", None, 3.0),
        Example("s1", "test", "A comedy\\/drama without cliché .", None, 0.0),
        Example("s2", "test", "Dull", None, 1.0),
    ],
    "sts": [
        Example("t0", "test", 'He said "no".', "Café\u2019s menu", 2.333),
        Example("t1", "test", "A dog.", "A cat.", 0.0),
        Example("t2", "test", "One", "Two", 5.0),
    ],
    "para": [
        Example("q0", "test", 'What is "it"?', "What is C++?", 1.0),
        Example("q1", "test", "Who?", "What is C?", 0.0),
        Example("q2", "test", "How many?", "How much?", 0.0),
    ],
}


def table(rows: Rows, *, unlabelled: bool = True) -> list[dict[str, Any]]:
    return [row._asdict() | ({"label": None} if unlabelled else {}) for row in rows]


def joined(tmp_path: Path, task: str, examples: list[dict[str, Any]]) -> dict[str, float]:
    join(task, examples, label_files(tmp_path)[task], tmp_path / "out")
    return read_labels(tmp_path / "out" / "labels.parquet")


@pytest.mark.parametrize("form", FORMS)
def test_labels_of_each_original_file_are_joined(form: Form, tmp_path: Path) -> None:
    rows = ROWS[FORMS[form]]
    form(tmp_path, rows)
    assert list(label_files(tmp_path)) == [FORMS[form]]
    expected = {row.id: row.label for row in rows}
    assert joined(tmp_path, FORMS[form], table(rows)) == expected


def test_what_texts_are_compared_by() -> None:
    said = "It 's `` caf\xe9\xa0'' -LRB- a\\/b -RRB- \u2026"
    assert exact(said) == exact("It\u2019s \u201ccaf\xe9\u201d (a/b) ...") == "Itscafé(a/b)..."
    assert exact("C++") != exact("C") and exact("A") != exact("a")
    assert caseless("-lrb- A -rrb-") == "(a)"
    assert letters("Caf\xc3\xa9 -- no\xc2\xb2 !") == letters("Café no²") == "cafno"


def test_a_sentiment_on_a_cut_is_in_the_lower_class(tmp_path: Path) -> None:
    values = {0: 0, 0.2: 0, 0.20001: 1, 0.4: 1, 0.5: 2, 0.6: 2, 0.8: 3, 0.80001: 4, 1: 4}
    numbered = list(enumerate(values))
    write_text(tmp_path / "dictionary.txt", "".join(f"w{n} | x|{n}\n" for n, _ in numbered))
    text = "phrase ids|sentiment values\n" + "".join(f"{n}|{v}\n" for n, v in numbered)
    write_text(tmp_path / "sentiment_labels.txt", text)
    files = label_files(tmp_path)["sst"]
    assert list(files) == ["dictionary.txt", "sentiment_labels.txt"]  # both decide the key
    found = read_originals("sst", files).originals
    assert [one.label for one in found] == list(values.values())
    assert found[0].sentence1 == "w0 | x"


def test_what_cannot_be_joined_is_listed_with_the_reason(tmp_path: Path) -> None:
    rows = ROWS["sts"]
    other = [rows[1]._replace(label=0.4), rows[0]._replace(label=2.33333)]
    sts_benchmark(tmp_path, [*rows, *other])
    absent = Example("t3", "test", "Not there", "at all", None)
    loose = Example("t4", "test", "one?", "two", None)
    known = Example("d0", "dev", "One", "Two", 5.0)
    examples = [*table([*rows, absent, loose]), *table([known], unlabelled=False)]
    assert joined(tmp_path, "sts", examples) == {"t0": 2.333, "t2": 5.0, "t4": 5.0}
    report = read_json(tmp_path / "out" / "joined.json")
    assert report["test"] == {
        **{"rows": 5, "joined": 3, "conflicting": 1, "missing": 1},
        "by": {"exact": 2, "caseless": 0, "letters": 1},
    }
    assert report["labelled"] == {"rows": 1, "joined": 1, "agree": 1}
    assert report["originals"] == {"rows": 5, "malformed": 0}
    assert in_words(report) == (
        "STS: 3 of 5 test rows, 1 with conflicting labels, 1 not in the files; "
        "of 1 labelled rows in the files 1 agree"
    )
    with (tmp_path / "out" / "unjoined.csv").open(newline="", encoding="utf-8") as handle:
        assert [line[:2] for line in csv.reader(handle)] == [
            ["id", "reason"],
            ["t1", "conflicting labels: 0, 0.4"],
            ["t3", "not in the files"],
        ]


def test_labels_that_contradict_those_of_dev_are_refused(tmp_path: Path) -> None:
    rows = [Example(f"d{n}", "dev", f"Film {n}", None, float(n % 5)) for n in range(120)]
    trees(tmp_path, [row._replace(label=float(int(row.label or 0) > 2)) for row in rows])
    examples = [*table(rows, unlabelled=False), *table([Example("t", "test", "Film 3", None, 0)])]
    with pytest.raises(UserError) as caught:
        joined(tmp_path, "sst", examples)
    for words in ("of 120 rows", "24 have the same label", "95%", "id 'd1' has 1 in the data, 0"):
        assert words in str(caught.value)


def test_files_of_other_data_are_refused(tmp_path: Path) -> None:
    trees(tmp_path, ROWS["sst"])
    with pytest.raises(
        UserError, match=r"none of 1 test rows is in .*test.txt; are these the orig"
    ):
        joined(tmp_path, "sst", table([Example("t", "test", "Another text", None, None)]))


def test_a_folder_without_known_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none', and there is no such folder; expected one with"):
        label_files(tmp_path / "none")
    write_text(tmp_path / "sts_test.csv", "")
    with pytest.raises(UserError, match=r"no file of public labels; expected SST: dictionary.txt"):
        label_files(tmp_path)
    with pytest.raises(UserError, match=r"Did you mean 'sts-test.csv'\?"):
        label_files(tmp_path)
    write_text(tmp_path / "dictionary.txt", "x|1\n")
    with pytest.raises(UserError, match=r"dictionary.txt: sentiment_labels.txt is not beside it"):
        label_files(tmp_path)


GOOD = "main\tx\t2015\t1\t3.2\tA\tB\n"
WRONG: dict[str, tuple[str, str | bytes, str]] = {
    "columns": ("sts-test.csv", "main\t3.2\tA\tB\n", "line 1: 4 columns, expected at least 7"),
    "label": ("sts-test.csv", GOOD.replace("3.2", "high"), "label 'high' is not a number"),
    "range": ("sts-test.csv", GOOD.replace("3.2", "7"), "label 7 is not between 0 and 5"),
    "empty": ("sts-test.csv", "", "has no rows"),
    "bytes": ("sts-test.csv", GOOD.replace("A", "é").encode("latin-1"), "not UTF-8; is the file L"),
    "header": ("QQP/dev.tsv", "id\tq1\n1\ta\n", "no column 'question1'; found id, q1; expected"),
    "short": (
        *("QQP/dev.tsv", "question1\tquestion2\tis_duplicate\na\tb\n"),
        "line 2: 2 columns, but the header has 3",
    ),
    "tree": ("trees/dev.txt", "(5 no)\n", "'(5 no)' is no tree such as"),
    "phrase": ("dictionary.txt", "good|7\n", "'good|7' does not end in '|' and a number"),
}


@pytest.mark.parametrize(("name", "content", "said"), WRONG.values(), ids=WRONG)
def test_a_file_that_is_wrong_is_named(
    name: str, content: str | bytes, said: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    write_text(tmp_path / "sentiment_labels.txt", "phrase ids|sentiment values\n1|0.5\n")
    ((task, files),) = label_files(tmp_path).items()
    with pytest.raises(UserError) as caught:
        read_originals(task, files)
    assert said in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("sentiment", ["1.5", "-0.5", "high"])
def test_sentiments_that_are_none_are_named(sentiment: str, tmp_path: Path) -> None:
    write_text(tmp_path / "dictionary.txt", "good|1\n")
    write_text(tmp_path / "sentiment_labels.txt", f"phrase ids|sentiment values\n1|{sentiment}\n")
    said = rf"sentiment_labels.txt, line 2: found '1\|{sentiment}', expected"
    with pytest.raises(UserError, match=said):
        read_originals("sst", label_files(tmp_path)["sst"])


def test_a_label_may_have_an_exponent(tmp_path: Path) -> None:
    write_text(tmp_path / "sts-test.csv", GOOD.replace("3.2", "32e-1"))
    (row,) = read_originals("sts", label_files(tmp_path)["sts"]).originals
    assert row.label == 3.2


def test_a_few_malformed_rows_are_left_out(tmp_path: Path) -> None:
    write_text(tmp_path / "sts-test.csv", GOOD * 199 + "half a row\n")
    found = read_originals("sts", label_files(tmp_path)["sts"])
    assert (found.rows, len(found.originals)) == (200, 199)
    assert found.malformed == ["sts-test.csv, line 200: 1 columns, expected at least 7"]


def untokenised(text: str) -> str:
    """Return a tokenised sentence as people write it, in lower case."""
    for token, plain in (("-LRB- ", "("), (" -RRB-", ")"), ("`` ", "\u201c"), (" ''", "\u201d")):
        text = text.replace(token, plain)
    for mark in (".", ",", "?", "!", ";", ":", "'s", "n't"):
        text = text.replace(f" {mark}", mark)
    return text.replace("\\/", "/").lower()


def misread(text: str) -> str:
    """Return a text whose UTF-8 was taken for Latin-1, as in datasetSentences.txt."""
    return text.encode().decode("latin-1")


@needs_course
@pytest.mark.parametrize("spelt", [str, untokenised, misread])
@pytest.mark.parametrize("form", [treebank, trees, sts_benchmark, quora])
def test_the_courses_dev_rows_find_their_labels_again(
    form: Form, spelt: Callable[[str], str], tmp_path: Path
) -> None:
    task = FORMS[form]
    paths = {"dev": COURSE / COURSE_FILES[task]["dev"][0]}
    dev = read_course(task, paths)[0]
    if form is trees and spelt is untokenised:
        pytest.skip("a tree has no brackets in its words")
    two = [spelt(row.sentence2) if row.sentence2 else None for row in dev]
    spelt_rows = [
        row._replace(sentence1=spelt(row.sentence1), sentence2=other)
        for row, other in zip(dev, two, strict=True)
    ]
    form(tmp_path, spelt_rows)
    found = joined(tmp_path, task, table([row._replace(split="test") for row in dev]))
    report = read_json(tmp_path / "out" / "joined.json")["test"]
    assert all(
        found[row.id] == pytest.approx(row.label, abs=0.01) for row in dev if row.id in found
    )
    assert len(found) == report["joined"] >= 0.99 * len(dev)
    assert report["missing"] <= 0.001 * len(dev)
