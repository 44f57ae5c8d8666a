"""Where predictions go: files appear whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from planned_root import Planned

from minbert.base.errors import UserError
from minbert.predict.output import written
from minbert.predict.submit import submit


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


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path, there: bool) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "file"
    if there:
        target.write_text("old")
    (tmp_path / "second").symlink_to("real/file")
    (tmp_path / "out").symlink_to("second")
    write(tmp_path / "out")
    assert (tmp_path / "out").is_symlink() and (tmp_path / "second").is_symlink()
    assert target.read_text() == "new\n" and os.listdir(target.parent) == ["file"]


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


def test_the_courses_files_are_written_through_links(tmp_path: Path) -> None:
    made = Planned(tmp_path / "results")
    made.stage("a1", "sst", "one")
    made.predictions("a1", [("s1", "sst", "dev", 3.0)])
    link = tmp_path / "out" / "sst-dev-output.csv"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "elsewhere.csv")
    submit(made.root, "one", out=link.parent)
    assert link.is_symlink() and (tmp_path / "elsewhere.csv").read_text().endswith("s1 , 3 \n")
