"""The variant that trains each task alone: what `single` may name."""

from __future__ import annotations

from pathlib import Path

import pytest
from grid_texts import THREE, grid, problem

VARIANTS = (
    THREE
    + """\
variants:
  together: {extends: t}
  alone:
    extends: t
    stages: [{name: sst, train: sst}, {name: para, train: para}, {name: sts, train: sts}]
  two:
    extends: t
    stages: [{name: sst, train: sst}, {name: para, train: para}]
  in-turn:
    extends: t
    stages:
      - {name: sst, train: sst}
      - {name: para, train: para}
      - {name: sts, train: sts, also_score: sst, start: sst}
  best: {best_of: [alone, together]}
"""
)


def test_the_reference_is_the_papers(tmp_path: Path) -> None:
    assert grid(tmp_path, VARIANTS).single == ""
    assert grid(tmp_path, f"single: alone\n{VARIANTS}").single == "alone"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("alnoe", "no variant 'alnoe'. Did you mean 'alone'?"),
        ("best", "variant 'best' is the best of others"),
        ("two", "variant 'two' needs a stage that trains 'sts' alone"),
        ("together", "variant 'together' needs a stage that trains 'sst' alone"),
        ("in-turn", "trains 'sst' alone and is the last that scores it"),
    ],
)
def test_a_variant_that_does_not_train_each_task_alone_is_refused(
    tmp_path: Path, name: str, said: str
) -> None:
    found = problem(tmp_path, f"single: {name}\n{VARIANTS}")
    assert "g0.yaml: single: " in found and said in found


def test_any_file_of_a_paper_may_name_it_and_two_agree(tmp_path: Path) -> None:
    more = "single: alone\nvariants: {further: {extends: t}}\n"
    assert grid(tmp_path, VARIANTS, more).single == "alone"
    assert grid(tmp_path, f"single: alone\n{VARIANTS}", more).single == "alone"
    said = f"{tmp_path / 'g1.yaml'}: paper 'demo' has another 'single' in {tmp_path / 'g0.yaml'}: "
    assert said + "'in-turn'" in problem(tmp_path, f"single: in-turn\n{VARIANTS}", more)
    said = f"{tmp_path / 'g2.yaml'}: paper 'demo' has another 'single' in {tmp_path / 'g1.yaml'}: "
    assert said + "'alone'" in problem(tmp_path, VARIANTS, more, "single: in-turn\n")
