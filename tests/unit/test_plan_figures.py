"""What figures are drawn from: needs and facts of the plan, inputs of the drawing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factories import drawn
from planning import planning_folder

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.figures.inputs import Inputs, absent_notes
from minbert.figures.make import inputs_of
from minbert.plan import figures
from minbert.plan.plan import Plan
from minbert.spec.figures import FIGURE_KINDS, OfSplit
from minbert.spec.figures import Reads as Reading
from minbert.spec.resolve import StageRef
from minbert.store.job import Job
from minbert.store.node import Node

GRID = """\
paper: one
title: One
overall: normalised
templates:
  common:
    tasks:
      "*": {head: {width: 8}}
      sst: {loss: cross_entropy}
      sts: {loss: mse, pairing: cross}
variants:
  a: {extends: common, label: The first}
  b.c:
    extends: common
    stages:
      - {name: s1, train: sts}
      - {name: s2, train: sst}
  sts-only: {extends: common, train: sts}
  best: {best_of: [a, sts-only]}
"""
Reads = Callable[..., None]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a folder with a grid of a staged variant, one of STS alone and a best-of."""
    return planning_folder(tmp_path)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Return how the kind `calibration` is told what it reads."""

    def read(**files: Any) -> None:
        made = type("Probe", (OfSplit,), {"reads": Reading(**files)})
        monkeypatch.setitem(FIGURE_KINDS, "calibration", made)

    return read


def plan(
    base: Path,
    figure: str = "{kind: calibration, title: T}",
    over_all: str = "",
    grid: str = GRID,
    **more: Any,
) -> Plan:
    """Return the plan of the grid with one figure."""
    write_text(base / "one.yaml", grid + (f"figures:\n  f: {figure}\n" if figure else ""))
    write_text(base / "two.yaml", GRID.replace("paper: one", "paper: two"))
    if over_all:
        write_text(base / figures.FIGURES, f"figures:\n  over: {over_all}\n")
    values = {"grids": ["one.yaml", "two.yaml"], "data": "builtin", "backbone": "builtin"}
    return Plan.load({**values, "seeds": [0, 7], "results": str(base / "results"), **more}, base)


def job(made: Plan, node: Node) -> Job:
    return Job(made.root, node.describe(), None, 1)


def figure(made: Plan) -> Node:
    """Return the node of the paper's figure."""
    return made.shown["figures/one/f"]


def read(base: Path) -> tuple[Plan, Inputs]:
    """Return the plan, and what the figure is drawn from."""
    made = plan(base)
    return made, inputs_of(job(made, figure(made)))


def labelled(node: Node) -> dict[str, str]:
    """Return what a figure's job reads of its variants: descriptions sort their keys."""
    return dict(json.loads(json.dumps(node.spec["draw"], sort_keys=True))["variants"])


def test_files_of_runs_by_variant_stage_task_and_seed(base: Path, reads: Reads) -> None:
    reads(runs=("histories", "predictions"))
    made, found = read(base)
    assert list(found.histories) == ["a", "b.c", "sts-only"], "the best of others trains nothing"
    first, second = (made.train(StageRef("one", "b.c", name)) for name in ("s1", "s2"))
    assert found.histories["b.c"]["s2"][7] == second.folder(made.root, 7) / "history.parquet"
    assert found.histories["b.c"]["s1"][0] == first.folder(made.root, 0) / "history.parquet"
    predicted = {task: of[0].parent for task, of in found.predictions["b.c"].items()}
    assert predicted == {"sst": second.folder(made.root, 0), "sts": first.folder(made.root, 0)}
    assert set(found.predictions["sts-only"]) == {"sts"}
    assert labelled(figure(made)) == {"a": "The first", "b.c": "b.c", "sts-only": "sts-only"}
    text = "{kind: calibration, title: T, variants: [sts-only, b.c, a]}"
    assert list(labelled(figure(plan(base, text)))) == ["sts-only", "b.c", "a"], "in its own order"


def test_files_of_papers(base: Path, reads: Reads) -> None:
    reads(papers=("scores", "rows"))
    made, found = read(base)
    scores = made.shown["scores/one"].folder(made.root) / "scores.parquet"
    assert found.scores == {"one": scores} and set(found.rows) == {"sst", "sts"}
    assert found.rows["sst"] == made.sources.rows("sst").folder(made.root) / "rows.parquet"
    assert "best" in labelled(figure(made)), "scores know the best of others"
    half = plan(base, override={"selection_split": "half"})
    assert [figure(of).spec["facts"] for of in (made, half)] == [{}, {"selection_split": "half"}]


