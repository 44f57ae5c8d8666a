"""The Large Movie Review Dataset: Maas et al. (2011), 50,000 reviews with ratings from 1 to 10."""

import hashlib
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.spec.protocol import LMRD_URL

DEV_SHARE = 0.1
"""The share of train that becomes dev."""
_REVIEW = re.compile(r"(?:.*/)?((?:train|test)/(?:neg|pos)/[0-9]+)_([0-9]{1,2})\.txt")
_URLS = re.compile(r"(?:.*/)?train/urls_(neg|pos)\.txt")
_FILM = re.compile(r"/title/(tt[0-9]+)")


def read_reviews(archive: Path) -> Iterator[tuple[str, str, int, str, dict[str, Any]]]:
    """Yield split, file, line, text and fields (`id`, `sentence`, `rating`) of labelled reviews.

    They come by split, then id; nothing of the tar.gz is unpacked. Ids are `train/pos/0_9`.
    `rating` is (rating - 1) // 2, so that classes 0 to 4 are those of SST; no review has a rating
    of 5 or 6, so class 2 is empty. `<br />` becomes a space. Dev is a tenth of train, the same on
    any machine: the reviews of the films with the smallest SHA-256 of `0:FILM`, so that no film is
    in both. Films are those of `train/urls_pos.txt` and `urls_neg.txt`, whose line N (from 0) is
    that of review N; without these, or a line, a review counts as a separate film.

    Raises `UserError` for an archive that is missing or damaged, or has no reviews.
    """
    reviews, films = dict[str, str](), dict[str, str]()
    for name, text in _texts(archive):
        if review := _REVIEW.fullmatch(name):
            reviews["_".join(review.groups())] = text.replace("<br />", " ").strip()
        elif urls := _URLS.fullmatch(name):
            titles = enumerate(map(_FILM.search, text.splitlines()))
            films |= {f"train/{urls[1]}/{number}": title[1] for number, title in titles if title}
    of = {split: {key for key in reviews if key.startswith(split)} for split in ("train", "test")}
    if not all(of.values()):
        expected = f"expected the Large Movie Review Dataset from {LMRD_URL}"
        raise UserError(f"{archive}: has no reviews in train/ and test/; {expected}")
    of_film: dict[str, set[str]] = {}
    for key in of["train"]:
        of_film.setdefault(films.get(key.partition("_")[0], key), set()).add(key)
    dev = set[str]()
    for film in sorted(of_film, key=lambda film: hashlib.sha256(f"0:{film}".encode()).digest()):
        if len(dev) >= round(DEV_SHARE * len(of["train"])):
            break
        dev |= of_film[film]
    for split, keys in (("train", of["train"] - dev), ("dev", dev), ("test", of["test"])):
        for key in sorted(keys):
            rating, text = int(key.rpartition("_")[2]), reviews[key]
            fields = {"id": key, "sentence": text, "rating": (rating - 1) // 2}
            yield split, f"{key}.txt", 1, text, fields


def _texts(archive: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of the files of reviews and URLs in an archive, in order."""
    try:
        with tarfile.open(archive, "r:gz") as members:
            for member in members:
                wanted = _REVIEW.fullmatch(member.name) or _URLS.fullmatch(member.name)
                if wanted and (file := members.extractfile(member)):
                    yield member.name, file.read().decode("utf-8")
    except (tarfile.TarError, EOFError, OSError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(
            f"{archive}: not a whole tar.gz ({error}); delete it and download it again: {LMRD_URL}"
        ) from error
