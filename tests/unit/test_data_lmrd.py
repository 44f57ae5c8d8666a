"""LMRD from an archive and from a folder."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from minbert.base.errors import UserError
from minbert.data import lmrd
from minbert.data.lmrd import read_lmrd
from minbert.data.report import write_dataset

SHARED = Path(os.environ.get("MINBERT_SHARED", Path(__file__).parents[3] / "shared"))
ARCHIVE = SHARED / "data" / "aclImdb_v1.tar.gz"


def reviews(many: int = 30) -> dict[str, bytes]:
    files = {}
    for split in ("train", "test"):
        for number in range(many):
            negative, positive = 1 + number % 4, 7 + number % 4
            files[f"{split}/neg/{number}_{negative}.txt"] = f"Bad {number}.<br /><br />No.".encode()
            files[f"{split}/pos/{number}_{positive}.txt"] = f"Good {number}, café.".encode()
    return files


def archive(path: Path, files: dict[str, bytes], reverse: bool = False) -> Path:
    with tarfile.open(path, "w:gz") as handle:
        for name in sorted(files, reverse=reverse):
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = len(files[name])
            handle.addfile(member, io.BytesIO(files[name]))
    return path


def folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def test_ratings_become_classes_and_breaks_become_spaces(tmp_path: Path) -> None:
    examples, rejected = read_lmrd(archive(tmp_path / "a.tar.gz", reviews()))
    by_id = {e.id: e for e in examples}
    assert rejected == []
    assert [by_id[f"train/neg/{n}_{n + 1}"].label for n in range(4)] == [0, 0, 1, 1]
    assert [by_id[f"test/pos/{n}_{n + 7}"].label for n in range(4)] == [3, 3, 4, 4]
    assert by_id["train/neg/0_1"].sentence1 == "Bad 0.  No."
    assert by_id["train/pos/0_7"].sentence1 == "Good 0, café."


def test_dev_is_a_tenth_of_train_and_the_same_everywhere(tmp_path: Path) -> None:
    files = reviews()
    examples, _ = read_lmrd(archive(tmp_path / "a.tar.gz", files))
    assert Counter(e.split for e in examples) == {"train": 54, "dev": 6, "test": 60}
    assert sorted(e.id for e in examples if e.split == "dev") == [
        "train/neg/12_1",
        "train/neg/19_4",
        "train/neg/2_3",
        "train/neg/5_2",
        "train/pos/10_9",
        "train/pos/1_8",
    ]
    assert read_lmrd(archive(tmp_path / "b.tar.gz", files, reverse=True))[0] == examples
    assert read_lmrd(folder(tmp_path / "x" / "aclImdb", files))[0] == examples
    assert read_lmrd(tmp_path / "x")[0] == examples


def test_no_film_is_in_both_train_and_dev(tmp_path: Path) -> None:
    """Reviews 3N to 3N + 2 are of one film, negative and positive ones alike."""
    url = "http://www.imdb.com/title/tt{:07}/usercomments\n"
    lists = {
        f"train/urls_{polarity}.txt": "".join(url.format(n // 3) for n in range(30)).encode()
        for polarity in ("neg", "pos")
    }
    files = reviews() | lists | {"train/urls_unsup.txt": b"?", "test/urls_pos.txt": b"?"}
    examples, rejected = read_lmrd(archive(tmp_path / "a.tar.gz", files))
    assert rejected == []
    splits: dict[int, set[str]] = {}
    for example in examples:
        if example.split != "test":
            number = int(example.id.rpartition("/")[2].partition("_")[0])
            splits.setdefault(number // 3, set()).add(example.split)
    assert len(splits) == 10 and all(len(found) == 1 for found in splits.values())
    assert Counter(e.split for e in examples) == {"train": 54, "dev": 6, "test": 60}
    assert read_lmrd(archive(tmp_path / "b.tar.gz", files, reverse=True))[0] == examples
    assert read_lmrd(folder(tmp_path / "aclImdb", files))[0] == examples


def test_unlabelled_reviews_and_other_files_are_left_out(tmp_path: Path) -> None:
    more = {"train/unsup/0_0.txt": b"?", "README": b"", "train/labeledBow.feat": b""}
    examples, rejected = read_lmrd(archive(tmp_path / "a.tar.gz", reviews() | more))
    assert len(examples) == 120
    assert rejected == []


def test_bad_reviews_are_rejected(tmp_path: Path) -> None:
    bad = {
        "train/neg/900_8.txt": b"wrong folder",
        "train/neg/901.txt": b"no rating",
        "test/pos/902_9.txt": b"<br />",
        "test/pos/903_9.txt": b"Caf\xe9",
    }
    examples, rejected = read_lmrd(archive(tmp_path / "a.tar.gz", reviews() | bad))
    assert len(examples) == 120
    assert [(r.file, r.line, r.reason, r.split) for r in rejected] == [
        ("test/pos/902_9.txt", 1, "sentence is empty", "test"),
        ("test/pos/903_9.txt", 1, "byte 0xe9 at offset 3 is not UTF-8", "test"),
        ("train/neg/900_8.txt", 1, "rating 8 does not belong in folder 'neg'", "train"),
        ("train/neg/901.txt", 1, "its name is not NUMBER_RATING.txt", "train"),
    ]


def test_other_sources_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such archive or folder"):
        read_lmrd(tmp_path / "absent")
    with pytest.raises(UserError, match="no review in train/neg/"):
        read_lmrd(tmp_path)


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    long = {"test/neg/0_1.txt": bytes(n * n % 251 for n in range(90_000))}
    whole = archive(tmp_path / "a.tgz", long)
    cut = tmp_path / "cut.tgz"
    cut.write_bytes(whole.read_bytes()[:400])
    text = tmp_path / "text.tgz"
    text.write_text("<html>")
    stub = tmp_path / "stub.tgz"
    stub.write_bytes(whole.read_bytes()[:3])
    packed = tmp_path / "cut.txz"
    packed.write_bytes(lzma.compress(gzip.decompress(whole.read_bytes()))[:200] + b"0" * 9)
    flipped = bytearray(archive(tmp_path / "b.tgz", reviews()).read_bytes())
    flipped[-6] ^= 1  # of the checksum, behind the last member
    (tmp_path / "flipped.tgz").write_bytes(flipped)
    for path in (cut, text, stub, packed, tmp_path / "flipped.tgz"):
        with pytest.raises(UserError, match=rf"{path.name}: not a whole tar archive"):
            read_lmrd(path)


@pytest.mark.parametrize("kind", ["header", "member", "members", "tail"])
def test_an_archive_that_unpacks_to_gigabytes_is_refused(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of it is read, nor is a long name, which tarfile reads in one piece."""
    member = tarfile.TarInfo("long")
    if kind == "header":
        member.type, member.size = tarfile.GNUTYPE_LONGNAME, 3 << 30
    if kind == "member":
        member.size = 4 << 30
    head = member.tobuf()
    if kind == "members":
        monkeypatch.setattr(lmrd, "MAX_MEMBERS", 9)
        head *= 10
    tail = bytes(1 << 20) if kind == "tail" else b""
    if kind == "tail":
        monkeypatch.setattr(lmrd, "MAX_BYTES", 1 << 19)
    (tmp_path / "a.tgz").write_bytes(gzip.compress(head + tail))
    wrong = "a header of 3,221,225,472 bytes" if kind == "header" else "has more than .* unpacked"
    with pytest.raises(UserError, match=rf"a\.tgz: .*{wrong}.*; .*download"):
        read_lmrd(tmp_path / "a.tgz")


