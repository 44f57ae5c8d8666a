"""The order in which trainings start: those with the longest chain behind them first."""

from __future__ import annotations

import re

import pytest

from .edits import GRID
from .project import Project

pytestmark = pytest.mark.pipeline

# The chain takes longer than `long`, each of its stages less; `brief` takes the least.
ROWS = """\
variants:
  brief: {extends: 3-bert, epochs: 40}
  after: {extends: 3-bert, epochs: 61, start: before}
  long: {extends: 3-bert, epochs: 80}
  before: {extends: 3-bert, epochs: 60}
"""
EXPECTED = ["before", "long", "after", "brief"]


def test_the_longest_chain_starts_first(project: Project) -> None:
    project.edit(GRID, "variants:\n", ROWS)
    targets = [project.target(variant, 0) for variant in EXPECTED]
    project.run("snakemake", "--cores", "1", *sorted(targets))
    names = project.variants()
    keys = re.findall(
        r"(?m)^(?:local)?rule train:\n(?:    .*\n)*?    wildcards: key=(\w+)", project.log()
    )
    assert [names[key] for key in keys] == EXPECTED


def test_what_shows_results_comes_before_more_training(project: Project) -> None:
    project.configure(seeds="[8]")  # so that nothing is done yet
    printed = project.run("snakemake", "-n", "all")  # A dry run keeps no log.
    told = re.findall(r"(?m)^(?:local)?rule (\w+):\n(?:    .*\n)*?    priority: (\d+)$", printed)
    by_rule: dict[str, set[int]] = {}
    for rule, priority in told:
        by_rule.setdefault(rule, set()).add(int(priority))
    shown = {"scores_hybrid_bert", "figures_hybrid_bert", "summary"}
    assert shown <= by_rule.keys()
    assert min(min(by_rule[rule]) for rule in shown) > max(by_rule["train"])
