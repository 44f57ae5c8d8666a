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
    packed, size = shrunk(path, WIDEST, COLOURS)
    source = "data:image/png;base64," + base64.b64encode(packed).decode()
    return Picture(*about, source, *size)


def shrunk(path: Path, widest: int, colours: int) -> tuple[bytes, tuple[int, int]]:
    """Return the picture at `path` as a PNG of at most so many pixels across and colours.

    Its size in pixels is returned, too.
    """
    with Image.open(path) as image:
        drawn = image.convert("RGB")
    if drawn.width > widest:
        height = round(drawn.height * widest / drawn.width)
        drawn = drawn.resize((widest, height), Image.Resampling.LANCZOS)
    small = drawn.quantize(colours, dither=Image.Dither.NONE)
    packed = io.BytesIO()
    small.save(packed, "PNG", optimize=True)
    return packed.getvalue(), small.size
