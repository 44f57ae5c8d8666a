"""A paper in MLflow: its experiment's description, the view of its table, and its best model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS
from minbert.track.journal import BEST
from minbert.track.store import GRID, VIEW_TAG, Store, Tag

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

ALIAS = "best"
_OURS = "minbert.note"
_MODE = "?workflowType=machine_learning"
_SCORE = f"{BEST}/overall"
_LEGEND = """One run for each stage and seed of this paper's grid and one, `grid`, with its results.

The table shows `best/TASK`: the dev score of the weights that were kept, those of the best epoch.
The tag `learned` names the tasks whose score is above `floor/TASK` at the 5 % level,
`not_learned` the others. `train/` and `dev/` hold the curves (step: optimiser steps). A run that
was repeated has the tag `minbert.superseded` and is left out of the table's view.
"""


def tasks_of(facts: Mapping[str, Any]) -> list[str]:
    """Return the tasks of a paper in their usual order."""
    return [task for task in TASKS if task in facts["datasets"]]


def describe(store: Store, paper: str, facts: Mapping[str, Any] | None) -> None:
    """Give a paper's experiment its view and description, if they differ from what is there.

    `facts` are the plan's (`minbert.plan.describe`); without them all that is there stays. So does
    a description that a person has changed.
    """
    client, identity = store.client, store.experiment(paper)
    tags = client.get_experiment(identity).tags
    if facts is None and VIEW_TAG in tags:
        return
    if tags.get(VIEW_TAG) != (view := _view(facts)):
        _set_tag(client, identity, VIEW_TAG, view)
    old = tags.get(Tag.NOTE)
    if old is not None and _digest(old) not in tags.get(_OURS, ""):
        return
    text = _note(facts, store.root, paper, _grid_address(client, identity))
    if old != text:
        # Both count as ours: this process may be killed before the text is changed, or after.
        ours = [_digest(one) for one in (old, text) if one is not None]
        _set_tag(client, identity, _OURS, " ".join(ours))
        _set_tag(client, identity, Tag.NOTE, text)


def _view(facts: Mapping[str, Any] | None) -> str:
    """Return the table's view as JSON: the paper's scores, the highest first, nothing superseded.

    Several seeds are grouped, and the groups sorted by their means, as variants are compared.
    """
    tasks = tasks_of(facts) if facts else OVERALL_TASKS
    columns = [f"params.`{name}`" for name in ("variant", "stage", "tasks", "seed")]
    columns += [f"metrics.`{BEST}/{name}`" for name in ("overall", *tasks)]
    columns += [f"tags.`{name}`" for name in ("learned", "not_learned")]
    view = {
        "selectedColumns": columns,
        "searchFilter": f"tags.`{Tag.SUPERSEDED}` IS NULL",
        "orderByKey": f"metrics.`{_SCORE}`",
        "orderByAsc": False,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "datasetsFilter": [],
        "modelVersionFilter": "All Runs",
    }
    if facts and len(facts["seeds"]) > 1:
        keys = [{"mode": "param", "groupByData": name} for name in ("variant", "stage")]
        view["groupBy"] = {"aggregateFunction": "average", "groupByKeys": keys}
    return json.dumps(view)


def _note(facts: Mapping[str, Any] | None, root: Path, paper: str, grid: str | None) -> str:
    """Return the description, Markdown. `grid` is the address of the grid's own run in the UI."""
    if facts is None:
        return _LEGEND
    about = " ".join(facts["description"].split())
    seeds = ", ".join(map(str, facts["seeds"]))
    data = "the built-in corpus" if facts["source"] == "builtin" else facts["source"]
    backbone = "built in, pretrained here" if facts["backbone"] == "builtin" else facts["backbone"]
    where = "the grid's own run comes when all is trained"
    if grid:
        table = f"{grid}/artifacts/tables/{paper}.md{_MODE}"
        where = f"[the grid's own run]({grid}{_MODE}), [its table]({table})"
    at = f" at {facts['revision']}" if facts["revision"] else ""
    head = f"**{facts['title']}.** {about}".strip()
    return f"""{head}

- Grid: `{facts["file"]}`, {len(facts["variants"])} variants
- Data: {data}; tasks {", ".join(tasks_of(facts))}; seeds {seeds}
- Backbone: {backbone}{at}
- Overall score: `{facts["rule"]}` (see the documentation's statistics)
- Tables: `{root}/tables/{paper}.md`; figures: `{root}/figures/{paper}`
- In MLflow: {where}

{_LEGEND}"""


def _set_tag(client: MlflowClient, identity: str, name: str, value: str) -> None:
    """Set an experiment's tag, twice if need be: if two users set a new one at once, one fails."""
    from mlflow.exceptions import MlflowException

    try:
        client.set_experiment_tag(identity, name, value)
    except MlflowException:
        client.set_experiment_tag(identity, name, value)


def _grid_address(client: MlflowClient, identity: str) -> str | None:
    found = client.search_runs(
        [identity],
        filter_string=f"tags.`{Tag.KIND}` = '{GRID}'",
        order_by=["attributes.start_time DESC"],
        max_results=1,
    )
    return f"#/experiments/{identity}/runs/{found[0].info.run_id}" if found else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def register_best(store: Store, paper: str) -> None:
    """Register the paper's best model, `minbert-PAPER`, and set the alias `best` on it.

    That is the model of the grid's own run; until there is one, of the finished run with weights,
    not superseded, that has the highest score (of equal ones the first to start).
    """
    candidates = [run for run in store.runs(store.experiment(paper)) if _is_candidate(run)]
    if not candidates:
        return
    candidates = [run for run in candidates if run.data.tags.get(Tag.KIND) == GRID] or candidates
    best = min(candidates, key=lambda run: (-_score(run), run.info.start_time))
    client, name = store.client, f"minbert-{paper}"
    models = client.search_registered_models(f"name = '{name}'")
    if not models:
        client.create_registered_model(
            name,
            description="Weights (safetensors) of the paper's runs. A version's page has its card.",
        )
    versions = {v.run_id: v.version for v in client.search_model_versions(f"name = '{name}'")}
    if (version := versions.get(best.info.run_id)) is None:
        tags = best.data.tags
        version = client.create_model_version(
            name,
            source=f"{best.info.artifact_uri}/{tags[Tag.WEIGHTS]}",
            run_id=best.info.run_id,
            description=tags.get(Tag.NOTE),
            tags={
                "variant": tags.get(Tag.BEST, best.data.params.get("variant", "")),
                "seed": tags.get(Tag.BEST_SEED, tags[Tag.SEED]),
                "key": tags[Tag.KEY],
                "score": f"{_score(best):.6f}",
            },
        ).version
    if not models or models[0].aliases.get(ALIAS) != version:
        client.set_registered_model_alias(name, ALIAS, version)


def _score(run: Run) -> float:
    """Return the overall dev score of the run's model; minus infinity if it has none.

    The grid's own run, and runs of older versions, have it as a tag.
    """
    score = run.data.tags.get(Tag.SCORE, run.data.metrics.get(_SCORE))
    return float("-inf") if score is None else float(score)


def _is_candidate(run: Run) -> bool:
    tags = run.data.tags
    alive = run.info.status == "FINISHED" and run.info.lifecycle_stage == "active"
    sound = alive and Tag.SUPERSEDED not in tags and Tag.WEIGHTS in tags
    return sound and _score(run) > float("-inf")