def test_a_review_that_is_huge_or_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path / "a.tgz", reviews())
    monkeypatch.setattr(lmrd, "MAX_REVIEW_BYTES", 10)
    with pytest.raises(UserError, match=r"'aclImdb/.*txt' is not a regular file of at most 67"):
        read_lmrd(path)
    with tarfile.open(path, "w") as handle:
        link = tarfile.TarInfo("aclImdb/train/neg/1_2.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        handle.addfile(link)
    with pytest.raises(UserError, match=r"'aclImdb/train/neg/1_2\.txt' is not a regular file"):
        read_lmrd(path)
    monkeypatch.undo()
    for name in ("fifo", "folder", "loop"):
        made = folder(tmp_path / name, reviews()) / "train" / "pos" / "77_8.txt"
        if name == "fifo":
            os.mkfifo(made)
        elif name == "folder":
            made.mkdir()
        else:
            made.symlink_to(made)
        with pytest.raises(UserError, match=r"77_8\.txt is not a regular file .*; take it out"):
            read_lmrd(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("\u0661_\u0662", "its name is not NUMBER_RATING.txt"),
        (f"7_{'9' * 5000}", "its name is not NUMBER_RATING.txt"),
        ("7_1\udcff", "its name is not NUMBER_RATING.txt"),
        ("7_0", "rating 0 does not belong in folder 'neg'"),
    ],
)
def test_a_review_of_a_strange_name_is_set_aside(tmp_path: Path, name: str, reason: str) -> None:
    files = reviews(120) | {f"train/neg/{name}.txt": b"Bad."}
    path = archive(tmp_path / "a.tar.gz", files)
    examples, rejected = read_lmrd(path)
    assert len(examples) == 480 and [r.reason for r in rejected] == [reason]
    write_dataset("lmrd", examples, rejected, tmp_path / "data")
    assert reason in (tmp_path / "data" / "rejected.csv").read_text(encoding="utf-8")


@pytest.mark.skipif(not ARCHIVE.is_file(), reason=f"no LMRD archive at {ARCHIVE}")
def test_real_archive() -> None:
    examples, rejected = read_lmrd(ARCHIVE)
    assert Counter(e.split for e in examples) == {"train": 22500, "dev": 2500, "test": 25000}
    assert {e.label for e in examples} == {0, 1, 3, 4}
    assert rejected == []
