"""The model registry: one model a paper, its alias `best` on the best run that was kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minbert.track.describe import GRID, KIND_TAG, NOTE_TAG, SCORE_TAG, SUPERSEDED_TAG
from minbert.track.store import Store
from minbert.track.writer import WEIGHTS_TAG

if TYPE_CHECKING:
    from mlflow.entities import Run

ALIAS = "best"


def model_name(experiment: str) -> str:
    """Return the registered model's name of a paper."""
    return f"minbert-{experiment}"


def point_at_best(store: Store, experiment: str) -> None:
    """Register the paper's best model, and set the alias on it.

    That is the model of the grid's own run: the best variant's, with its card. Until there is one
    it is the finished run, not superseded and with weights, that has the highest tag
    `minbert.score`; of equal ones the first to start. Does nothing when the alias is there already.
    """
    candidates = [run for run in store.runs(store.experiment(experiment)) if _is_candidate(run)]
    if not candidates:
        return
    candidates = [run for run in candidates if run.data.tags.get(KIND_TAG) == GRID] or candidates
    best = min(candidates, key=lambda run: (-float(run.data.tags[SCORE_TAG]), run.info.start_time))
    client, name = store.client, model_name(experiment)
    models = client.search_registered_models(f"name = '{name}'")
    if not models:
        client.create_registered_model(
            name,
            description="Weights (safetensors) of the paper's runs. A version's page has its card.",
        )
    versions = {v.run_id: v.version for v in client.search_model_versions(f"name = '{name}'")}
    version = versions.get(best.info.run_id)
    if version is None:
        tags = best.data.tags
        weights = tags[WEIGHTS_TAG]
        version = client.create_model_version(
            name,
            source=f"{best.info.artifact_uri}/{weights}",
            run_id=best.info.run_id,
            description=tags.get(NOTE_TAG),
            tags={
                "variant": tags.get("minbert.best", best.data.params.get("variant", "")),
                "seed": tags.get("minbert.best_seed", tags["minbert.seed"]),
                "key": tags["minbert.key"],
                "score": tags[SCORE_TAG],
            },
        ).version
    if not models or models[0].aliases.get(ALIAS) != version:
        client.set_registered_model_alias(name, ALIAS, version)


def _is_candidate(run: Run) -> bool:
    tags = run.data.tags
    return (
        run.info.status == "FINISHED"
        and run.info.lifecycle_stage == "active"
        and SUPERSEDED_TAG not in tags
        and SCORE_TAG in tags
        and WEIGHTS_TAG in tags
    )
