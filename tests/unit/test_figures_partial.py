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

ABOUT = {
    **{"paper": "p", "rule": "normalised", "overall_tasks": ["sst", "para", "sts"], "seeds": [0]},
    **{"data": "y", "backbone": "x", "selection_split": "dev", "architecture": None, "rows": []},
    "labels": {"a": "A", "b": "B"},
    "variants": [{"name": name, "tasks": {}} for name in "ab"],
    "stages": {name: [{"name": "s", "key": name}] for name in "ab"},
}


def describe(root: Path, key: str, kind: str, **options: Any) -> None:
    """Write the description of a figure."""
    draw = {"title": "T", "caption": "", "variants": ["a", "b"], "options": options}
    spec = {"kind": kind, "paper": "p", "name": key, "papers": [ABOUT], "draw": draw}
    record = {"kind": "train", "file": "run.json", "seed": 0}
    needs = {f"run.{name}.0": {**record, "key": name} for name in "ab"}
    needs["scores.p"] = {"kind": "scores", "key": "none", "file": "scores.parquet", "seed": None}
    path = description_path(root, "figure", key)
    described = {"kind": "figure", "key": key, "spec": spec, "code": {}, "needs": needs}
    write_json(path, described | {"maker": "minbert.figures.make"})


@pytest.fixture
def listed(tmp_path: Path) -> dict[str, Any]:
    """Plan a ranking, a loss curve, one that cannot be drawn, and one that is there."""
    describe(tmp_path, "ranked", "ranking")
    describe(tmp_path, "curved", "curves")
    describe(tmp_path, "broken", "ranking", split="neither")
    describe(tmp_path, "there", "ranking")
    for kind, maker in (("scores", "minbert.evaluate.score"), ("index", "minbert.evaluate.index")):
        about = {"kind": kind, "key": "none", "spec": {}, "code": {}, "needs": {}, "maker": maker}
        write_json(description_path(tmp_path, kind, "none"), about)
    for ending in ("pdf", "png"):
        write_text(tmp_path / "store" / "figure" / "there" / f"figure.{ending}", "")
    keys = ("ranked", "curved", "broken", "there")
    shown = [(f"figures/p/{key}", "figure", key) for key in keys]
    return {"shown": [("scores/p", "scores", "none"), *shown, ("index", "index", "none")]}


def test_figures_are_drawn_from_what_there_is(
    tmp_path: Path,
    listed: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "made"
    inputs: Inputs = make_inputs(
        out, ABOUT["labels"], tasks=("sst",), failed=["b"], paper="p", epochs=2
    )
    for source, key in (
        (inputs.histories["a"]["main"][0].parent, "train/a/seed0"),
        (out, "scores/none"),
    ):
        at = tmp_path / "store" / key
        at.parent.mkdir(parents=True, exist_ok=True)
        source.rename(at)
    jobs = {f"{kind}-{key}": {"needs": {}, "extra": {}} for _, kind, key in listed["shown"]}
    about = {"variants": [], "options": "", "stamp": "s", "below": "", "jobs": jobs, "files": {}}
    about["configured"] = ["config.yaml"]
    plan = write_plan(tmp_path, listed | about)
    write_text(tmp_path / "tables" / "index.csv", "status\nscored\n")
    write_text(tmp_path / "figures" / "p" / "broken.png", "of an earlier plan")
    failed = {("p", "b"): "too hot", ("other", "a"): "out of memory"}
    said: list[Collection[str]] = []

    def spy(job: Job) -> None:
        said.append(job.failed("p"))
        make(job)

    def index(job: Job) -> None:
        write_text(job.out / "index.csv", "status\nscored\n")

    monkeypatch.setattr("minbert.evaluate.score.make", lambda job: None)
    monkeypatch.setattr("minbert.evaluate.index.make", index)
    monkeypatch.setattr("minbert.figures.make.make", spy)
    monkeypatch.setattr("minbert.publish.publish.failed_variants", lambda *_: failed)
    monkeypatch.setattr("minbert.publish.publish.record_grids", lambda *_, **__: None)
    printed = publish_partial(tmp_path, plan)
    assert "p: b failed: too hot" in printed
    for name, wide in (("ranked", style.WIDE), ("curved", style.COLUMN)):
        with Image.open(tmp_path / "figures" / "p" / f"{name}.png") as image:
            image.load()
            assert image.width == wide * 300, "the ranking has the scores that were made"
    assert said == [{"b": "too hot"}] * 3, "of this paper; what is there is not drawn again"
    assert b"/Title (p: T)" in (tmp_path / "figures" / "p" / "curved.pdf").read_bytes()
    assert (fault := "figures/p/broken: not drawn: figure 'ranking': 'split' is") in printed
    with Image.open(tmp_path / "figures" / "p" / "broken.png") as image:
        assert fault in image.info["Description"], "its picture says so"
    assert (tmp_path / "figures" / "p" / "there.png").exists()
    assert not (tmp_path / "store" / "figure" / "ranked").exists(), "keyed folders are complete"
    assert read_json(tmp_path / "published.json")["stamp"] == ""
