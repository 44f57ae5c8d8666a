"""Figures of a workflow that ended with failed jobs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from figure_files import make_inputs
from PIL import Image

from minbert.base.files import read_json, write_json, write_text
from minbert.figures import style
from minbert.figures.inputs import Inputs
from minbert.figures.make import make
from minbert.publish.publish import publish_partial
from minbert.store.job import Job
from minbert.store.plans import description_path, write_plan

LABELS = {"a": "A", "b": "B"}


def describe(root: Path, key: str, kind: str, needs: dict[str, Any], **draw: Any) -> None:
    """Write the description of a figure."""
    spec = {"kind": kind, "paper": "p", "name": key, "backbone": "x", "data": "y", "seeds": 1}
    draw = {"title": "T", "variants": LABELS, **draw}
    spec |= {"facts": {"rules": {"p": "normalised"}}, "draw": draw}
    path = description_path(root, "figure", key)
    described = {"kind": "figure", "key": key, "spec": spec, "code": {}, "needs": needs}
    write_json(path, described | {"maker": "minbert.figures.make"})


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
) -> None:
    out = tmp_path / "made"
    inputs: Inputs = make_inputs(out, LABELS, tasks=("sst",), failed=["b"], paper="p", epochs=2)
    for source, key in ((inputs.histories["a"][0].parent, "train/a/seed0"), (out, "scores/none")):
        at = tmp_path / "store" / key
        at.parent.mkdir(parents=True, exist_ok=True)
        source.rename(at)
    jobs = {f"figure-{key}": {"needs": {}, "extra": {}} for key in listed["figures"].values()}
    about = {"papers": {"p": {"scores": "none"}}, "variants": [], "options": "", "stamp": "s"}
    plan = write_plan(
        tmp_path, listed | about | {"below": "", "jobs": jobs, "files": {}, "index": "none"}
    )
    write_text(tmp_path / "tables" / "index.csv", "status\nscored\n")
    write_text(tmp_path / "figures" / "p" / "broken.png", "of an earlier plan")
    failed = {("p", "b"): "too hot", ("other", "a"): "out of memory"}
    said: list[Collection[str]] = []

    def spy(job: Job) -> None:
        said.append(job.failed("p"))
        write_text(job.out.parents[1] / "index" / "none" / "index.csv", "status\nscored\n")
        make(job)

    monkeypatch.setattr("minbert.figures.make.make", spy)
    monkeypatch.setattr("minbert.publish.publish.failed_variants", lambda *_: failed)
    monkeypatch.setattr("minbert.publish.publish.record_grids", lambda *_, **__: None)
    figures = [(name, "figure", key) for name, key in listed["figures"].items()]
    monkeypatch.setattr("minbert.publish.publish._shown", lambda _: figures)
    printed = publish_partial(tmp_path, plan)
    assert "p: b failed: too hot" in printed
    for name, wide in (("ranked", style.WIDE), ("curved", style.COLUMN)):
        with Image.open(tmp_path / "figures" / "p" / f"{name}.png") as image:
            image.load()
            assert image.width == wide * 300, "the ranking has the scores that were made"
    assert said == [{"b": "too hot"}] * 3, "of this paper; what is there is not drawn again"
    assert b"/Title (p: T)" in (tmp_path / "figures" / "p" / "curved.pdf").read_bytes()
    assert (fault := "figures/p/broken: not drawn: figure 'ranking', key 'split'") in printed
    with Image.open(tmp_path / "figures" / "p" / "broken.png") as image:
        assert fault in image.info["Description"], "its picture says so"
    assert (tmp_path / "figures" / "p" / "there.png").exists()
    assert not (tmp_path / "store" / "figure" / "ranked").exists(), "keyed folders are complete"
    assert read_json(tmp_path / "published.json")["stamp"] == ""
