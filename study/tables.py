"""The study's tables in study/tables, compared with those that were made, or copied from them.

Tables name trainings by their keys. Of results that `minbert adopt` carried over, these are here
the first ones, by which the bundles have them.

python study/tables.py compare
python study/tables.py copy
"""

import argparse
import re
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from itertools import islice
from pathlib import Path

from minbert.base.files import write_text
from minbert.store.plans import ADOPTED, adoptions

TABLES, RESULTS = Path("study/tables"), Path("results/study")
KEYS = re.compile(r"\b[0-9a-f]{16}(?: [0-9a-f]{16})*\b")


def tables() -> Iterator[tuple[Path, str]]:
    """Yield the path of each kept table, and the text of the one that was made."""
    first = first_keys(RESULTS)
    for table in sorted(TABLES.iterdir()):
        made = RESULTS / "tables" / table.name
        if not made.is_file():
            raise SystemExit(f"{made}: there is no such file, and study/tables has it: make study")
        yield table, with_first_keys(made.read_bytes().decode(), first)


def first_keys(root: Path) -> Mapping[str, str]:
    """Return {key: first key} of the trainings under the results `root` that were carried over."""
    folders = (path.parent for path in root.glob(f"store/train/*/seed*/{ADOPTED}"))
    return {folder.parent.name: adoptions(folder)[0]["from"] for folder in folders}


def with_first_keys(text: str, first: Mapping[str, str]) -> str:
    """Return a table with the first keys; those of one cell are in ascending order."""
    return KEYS.sub(lambda cell: " ".join(sorted(first.get(k, k) for k in cell[0].split())), text)


def compare() -> None:
    """Stop at a table that is not the same to the byte."""
    for table, text in tables():
        kept = table.read_bytes().decode()
        if text != kept:
            sides = (side.splitlines(keepends=True) for side in (kept, text))
            lines = unified_diff(*sides, f"{table}, kept", f"{table}, made", n=0)
            raise SystemExit("".join(islice(lines, 12)))


def copy() -> None:
    """Keep what was made."""
    for table, text in tables():
        write_text(table, text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("how", choices=("compare", "copy"))
    {"compare": compare, "copy": copy}[parser.parse_args().how]()
