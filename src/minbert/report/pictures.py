"""Figures as pictures inside the report."""

import base64
import io
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from minbert.report.material import Material

WIDEST, COLOURS = 2100, 128
"""Pixels and colours in the report: a figure of 7 inches as it is drawn, to be enlarged."""


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
    spec = material.spec(f"figure/{name}")
    about = (name, spec["paper"], spec["draw"]["title"], spec["draw"]["caption"])
    path = material.job.need(f"figure/{name}")
    if not path.is_file():
        return Picture(*about, "", 0, 0)
    packed, size = shrunk(path, WIDEST, COLOURS)
    source = "data:image/png;base64," + base64.b64encode(packed).decode()
    return Picture(*about, source, *size)


def shrunk(path: Path, widest: int, colours: int) -> tuple[bytes, tuple[int, int]]:
    """Return the picture as a PNG of at most `widest` pixels across and `colours`, and its size."""
    with Image.open(path) as image:
        drawn = image.convert("RGB")
    drawn.thumbnail((widest, drawn.height), Image.Resampling.LANCZOS)
    # Median cut alone would turn the colour of a few markers into grey. An octree would not, but
    # would make white and the lightest grey the same. These are moved until few pixels change.
    small = drawn.quantize(colours, kmeans=1000, dither=Image.Dither.NONE)
    packed = io.BytesIO()
    small.save(packed, "PNG")
    return packed.getvalue(), small.size
