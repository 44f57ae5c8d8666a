"""docs/img: pictures of the documentation, figures of the demo and the study as WebP.

`make pictures` writes those of the demo (`cd tests && python -m pages.pictures demo`), after it has
run; `python -m pages.pictures study` those of the study.
"""

from __future__ import annotations

import sys
from pathlib import Path

from minbert.base.files import whole
from minbert.report.make import webp

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
    },
}
"""Figures under `results`, by what draws them, and their names in the documentation.

None shows text of data.
"""


if __name__ == "__main__":
    for figure, name in PICTURES[sys.argv[1]].items():
        packed, _ = webp(ROOT / "results" / f"{figure}.png")
        if len(packed) > BYTES:
            raise SystemExit(f"{figure}: {len(packed)} bytes, more than {BYTES}: take another")
        with whole(ROOT / "docs" / "img" / f"{name}.webp") as temporary:
            temporary.write_bytes(packed)
