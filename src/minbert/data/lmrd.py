"""The Large Movie Review Dataset: Maas et al. (2011), 50,000 reviews with ratings from 1 to 10."""

import bz2
import gzip
import hashlib
import lzma
import re
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Self

from minbert.base.errors import UserError
from minbert.data.examples import Example, Rejected, fault
from minbert.data.identity import check_unchanged, checksum, tree
from minbert.data.report import make_dataset
from minbert.spec.protocol import LMRD_URL, SPLITS
from minbert.spec.task import TASKS
from minbert.store.job import Job

LMRD_PIN = "md5:7c2ac02c03563afcf9b574c7e56c153a"
DEV_SHARE = 0.1
"""The share of train that becomes dev."""
MAX_REVIEW_BYTES = 64 << 20
MAX_MEMBERS, MAX_BYTES, MAX_HEADER_BYTES = 200_000, 1 << 30, 1 << 20
"""Of an archive: its members, all of it unpacked, and one header."""
_NO_REVIEW = f"is not a regular file of at most {MAX_REVIEW_BYTES:,} bytes"
_DAMAGED = (
    *(tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError),
    *(TypeError, ValueError, RecursionError),  # tarfile's own, in headers
)
_LONG = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
_READERS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zX": lzma.open,
    b"]\0\0\x80": lzma.open,
}
_FOLDERS = tuple(product(("train", "test"), ("neg", "pos")))
_MEMBER = re.compile(r"(?:.*/)?(?P<id>(?P<split>train|test)/(?P<polarity>neg|pos)/[^/]+)\.txt")
_NAME = re.compile(r"([0-9]+)_([0-9]{1,2})")
_URLS = re.compile(r"(?:.*/)?train/urls_(?P<polarity>neg|pos)\.txt")
_FILM = re.compile(r"/title/(tt[0-9]+)")


def make(job: Job) -> None:
    """Make the data set from the archive, downloaded or not, or from its unpacked folder."""
    path = job.need("archive") if job.described["needs"] else Path(job.extra["path"])
    planned = job.spec["files"]
    found = f"tree:{tree(review_files(path))}" if path.is_dir() else checksum(path, planned)
    check_unchanged(path, found, planned)
    make_dataset(job, *read_lmrd(path))


def read_lmrd(source: Path) -> tuple[list[Example], list[Rejected]]:
    """Read LMRD from its tar.gz or its unpacked folder; return examples and rejected files.

    `source` is the archive, `aclImdb` or the folder that holds it; all give the same rows in the
    same order (by split, then id). Ids are `train/pos/0_9`. The label is (rating - 1) // 2, so
    that classes 0 to 4 are those of SST; no review has a rating of 5 or 6, so class 2 is empty.
    Dev is a tenth of train, the same on any machine: the reviews of the films with the smallest
    SHA-256 of `0:FILM`, so that no film is in both. Films are those of `train/urls_pos.txt` and
    `urls_neg.txt`, whose line N (from 0) is that of review N; without these, or a line, a review
    counts as a film of its own. `<br />` becomes a space. Unlabelled reviews are left out.

    A file is rejected (line 1) if its name or text is invalid or its rating contradicts its folder.
    Raises `UserError` for a missing or damaged source, or one without the four folders.
    """
    if not source.exists():
        raise UserError(f"no such archive or folder: {source}; LMRD is at {LMRD_URL}")
    found: dict[str, Example] = {}
    rejected: list[Rejected] = []
    films: dict[str, str] = {}
    for name, content in _folder(source) if source.is_dir() else _archive(source):
        if name.re is _URLS:
            films |= _films(name["polarity"], content)
            continue
        key, split, polarity = name["id"], name["split"], name["polarity"]
        example = _review(key, split, polarity, content)
        if isinstance(example, str) or key in found:
            reason = example if isinstance(example, str) else "the archive has it twice"
            text = content[:200].decode("utf-8", "replace")
            rejected.append(Rejected(f"{key}.txt", 1, reason, text, split))
        else:
            found[key] = example
    _check_folders(source, found)
    dev = _dev([key for key, example in found.items() if example.split == "train"], films)
    examples = [e._replace(split="dev") if e.id in dev else e for e in found.values()]
    return sorted(examples, key=lambda e: (SPLITS.index(e.split), e.id)), sorted(rejected)


def _check_folders(source: Path, names: Collection[str]) -> None:
    """Refuse a source without reviews in one of the four folders; `names` are those of reviews."""
    for split, polarity in _FOLDERS:
        if not any(name.startswith(f"{split}/{polarity}/") for name in names):
            raise UserError(
                f"{source}: no review in {split}/{polarity}/; expected the Large Movie Review "
                f"Dataset (folders train and test, each with neg and pos) from {LMRD_URL}"
            )


