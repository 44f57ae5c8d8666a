"""Figures as pictures inside the report."""

import base64
import io
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from minbert.report.material import Material


class Picture(NamedTuple):
    """A figure in the page. `source` is a data URL, "" if the figure was not drawn."""

    name: str
    paper: str
    title: str
    caption: str
    source: str
    width: int
    height: int


def picture(material: Material, name: str) -> Picture:
    """Return the figure `name` of the report."""
    spec = material.spec(f"figure.{name}")
    about = (name, spec["paper"], spec["draw"]["title"], spec["draw"]["caption"])
    path = material.job.need(f"figure.{name}")
    if not path.is_file():
        return Picture(*about, "", 0, 0)
    packed, size = webp(path, 2)  # sharp on a screen; the page links the file for print
    return Picture(*about, "data:image/webp;base64," + base64.b64encode(packed).decode(), *size)


def webp(path: Path, shrink: int = 1) -> tuple[bytes, tuple[int, int]]:
    """Return a figure as a WebP file of at most 128 colours, and its size, divided by `shrink`."""
    packed = io.BytesIO()
    with Image.open(path) as image:
        small = image.convert("RGB").reduce(shrink).quantize(128, dither=Image.Dither.NONE)
        small.convert("RGB").save(packed, "WEBP", lossless=True)
        return packed.getvalue(), small.size
