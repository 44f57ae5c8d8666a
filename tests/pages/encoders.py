"""The tables of docs/encoders.md: how near each encoder is to transformers, what works in each.

`cd tests && python -m pages.encoders` measures and writes them; a test measures again.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from encoders import FAMILIES, WAYS, Folders, Made, difference, folders_of

from minbert.base.files import write_text
from minbert.spec.architecture import read_architecture

PAGE = Path(__file__).parents[2] / "docs" / "encoders.md"
NUMBER = re.compile(r"\d\.\de-\d\d")
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


def encoders_page(folders: Folders) -> str:
    """Return the page with both tables made anew, from encoders in `folders`."""
    tables = iter(
        [
            _table(
                ["`model_type`", "fp32, largest", "bf16, mean", "pooler", "token types of a pair"],
                [_measured(family, folders[family]) for family in FAMILIES],
            ),
            _table(["", *FAMILIES], [[way, *["yes"] * len(FAMILIES)] for way in WAYS]),
        ]
    )
    return TABLE.sub(lambda _: next(tables), PAGE.read_text("utf-8"))


def _measured(family: str, made: Made) -> list[str]:
    arch = read_architecture(made.ours / "config.json")
    full, half = difference(made).max().item(), difference(made, "bf16").mean().item()
    pooler = "its own" if "pooler.dense" in arch.tensors else "new"
    types = "0 and 1" if arch.two_types else "0" if arch.types else "none"
    return [f"`{family}`", f"{full:.1e}", f"{half:.1e}", pooler, types]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n".replace("|  |", "| |") for cells in lines)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        write_text(PAGE, encoders_page(folders_of(Path(made))))
