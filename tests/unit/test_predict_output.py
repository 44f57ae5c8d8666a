"""Where predictions go: files appear whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minbert.base.errors import UserError
from minbert.predict.output import written


def write(path: Path, text: str = "new\n") -> None:
    with written(path) as file:
        file.write(text)


def test_a_regular_file_is_replaced_whole_or_stays(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "out"
    write(path, "old\n")
    with pytest.raises(ZeroDivisionError), written(path) as file:
        file.write(f"new {1 / 0}\n")
    assert path.read_text() == "old\n"
    with written(path) as file:
        file.write("é\r\n")
        file.flush()
        assert path.read_text() == "old\n"
    assert path.read_bytes() == "é\r\n".encode()
    assert os.listdir(path.parent) == ["out"]


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("old")
    for name, reason in {
        "loop": "Too many levels",
        ".": "it is no regular file",
        "file/out": "Not a directory",
        "a" * 300: "File name too long",
    }.items():
        with pytest.raises(UserError, match=rf"cannot write .*{reason}.*choose another --out"):
            write(tmp_path / name)
    assert (tmp_path / "loop").is_symlink() and (tmp_path / "file").read_text() == "old"
