"""Figures of a workflow that ended with failed jobs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from figure_files import make_inputs
from PIL import Image

from minbert.common.files import write_json, write_text
from minbert.figures import style
from minbert.figures.inputs import Inputs
from minbert.figures.make import draw_figure
from minbert.figures.partial import draw_partial
from minbert.grid.job import Job
from minbert.grid.node import description_path

LABELS = {"a": "A", "b": "B"}


def describe(root: Path, key: str, kind: str, needs: dict[str, Any], **draw: Any) -> None:
    """Write the description of a figure."""
    spec = {"kind": kind, "paper": "p", "name": key, "backbone": "x", "data": "y", "seeds": 1}
    draw = {"title": "T", "variants": LABELS, **draw}
    spec |= {"facts": {"rules": {"p": "normalised"}}, "draw": draw}
    path = description_path(root, "figure", key)
    write_json(path, {"kind": "figure", "key": key, "spec": spec, "needs": needs})


@pytest.fixture
def listed(tmp_path: Path) -> dict[str, Any]:
    """Plan a ranking, a loss curve, one that cannot be drawn, and one that is there."""
    scores = {"kind": "scores", "key": "none", "file": "scores.parquet", "seed": None}
    history = {"kind": "train", "file": "history.parquet", "seed": 0}
    histories = {f"histories/{v}/0": {**history, "key": v} for v in LABELS}
    describe(tmp_path, "ranked", "ranking", {"scores/p": scores})
    describe(tmp_path, "curved", "loss-curves", histories)
    describe(tmp_path, "broken", "ranking", {"scores/p": scores}, split="neither")
    describe(tmp_path, "there", "ranking", {"scores/p": scores})
    figures = {f"figures/p/{key}": key for key in ("ranked", "curved", "broken", "there")}
    products = {
        f"{name}.{ending}": str(tmp_path / "store" / "figure" / key / f"figure.{ending}")
        for name, key in figures.items()
        for ending in ("pdf", "png")
    }
    for ending in ("pdf", "png"):
        write_text(products[f"figures/p/there.{ending}"], "")
    return {"figures": figures, "products": products}


def test_figures_are_drawn_from_what_there_is(
    tmp_path: Path,
    listed: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "made"
    inputs: Inputs = make_inputs(out, LABELS, tasks=("sst",), failed=["b"], paper="p", epochs=2)
    at = tmp_path / "store" / "train" / "a" / "seed0"
    at.parent.mkdir(parents=True)
    inputs.histories["a"][0].parent.rename(at)
    failed = [("p", "b"), ("other", "a")]
    said: list[Collection[str]] = []

    def spy(job: Job, stem: Path, instead: Any, failed: Collection[str]) -> None:
        said.append(failed)
        draw_figure(job, stem, instead, failed)

    monkeypatch.setattr("minbert.figures.partial.draw_figure", spy)
    made = draw_partial(tmp_path, listed, {"p": out}, failed, tmp_path / "drawn")
    assert set(made) == {f"figures/p/{n}.{e}" for n in ("ranked", "curved") for e in ("pdf", "png")}
    for name, path in made.items():
        if name.endswith("png"):
            with Image.open(path) as image:
                image.load()
                wide = style.WIDE if "ranked" in name else style.COLUMN
                assert image.width == wide * 300, "the ranking has the scores that were made"
    assert said == [{"b"}] * 3, "of this paper"
    assert b"/Title (T)" in made["figures/p/curved.pdf"].read_bytes()
    assert "figures/p/broken: not drawn: figure 'ranking', key 'split'" in capsys.readouterr().err
    assert not (tmp_path / "store" / "figure" / "ranked").exists(), "keyed folders are complete"
