"""What is wrong with the entry of a task of one's own, and what the messages say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from own_files import BOTH, NEWS, SCORE, TWO, configured

from minbert.base.errors import UserError

pytestmark = pytest.mark.usefixtures("own_folder")

ENTRIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "no classes": (
        "t",
        BOTH | {"classes": None},
        r"'tasks\.t': kind classification needs 'classes'",
    ),
    "one class": ("t", BOTH | {"classes": ["a"]}, r"2 to 1000; found \('a',\)"),
    "a class twice": ("t", BOTH | {"classes": ["a", "b", "a"]}, r"'a' is there twice"),
    "three of two classes": (
        "t",
        BOTH | {"kind": "binary"},
        r"kind binary has two 'classes', the names of 0 and 1; found",
    ),
    "no range": ("t", SCORE | {"range": None, "files": TWO}, r"'range', the lowest and highest"),
    "classes of a number": ("t", SCORE | {"classes": 3, "files": TWO}, r"it has no 'classes'"),
    "range upside down": ("t", SCORE | {"range": [5, 0], "files": TWO}, r"found \[5\.0, 0\.0\]"),
    "metric of another kind": (
        "t",
        BOTH | {"metric": "pearson"},
        r"metric 'pearson' is not for kind classification, which has accuracy, macro_f1, matthews",
    ),
    "unknown metric": (
        "t",
        BOTH | {"metric": "macro-f1"},
        r"'tasks\.t\.metric' is 'macro-f1'; expected .*'macro_f1'",
    ),
    "unknown key": (
        "t",
        BOTH | {"labels": "x"},
        r"unknown key 'tasks\.t\.labels'\. Did you mean 'label'",
    ),
    "one column for two things": ("t", BOTH | {"label": "text"}, r"column 'text' is named twice"),
    "no dev": ("t", NEWS | {"files": {"train": "t.tsv"}}, r"no dev examples to choose the best"),
    "file and share": ("t", BOTH | {"dev": 0.1}, r"'dev' is both a file and a share of train"),
    "folder and file": (
        "t",
        NEWS | {"files": {"folder": "news", "test": "e.tsv"}},
        r"'tasks\.t\.files': has a 'folder', whose files are the splits, and 'test'; give the",
    ),
    "neither folder nor train": (
        "t",
        NEWS | {"files": {"test": "e.tsv"}},
        r"'tasks\.t\.files': needs 'train', a file",
    ),
    "a share above a half": (
        "t",
        NEWS | {"files": "t.tsv", "dev": 0.9},
        r"'tasks\.t\.dev' is 0\.9; .*0\.5",
    ),
    "shares that leave nothing": (
        "t",
        NEWS | {"files": "t.tsv", "dev": 0.5, "test": 0.5},
        r"'tasks\.t': 'dev' and 'test' are shares of train whose sum is 1, expected less than 1",
    ),
    "another name of dev": (
        "t",
        NEWS | {"files": {"train": "t.tsv", "validation": "d.tsv"}},
        r"unknown key 'tasks\.t\.files\.validation': that split is called 'dev' here",
    ),
    "URL without a checksum": (
        "t",
        NEWS | {"files": "https://example.org/t.tsv", "dev": 0.1},
        r"needs the checksum of what is there, as \{url: \.\.\., sha256: \.\.\.\}",
    ),
    "half a checksum": (
        "t",
        NEWS | {"files": {"url": "https://example.org/t.tsv", "sha256": "abc"}, "dev": 0.1},
        r"files\.sha256' is 'abc'; expected text that matches",
    ),
    "two checksums": (
        "t",
        NEWS
        | {"files": {"train": {"path": "t.tsv", "sha256": "0" * 64, "git": "0" * 40}}, "dev": 0.1},
        r"files.*'sha256' and 'git' are given; one checksum is enough",
    ),
    "name of a built-in task": ("sst", BOTH, r"'sst' is a built-in task; give yours another name"),
    "name with a meaning": ("overall", BOTH, r"a task cannot be called 'overall'"),
    "name that a model has": ("type", BOTH, r"a task cannot be called 'type'"),
    "ignored class": ("t", BOTH | {"ignore": ["world"]}, "'world' is one of 'classes' and of 'ig"),
    "no name": ("My-Task", BOTH, r"'My-Task' is no name of a task: small letters, digits"),
}


@pytest.mark.parametrize("kind", ENTRIES)
def test_a_wrong_task_is_refused_with_the_configuration(kind: str, tmp_path: Path) -> None:
    name, entry, message = ENTRIES[kind]
    with pytest.raises(UserError, match=message):
        configured(tmp_path, entry, name)


def test_no_head_can_be_called_what_torch_has() -> None:
    from torch import nn

    from minbert.spec.entry import NAME, RESERVED

    heads = nn.ModuleDict()
    taken = {name for name in dir(heads) if NAME.fullmatch(name) and name[0] != "_"}
    taken.add("smart_apply")  # which may not be there yet
    assert taken <= set(RESERVED), taken - set(RESERVED)
