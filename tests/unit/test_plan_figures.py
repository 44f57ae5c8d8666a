"""What figures are drawn from, as the plan says and the drawing finds it."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from factories import drawn, make_plan, training

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.figures.make import inputs_of
from minbert.figures.read import Inputs
from minbert.plan import outputs
from minbert.plan.plan import Plan
from minbert.store.job import Job

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
PRINTED = "curves, options: {show: tables, tables: [{title: T, variant: b.c, %s}]}"


def plan(base: Path, figure: str = "ranking", over_all: str = "", **more: Any) -> Plan:
    """Return the plan of the grid with one figure: its kind, and more."""
    text = "figures:\n  f: {title: T, kind: {}}\n"
    if over_all:
        write_text(base / outputs.FIGURES, text.replace("{}", over_all))
    return make_plan(base, GRID + text.replace("{}", figure), seeds=[0, 7], **more)


def read(made: Plan, name: str = "one/f") -> Inputs:
    """Return what a figure is drawn from: a description sorts the keys of a mapping."""
    described = json.loads(json.dumps(made.shown[f"figures/{name}"].describe(), sort_keys=True))
    return inputs_of(Job(made.root, described, None, 1))


def test_a_figure_is_drawn_from_runs_scores_and_what_is_said_of_the_paper(tmp_path: Path) -> None:
    made = plan(tmp_path, "curves")
    found = read(made)
    assert found.variants == {"a": "The first", "b.c": "b.c", "sts-only": "sts-only"}
    first, second = (training(made, "b.c", name) for name in ("s1", "s2"))
    (scored,) = (of["tasks"] for of in found.about["variants"] if of["name"] == "b.c")
    assert scored == {"sst": second.key, "sts": first.key}
    assert [stage["key"] for stage in found.about["stages"]["b.c"]] == [first.key, second.key]
    for run, seed in product((first, second), (0, 7)):
        assert found.runs[f"{run.key}.{seed}"].parent == run.folder(made.root, seed)
    scores = made.shown["scores/one"].folder(made.root) / "scores.parquet"
    assert found.scores == {"one": scores} and found.about["rule"] == "normalised"
    assert found.about["selection_split"] == "dev" and found.about["architecture"]["layers"] == 2
    staged, _ = found.about["stages"]["b.c"]
    assert (staged["start"], staged["spec"]["tasks"]["sts"]["loss"]) == (None, "mse")
    (row,) = (row for row in found.about["rows"] if row["variant"] == "sts-only")
    assert staged["parameters"]["total"] == row["parameters"] > 0
    assert list(read(plan(tmp_path)).variants) == ["a", "b.c", "sts-only", "best"]
    said = "curves, variants: [sts-only, b.c, a]"
    assert list(read(plan(tmp_path, said)).variants) == ["sts-only", "b.c", "a"], "in its own order"
    assert list(read(plan(tmp_path, "confusion-matrix")).variants) == ["a", "b.c"]


def test_figures_over_all_papers(tmp_path: Path) -> None:
    made = plan(tmp_path, over_all="published-reproduced, options: {against: dev}")
    found = read(made, "all/f")
    assert (set(found.scores), found.variants) == ({"one"}, {})
    assert "figures/all/f.pdf" in made.products
    assert not drawn(plan(tmp_path, over_all="published-reproduced"), "all"), "none is published"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("calibration, options: {tusk: same}", "unknown key 'tusk'. Did you mean 'task'?"),
        (
            "curves, options: {show: runs, pairs: [[a, d]]}",
            "'d' is not one of its variants with results",
        ),
        ("curves, options: {show: tables}", "options: 'show: tables' and the option"),
        ("curves, options: {smooth: 1}", "'smooth' is 1; expected"),
        ("curves, options: {show: runs, pairs: [[a]]}", "'pairs.0"),
        ("curves, options: {show: tables, tables: [{los: 1}]}", "unknown key 'tables.0.los'"),
        (PRINTED % "stage: s3, task: sts", "no stage 's3' that trains sts; found s1, s2"),
        (PRINTED % "stage: s2, task: sts", "'b.c' has no stage 's2' that trains sts; found s1, s2"),
        (PRINTED % "stage: s1, task: sts, loss: [0]", "'tables.0.loss.0' is 0; expected greater"),
        ("sweep, options: {x: X, lines: {a: {}}}", "'lines.a'"),
        ("calibration", "kind 'calibration' shows 1 or more variants scored on none (binary), fo"),
        ("ranking, variants: [d]", "'d' is not one of its variants with"),
        (
            "confusion-matrix, variants: [sts-only]",
            "'sts-only' is not one of its variants scored on sst",
        ),
        ("ladder, variants: [a]", "kind 'ladder' shows 2 or more variants, found 1; name others"),
    ],
)
def test_a_figure_that_cannot_be_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=rf"paper 'one': figure 'f'.*{re.escape(message)}"):
        plan(tmp_path, text)


def test_a_figure_of_one_paper_is_none_over_all(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'figures\.f\.kind' is 'curves'; expected 'publ"):
        plan(tmp_path, over_all="curves")


def test_a_part_leaves_out_a_figure_that_has_too_little_to_show(tmp_path: Path) -> None:
    assert drawn(plan(tmp_path, "ladder, variants: [a, b.c]", only=["one/a"]), "one") == {}


def test_absent_runs_are_named_and_many_are_counted(tmp_path: Path) -> None:
    (tmp_path / "predictions.parquet").touch()
    there, gone = tmp_path / "run.json", tmp_path / "gone" / "run.json"

    def absent(files: dict[str, list[Path]]) -> list[str]:
        runs = {f"{n}.{seed}": path for n, of in files.items() for seed, path in enumerate(of)}
        about = {"seeds": [0, 1], "variants": [{"name": n, "tasks": {"sst": n}} for n in files]}
        return Inputs({name: name.upper() for name in files}, [about], runs, {}).absent

    few = {"a": [there, gone], "b": [gone, gone], "c": [there, there]}
    assert absent(few) == ["Failed or not run: A (seed 1), B (seed 0, 1)."]
    (said,) = absent({f"row {number}": [there, gone] for number in range(40)})
    assert said.startswith("Failed or not run: ROW 0 (seed 1), ")
    assert said.endswith("ROW 7 (seed 1) and 32 more.")
