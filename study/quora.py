"""Quora's files as the study has them: the course's quora-dev.csv (its blob id is checked), split.

python study/quora.py COURSE/quora-dev.csv data/cs224n
"""

import argparse
import hashlib
from pathlib import Path

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.data.identity import checksum
from minbert.spec.task import BUILT_IN

TRAIN, DEV, TEST = "quora-train.csv", "quora-dev.csv", "quora-test-student.csv"
PIN = str(BUILT_IN["para"].files["dev"].checksum)
"""Of the course's dev file."""


def split(text: str) -> dict[str, str]:
    """Return {file: text} of a file of pairs: seven tenths, one and two, by a hash of the id.

    The rows keep their order, malformed ones too. Those of test lose their last column, the label.
    """
    head, *rows = text.removesuffix("\n").split("\n")
    found = {TRAIN: [head], DEV: [head], TEST: [_without_label(head)]}
    for row in rows:
        digest = hashlib.sha256(row.split("\t")[1].encode()).hexdigest()
        tenth = int(digest, 16) % 10
        if tenth > 7:
            found[TEST].append(_without_label(row))
        else:
            found[DEV if tenth == 7 else TRAIN].append(row)
    return {name: "".join(f"{line}\n" for line in lines) for name, lines in found.items()}


def _without_label(row: str) -> str:
    return row.rpartition("\t")[0]


def write(source: Path, folder: Path) -> None:
    """Write the three files into `folder`. Raises `UserError` if `source` is another file."""
    if (found := checksum(source, PIN)) != PIN:
        raise UserError(f"{source} is not the course's {DEV}: expected {PIN}, found {found}")
    if (folder / DEV).exists() and source.samefile(folder / DEV):
        raise UserError(f"{source} would be overwritten; give another folder than {folder}")
    for name, text in split(source.read_bytes().decode()).items():
        write_text(folder / name, text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", type=Path, metavar="COURSE/quora-dev.csv")
    parser.add_argument("folder", type=Path)
    try:
        write(**vars(parser.parse_args()))
    except UserError as error:
        raise SystemExit(f"quora: {error}") from None