def _films(polarity: str, urls: bytes) -> dict[str, str]:
    """Return the film of each review, by what its id begins with, from a list of URLs."""
    lines = urls.decode("ascii", "replace").splitlines()
    matches = ((number, _FILM.search(line)) for number, line in enumerate(lines))
    return {f"train/{polarity}/{number}": found[1] for number, found in matches if found}


def _dev(train: list[str], films: Mapping[str, str]) -> set[str]:
    """Return the ids of train's reviews that become dev."""
    of_film: dict[str, list[str]] = {}
    for key in train:
        of_film.setdefault(films.get(key.partition("_")[0], key), []).append(key)
    dev: set[str] = set()
    for film in sorted(of_film, key=lambda film: hashlib.sha256(f"0:{film}".encode()).digest()):
        if len(dev) >= round(DEV_SHARE * len(train)):
            break
        dev.update(of_film[film])
    return dev


def _review(key: str, split: str, polarity: str, content: bytes) -> Example | str:
    """Return the example of a review, or why it is rejected."""
    name = _NAME.fullmatch(key.rpartition("/")[2])
    if name is None:
        return "its name is not NUMBER_RATING.txt"
    rating = int(name[2])
    if not 1 <= rating <= 10 or (polarity == "pos") != (rating > 5):
        return f"rating {rating} does not belong in folder '{polarity}'"
    try:
        text = content.decode("utf-8").replace("<br />", " ").strip()
    except UnicodeDecodeError as error:
        return f"byte 0x{content[error.start]:02x} at offset {error.start} is not UTF-8"
    example = Example(key, split, text, None, float((rating - 1) // 2))
    return fault(example, TASKS["lmrd"]) or example


def review_files(folder: Path) -> dict[str, Path]:
    """Return the lists of URLs and the reviews of an unpacked LMRD, by name; nothing else in it.

    Raises `UserError` for a folder without reviews, and for one that is huge or no regular file.
    """
    root = folder if (folder / "train").is_dir() else folder / "aclImdb"
    patterns = ["train/urls_*.txt", *(f"{'/'.join(names)}/*.txt" for names in _FOLDERS)]
    files = {
        path.relative_to(root).as_posix(): path for p in patterns for path in sorted(root.glob(p))
    }
    _check_folders(folder, files)
    for path in files.values():
        if not path.is_file() or path.stat().st_size > MAX_REVIEW_BYTES:
            raise UserError(f"{path} {_NO_REVIEW}; take it out of the folder")
    return files


def _folder(folder: Path) -> Iterator[tuple[re.Match[str], bytes]]:
    for name, path in review_files(folder).items():
        if found := _MEMBER.fullmatch(name) or _URLS.fullmatch(name):
            yield found, path.read_bytes()


class _Header(tarfile.TarInfo):
    """The header of a member, or of a long name, which tarfile reads in one piece."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.size > MAX_HEADER_BYTES and header.type in _LONG:
            raise ValueError(f"a header of {header.size:,} bytes")
        return header


def _bomb(archive: Path) -> UserError:
    return UserError(
        f"{archive}: has more than {MAX_MEMBERS:,} files or {MAX_BYTES >> 20} MiB unpacked, "
        f"expected LMRD's 100,022 files; download the archive from {LMRD_URL} again"
    )


def _archive(archive: Path) -> Iterator[tuple[re.Match[str], bytes]]:
    """Yield (name, content) of each review and list of URLs in a tar archive, in order.

    Nothing is unpacked. The compressed bytes are read once, to their end, where their sum is.
    """
    try:
        with archive.open("rb") as file:
            start = file.read(4)
        reader = next((r for magic, r in _READERS.items() if start.startswith(magic)), open)
        with (
            reader(archive, "rb") as plain,
            tarfile.open(fileobj=plain, mode="r|", tarinfo=_Header) as members,
        ):
            for number, member in enumerate(members, 1):
                if number > MAX_MEMBERS or plain.tell() + member.size > MAX_BYTES:
                    raise _bomb(archive)
                name = _MEMBER.fullmatch(member.name) or _URLS.fullmatch(member.name)
                if name is None:
                    continue
                handle = members.extractfile(member) if member.isfile() else None
                if handle is None or member.size > MAX_REVIEW_BYTES:
                    raise UserError(
                        f"{archive}: '{member.name}' {_NO_REVIEW}; download the archive from "
                        f"{LMRD_URL} again"
                    )
                content = handle.read()
                if len(content) != member.size:
                    raise tarfile.ReadError(f"'{member.name}' is truncated")
                yield name, content
            while plain.read(1 << 20):
                if plain.tell() > MAX_BYTES:
                    raise _bomb(archive)
    except _DAMAGED as error:
        raise UserError(
            f"{archive}: not a whole tar archive ({error}); delete it and download it again"
        ) from error
