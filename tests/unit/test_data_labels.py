"""Public labels of test rows: files of ids and labels, and the script that makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_text
from minbert.data.examples import Example, write_examples
from minbert.data.identity import checksum
from minbert.data.labels import make
from minbert.data.parquet import read_file
from minbert.data.sources import label_files
from minbert.spec.config import Config, load_config
from minbert.spec.task import TASKS
from minbert.store.job import Job
from workflow import labels as script

Rows = Sequence[Example]
Form = Callable[[Path, Rows], None]


def job(root: Path, text: str) -> Job:
    """Return a job that gives labels in a file to examples of SST."""
    rows = [
        *(Example(f"t{n}", "test", f"text {n}", None, None) for n in range(3)),
        Example("t3", "test", "known", None, 1.0),
        Example("d0", "dev", "dev", None, 1.0),
    ]
    write_text(root / "sst.csv", text)
    write_examples(rows, root / "store" / "data" / "k" / "examples.parquet")
    need = {"kind": "data", "key": "k", "file": "examples.parquet", "seed": None}
    spec = {"task": "sst", "files": {"labels": checksum(root / "sst.csv", "sha256")}}
    node = {"kind": "labels", "key": "l", "spec": spec, "needs": {"examples": need}}
    return Job(root, {**node, "extra": {"paths": {"labels": str(root / "sst.csv")}}}, None, 1)


def test_hidden_rows_of_test_get_labels(tmp_path: Path) -> None:
    made = job(tmp_path, "label,id\n4,t0\nnegative,t2\n0,t3\n0,d0\n0,other\n")
    make(made)
    found = read_file(made.out / "labels.parquet").to_pydict()
    assert found == {"id": ["t0", "t2"], "label": [4.0, 0.0]}
    assert read_json(made.out / "labels.json") == {"task": "sst", "rows": 3, "labelled": 2}
    with pytest.raises(UserError, match="none of the 3 test rows of task 'sst' has its id there"):
        make(job(tmp_path, "id,label\nother,1\n"))


def labelled(folder: Path) -> Config:
    return load_config({"grids": "g", "labels": str(folder)})


def test_a_folder_has_files_called_by_tasks(tmp_path: Path) -> None:
    write_text(tmp_path / "stss.csv", "")
    for folder, said in ((tmp_path, "file of ids and labels"), (tmp_path / "none", "such folder")):
        with pytest.raises(UserError, match=f"labels: {folder}: there is no {said}"):
            label_files(labelled(folder), TASKS)
    write_text(tmp_path / "sst.tsv", "")
    assert label_files(labelled(tmp_path), TASKS) == {"sst": tmp_path / "sst.tsv"}
    write_text(tmp_path / "sst.csv", "")
    with pytest.raises(UserError, match=r"two files of one task among sst.tsv, sst.csv; keep one"):
        label_files(labelled(tmp_path), TASKS)


# The script: files as they were published.


def treebank(folder: Path, rows: Rows) -> None:
    """Write the treebank's phrases, with plain brackets and slashes, and their sentiments."""
    lines, phrases = ["phrase ids|sentiment values"], []
    for number, row in enumerate(rows):
        text = row.sentence1.replace("-LRB-", "(").replace("-RRB-", ")").replace("\\/", "/")
        phrases.append(f"{text}|{number}")
        lines.append(f"{number}|{(row.label or 0) / 5 + 0.2}")  # the upper end of its class
    write_text(folder / "treebank" / "dictionary.txt", "\n".join(phrases) + "\n")
    write_text(folder / "treebank" / "sentiment_labels.txt", "\n".join(lines))


def written(name: str, head: str, line: str) -> Form:
    def write(folder: Path, rows: Rows) -> None:
        lines = [line.format(n, r.sentence1, r.sentence2, r.label) for n, r in enumerate(rows)]
        write_text(folder / name, head + "".join(lines))

    return write


PAIRS = "id\tq\tquestion1\tquestion2\tis_duplicate\n", "{0}\t1\t{1}\t{2}\t{3:.0f}\n"
FORMS: list[tuple[str, Form]] = [
    ("sst", treebank),
    ("sts", written("x/sts-test.csv", "", "m\th\t2015\t{0}\t{3:.3f}\t{1}\t{2}\n")),
    ("para", written("quora_duplicate_questions.tsv", *PAIRS)),
    ("sts", written("STS-B/dev.tsv", "sentence1\tsentence2\tscore\n", "{1}\t{2}\t{3}\n")),
]
TEXTS: dict[str, list[tuple[str, str | None, float]]] = {
    "sst": [
        ("It 's `` fun '' -LRB- or not -RRB- .", None, 3),
        ("A comedy\\/drama without cliché .", None, 0),
        ("Dull", None, 1),
    ],
    "sts": [('He said "no".', "Café\u2019s menu", 2.333), ("A dog.", "A cat.", 0), ("1", "2", 5)],
    "para": [('What is "it"?', "What is C++?", 1), ("Who?", "What is C?", 0), ("How?", "A?", 0)],
}


@pytest.mark.parametrize(("task", "form"), FORMS)
def test_labels_of_each_original_file_are_joined(task: str, form: Form, tmp_path: Path) -> None:
    rows = [Example(f"r{n}", "test", *texts) for n, texts in enumerate(TEXTS[task])]
    form(tmp_path, rows)
    found = script.originals(task, tmp_path)
    joined = script.join(task, found, [row._replace(label=None) for row in rows])
    assert joined == {row.id: row.label for row in rows}


def test_contradictions_and_other_data() -> None:
    found: list[script.Labelled] = [
        *((("One", "Two"), 5), (("A", "B"), 0), (("A", "B"), 0.4)),
    ]
    rows = [Example("a", "test", "A", "B", None), Example("b", "test", "one?", "two", None)]
    assert script.join("sts", found, rows) == {"b": 5.0}
    with pytest.raises(UserError, match="none of 1 test rows is in the files"):
        script.join("sts", found[1:], rows[:1])
    rows = [Example(f"d{n}", "dev", f"Film {n}", None, float(n % 5)) for n in range(120)]
    found = [((row.sentence1,), (row.label or 0) // 3) for row in rows]
    with pytest.raises(UserError, match=r"96 of 120 rows .* id 'd1' has 1.0 in the data, 0.0"):
        script.join("sst", found, rows)
