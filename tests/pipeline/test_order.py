"""The order in which jobs start: what shows results, then trainings by the chain behind them."""

from __future__ import annotations

import re

import pytest

from .edits import grid
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


def test_the_longest_chain_starts_first_and_what_shows_results_before_more_training(
    project: Project,
) -> None:
    grid("variants:\n", ROWS)(project)
    project.configure(seeds="[8]")  # so that nothing is done yet
    printed = project.snakemake("-n", "all")  # A dry run keeps no log.
    names = project.variants()
    shown, trained = {}, {}
    for rule, body in re.findall(r"(?m)^(?:local)?rule (\w+):\n((?:    .*\n)+)", printed):
        if priority := re.search(r"    priority: (\d+)", body):
            key = re.search(r"wildcards: key=(\w+)", body)
            of, name = (trained, names[key[1]]) if key and rule == "train" else (shown, rule)
            of[name] = int(priority[1])
    assert [name for name in sorted(trained, key=lambda n: -trained[n]) if name in EXPECTED] == (
        EXPECTED
    )
    rules = ("scores_hybrid_bert", "figures_hybrid_bert", "summary")
    assert min(shown[rule] for rule in rules) > max(trained.values())
