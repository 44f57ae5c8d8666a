"""Archives are read in memory; what could write outside its folder is refused by name."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from minbert.common.errors import UserError
from minbert.data.archive import read_members


def pack(path: Path, *members: tarfile.TarInfo, content: bytes = b"text") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            member.size = len(content) if member.isfile() else 0
            archive.addfile(member, io.BytesIO(content) if member.isfile() else None)
    return path


def named(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = link
    return member


def test_files_come_in_order_and_folders_do_not(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.tgz", named("d", tarfile.DIRTYPE), named("d/b"), named("./d/a"))
    assert list(read_members(archive)) == [("d/b", b"text"), ("./d/a", b"text")]


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (named("/etc/passwd"), "absolute"),
        (named("C:/windows"), "absolute or foreign"),
        (named("a\\b"), "absolute or foreign"),
        (named("d/../../escape"), r"'\.\.' in its name"),
        (named("link", tarfile.SYMTYPE, "/etc/passwd"), "link to '/etc/passwd'"),
        (named("hard", tarfile.LNKTYPE, "d/b"), "link to 'd/b'"),
        (named("null", tarfile.CHRTYPE), "neither a file nor a folder"),
        (named("pipe", tarfile.FIFOTYPE), "neither a file nor a folder"),
    ],
)
def test_dangerous_members_are_named(tmp_path: Path, member: tarfile.TarInfo, reason: str) -> None:
    archive = pack(tmp_path / "a.tgz", named("good"), member)
    with pytest.raises(UserError, match=reason) as caught:
        list(read_members(archive))
    assert f"'{member.name}'" in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["a.tgz"]


def test_huge_member_is_refused_unread(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.tgz", named("bomb"), content=b"0" * 100_000)
    with pytest.raises(UserError, match=r"'bomb' has 100,000 bytes, more than 1,000"):
        list(read_members(archive, max_member_bytes=1000))


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    whole = pack(tmp_path / "a.tgz", named("a"), content=bytes(i * i % 251 for i in range(90_000)))
    cut = tmp_path / "cut.tgz"
    cut.write_bytes(whole.read_bytes()[:400])
    text = tmp_path / "text.tgz"
    text.write_text("<html>")
    for path in (cut, text):
        with pytest.raises(UserError, match=rf"{path.name}: not a whole tar archive"):
            list(read_members(path))
    with pytest.raises(UserError, match="no such archive"):
        list(read_members(tmp_path / "absent.tgz"))