def test_tasks_narrow_variants_and_files(base: Path, reads: Reads) -> None:
    reads(runs=("predictions",), papers=("rows",), tasks=("sst",))
    _, found = read(base)
    assert {v: set(of) for v, of in found.predictions.items()} == {"a": {"sst"}, "b.c": {"sst"}}
    assert set(found.rows) == {"sst"}
    message = "figure 'f': no variant 'sts-only' scored on sst, which is what kind 'calibration' s"
    with pytest.raises(UserError, match=message):
        plan(base, "{kind: calibration, title: T, variants: [a, sts-only]}")


def test_facts(base: Path, reads: Reads) -> None:
    facts = ("parameters", "stages", "architecture", "published", "rules")
    reads(runs=("histories",), facts=facts)
    found = figure(plan(base)).spec["facts"]
    assert found["rules"] == {"one": "normalised"} and found["published"] == []
    assert found["architecture"]["layers"] > 0
    assert 0 < found["parameters"]["a"]["here"] < found["parameters"]["a"]["bert_base"]
    first, second = found["stages"]["b.c"]
    assert (first["name"], first["start"], second["name"]) == ("s1", None, "s2")
    assert first["spec"]["tasks"]["sts"]["loss"] == "mse"
    assert first["parameters"]["total"] == found["parameters"]["sts-only"]["here"]


def test_figures_over_all_papers(base: Path, reads: Reads) -> None:
    reads(papers=("scores",), facts=("rules",), over_all=True)
    made = plan(base, "", "{kind: calibration, title: T, options: {split: test}}")
    found = inputs_of(job(made, made.shown["figures/all/over"]))
    assert found.scores == {
        paper: made.shown[f"scores/{paper}"].folder(made.root) / "scores.parquet"
        for paper in ("one", "two")
    }
    assert found.facts == {"rules": {"one": "normalised", "two": "normalised"}}
    options = {"split": "test"}
    about = {"title": "T", "caption": "", "options": options}
    assert made.shown["figures/all/over"].spec["draw"] == about
    assert "figures/all/over.pdf" in made.products


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "calibration, title: T, options: {tusk: same}",
            "options: unknown key 'tusk'. Did you mean 'task'?",
        ),
        (
            "curves, title: T, options: {show: runs, pairs: [[a, d]]}",
            "its options name 'd', which is not among its variants.",
        ),
        ("curves, title: T, options: {show: tables}", "options: 'show: tables' and the option"),
        (
            "calibration, title: T",
            "kind 'calibration' shows 1 to all variants scored on para, found 0; name",
        ),
        ("ranking, title: T, variants: [d]", "no variant 'd' with results, which is what kind"),
        (
            "ladder, title: T, variants: [a]",
            "kind 'ladder' shows 2 to all variants, found 1; name others",
        ),
    ],
)
def test_a_figure_that_cannot_be_is_named_before_anything_runs(
    base: Path, text: str, message: str
) -> None:
    with pytest.raises(UserError, match=rf"paper 'one': figure 'f'[:,] ?{re.escape(message)}"):
        plan(base, f"{{kind: {text}}}")


@pytest.mark.parametrize(
    ("over_all", "message"),
    [
        ("{kind: curves, title: T}", "figure 'over': kind 'curves' shows variants of one paper"),
        ("{kind: calibratio, title: T}", r"'calibratio'.*Did you mean 'calibration'"),
    ],
)
def test_wrong_figures_over_all_are_named(base: Path, over_all: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan(base, "", over_all)


def test_a_part_of_the_grids_leaves_out_a_figure_that_has_too_little_to_show(base: Path) -> None:
    made = plan(base, "{kind: ladder, title: T, variants: [a, b.c]}", only=["one/a", "two"])
    assert drawn(made, "one") == {}


def test_absent_runs_are_named_and_many_are_counted() -> None:
    labels = {"a": "A", "b": "B", "c": "C"}
    wanted = {"a": [0, 1], "b": [0, 1], "c": [0]}
    assert absent_notes(labels, {"a": [0], "b": []}, wanted, {"c", "a"}) == [
        "Failed: C.",
        "Not run: A (seed 1), B.",
    ]
    many = {str(number): f"row {number}" for number in range(40)}
    (said,) = absent_notes(many, {}, {})
    assert said.startswith("Not run: row 0, ") and said.endswith("row 7 and 32 more.")
    assert absent_notes(labels, wanted, wanted) == []
