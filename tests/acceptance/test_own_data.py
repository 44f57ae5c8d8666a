"""What holds of data of one's own: files given, commands run, and what then lies in the results."""

from __future__ import annotations

import csv
import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pipeline.project import CHECKOUT

from minbert.base.errors import UserError
from minbert.commands.cli import main
from minbert.commands.plan import read_plan
from minbert.plan.describe import write

Row = tuple[str, object]
Given = dict[str, str | bytes]
"""Files by name."""

TOPICS = ("world", "sports", "business")
NEWS: dict[str, Any] = {
    **{"kind": "classification", "classes": [*TOPICS], "sentence1": "text", "label": "topic"},
    "files": {"train": "t.tsv", "dev": "d.tsv"},
}
YES: dict[str, Any] = {"kind": "binary", "sentence1": "text", "label": "topic"}
NLI: dict[str, Any] = {**NEWS, "classes": ["entailment", "neutral", "contradiction"]}
CONFIG: dict[str, Any] = {"data": "builtin", "backbone": "builtin", "tracking": {"enabled": False}}
LOSSES = {"classification": "cross_entropy", "binary": "binary_cross_entropy", "regression": "mse"}


pytestmark = pytest.mark.usefixtures("restored")


def rows(n: int, first: int = 0, labels: tuple[object, ...] = TOPICS) -> list[Row]:
    return [(f"text number {at}", labels[at % len(labels)]) for at in range(first, first + n)]


def table(given: list[Row], end: str = "\n") -> str:
    return "".join(f"{text}\t{label}{end}" for text, label in [("text", "topic"), *given])


def lines_of_json(given: list[Row]) -> str:
    return "".join(json.dumps({"text": text, "topic": label}) + "\n" for text, label in given)


def parquet(texts: list[bytes]) -> bytes:
    """Return a file whose column of text holds any bytes."""
    buffers = pa.array(texts, pa.binary()).buffers()
    text = pa.StringArray.from_buffers(len(texts), buffers[1], buffers[2])
    made = BytesIO()
    pq.write_table(
        pa.table({"text": text, "topic": [TOPICS[n % 3] for n in range(len(texts))]}), made
    )
    return made.getvalue()


TRAIN, DEV = table(rows(300)), table(rows(12, 2000))
BASE: Given = {"t.tsv": TRAIN, "d.tsv": DEV}


class Read(NamedTuple):
    """What a data set's folder holds: its examples [split, sentences, label], and rejects."""

    examples: list[tuple[str, str, float | None]]
    rejects: dict[int, str]

    def beyond(self, given: str = "text number ") -> dict[str, float | None]:
        """Return the labels of the examples that are not among the usual ones."""
        return {text: label for _, text, label in self.examples if not text.startswith(given)}


def plan(files: Given, config: dict[str, Any], tasks: dict[str, Any], **grid: Any) -> Path:
    """Write files, a configuration and a grid; plan them, and return the results root."""
    for name, content in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    head = {"paper": "mine", "title": "Mine", "overall": "normalised"} | grid
    head.setdefault("variants", {"shared": {"tasks": tasks}})
    Path("workflow/grids").mkdir(parents=True)
    Path("workflow/backbone").symlink_to(CHECKOUT / "workflow" / "backbone")
    Path("workflow/grids/mine.yaml").write_text(yaml.safe_dump(head))
    columns = "paper,table,row,variant,split,sst,para,sts,other,other_task,overall,note\n"
    Path("workflow/published.csv").write_text(columns)
    Path("config.yaml").write_text(yaml.safe_dump(CONFIG | {"grids": ["mine"]} | config))
    write(read_plan([Path("config.yaml")], [], Path()))
    return Path("results")


def read(files: Given, entry: dict[str, Any], task: str = "news", **config: Any) -> Read:
    """Run the job that makes a task's data set; `SystemExit` if the command refuses the files."""
    how = {"loss": LOSSES[entry.get("kind", "classification")]}
    own = {"tasks": {task: entry}} if entry else {}
    root = plan(files, own | config, {task: how})
    (spec,) = (root / "store" / "spec").glob("data-*.json")
    key = json.loads(spec.read_text(encoding="utf-8"))["key"]
    main(["data", key])
    folder = root / "store" / "data" / key
    found = pq.read_table(folder / "examples.parquet").to_pylist()
    with (folder / "rejected.csv").open(encoding="utf-8", newline="") as handle:
        rejects = {int(row["line"]): row["reason"] for row in csv.DictReader(handle)}
    return Read([(e["split"], e["sentence1"], e["label"]) for e in found], rejects)


