"""Figures as pictures inside a page: scaled to what a screen shows, in few colours."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

WIDEST = 1400
"""Pixels. A page column of 700 CSS pixels on a screen of double density shows no more."""
COLOURS = 128


class Picture(NamedTuple):
    """A figure in the page. `source` is a data URL, "" where the figure was not drawn."""

    name: str
    paper: str
    title: str
    caption: str
    source: str
    width: int
    height: int

    @property
    def anchor(self) -> str:
        """What links to it end in."""
        return self.name.replace("/", "-")

    @property
    def alternative(self) -> str:
        """What stands for the picture where it is not seen."""
        return f"{self.title}. {self.caption}".strip()


def picture(name: str, spec: Mapping[str, Any], path: Path | None) -> Picture:
    """Return the figure `name`, of which `spec` says what it shows, with the PNG at `path`."""
    about = (name, spec["paper"], spec["draw"]["title"], spec["draw"]["caption"])
    if path is None:
        return Picture(*about, "", 0, 0)
    with Image.open(path) as image:
        drawn = image.convert("RGB")
    if drawn.width > WIDEST:
        height = round(drawn.height * WIDEST / drawn.width)
        drawn = drawn.resize((WIDEST, height), Image.Resampling.LANCZOS)
    small = drawn.quantize(COLOURS, dither=Image.Dither.NONE)
    packed = io.BytesIO()
    small.save(packed, "PNG", optimize=True)
    source = "data:image/png;base64," + base64.b64encode(packed.getvalue()).decode()
    return Picture(*about, source, *small.size)
