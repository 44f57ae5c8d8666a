"""docs/figures.md lists the figures of the grids, and none that is not there; its example works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from figure_files import make_inputs

from minbert.commands.figure import inches
from minbert.figures.make import draw_kind
from minbert.plan.figures import FIGURES
from minbert.spec.config import load_config
from minbert.spec.figures import FIGURE_KINDS
from minbert.spec.resolve import resolve
from minbert.spec.yaml import load_yaml

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")


def test_every_figure_and_kind_is_listed() -> None:
    grids = resolve(load_config([ROOT / "config.yaml"]), ROOT)
    papers = {grid.paper for grid in grids}
    planned = {f"figures/{grid.paper}/{name}" for grid in grids for name in grid.figures}
    planned |= {f"figures/all/{name}" for name in load_yaml(ROOT / FIGURES)["figures"]}
    found = set(re.findall(r"`(figures/[\w-]+/[\w-]+)`", TEXT))
    of_all = {name for name in found if "/PAPER/" in name}
    listed = found - of_all | {name.replace("PAPER", p) for name in of_all for p in papers}
    for paper, text in re.findall(r"`figures/([\w-]+)`\):\n((?:\n?- .*\n(?:  .*\n)*)+)", TEXT):
        listed |= {f"figures/{paper}/{name}" for name in re.findall(r"`([a-z-]+)`", text)}
    assert listed == planned
    assert set(FIGURE_KINDS) <= set(re.findall(r"`([\w-]+)`", TEXT))


def test_the_example_asks_for_a_size_that_the_figure_can_have(tmp_path: Path) -> None:
    (asked,) = re.findall(
        r"minbert figure (\S+)/(\S+) --format (\w+) --size (\S+) --no-title", TEXT
    )
    paper, name, form, size = asked
    grids = resolve(load_config([ROOT / "config.yaml"]), ROOT)
    (grid,) = (grid for grid in grids if grid.paper == paper)
    drawn = grid.figures[name]
    labels = {variant: grid.variants[variant].label for variant in drawn.variants or grid.variants}
    about = {"rule": grid.overall}
    inputs = make_inputs(tmp_path, labels, paper=paper, about=about, epochs=2)
    how: dict[str, Any] = {"title": "T", "formats": (form,), "size": inches(size)}
    draw_kind(drawn.kind, drawn.options, inputs, tmp_path / "figure", bare=True, **how)
    assert (tmp_path / f"figure.{form}").is_file()
