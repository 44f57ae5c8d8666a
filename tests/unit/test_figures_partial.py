"""Figures of a workflow that ended with failed jobs."""

from __future__ import annotations

import shutil
from pathlib import Path

from following import start
from PIL import Image
from trained_root import plan_of

from minbert.base.files import read_json, write_json, write_text
from minbert.figures import style
from minbert.plan.describe import write
from minbert.plan.plan import Plan
from minbert.publish.publish import publish_partial
from minbert.spec.resolve import StageRef
from minbert.store.plans import description_path

FIGURES = """\
figures:
  ranked: {kind: ranking, title: T}
  curved: {kind: curves, title: Losses}
  broken: {kind: curves, title: T}
  there: {kind: ranking, title: There}
"""


def test_figures_are_drawn_from_what_there_is(trained_plan: Plan, tmp_path: Path) -> None:
    base = Path(shutil.copytree(trained_plan.base, tmp_path / "base"))
    write_text(base / "one.yaml", (base / "one.yaml").read_text() + FIGURES)
    plan = plan_of(base)
    root, record = plan.root, write(plan)
    published = root / "figures" / "one"
    nodes = {name: plan.shown[f"figures/one/{name}"] for name in ("ranked", "broken", "there")}
    path = description_path(root, "figure", nodes["broken"].key)
    described = read_json(path)
    described["spec"]["draw"]["options"] = {"task": "neither"}
    write_json(path, described)
    write_text(nodes["there"].folder(root) / "figure.pdf", "")
    Image.new("L", (99, 99)).save(nodes["there"].folder(root) / "figure.png")
    write_text(published / "broken.png", "of an earlier plan")
    start(root, plan.train(StageRef("one", "later", "main")).key).end("FAILED", error="too hot")

    printed = publish_partial(root, record)
    assert "one: later failed: stage 'main', seed 0: too hot" in printed
    for name, wide in (("ranked", style.WIDE), ("curved", style.COLUMN)):
        with Image.open(published / f"{name}.png") as image:
            image.load()
            assert image.width == wide * 300
    assert b"/Title (one: Losses)" in (published / "curved.pdf").read_bytes()
    assert (published / "there.pdf").read_bytes() == b"", "what is there is not drawn again"
    assert (fault := "figures/one/broken: not drawn: figure 'curves': variant") in printed
    with Image.open(published / "broken.png") as image:
        assert fault in image.info["Description"], "its picture says so"
    assert not nodes["ranked"].folder(root).exists(), "keyed folders are complete"
    assert read_json(root / "published.json")["stamp"] == ""
