"""A paper of tasks of one's own: its overall score, claims, figures, keys and costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from own_tasks import using
from planning import TWO_STAGES, planning_folder

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.plan.describe import record_of
from minbert.plan.plan import Plan
from minbert.spec.config import load_config
from minbert.spec.task import TASKS, overall_tasks, use_tasks_of

ROWS = {"dev": 0.2, "sentence1": "text", "label": "label"}
OWN: dict[str, Any] = {
    "news": {**ROWS, "kind": "classification", "classes": ["a", "b", "c"], "files": "news.tsv"},
    "same": {**ROWS, "kind": "binary", "metric": "f1", "sentence2": "b", "files": "same.tsv"},
    "points": {**ROWS, "kind": "regression", "range": [0, 100], "files": "points.tsv"},
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
def _tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in OWN:
        write_text(tmp_path / f"{name}.tsv", "text\ttopic\n")
    monkeypatch.chdir(tmp_path)
    with using():
        yield


def plan(
    folder: Path,
    head: str = "",
    kind: str = "ranking",
    options: str = "",
    loss: str = "mse",
    **config: Any,
) -> Plan:
    grid = GRID.format(head=head, kind=kind, options=options, loss=loss)
    planning_folder(folder, grid)
    wanted = {"grids": ["g"], "data": "builtin", "backbone": "builtin", "tasks": OWN}
    return Plan.of(load_config({**wanted, "results": str(folder / "results"), **config}), folder)


def test_the_overall_score_of_an_own_paper_is_of_all_its_tasks(tmp_path: Path) -> None:
    (grid,) = plan(tmp_path).grids
    assert grid.tasks == grid.overall_tasks == ("sst", "news", "points", "same")
    assert overall_tasks(["sst", "sts"]) == ("sst", "para", "sts"), "of built-in tasks as ever"
    claim = "claims: [{text: x, section: s, variant: all, against: part, task: overall}]"
    made = plan(tmp_path, f"overall_tasks: [news]\n{claim}")
    assert made.grids[0].overall_tasks == ("news",)
    claims = made.shown["tables/claims"].spec
    assert claims["overall_tasks"] == {"mine": ("news",)}
    assert [name for name, *_ in claims["shown"]] == ["sst", "news", "points", "same"]


@pytest.mark.parametrize(
    ("kind", "options", "task"),
    [("confusion-matrix", "task: news", "news"), ("confusion-matrix", "", "sst")],
)
def test_a_figure_of_one_task_shows_the_one_of_its_kind(
    kind: str, options: str, task: str, tmp_path: Path
) -> None:
    """A confusion matrix is of SST where the paper has it, unless it is told otherwise."""
    figure = plan(tmp_path, kind=kind, options=options).shown["figures/mine/f"]
    assert figure.spec["draw"]["options"]["task"] == task


def test_a_figure_of_another_kind_of_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"figure 'f': kind 'calibration' shows one task of kind "):
        plan(tmp_path, kind="calibration", options="task: news")
    with pytest.raises(UserError, match=r"found task 'nwes', .*of sst, news\. Did you mean 'news'"):
        plan(tmp_path, kind="confusion-matrix", options="task: nwes")


def test_labels_of_another_range_need_another_loss(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'points' has loss 'cosine_mse', which is for labels from"):
        plan(tmp_path, loss="cosine_mse")
    smart = {"weight": 1, "divergence": "symmetric_kl"}
    with pytest.raises(UserError, match=r"'points' needs 'smart\.regression: squared_error'"):
        plan(tmp_path, override={"smart": smart})


def test_a_task_changes_no_key_of_others(tmp_path: Path) -> None:
    planning_folder(tmp_path, TWO_STAGES)
    wanted = {"grids": ["g"], "data": "builtin", "backbone": "builtin"}
    one, two = (Plan.load({**wanted, **more}, tmp_path).nodes for more in ({}, {"tasks": OWN}))
    assert set(one) == set(two)


def test_what_is_said_of_a_task_is_in_the_keys_of_what_it_decides(tmp_path: Path) -> None:
    """A title in those of what shows it, a metric in those of trainings with the task."""
    before = plan(tmp_path)
    after = plan(tmp_path, tasks={**OWN, "news": {**OWN["news"], "title": "Topics of news"}})
    changed = {kind for kind, _ in set(before.nodes) ^ set(after.nodes)}
    assert changed == {"table", "figure", "index", "report"}
    after = plan(tmp_path, tasks={**OWN, "same": {**OWN["same"], "metric": "accuracy"}})
    of = [{ref.variant: key for key, ref in each.owners.items()} for each in (before, after)]
    assert of[0]["part"] == of[1]["part"] and of[0]["all"] != of[1]["all"]


def test_jobs_are_told_their_tasks(tmp_path: Path) -> None:
    record = record_of(plan(tmp_path))
    before = {name: TASKS[name] for name in OWN}
    TASKS.use(())
    assert "news" not in TASKS
    use_tasks_of(record)
    assert {name: TASKS[name] for name in OWN} == before
    assert list(TASKS)[-3:] == ["news", "points", "same"], "by name, whatever the configuration's"
