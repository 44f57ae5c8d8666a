"""The documentation's pictures: small, shown somewhere, and made from figures of our runs."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from pages.pictures import BYTES, COLOURS, PICTURES, WIDEST, make_pictures
from PIL import Image

from minbert.base.errors import UserError
from minbert.report.pictures import shrunk

ROOT = Path(__file__).parents[2]
DRAWN = "rooms.svg"
"""The picture that is drawn by hand."""
NAMES = [name for pictures in PICTURES.values() for name in pictures.values()]
DEMO = PICTURES["demo"]


def figures(root: Path) -> Path:
    for name in DEMO:
        path = root / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGBA", (2100, 900), "white").save(path)
    return root


def test_all_pictures_are_small_and_shown() -> None:
    there = {path.name for path in (ROOT / "docs" / "img").iterdir()}
    assert there == {f"{name}.png" for name in NAMES} | {DRAWN}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    for name in there:
        assert f"img/{name})" in text, f"{name} is shown nowhere"
        assert (ROOT / "docs" / "img" / name).stat().st_size <= BYTES


def test_pictures_are_made_of_figures(tmp_path: Path) -> None:
    make_pictures(figures(tmp_path), "demo", tmp_path / "img")
    for name in DEMO.values():
        with Image.open(tmp_path / "img" / f"{name}.png") as image:
            assert image.size == (WIDEST, round(WIDEST * 900 / 2100))


def test_a_colour_of_few_pixels_is_kept_and_white_stays_white(tmp_path: Path) -> None:
    """As that of a few markers among grey text: ramps from white to each colour, and their rows."""
    blue, rows = (0, 114, 178), {(0, 0, 0): 40, (230, 159, 0): 10, (213, 94, 0): 10}
    share = np.linspace(0, 1, 256)[:, None]
    drawn = [np.full((400, 256, 3), 255.0), np.full((40, 256, 3), 246.0)]
    for color, count in [*rows.items(), (blue, 1)]:
        drawn.append(np.repeat([255 * (1 - share) + np.array(color) * share], count, axis=0))
    Image.fromarray(np.concatenate(drawn).round().astype(np.uint8)).save(tmp_path / "figure.png")
    packed, _ = shrunk(tmp_path / "figure.png", WIDEST, COLOURS)
    with Image.open(io.BytesIO(packed)) as small:
        made = np.asarray(small.convert("RGB"), int)
    assert np.abs(made[-1, -1] - blue).max() < 50
    assert (made[0, 0] == 255).all() and (made[410, 0] == 246).all()


def test_a_picture_that_is_absent_or_too_large_is_refused(tmp_path: Path) -> None:
    first = figures(tmp_path) / f"{next(iter(DEMO))}.png"
    noise = np.random.default_rng(0).integers(0, 255, (900, 1200, 3), np.uint8)
    Image.fromarray(noise).save(first)
    with pytest.raises(UserError, match="bytes as a picture, more than 150000"):
        make_pictures(tmp_path, "demo", tmp_path / "img")
    first.unlink()
    with pytest.raises(UserError, match="no such figure; `make demo` draws it"):
        make_pictures(tmp_path, "demo", tmp_path / "img")
