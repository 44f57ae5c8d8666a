"""LMRD from its archive."""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from minbert.base.errors import UserError
from minbert.data.dataset import read_dataset
from minbert.data.examples import Example
from minbert.spec.task import BUILT_IN


def reviews() -> dict[str, bytes]:
    files = {}
    for split in ("train", "test"):
        for number in range(30):
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


def read(path: Path) -> list[Example]:
    spec = {"task": "lmrd", "forms": {}, **BUILT_IN["lmrd"].reading}
    examples, rejected = read_dataset(spec, {"archive": path})
    assert rejected == []
    assert Counter(e.split for e in examples) == {"train": 54, "dev": 6, "test": 60}
    return examples


def test_ratings_become_classes_and_dev_is_a_tenth_of_train(tmp_path: Path) -> None:
    more = {"train/unsup/0_0.txt": b"?", "README": b"", "train/labeledBow.feat": b""}
    examples = read(archive(tmp_path / "a.tar.gz", reviews() | more))
    by_id = {e.id: e for e in examples}
    assert [by_id[f"train/neg/{n}_{n + 1}"].label for n in range(4)] == [0, 0, 1, 1]
    assert [by_id[f"test/pos/{n}_{n + 7}"].label for n in range(4)] == [3, 3, 4, 4]
    assert by_id["train/neg/0_1"].sentence1 == "Bad 0.  No."
    assert by_id["train/pos/0_7"].sentence1 == "Good 0, café."
    assert [e.id.removeprefix("train/") for e in examples if e.split == "dev"] == [
        *("neg/12_1", "neg/19_4", "neg/2_3", "neg/5_2", "pos/10_9", "pos/1_8")
    ]
    assert read(archive(tmp_path / "b.tar.gz", reviews(), reverse=True)) == examples


def test_no_film_is_in_both_train_and_dev(tmp_path: Path) -> None:
    """Reviews 3N to 3N + 2 are of one film, negative and positive ones alike."""
    url = "http://www.imdb.com/title/tt{:07}/usercomments\n"
    urls = "".join(url.format(n // 3) for n in range(30)).encode()
    files = reviews() | {f"train/urls_{polarity}.txt": urls for polarity in ("neg", "pos")}
    splits: dict[int, set[str]] = {}
    for example in read(archive(tmp_path / "a.tar.gz", files, reverse=True)):
        if example.split != "test":
            number = int(example.id.rpartition("/")[2].partition("_")[0])
            splits.setdefault(number // 3, set()).add(example.split)
    assert len(splits) == 10 and all(len(found) == 1 for found in splits.values())


@pytest.mark.parametrize(
    ("files", "size", "message"),
    [
        (reviews(), 400, r"b\.tgz: not a whole tar\.gz"),
        ({"train/neg/0_1.txt": b"Caf\xe9"}, None, r"b\.tgz: not a whole tar\.gz"),
        ({"README": b""}, None, r"b\.tgz: has no reviews in train/ and test/; expec"),
    ],
)
def test_damaged_and_other_archives_are_named(
    files: dict[str, bytes], size: int | None, message: str, tmp_path: Path
) -> None:
    path = archive(tmp_path / "b.tgz", files)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(UserError, match=message):
        read(path)
