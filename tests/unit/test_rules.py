"""What the rules ask of the plan: inputs, commands, and the jobs that make what people look at."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from factories import drawn, finish, make_plan, training
from planning import TWO_STAGES
from snakemake.exceptions import WorkflowError

from minbert.base.errors import UserError
from minbert.commands import steps
from minbert.commands.session import Rules
from minbert.plan.describe import write
from minbert.plan.pending import pending
from minbert.plan.plan import Plan

FIGURES = """\
figures:
  one: {kind: ranking, title: One}
  two: {kind: ranking, title: Two}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make_plan(tmp_path, TWO_STAGES + FIGURES, results=str(tmp_path / "results of it"))


def rules(plan: Plan) -> Rules:
    return Rules(pending(plan), "record", 2)


def test_a_key_says_what_job_it_is(plan: Plan) -> None:
    made, node, at = rules(plan), training(plan, "first"), f"--results '{plan.root}' --plan record"
    job = SimpleNamespace(key=node.key, seed="0")
    assert made.command(job).startswith(f"make train-{node.key} {at} --seed 0 --memory ")
    assert {Path(path).parts[-3] for path in made.inputs(job)} == {"tokens"}
    for ask in (made.mem_mb, made.runtime):
        assert ask(job, 3) == 4 * ask(job, 1) > 0, "twice as much at each attempt"
    (tokens,) = (need.node for name, need in node.needs.items() if name.startswith("tokens."))
    assert made.command(SimpleNamespace(key=tokens.key)) == f"make tokens-{tokens.key} {at}"
    with pytest.raises(WorkflowError, match="has no job with key 00ff"):
        made.command(SimpleNamespace(key="00ff"))


def test_two_jobs_a_paper_and_one_for_all_make_what_is_missing(plan: Plan) -> None:
    groups = {name: of for name, *of in rules(plan).groups()}
    assert list(groups) == ["scores_hybrid_bert", "figures_hybrid_bert", "summary"]
    one, two = drawn(plan, "hybrid-bert").values()
    _, outputs, _ = groups["figures_hybrid_bert"]
    assert [Path(path).parts[-2:] for path in outputs] == [
        (node.key, f"figure.{ending}") for node in (one, two) for ending in ("pdf", "png")
    ]
    inputs, outputs, _ = groups["summary"]
    assert {*map(str, outputs)}.isdisjoint(inputs), "the report is made after the index"
    finish(plan, one)
    (step,) = (step for name, _, _, step in rules(plan).groups() if name.startswith("figures"))
    assert step.startswith(f"make figure-{two.key} --results ")


def test_a_figure_that_fails_does_not_stop_the_next(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = write(plan)
    finish(plan, *(node for node in plan.nodes.values() if node.kind in ("scores", "train")))
    tried: list[str] = []

    def make(job: Any) -> None:
        tried.append(job.title)
        if job.title == "one":
            raise ValueError("no ink")

    monkeypatch.setattr("minbert.figures.make.make", make)
    nodes = [f"figure-{node.key}" for node in drawn(plan, "hybrid-bert").values()]
    with pytest.raises(UserError, match=r"not drawn: one$"):
        steps.make(plan.root, nodes, plan=name)
    assert tried == ["one", "two"] and "ValueError: no ink" in capsys.readouterr().err
