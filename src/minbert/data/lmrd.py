"""The Large Movie Review Dataset: Maas et al. (2011), 50,000 reviews with ratings from 1 to 10."""

import hashlib
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.spec.protocol import LMRD_URL, SPLITS

DEV_SHARE = 0.1
"""The share of train that becomes dev."""
_REVIEW = re.compile(r"(?:.*/)?((train|test)/(neg|pos)/([^/]+))\.txt")
_NAME = re.compile(r"([0-9]+)_([0-9]{1,2})")
_URLS = re.compile(r"(?:.*/)?train/urls_(neg|pos)\.txt")
_FILM = re.compile(r"/title/(tt[0-9]+)")

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
            for number, line in enumerate(content.decode("ascii", "replace").splitlines()):
                if title := _FILM.search(line):
                    films[f"train/{urls[1]}/{number}"] = title[1]
        elif found := _REVIEW.fullmatch(name):
            start = content[:200].decode("utf-8", "replace")
            reviews[found[1]] = found[2], f"{found[1]}.txt", start, _fields(found, content)
    for folder in ("train/neg", "train/pos", "test/neg", "test/pos"):
        if not any(key.startswith(f"{folder}/") for key in reviews):
            raise UserError(
                f"{archive}: no review in {folder}/; expected the Large Movie Review Dataset "
                f"(folders train and test, each with neg and pos) from {LMRD_URL}"
            )
    of_film: dict[str, list[str]] = {}
    for key, (split, _, _, fields) in reviews.items():
        if split == "train" and isinstance(fields, dict):
            of_film.setdefault(films.get(key.partition("_")[0], key), []).append(key)
    left = round(DEV_SHARE * sum(map(len, of_film.values())))
    for film in sorted(of_film, key=lambda film: hashlib.sha256(f"0:{film}".encode()).digest()):
        if left <= 0:
            break
        left -= len(of_film[film])
        reviews.update((key, ("dev", *reviews[key][1:])) for key in of_film[film])
    order = sorted(reviews, key=lambda key: (SPLITS.index(reviews[key][0]), key))
    yield from map(reviews.__getitem__, order)


def _fields(name: re.Match[str], content: bytes) -> dict[str, Any] | str:
    """Return the fields of a review, or why it is rejected."""
    key, _, folder, stem = name.groups()
    numbers = _NAME.fullmatch(stem)
    rating = int(numbers[2]) if numbers else 0
    if not 1 <= rating <= 10 or (folder == "pos") != (rating > 5):
        return f"its name is not NUMBER_RATING.txt with a rating of folder '{folder}'"
    try:
        text = content.decode("utf-8").replace("<br />", " ").strip()
    except UnicodeDecodeError as error:
        return f"byte 0x{content[error.start]:02x} at offset {error.start} is not UTF-8"
    return {"id": key, "sentence": text, "rating": (rating - 1) // 2}


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the files of reviews and URLs in an archive, in order."""
    try:
        with tarfile.open(archive, "r:gz") as members:
            for member in members:
                wanted = _REVIEW.fullmatch(member.name) or _URLS.fullmatch(member.name)
                if wanted and (file := members.extractfile(member)):
                    yield member.name, file.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise UserError(
            f"{archive}: not a whole tar.gz ({error}); delete it and download it again: {LMRD_URL}"
        ) from error
