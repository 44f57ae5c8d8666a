"""The pictures of the documentation: some of the demo's figures, made small.

    python -m minbert.report.pictures results/demo docs/img

`make pictures` runs the demo, where it is not there, and this.
"""

from __future__ import annotations

import sys
from pathlib import Path

from minbert.common.errors import UserError
from minbert.common.files import whole
from minbert.report.images import shrunk

PICTURES = {
    "all/published-reproduced": "published-reproduced",
    "hybrid-bert/architectures": "architectures",
    "hybrid-bert/multitask-loss": "multitask-loss",
    "adapter-fusion/transfer": "transfer",
    "minbert-downstream/ranking": "ranking",
    "minibert-unleashed/ladder": "ladder",
}
"""Figures, and what they are called in the documentation. None shows text of data."""
WIDEST, COLOURS = 1200, 64
LARGEST = 150_000
"""Bytes that a picture may have."""


def make_pictures(root: Path, folder: Path) -> None:
    """Write the pictures of the results folder `root` to `folder`.

    A figure that is not there, or a picture that is too large, raises `UserError`.
    """
    for figure, name in PICTURES.items():
        path = root / "figures" / f"{figure}.png"
        if not path.is_file():
            raise UserError(f"{path}: there is no such figure; `make demo` draws it")
        packed, _ = shrunk(path, WIDEST, COLOURS)
        if len(packed) > LARGEST:
            raise UserError(
                f"{path}: {len(packed)} bytes as a picture, more than {LARGEST}; take another "
                "figure, or fewer colours"
            )
        with whole(folder / f"{name}.png") as temporary:
            temporary.write_bytes(packed)


if __name__ == "__main__":
    try:
        make_pictures(Path(sys.argv[1]), Path(sys.argv[2]))
    except UserError as error:
        raise SystemExit(f"pictures: {error}") from None
