"""A paper in MLflow: its experiment's description, and the views of its rows and of its curves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS
from minbert.track.journal import BEST, TEST
from minbert.track.store import Tag

VIEW, CURVES = "minbert", "minbert-curves"
"""The views of a paper's experiment: its rows, until there are any its runs; all runs' curves."""
_SCORE = f"{BEST}/overall"
_LEGEND = """One run for each row of the paper's table, with the runs of its stages and seeds \
below it.

`best/TASK` is the dev score of the weights that were kept (best epoch), `test/TASK` their test \
score. A row has the mean over its `n` seeds, and the 95 % interval in `best/TASK/low` and \
`best/TASK/high`. The tag `learned` names the tasks whose score is above the floor at the 5 % \
level, `not_learned` the others. `train/` and `dev/` hold the curves (step: optimiser steps). A \
run that was repeated, or that no variant needs any more, says so in its tag `minbert.superseded` \
and is left out of both views.
"""


def view_tag(view: str) -> str:
    """Return the tag of an experiment that holds a view."""
    return f"mlflow.sharedViewState.{view}"


def table_url(server: str, experiment_id: str, view: str = VIEW) -> str:
    """Return the address that opens an experiment's table, or the curves of its runs."""
    # Without the type, the page opens with its table for language models.
    view += "&compareRunsMode=CHART" if view == CURVES else ""
    runs = f"{server}/#/experiments/{experiment_id}/runs"
    return f"{runs}?workflowType=machine_learning&viewStateShareKey={view}"


def note(facts: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the tag with the description (Markdown) of a paper's experiment.

    `facts` are the plan's (`Plan.publication`); nobody need know them.
    """
    said = ""
    if facts is not None:
        said = f"""**{facts["title"]}.** {" ".join(facts["description"].split())}

- Grid: `{facts["file"]}`
- Data: {facts["source"]}; backbone: {facts.get("encoder", facts["backbone"])}
- Overall score: `{facts["rule"]}` (see the documentation's statistics)

"""
    return {"mlflow.note.content": said + _LEGEND}


def views(facts: Mapping[str, Any] | None, *, rows: bool = False) -> dict[str, str]:
    """Return the tags with the views of a paper's experiment; its table shows `rows`, or else runs.

    Both are ordered by the overall score, the highest first. Runs that are nested below rows would
    hide their curves.
    """
    tasks = facts["datasets"] if facts else OVERALL_TASKS
    names = ["overall", *(task for task in TASKS if task in tasks)]
    best, test = ([f"metrics.`{split}/{name}`" for name in names] for split in (BEST, TEST))
    runs = [*best, "params.`variant`", "params.`stage`", "params.`tasks`", "params.`seed`"]
    mean = [*best, f"metrics.`{_SCORE}/low`", f"metrics.`{_SCORE}/high`", "metrics.`n`", *test]
    shown = {CURVES: (runs, "IS NULL"), VIEW: (mean, "IS NOT NULL") if rows else (runs, "IS NULL")}
    return {
        view_tag(name): json.dumps(
            {
                "selectedColumns": [*columns, "tags.`learned`", "tags.`not_learned`"],
                "searchFilter": f"tags.`{Tag.ROW}` {kind} AND tags.`{Tag.SUPERSEDED}` = 'no'",
                "orderByKey": f"metrics.`{_SCORE}`",
                "chartsSearchFilter": "^(dev|train)/",
            }
        )
        for name, (columns, kind) in shown.items()
    }