AS_JSON = lines_of_json(rows(300))
NO_ID = AS_JSON.replace("{", '{"i": null, ')
IN_JSON = {"files": {"train": "t.jsonl", "dev": "d.tsv"}}
IN_CSV = {"files": {"train": "t.csv", "dev": "d.tsv"}}
FLIPPED = "topic\ttext\n" + "".join(f"{label}\t{text}\n" for text, label in rows(300))

SET_ASIDE = [
    pytest.param(
        {"t.tsv": TRAIN + '"one\ntwo"\tsports\n'},
        {},
        {"one\ntwo": 1},
        {},
        id="tsv: a line break in the first field",
    ),
    pytest.param(
        {"t.tsv": FLIPPED + 'sports\t"one\r\ntwo"\r\n'},
        {},
        {"one\ntwo": 1},
        {},
        id="tsv: a line break in the last field",
    ),
    pytest.param(
        {"t.tsv": TRAIN + '"one ""1""\n\n\ttwo"\tsports\nafter\tworld\n'},
        {},
        {'one "1"\n\n\ttwo': 1, "after": 0},
        {},
        id="tsv: a blank line, quotes and a tab in a field of three lines",
    ),
    pytest.param(
        {"t.tsv": TRAIN + '"one\nlike a row\tworld\ntwo"\tsports\n'},
        {},
        {},
        {302: "lines 302 to 304 can", 303: "lines 302 to 304", 304: "several rows"},
        id="tsv: a quoted field with what could be a row is rejected whole",
    ),
    pytest.param(
        {"t.tsv": TRAIN + '"never closed\tworld\nends in a quote"\tsports\n"A" b\tworld\n'},
        {},
        {'"never closed': 0, 'ends in a quote"': 1, '"A" b': 0},
        {},
        id="tsv: quotes that make no fields are text",
    ),
    pytest.param(
        {"t.tsv": TRAIN + '"opened, one column\n' + table(rows(9, 900))[11:]},
        {},
        {},
        {302: "1 columns, but the header has 2"},
        id="tsv: a quote that is never closed takes no other row with it",
    ),
    pytest.param(
        {"t.csv": TRAIN.replace("\t", ",") + '"one\n\ntwo",sports\n'},
        IN_CSV,
        {"one\n\ntwo": 1},
        {},
        id="csv: line breaks in a field",
    ),
    pytest.param(
        {"t.jsonl": AS_JSON + '{"text": "so happy today \\ud83d", "topic": "world"}\n'},
        IN_JSON,
        {},
        {301: "text contains half of a surrogate pair"},
        id="jsonl: half of a surrogate pair in a text",
    ),
    pytest.param(
        {
            "t.jsonl": '{"i": "a\\ud83d", "text": "x", "topic": "world"}\n' + NO_ID,
            "d.jsonl": NO_ID.replace("number", "of dev"),
        },
        {"id": "i", "files": {"train": "t.jsonl", "dev": "d.jsonl"}},
        {},
        {1: "i contains half of a surrogate pair"},
        id="jsonl: half of a surrogate pair in an id",
    ),
    pytest.param(
        {"t.jsonl": AS_JSON + '{"text": "x", "topic": "wor\\ud83d"}\n'},
        IN_JSON,
        {},
        {301: "label 'wor.* is not one of world"},
        id="jsonl: half of a surrogate pair in a label",
    ),
    pytest.param(
        {"t.tsv": TRAIN + "it\x92s\tworld\nit\u2019s\tworld\n"},
        {},
        {"it\u2019s": 0},
        {302: r"text contains the control character U\+0092, .* windows-1252"},
        id="text that Windows wrote and that was converted as Latin-1",
    ),
    *(
        pytest.param(
            {name: content + blank},
            {"files": {"train": name, "dev": "d.tsv"}},
            {},
            {},
            id=f"{name}: {what} is no row",
        )
        for name, content in (
            ("t.tsv", table(rows(80))),
            ("t.csv", table(rows(80)).replace("\t", ",")),
            ("t.jsonl", lines_of_json(rows(80))),
        )
        for what, blank in (("a blank line", "\n"), ("a line of spaces", "  \r\n"))
    ),
    *(
        pytest.param(
            {name: "\n" + content.replace("\n", "\r\r\n")},
            {"files": {"train": name, "dev": "d.tsv"}},
            {},
            {},
            id=f"{name}: CR CR LF ends a line, and a blank line is no header",
        )
        for name, content in (
            ("t.tsv", TRAIN),
            ("t.csv", TRAIN.replace("\t", ",")),
            ("t.jsonl", AS_JSON),
        )
    ),
    pytest.param(
        {"t.tsv": TRAIN.replace("text number 7\t", " \t")},
        {},
        {},
        {9: "sentence is empty"},
        id="tsv: a row without a text is no blank line",
    ),
    pytest.param(
        {"t.csv": "text,topic\n" + "".join(f"t {n},{n % 2 > 0}\n" for n in range(40)),
         "d.tsv": table(rows(12, 2000, (0, 1)))},
        {"classes": 3, "files": {"train": "t.csv", "dev": "d.tsv"}},
        {f"t {n}": n % 2 for n in range(40)},
        {},
        id="csv: True and False are 1 and 0",
    ),
    pytest.param(
        {"t.csv": "text,topic\n" + "".join(f"t {n},TRUE\nu {n},FALSE\n" for n in range(20)),
         "d.tsv": table(rows(12, 2000, (True, False)))},
        {"classes": ["true", "false"], "files": {"train": "t.csv", "dev": "d.tsv"}},
        {f"{name} {n}": name == "u" for n in range(20) for name in "tu"},
        {},
        id="csv: TRUE and FALSE are classes that are called so",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("files", "entry", "more", "rejects"), SET_ASIDE)
def test_rows_are_examples_or_set_aside_with_the_reason(
    files: Given, entry: dict[str, Any], more: dict[str, float], rejects: dict[int, str]
) -> None:
    given, told = {**BASE, **files}, NEWS | entry
    found = read(given, told)
    assert found.beyond("text ") == more
    assert list(found.rejects) == list(rejects)
    for line, reason in rejects.items():
        assert re.search(reason, found.rejects[line]), found.rejects[line]
    usual = [split for split, text, _ in found.examples if text.startswith("text number")]
    assert usual.count("train") == str(given[told["files"]["train"]]).count("text number")


HINT = "; leave the column out if test labels are not public"
HIDDEN = {"files": {"train": "t.tsv", "dev": "d.tsv", "test": "x.tsv"}}
X = {"x.tsv": table(rows(9, 900, (-1,)))}

REFUSED = [
    pytest.param(X, NEWS | HIDDEN, "label '-1' is not one of world.*" + HINT, id="-1, by name"),
    pytest.param(
        X | {"t.tsv": table(rows(300, 0, (0, 1, 2))), "d.tsv": table(rows(12, 2000, (0, 1, 2)))},
        NEWS | HIDDEN | {"classes": 3},
        "label -1 is not between 0 and 2" + HINT,
        id="-1, by number",
    ),
    pytest.param(
        X | {"t.tsv": table(rows(300, 0, (0, 1))), "d.tsv": table(rows(12, 2000, (0, 1)))},
        YES | HIDDEN,
        "label -1 is not between 0 and 1" + HINT,
        id="-1, of a binary task",
    ),
    pytest.param(
        X | {"t.tsv": table(rows(300, 0, (0.5, 1))), "d.tsv": table(rows(12, 2000, (0, 1)))},
        YES | HIDDEN | {"kind": "regression", "range": [0, 5]},
        "label -1 is not between 0 and 5" + HINT,
        id="-1, of a regression",
    ),
    pytest.param(
        {"t.tsv": table([*rows(60), ("x", -1), ("y", -1)])},
        NEWS,
        "label '-1' is not one of world, sports, business, or 0 to 2$",
        id="-1 in train is no hidden label",
    ),
    *(
        pytest.param(
            {"t.jsonl": json.dumps([{"text": t, "topic": c} for t, c in rows(60)], indent=indent)},
            NEWS | IN_JSON,
            r"t\.jsonl: is one JSON array, expected an object per line; convert it: jq -c",
            id=f"one JSON array, {how}",
        )
        for how, indent in (("on one line", None), ("indented", 1))
    ),
    pytest.param(
        {"t.jsonl": '["a", "world"]\n["b", "sports"]\n'},
        NEWS | IN_JSON,
        "line 1: is no JSON object",
        id="an array per line",
    ),
    pytest.param(
        {"t.parquet": parquet([b"caf\xe9", *(b"text %d" % n for n in range(60))])},
        NEWS | {"files": {"train": "t.parquet", "dev": "d.tsv"}},
        r"t\.parquet: has text that is not UTF-8",
        id="parquet with text that is not UTF-8",
    ),
    pytest.param(
        {"t.tsv": TRAIN.replace("number 7\t", "\x92\t").encode("latin-1")},
        NEWS,
        r"t\.tsv, line 9: byte 0x92 .* is not UTF-8.*iconv -f windows-1252 -t utf-8",
        id="byte 0x92",
    ),
]


@pytest.mark.parametrize(("files", "entry", "message"), REFUSED)
def test_files_are_refused(
    files: Given, entry: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read({**BASE, **files}, entry)
    assert re.search(message, capsys.readouterr().err.strip(), re.DOTALL)


SNLI = ("entailment", "neutral", "contradiction", "-")


@pytest.mark.parametrize(
    ("label", "ignore", "entry"),
    [
        ("-", ["-"], NLI),
        (-1, [-1], NLI),
        ("-1", ["-1"], NLI | {"classes": 3}),
        ("-1.0", [-1], NLI | {"classes": 3}),
    ],
)
def test_rows_with_ignored_labels_are_left_out_and_counted(
    label: object, ignore: list[object], entry: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    usual = (0, 1, 2) if entry["classes"] == 3 else SNLI[:3]
    files: Given = {
        "t.tsv": table([*rows(60, 0, usual), *rows(9, 900, (label,))]),
        "d.tsv": table([*rows(12, 1000, usual), *rows(5, 400, (label,))]),
    }
    found = read(files, entry | {"ignore": ignore})
    assert [split for split, _, _ in found.examples] == ["train"] * 60 + ["dev"] * 12
    assert {label for _, _, label in found.examples} == {0, 1, 2} and found.rejects == {}
    said = capsys.readouterr().err
    assert "9 train rows have an ignored label" in said
    assert "5 dev rows have an ignored label" in said


def test_a_class_cannot_be_ignored() -> None:
    with pytest.raises(UserError, match="'world' is one of 'classes' and of 'ignore'"):
        read(BASE, NEWS | {"ignore": ["world"]})


SST = "\tid\tsentence\tsentiment\n" + "".join(
    f"{n}\ti{{0}}{n}\ttext {{0}} {n}\t{n % 5}\n" for n in range(80)
)
COURSE = {f"c/ids-sst-{split}.csv": SST.format(split) for split in ("train", "dev")}
COURSE["c/ids-sst-test-student.csv"] = "\tid\tsentence\n0\tt0\ttest\n"


@pytest.mark.parametrize(
    ("end", "was"),
    [
        pytest.param(b"", b"", id="as it should be"),
        pytest.param(b"\n", b"", id="a blank line"),
        pytest.param(b"", b"\r\r\n", id="CR CR LF"),
    ],
)
def test_files_in_the_courses_form_are_read(end: bytes, was: bytes) -> None:
    files: Given = {name: text.encode() + end for name, text in COURSE.items()}
    if was:
        files = {name: text.encode().replace(b"\n", was) for name, text in COURSE.items()}
    found = read(files, {}, "sst", data="real", course="c")
    assert len(found.examples) == 161 and not any("\r" in text for _, text, _ in found.examples)
    assert found.rejects == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b"\0", "sentence contains a NUL byte", id="NUL"),
        pytest.param("it\x92s".encode(), r"control character U\+0092", id="a C1 control"),
        pytest.param(b"it\x92s", "windows-1252", id="byte 0x92"),
    ],
)
def test_files_in_the_courses_form_are_refused(
    text: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files: Given = {name: given.encode().replace(b"text", text) for name, given in COURSE.items()}
    with pytest.raises(SystemExit):
        read(files, {}, "sst", data="real", course="c")
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize("left_out", ["overall", "section"])
def test_what_only_a_paper_has_can_be_left_out(
    left_out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = {"text": "It learns.", "section": "1", "variant": "shared", "against": "majority"}
    claim = {name: value for name, value in claim.items() if name != left_out}
    plan(BASE, {"tasks": {"news": NEWS}}, {"news": {"loss": "cross_entropy"}}, claims=[claim])
    if left_out == "overall":
        grid = Path("workflow/grids/mine.yaml")
        grid.write_text(re.sub("(?m)^overall: .*$", "", grid.read_text(encoding="utf-8")))
    main(["plan"])
    assert "shared" in capsys.readouterr().out
