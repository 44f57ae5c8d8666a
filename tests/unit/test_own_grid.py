"""A paper of tasks of one's own: its overall score, claims, figures, keys and costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from factories import make_plan

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.plan.plan import Plan
from minbert.spec.task import overall_tasks

TEXT = {"sentence1": "text", "dev": 0.2}
OWN: dict[str, dict[str, Any]] = {
    "news": {"kind": "classification", "classes": ["a", "b", "c"], "label": "topic", **TEXT},
    "same": {"kind": "binary", "metric": "f1", "sentence2": "b", "label": "same", **TEXT},
    "points": {"kind": "regression", "range": [0, 100], "label": "points", **TEXT},
}
GRID = """paper: mine
title: T
overall: normalised
{head}
templates: {{t: {{epochs: 1}}}}
variants:
  all:
    extends: t
    tasks:
      news: {{loss: cross_entropy}}
      same: {{loss: binary_cross_entropy, pairing: cross}}
      points: {{loss: {loss}}}
  part: {{extends: t, tasks: {{news: {{loss: cross_entropy}}, sst: {{loss: cross_entropy}}}}}}
figures:
  f: {{kind: {kind}, title: F, options: {{{options}}}}}
"""


@pytest.fixture(autouse=True)
def _tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_text(tmp_path / "own.tsv", "text\ttopic\n")
    monkeypatch.chdir(tmp_path)


def plan(
    head: str = "",
    kind: str = "ranking",
    options: str = "",
    loss: str = "mse",
    **config: Any,
) -> Plan:
    """Return the plan of the paper."""
    grid = GRID.format(**locals())
    tasks = {name: {**of, "files": "own.tsv"} for name, of in OWN.items()}
    return make_plan(Path.cwd(), grid, tasks=tasks, **config)


def test_the_overall_score_of_an_own_paper_is_of_all_its_tasks() -> None:
    (grid,) = plan().grids
    assert grid.tasks == grid.overall_tasks == ("sst", "news", "points", "same")
    data = [plan().made_from(tasks)["data"] for tasks in (["news", "same"], ["news", "sst"])]
    assert data == ["own files", "builtin"], "called generated only if some are"
    assert overall_tasks(["sst", "sts"]) == ("sst", "para", "sts"), "of built-in tasks as ever"
    claim = "claims: [{text: x, section: s, variant: all, against: part, task: overall}]"
    made = plan(f"overall_tasks: [news]\n{claim}")
    assert made.grids[0].overall_tasks == ("news",)
    claims = made.shown["tables/claims"].spec
    assert claims["overall_tasks"] == {"mine": ("news",)}
    assert [name for name, *_ in claims["shown"]] == ["sst", "news", "points", "same"]
    with pytest.raises(UserError, match="claim 'x': 'all' has no task 'sst'"):
        plan(claim)


@pytest.mark.parametrize(
    ("kind", "options", "task"),
    [("confusion-matrix", "task: news", "news"), ("calibration", "", "same")],
)
def test_a_figure_of_one_task_shows_the_one_of_its_kind(kind: str, options: str, task: str) -> None:
    figure = plan(kind=kind, options=options).shown["figures/mine/f"]
    assert figure.spec["draw"]["options"]["task"] == task


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"loss": "cosine_mse"}, "'points' has loss 'cosine_mse', which is for labels from"),
        (
            {"override": {"smart": {"weight": 1, "divergence": "symmetric_kl"}}},
            r"'points' needs 'smart\.regression: squared_error'",
        ),
    ],
)
def test_what_fits_another_kind_of_task_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan(**given)
