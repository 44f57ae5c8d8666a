"""The documentation's pictures: small, shown somewhere, and made from figures of our runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pages.pictures import BYTES, PICTURES, make_pictures
from PIL import Image

from minbert.base.errors import UserError

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
    assert there == {f"{name}.webp" for name in NAMES} | {DRAWN}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    for name in there:
        assert f"img/{name})" in text, f"{name} is shown nowhere"
        assert (ROOT / "docs" / "img" / name).stat().st_size <= BYTES


def test_pictures_are_made_of_figures(tmp_path: Path) -> None:
    make_pictures(figures(tmp_path), "demo", tmp_path / "img")
    for name in DEMO.values():
        with Image.open(tmp_path / "img" / f"{name}.webp") as image:
            assert image.size == (2100, 900)


def test_a_picture_that_is_absent_or_too_large_is_refused(tmp_path: Path) -> None:
    first = figures(tmp_path) / f"{next(iter(DEMO))}.png"
    noise = np.random.default_rng(0).integers(0, 255, (900, 1200, 3), np.uint8)
    Image.fromarray(noise).save(first)
    with pytest.raises(UserError, match="bytes as a picture, more than 150000"):
        make_pictures(tmp_path, "demo", tmp_path / "img")
    first.unlink()
    with pytest.raises(UserError, match="no such figure; `make demo` draws it"):
        make_pictures(tmp_path, "demo", tmp_path / "img")
