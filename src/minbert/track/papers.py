"""A paper in MLflow: its experiment's description, and the views of its rows and of its curves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS
from minbert.track.journal import BEST, TEST
from minbert.track.rows import ROW
from minbert.track.store import Store, Tag

VIEW, CURVES = "minbert", "minbert-curves"
"""The views of a paper's experiment: its rows, until there are any its runs; all runs' curves."""
_MODE = "?workflowType=machine_learning"
"""Without it, MLflow's page opens with its table for language models."""
_SCORE = f"{BEST}/overall"
_LEGEND = """One run for each row of the paper's table, with the runs of its stages and seeds \
below it. The run `grid` has the paper's tables and figures, which are also in the results folder: \
`tables/`, `figures/`.

`best/TASK` is the dev score of the weights that were kept (best epoch), `test/TASK` their test \
score. A row has the mean over its `n` seeds, and the 95 % interval in `best/TASK/low` and \
`best/TASK/high`. The tag `learned` names the tasks whose score is above the floor at the 5 % \
level, `not_learned` the others. `train/` and `dev/` hold the curves (step: optimiser steps). A \
run that was repeated, or that no variant needs any more, has the tag `minbert.superseded` and is \
left out of both views.
"""


def view_tag(view: str) -> str:
    """Return the tag of an experiment that holds a view."""
    return f"mlflow.sharedViewState.{view}"


def table_url(server: str, experiment_id: str, view: str = VIEW) -> str:
    """Return the address that opens an experiment's table, or the curves of its runs."""
    mode = "&compareRunsMode=CHART" if view == CURVES else ""
    return f"{server}/#/experiments/{experiment_id}/runs{_MODE}&viewStateShareKey={view}{mode}"


def describe(store: Store, identity: str, facts: Mapping[str, Any] | None) -> None:
    """Give a paper's experiment, of this id, its views and description, unless it has them.

    `facts` are the plan's (`Plan.publication`); nobody need know them.
    """
    client = store.client
    tags = client.get_experiment(identity).tags
    if view_tag(VIEW) in tags:
        return
    if Tag.NOTE not in tags:
        client.set_experiment_tag(identity, Tag.NOTE, _note(identity, facts))
    runs = f"tags.`{Tag.KIND}` IS NULL"
    _set_view(store, identity, CURVES, _columns(facts, rows=False), runs)
    _set_view(store, identity, VIEW, _columns(facts, rows=False), runs)


def show_rows(store: Store, identity: str, facts: Mapping[str, Any] | None) -> None:
    """Let the view of a paper's table show its rows, which are there now."""
    rows = f"tags.`{Tag.KIND}` = '{ROW}'"
    _set_view(store, identity, VIEW, _columns(facts, rows=True), rows)


def _columns(facts: Mapping[str, Any] | None, *, rows: bool) -> list[str]:
    tasks = facts["datasets"] if facts else OVERALL_TASKS
    names = ["overall", *(task for task in TASKS if task in tasks)]
    metrics = [f"{BEST}/{name}" for name in names]
    if rows:
        metrics += [f"{_SCORE}/low", f"{_SCORE}/high", "n", *(f"{TEST}/{name}" for name in names)]
    params = () if rows else ("variant", "stage", "tasks", "seed")
    tags = ("learned", "not_learned")
    found = [("metrics", metrics), ("params", params), ("tags", tags)]
    return [f"{kind}.`{name}`" for kind, names in found for name in names]


def _set_view(store: Store, identity: str, name: str, columns: list[str], runs: str) -> None:
    """Save a view of `runs`, by their overall score, the highest first.

    Runs that are nested below rows would hide their curves.
    """
    view = {
        "selectedColumns": columns,
        "searchFilter": f"{runs} AND tags.`{Tag.SUPERSEDED}` IS NULL",
        "orderByKey": f"metrics.`{_SCORE}`",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
        "chartsSearchFilter": "^(dev|train)/",
    }
    store.client.set_experiment_tag(identity, view_tag(name), json.dumps(view))


def _note(identity: str, facts: Mapping[str, Any] | None) -> str:
    """Return the description of an experiment, Markdown."""
    if facts is None:
        return _LEGEND
    views = {"rows": VIEW, "curves of all runs": CURVES}
    links = ", ".join(f"[{of}]({table_url('', identity, view)[1:]})" for of, view in views.items())
    return f"""**{facts["title"]}.** {" ".join(facts["description"].split())}

- Grid: `{facts["file"]}`
- Data: {facts["source"]}; backbone: {facts.get("encoder", facts["backbone"])}
- Overall score: `{facts["rule"]}` (see the documentation's statistics)
- In MLflow: {links}

{_LEGEND}"""
