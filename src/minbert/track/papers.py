"""A paper in MLflow: its experiment's description, the view of its table, and its best model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import OWN_FILES, TASKS
from minbert.track.journal import BEST, COST, TEST
from minbert.track.store import CURVES, GRID, MODE, ROW, VIEW, Store, Tag, table_url, view_tag

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

ALIAS = "best"
_OURS = "minbert.note"
_SCORE = f"{BEST}/overall"
SEED_SCORE = "seed"
"""What the grid's own run calls the overall dev score of its model; `_SCORE` has the mean."""
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


def describe(store: Store, paper: str, facts: Mapping[str, Any] | None) -> None:
    """Give a paper's experiment its views and description, if they differ from what is there.

    `facts` are the plan's (`minbert.plan.describe`); without them all that is there stays. So does
    a description that a person has changed.
    """
    client, identity = store.client, store.experiment(paper)
    tags = client.get_experiment(identity).tags
    if facts is None and view_tag(VIEW) in tags:
        return
    grid, rows = (_newest(client, identity, kind) for kind in (GRID, ROW))
    views = {VIEW: _rows_view(facts) if rows else _runs_view(facts), CURVES: _curves_view(facts)}
    for name, view in views.items():
        if tags.get(view_tag(name)) != (told := json.dumps(view)):
            client.set_experiment_tag(identity, view_tag(name), told)
    old = tags.get(Tag.NOTE)
    if old is not None and _digest(old) not in tags.get(_OURS, ""):
        return
    text = _note(facts, paper, identity, grid)
    if old != text:
        # Both count as ours: this process may be killed before the text is changed, or after.
        ours = [_digest(one) for one in (old, text) if one is not None]
        client.set_experiment_tag(identity, _OURS, " ".join(ours))
        client.set_experiment_tag(identity, Tag.NOTE, text)


def _view(metrics: Sequence[str], others: Sequence[str], only: str) -> dict[str, Any]:
    """Return a view of the runs that a filter finds, the highest overall score first.

    It has the columns of these metrics and of these `others`, `params.NAME` or `tags.NAME`.
    """
    columns = [f"metrics.`{name}`" for name in metrics]
    columns += [f"{kind}.`{name}`" for kind, _, name in (other.partition(".") for other in others)]
    return {
        "selectedColumns": columns,
        "searchFilter": f"{only}tags.`{Tag.SUPERSEDED}` IS NULL",
        "orderByKey": f"metrics.`{_SCORE}`",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
    }


def _scores(facts: Mapping[str, Any] | None) -> list[str]:
    return ["overall", *(tasks_of(facts) if facts else OVERALL_TASKS)]


def _rows_view(facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the view of the paper's table: its rows by their means."""
    names = _scores(facts)
    metrics = [f"{BEST}/{name}" for name in names] + [f"{_SCORE}/low", f"{_SCORE}/high", "n"]
    metrics += [f"{TEST}/{name}" for name in names] + [f"{COST}/seconds"]
    return _view(metrics, ("tags.learned", "tags.not_learned"), f"tags.`{Tag.KIND}` = '{ROW}' AND ")


def _runs_view(facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the view until there are rows: runs, grouped by variant if there are several seeds."""
    params = [f"params.{name}" for name in ("variant", "stage", "tasks", "seed")]
    metrics = [f"{BEST}/{name}" for name in _scores(facts)]
    view = _view(metrics, [*params, "tags.learned", "tags.not_learned"], "")
    if facts and len(facts["seeds"]) > 1:
        keys = [{"mode": "param", "groupByData": name} for name in ("variant", "stage")]
        view["groupBy"] = {"aggregateFunction": "average", "groupByKeys": keys}
    return view


def _curves_view(facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the view of all that trained, side by side: nested runs would hide their curves."""
    metrics = [f"{BEST}/{name}" for name in _scores(facts)]
    params = [f"params.{name}" for name in ("variant", "stage", "tasks", "seed")]
    view = _view(metrics, params, f"tags.`{Tag.KIND}` IS NULL AND ")
    return view | {"chartsSearchFilter": "^(dev|train)/"}


def _note(facts: Mapping[str, Any] | None, paper: str, identity: str, grid: Run | None) -> str:
    """Return the description, Markdown. `grid` is the grid's own run."""
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
        page = f"#/experiments/{identity}/runs/{grid.info.run_id}"
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


def _newest(client: MlflowClient, identity: str, kind: str, more: str = "") -> Run | None:
    """Return the newest run of a kind that is not superseded, with `more` conditions."""
    query = f"tags.`{Tag.KIND}` = '{kind}' AND tags.`{Tag.SUPERSEDED}` IS NULL{more}"
    order = ["attributes.start_time DESC"]
    found = client.search_runs([identity], query, order_by=order, max_results=1)
    return found[0] if found else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def register_best(store: Store, paper: str) -> None:
    """Register the best model of a finished grid as a version of model `paper`, alias `best`.

    That is the model of the grid's own run, if all of the grid is trained and weights were kept.
    """
    client = store.client
    whole = f" AND attributes.status = 'FINISHED' AND tags.`{Tag.COMPLETE}` = 'True'"
    kept = f" AND tags.`{Tag.WEIGHTS}` IS NOT NULL"
    best = _newest(client, store.experiment(paper), GRID, whole + kept)
    if best is None:
        return
    models = client.search_registered_models(f"name = '{paper}'")
    if not models:
        client.create_registered_model(
            paper, description="The best model of each finished grid. Each version has its card."
        )
    versions = {v.run_id: v.version for v in client.search_model_versions(f"name = '{paper}'")}
    if (version := versions.get(best.info.run_id)) is None:
        tags = best.data.tags
        version = client.create_model_version(
            paper,
            source=f"{best.info.artifact_uri}/{tags[Tag.WEIGHTS]}",
            run_id=best.info.run_id,
            description=tags.get(Tag.NOTE),
            tags={
                "variant": tags[Tag.BEST],
                "seed": tags[Tag.BEST_SEED],
                "score": f"{best.data.metrics[f'{BEST}/{SEED_SCORE}']:.6f}",
            },
        ).version
    if not models or models[0].aliases.get(ALIAS) != version:
        client.set_registered_model_alias(paper, ALIAS, version)
