"""A paper in MLflow: its experiment's description, the view of its table, and its best model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import OWN_FILES, TASKS
from minbert.track.journal import BEST, COST, TEST, Attempt
from minbert.track.store import CURVES, MODE, ROW, VIEW, Store, Tag, table_url, view_tag
from minbert.track.writer import StoredRun

ALIAS = "best"
_OURS = "Without this last line minbert leaves this description as it is."
_SCORE = f"{BEST}/overall"
_LEGEND = """One run for each row of this paper's table, with the runs of its stages and seeds \
below it, and one, `grid`, with all results.

`best/TASK` is the dev score of the weights that were kept (best epoch). A row has the
mean over its `n` seeds, with its 95 % interval in `best/TASK/low` and `best/TASK/high`.
The tag `learned` names the tasks whose score is above `floor/TASK` at the 5 % level,
`not_learned` the others. `train/` and `dev/` hold the curves (step: optimiser steps). A run that
was repeated has the tag `minbert.superseded` and is left out of both views.
"""


def tasks_of(facts: Mapping[str, Any]) -> list[str]:
    """Return the tasks of a paper in their usual order."""
    return [task for task in TASKS if task in facts["datasets"]]


def describe(
    store: Store, paper: str, facts: Mapping[str, Any] | None, grid: str | None = None
) -> None:
    """Give a paper's experiment its views and description, if they differ from what is there.

    `grid` is the id of the grid's own run, with which there are rows. `facts` are the plan's
    (`minbert.plan.describe`); without them all that is there stays. So does a description without
    its last line.
    """
    client, identity = store.client, store.experiment(paper)
    tags = client.get_experiment(identity).tags
    if facts is None and view_tag(VIEW) in tags:
        return
    for name, view in _views(facts, grid is not None).items():
        client.set_experiment_tag(identity, view_tag(name), json.dumps(view))
    if _OURS in tags.get(Tag.NOTE, _OURS):
        text = f"{_note(facts, paper, identity, grid)}\n{_OURS}\n"
        client.set_experiment_tag(identity, Tag.NOTE, text)


def _views(facts: Mapping[str, Any] | None, rows: bool) -> dict[str, dict[str, Any]]:
    """Return the view of the table, of runs until there are `rows`, and that of all curves.

    The highest overall score comes first. Runs that are nested below rows would hide their curves.
    """
    names = ["overall", *(tasks_of(facts) if facts else OVERALL_TASKS)]
    best, about = [f"metrics.`{BEST}/{name}`" for name in names], ["variant", "stage", "tasks"]
    runs = [f"params.`{name}`" for name in (*about, "seed")]
    learned = ["tags.`learned`", "tags.`not_learned`"]
    more = [f"{_SCORE}/low", f"{_SCORE}/high", "n", *(f"{TEST}/{name}" for name in names)]
    means = [*best, *(f"metrics.`{name}`" for name in (*more, f"{COST}/seconds"))]
    shared = {
        "orderByKey": f"metrics.`{_SCORE}`",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
    }
    newest = f"AND tags.`{Tag.SUPERSEDED}` IS NULL"
    of_rows = f"tags.`{Tag.KIND}` = '{ROW}' {newest}"
    of_runs = f"tags.`{Tag.KIND}` IS NULL {newest}"
    table = {"selectedColumns": [*(means if rows else [*best, *runs]), *learned]}
    return {
        VIEW: shared | table | {"searchFilter": of_rows if rows else of_runs},
        CURVES: shared
        | {"selectedColumns": [*best, *runs], "searchFilter": of_runs}
        | {"chartsSearchFilter": "^(dev|train)/"},
    }


def _note(facts: Mapping[str, Any] | None, paper: str, identity: str, grid: str | None) -> str:
    """Return the description, Markdown. `grid` is the id of the grid's own run."""
    if facts is None:
        return _LEGEND
    about = " ".join(facts["description"].split())
    seeds = ", ".join(map(str, facts["seeds"]))
    data = "the built-in corpus" if facts["source"] == "builtin" else facts["source"]
    if own := [task for task in tasks_of(facts) if task not in TASKS.built_in]:
        other = "" if data == OWN_FILES else f"{data}; "
        data = f"{other}{OWN_FILES}: {', '.join(own)}"
    where = "the grid's own run appears when all is trained"
    if grid:
        page = f"#/experiments/{identity}/runs/{grid}"
        table = f"{page}/artifacts/tables/{paper}.md{MODE}"
        where = f"[the grid's own run]({page}{MODE}), [its table]({table})"
    views = {"rows": VIEW, "curves of all runs": CURVES}
    links = ", ".join(f"[{n}]({table_url('', identity, v)[1:]})" for n, v in views.items())
    head = f"**{facts['title']}.** {about}".strip()
    return f"""{head}

- Grid: `{facts["file"]}`, {len(facts["labels"])} variants
- Data: {data}; tasks {", ".join(tasks_of(facts))}; seeds {seeds}
- Backbone: {facts.get("encoder", facts["backbone"])}
- Overall score: `{facts["rule"]}` (see the documentation's statistics)
- In the results folder: `tables/{paper}.md`, `figures/{paper}`
- In MLflow: {links}; {where}

{_LEGEND}"""


def register_best(store: Store, attempt: Attempt, run: StoredRun) -> None:
    """Register the model of a grid's own `run` as a version of model PAPER, alias `best`.

    There is none if some of the grid is not trained, or weights were not kept.
    """
    paper, tags = attempt.run["experiment"], (attempt.end() or {})["tags"]
    if attempt.run["tags"][Tag.COMPLETE] != "True" or Tag.BEST not in tags:
        return
    client = store.client
    if not client.search_registered_models(f"name = '{paper}'"):
        client.create_registered_model(
            paper, description="The best model of each finished grid. Each version has its card."
        )
    versions = {v.run_id: v.version for v in client.search_model_versions(f"name = '{paper}'")}
    if (version := versions.get(run.run_id)) is None:
        about = {"variant": Tag.BEST, "seed": Tag.BEST_SEED, "score": Tag.BEST_SCORE}
        version = client.create_model_version(
            paper,
            source=f"{run.artifacts}/model",
            run_id=run.run_id,
            description=tags[Tag.NOTE],
            tags={name: tags[tag] for name, tag in about.items()},
        ).version
    client.set_registered_model_alias(paper, ALIAS, version)
