"""A part of the grids: which variants, figures and claims `only` leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from factories import drawn
from planning import REPOSITORY, planning_folder

from minbert.base.errors import UserError
from minbert.commands.gc import report
from minbert.plan.outputs import load_plan
from minbert.plan.plan import Plan

GRID = """paper: hybrid-bert
title: T
overall: plain
parameter_ratios: [[one, two]]
templates: {t: {tasks: {sst: {loss: cross_entropy}}}}
variants:
  one: {extends: t, optimiser: {lr: 1e-4}}
  two: {extends: t, start: one, optimiser: {lr: 2e-4}}
  other: {extends: t, optimiser: {lr: 3e-4}}
  pairs: {tasks: {sts: {loss: mse, pairing: cross}}}
  best: {best_of: [one, other]}
  tuned: {extends: t, tune: {optimiser.lr: [5e-4, 6e-4]}}
figures:
  every: {kind: curves, title: A}
  some: {kind: curves, title: B, variants: [one, other]}
  apart: {kind: curves, title: C, variants: [pairs]}
  classes: {kind: confusion-matrix, title: D}
  swept: {kind: sweep, title: E, options: {x: X, lines: {line: {one: 1, two: 2}}}}
claims:
  - {text: C, section: "1", variant: two, against: one, direction: higher, task: sst}
"""


def plan(folder: Path, *only: str) -> Plan:
    return load_plan([folder / "config.yaml"], folder, words=[f"only={list(only)}"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return planning_folder(tmp_path, GRID, config=True)


@pytest.mark.parametrize(
    ("patterns", "variants"),
    [
        (["hybrid-bert/two", "pairs"], ["two", "pairs"]),
        (["t[wx]o"], ["two"]),
        (["best"], ["one", "other", "best"]),
        (["tuned"], ["tuned", "tuned.lr-5e-4", "tuned.lr-6e-4"]),
    ],
)
def test_patterns_choose_variants(folder: Path, patterns: list[str], variants: list[str]) -> None:
    (grid,) = plan(folder, *patterns).grids
    assert list(grid.variants) == variants


def test_a_part_asks_for_its_own_jobs_under_the_keys_of_the_whole(folder: Path) -> None:
    whole, part = plan(folder), plan(folder, "two")
    keys = {ref.variant: whole.train(ref).key for ref in whole.stages}
    assert {node.key for node, _ in part.runs()} == {keys["two"], keys["one"]}, "two starts from it"
    assert [row[1] for row in part.publication["variants"]] == ["two"]
    assert set(part.nodes) < set(whole.nodes) | {
        (node.kind, node.key) for node in part.shown.values()
    }
    assert part.names == part.root / "only" and whole.names == whole.root


@pytest.mark.parametrize(
    ("patterns", "figures", "claims"),
    [
        ((), ["every", "some", "apart", "classes", "swept"], True),
        (("one",), ["every", "some", "classes"], False),
        (("pairs",), ["every", "apart"], False),
    ],
)
def test_figures_and_claims_that_need_others_go(
    folder: Path, patterns: tuple[str, ...], figures: list[str], claims: bool
) -> None:
    part = plan(folder, *patterns)
    assert list(drawn(part, "hybrid-bert")) == figures
    assert ("tables/claims" in part.shown) == bool(part.grids[0].parameter_ratios) == claims


def test_the_index_of_a_part_has_its_rows_alone(tmp_path: Path) -> None:
    config = {"grids": ["hybrid-bert"], "data": "builtin", "backbone": "builtin"}
    config |= {"results": str(tmp_path), "only": ["1-bert"]}
    rows = load_plan(config, REPOSITORY).shown["tables/index"].spec["published"]
    assert {row["variant"] for row in rows} == {"1-bert"}


def test_what_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match=r"only: 'hybrid-bert/twoo' matches no .*'hybrid-bert/two'"):
        plan(folder, "hybrid-bert/twoo")
    with pytest.raises(UserError, match="'only' names a part, and gc looks at whole grids"):
        list(report(plan(folder, "two"), delete=False))
