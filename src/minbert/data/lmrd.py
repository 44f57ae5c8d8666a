"""The Large Movie Review Dataset: Maas et al. (2011), 50,000 reviews with ratings from 1 to 10."""

import gzip
import hashlib
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.spec.protocol import LMRD_URL, SPLITS

DEV_SHARE = 0.1
"""The share of train that becomes dev."""
_MEMBER = re.compile(r"(?:.*/)?((train|test)/(neg|pos)/([^/]+))\.txt")
_NAME = re.compile(r"([0-9]+)_([0-9]{1,2})")
_URLS = re.compile(r"(?:.*/)?train/urls_(neg|pos)\.txt")
_FILM = re.compile(r"/title/(tt[0-9]+)")
_DAMAGED = (tarfile.TarError, EOFError, OSError, zlib.error, ValueError)

Review = tuple[str, str, str, dict[str, Any] | str]
"""Its split, file, how it begins, and its fields (`id`, `sentence`, `rating`) or what is wrong."""


def read_reviews(archive: Path) -> Iterator[Review]:
    """Yield the labelled reviews of LMRD's tar.gz, by split, then id; nothing is unpacked.

    Ids are `train/pos/0_9`. `rating` is (rating - 1) // 2, so that classes 0 to 4 are those of SST;
    no review has a rating of 5 or 6, so class 2 is empty. `<br />` becomes a space. Dev is a tenth
    of train, the same on any machine: the reviews of the films with the smallest SHA-256 of
    `0:FILM`, so that no film is in both. Films are those of `train/urls_pos.txt` and
    `urls_neg.txt`, whose line N (from 0) is that of review N; without these, or a line, a review
    counts as a film of its own.

    Raises `UserError` for an archive that is missing or damaged, or lacks one of the four folders.
    """
    reviews: dict[str, Review] = {}
    films: dict[str, str] = {}
    for name, content in _members(archive):
        if urls := _URLS.fullmatch(name):
            lines = content.decode("ascii", "replace").splitlines()
            matches = ((number, _FILM.search(line)) for number, line in enumerate(lines))
            films |= {f"train/{urls[1]}/{number}": found[1] for number, found in matches if found}
        elif found := _MEMBER.fullmatch(name):
            start = content[:200].decode("utf-8", "replace")
            reviews[found[1]] = found[2], f"{found[1]}.txt", start, _fields(found, content)
    for folder in ("train/neg", "train/pos", "test/neg", "test/pos"):
        if not any(key.startswith(f"{folder}/") for key in reviews):
            raise UserError(
                f"{archive}: no review in {folder}/; expected the Large Movie Review Dataset "
                f"(folders train and test, each with neg and pos) from {LMRD_URL}"
            )
    train = [
        key
        for key, (split, *_, of) in reviews.items()
        if split == "train" and not isinstance(of, str)
    ]
    for key in _dev(train, films):
        reviews[key] = "dev", *reviews[key][1:]
    yield from (
        reviews[key]
        for key in sorted(reviews, key=lambda key: (SPLITS.index(reviews[key][0]), key))
    )


def _fields(name: re.Match[str], content: bytes) -> dict[str, Any] | str:
    """Return the fields of a review, or why it is rejected."""
    key, _, folder, stem = name.groups()
    numbers = _NAME.fullmatch(stem)
    if numbers is None:
        return "its name is not NUMBER_RATING.txt"
    rating = int(numbers[2])
    if not 1 <= rating <= 10 or (folder == "pos") != (rating > 5):
        return f"rating {rating} does not belong in folder '{folder}'"
    try:
        text = content.decode("utf-8").replace("<br />", " ").strip()
    except UnicodeDecodeError as error:
        return f"byte 0x{content[error.start]:02x} at offset {error.start} is not UTF-8"
    return {"id": key, "sentence": text, "rating": (rating - 1) // 2}


def _dev(train: Iterable[str], films: Mapping[str, str]) -> set[str]:
    """Return the ids of train's reviews that become dev."""
    of_film: dict[str, list[str]] = {}
    for key in train:
        of_film.setdefault(films.get(key.partition("_")[0], key), []).append(key)
    size = round(DEV_SHARE * sum(map(len, of_film.values())))
    dev: set[str] = set()
    for film in sorted(of_film, key=lambda film: hashlib.sha256(f"0:{film}".encode()).digest()):
        if len(dev) >= size:
            break
        dev.update(of_film[film])
    return dev


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the regular files in an archive, in order."""
    try:
        with gzip.open(archive) as plain, tarfile.open(fileobj=plain, mode="r|") as members:
            for member in members:
                wanted = member.isfile() and (
                    _MEMBER.fullmatch(member.name) or _URLS.fullmatch(member.name)
                )
                handle = members.extractfile(member) if wanted else None
                if handle is not None:
                    content = handle.read()
                    if len(content) != member.size:
                        raise tarfile.ReadError(f"'{member.name}' is truncated")
                    yield member.name, content
            while plain.read(1 << 20):  # to the end, where the checksum is
                pass
    except _DAMAGED as error:
        raise UserError(
            f"{archive}: not a whole tar.gz ({error}); delete it and download it again: {LMRD_URL}"
        ) from error
