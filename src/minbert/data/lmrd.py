"""The Large Movie Review Dataset: Maas et al. (2011), 50,000 reviews with ratings from 1 to 10."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from minbert.common.errors import UserError
from minbert.data.archive import read_members
from minbert.data.examples import Example, Rejected, fault
from minbert.grid.tasks import TASKS

LMRD_URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
LMRD_PIN = "md5:7c2ac02c03563afcf9b574c7e56c153a"

_SPLITS = ("train", "test")
_POLARITIES = ("neg", "pos")
_MEMBER = re.compile(r"(?:.*/)?(?P<id>(?P<split>train|test)/(?P<polarity>neg|pos)/[^/]+)\.txt")
_NAME = re.compile(r"(\d+)_(\d+)")


def read_lmrd(
    source: Path, dev_share: float = 0.1, seed: int = 0
) -> tuple[list[Example], list[Rejected]]:
    """Read LMRD from its tar.gz or its unpacked folder; return examples and files set aside.

    `source` is the archive, `aclImdb` or the folder that holds it; both ways give the same rows
    in the same order (by split, then id). Ids are `train/pos/0_9`. The label is (rating - 1) // 2,
    so that classes 0 to 4 are those of SST; no review has a rating of 5 or 6, so class 2 is
    empty. Dev is `dev_share` of train: the reviews whose SHA-256 of `SEED:ID` is smallest, the
    same on any machine. `<br />` becomes a space. The unlabelled reviews are left out.

    A file is set aside (line 1) if its name is not NUMBER_RATING.txt, its rating contradicts its
    folder, its text is empty or not UTF-8. Raises `UserError` for a missing or damaged source, or
    one without the four folders.
    """
    if not 0 <= dev_share < 1:
        raise UserError(f"dev_share of LMRD is {dev_share}; expected at least 0 and less than 1")
    found: dict[str, Example] = {}
    rejected: list[Rejected] = []
    for name, content in _files(source):
        match = _MEMBER.fullmatch(name)
        if match is None:
            continue
        result = _review(match["id"], match["split"], match["polarity"], content)
        if isinstance(result, str) or result.id in found:
            reason = result if isinstance(result, str) else "the archive has it twice"
            text = content[:200].decode("utf-8", "replace")
            rejected.append(Rejected(f"{match['id']}.txt", 1, reason, text, match["split"]))
        else:
            found[result.id] = result
    for split in _SPLITS:
        for polarity in _POLARITIES:
            if not any(key.startswith(f"{split}/{polarity}/") for key in found):
                raise UserError(
                    f"{source}: no review in {split}/{polarity}/; expected the Large Movie Review "
                    f"Dataset (folders train and test, each with neg and pos) from {LMRD_URL}"
                )
    dev = _dev_ids([e.id for e in found.values() if e.split == "train"], dev_share, seed)
    examples = [e._replace(split="dev") if e.id in dev else e for e in found.values()]
    order = {"train": 0, "dev": 1, "test": 2}
    examples.sort(key=lambda e: (order[e.split], e.id))
    return examples, sorted(rejected)


def _dev_ids(ids: list[str], share: float, seed: int) -> set[str]:
    by_hash = sorted(ids, key=lambda i: hashlib.sha256(f"{seed}:{i}".encode()).digest())
    return set(by_hash[: round(share * len(ids))])


def _review(key: str, split: str, polarity: str, content: bytes) -> Example | str:
    """Return the review's example, or why it is none."""
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


def _files(source: Path) -> Iterator[tuple[str, bytes]]:
    if not source.is_dir():
        if not source.exists():
            raise UserError(f"no such archive or folder: {source}; LMRD is at {LMRD_URL}")
        yield from read_members(source)
        return
    root = source if (source / "train").is_dir() else source / "aclImdb"
    for split in _SPLITS:
        for polarity in _POLARITIES:
            for path in sorted((root / split / polarity).glob("*.txt")):
                yield path.relative_to(root).as_posix(), path.read_bytes()
