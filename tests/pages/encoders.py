"""A table of docs/data.md: how near each encoder is to transformers.

`cd tests && python -m pages.encoders` measures and writes it; a test measures again.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from encoders import FAMILIES, Folders, Made, difference, folders_of

from minbert.base.files import write_text
from minbert.spec.architecture import read_architecture

PAGE = Path(__file__).parents[2] / "docs" / "data.md"
NUMBER = re.compile(r"\d\.\de-\d\d")
TABLE = re.compile(r"^\| `model_type`.*\n(?:\|.*\n)+", re.MULTILINE)


def encoders_page(folders: Folders) -> str:
    """Return the page with its table made anew, from encoders in `folders`."""
    head = ["`model_type`", "fp32, largest", "bf16, mean", "pooler", "token types of a pair"]
    rows = [head, ["---"] * len(head), *(_measured(family, folders[family]) for family in FAMILIES)]
    made = "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
    return TABLE.sub(lambda _: made, PAGE.read_text("utf-8"))


def _measured(family: str, made: Made) -> list[str]:
    arch = read_architecture(made.ours / "config.json")
    full, half = difference(made).max().item(), difference(made, "bf16").mean().item()
    pooler = "its own" if "pooler.dense" in arch.tensors else "new"
    types = "0 and 1" if arch.two_types else "0" if arch.types else "none"
    return [f"`{family}`", f"{full:.1e}", f"{half:.1e}", pooler, types]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        write_text(PAGE, encoders_page(folders_of(Path(made))))
