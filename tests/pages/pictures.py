"""docs/img: pictures of the documentation, figures of the demo and the study as WebP.

`make pictures` writes those of the demo (`cd tests && python -m pages.pictures demo`), after it has
run; `python -m pages.pictures study` those of the study.
"""

from __future__ import annotations

import sys
from pathlib import Path

from minbert.base.errors import UserError
from minbert.base.files import whole
from minbert.report.pictures import webp

ROOT = Path(__file__).parents[2]
BYTES = 150_000
"""That a picture has at most."""

PICTURES = {
    "demo": {
        "demo/figures/all/published-reproduced": "published-reproduced",
        "demo/figures/hybrid-bert/architectures": "architectures",
        "demo/figures/adapter-fusion/transfer": "transfer",
        "demo/figures/minbert-downstream/ranking": "ranking",
        "demo/figures/minibert-unleashed/ladder": "ladder",
    },
    "study": {
        "study/figures/all/published-reproduced": "study-published",
        "study/figures/adapter-fusion/transfer": "study-transfer",
        "study/figures/minibert-unleashed/ladder": "study-ladder",
        "study-depths/only/figures/hybrid-bert/sharing-depth": "study-depths",
    },
}
"""Figures under `results`, by what draws them, and their names in the documentation.

None shows text of data.
"""


def make_pictures(results: Path, which: str, folder: Path) -> None:
    """Write the pictures of `which`, "demo" or "study", to `folder`.

    Raises `UserError` if a figure is missing or a picture is too large.
    """
    for figure, name in PICTURES[which].items():
        path = results / f"{figure}.png"
        if not path.is_file():
            raise UserError(f"{path}: there is no such figure; `make {which}` draws it")
        packed, _ = webp(path)
        if len(packed) > BYTES:
            raise UserError(
                f"{path}: {len(packed)} bytes as a picture, more than {BYTES}; take another figure"
            )
        with whole(folder / f"{name}.webp") as temporary:
            temporary.write_bytes(packed)


if __name__ == "__main__":
    (which,) = sys.argv[1:]
    try:
        make_pictures(ROOT / "results", which, ROOT / "docs" / "img")
    except UserError as error:
        raise SystemExit(f"pictures: {error}") from None
