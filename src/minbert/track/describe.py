"""What a paper's experiment says of itself in MLflow: a description, and the view of its table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minbert.grid.tasks import TASKS

if TYPE_CHECKING:
    from mlflow.entities import Experiment
    from mlflow.tracking import MlflowClient

VIEW_TAG = "mlflow.sharedViewState.minbert"
NOTE_TAG = "mlflow.note.content"
SUPERSEDED_TAG = "minbert.superseded"
SCORE_TAG = "minbert.score"
KIND_TAG = "minbert.kind"
GRID = "grid"
_OURS = "minbert.note"
_MODE = "?workflowType=machine_learning"
_TASKS = ("sst", "para", "sts")
_LEGEND = """One run for each stage and seed of this paper's grid and one, `grid`, with its results.

`train/` and `dev/` hold the curves (step: optimiser steps). The tag `minbert.score` is the best
overall dev score over the epochs, that of the weights that were kept. A run that was done again
carries `minbert.superseded` and is left out of the table's view.
"""


def tasks_of(facts: Mapping[str, Any]) -> list[str]:
    """Return the tasks of a paper in their usual order."""
    return [task for task in TASKS if task in facts["datasets"]]


def shared_view(facts: Mapping[str, Any] | None) -> str:
    """Return the table's view as JSON: the paper's score columns, its order, nothing superseded.

    `facts` are the plan's (`minbert.grid.papers`); without them the columns are those of the three
    common tasks.
    """
    rule = facts["rule"] if facts else "normalised"
    tasks = tasks_of(facts) if facts else _TASKS
    scores = [f"dev/overall/{rule}", *(f"dev/{task}/{TASKS[task].metric}" for task in tasks)]
    columns = [f"params.`{name}`" for name in ("variant", "stage", "tasks", "seed")]
    columns += [f"metrics.`{name}`" for name in scores]
    columns.append(f"tags.`{SCORE_TAG}`")
    view = {
        "selectedColumns": columns,
        "searchFilter": f"tags.`{SUPERSEDED_TAG}` IS NULL",
        "orderByKey": f"metrics.`{scores[0]}`",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
    }
    return json.dumps(view)


def note(facts: Mapping[str, Any] | None, root: Path, paper: str, grid: str | None) -> str:
    """Return the description, Markdown. `grid` is the address of the grid's own run in the UI."""
    if facts is None:
        return _LEGEND
    about = " ".join(facts["description"].split())
    lines = [f"**{facts['title']}.** {about}".strip(), ""]
    seeds = ", ".join(map(str, facts["seeds"]))
    data = "the built-in corpus" if facts["source"] == "builtin" else facts["source"]
    backbone = "built in, pretrained here" if facts["backbone"] == "builtin" else facts["backbone"]
    lines += [
        f"- Grid: `{facts['file']}`, {len(facts['variants'])} variants",
        f"- Data: {data}; tasks {', '.join(tasks_of(facts))}; seeds {seeds}",
        f"- Backbone: {backbone}" + (f" at {facts['revision']}" if facts["revision"] else ""),
        f"- Overall score: `{facts['rule']}` (see the documentation's statistics)",
        f"- Tables: `{root / 'tables' / f'{paper}.md'}`; figures: `{root / 'figures' / paper}`",
    ]
    if grid:
        table = f"{grid}/artifacts/tables/{paper}.md{_MODE}"
        lines.append(f"- In MLflow: [the grid's own run]({grid}{_MODE}), [its table]({table})")
    else:
        lines.append("- In MLflow: the grid's own run comes when all is trained")
    return "\n".join([*lines, "", _LEGEND])


def describe(
    client: MlflowClient, found: Experiment, facts: Mapping[str, Any] | None, root: Path
) -> None:
    """Give an experiment its view and description where they differ.

    A description that a person has changed stays. Without `facts` what is there stays.
    """
    if facts is None and VIEW_TAG in found.tags:
        return
    identity = str(found.experiment_id)
    if found.tags.get(VIEW_TAG) != (view := shared_view(facts)):
        _set_tag(client, identity, VIEW_TAG, view)
    old = found.tags.get(NOTE_TAG)
    if old is not None and _digest(old) not in found.tags.get(_OURS, ""):
        return
    text = note(facts, root, str(found.name), _grid_address(client, identity))
    if old != text:
        # Both are known as ours: this may be killed before the text is changed, or after.
        ours = [_digest(one) for one in (old, text) if one is not None]
        _set_tag(client, identity, _OURS, " ".join(ours))
        _set_tag(client, identity, NOTE_TAG, text)


def _set_tag(client: MlflowClient, identity: str, name: str, value: str) -> None:
    """Set an experiment's tag. Of two users who set a new one at once MLflow fails one: again."""
    from mlflow.exceptions import MlflowException

    try:
        client.set_experiment_tag(identity, name, value)
    except MlflowException:
        client.set_experiment_tag(identity, name, value)


def _grid_address(client: MlflowClient, identity: str) -> str | None:
    found = client.search_runs(
        [identity],
        filter_string=f"tags.`{KIND_TAG}` = '{GRID}'",
        order_by=["attributes.start_time DESC"],
        max_results=1,
    )
    return f"#/experiments/{identity}/runs/{found[0].info.run_id}" if found else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
