"""What `mlflow.pyfunc.load_model` loads: a paper's best model, as the workflow registered it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from minbert.base.errors import UserError
from minbert.explore.run import TEXTS, Model
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS, use_tasks_of

if TYPE_CHECKING:
    from minbert.predict.predictor import Source


class Registered:
    """The models of a variant's tasks, each read when it is first asked."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self._folder, self._config = folder, config
        self._models: dict[str, Model] = {}

    def predict(self, frame: pd.DataFrame, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Return a row for each of `frame`, with the columns of `minbert predict` and its index.

        `frame` has `sentence1`, for pairs `sentence2`, and `task` if the model has several.
        """
        if not isinstance(frame, pd.DataFrame):
            raise UserError(f"found a {type(frame).__name__}, expected a data frame of sentences")
        if not len(frame):
            raise UserError("found a frame without rows, expected one for each example")
        known = list(self._config["tasks"])
        if "task" not in frame and len(known) > 1:
            raise UserError(
                f"the model has several tasks, {', '.join(known)}; give each row a 'task', as by "
                f"frame.assign(task='{known[0]}')"
            )
        asked = frame["task"] if "task" in frame else pd.Series(known[0], frame.index)
        if not set(asked) <= set(known):
            strange = next(task for task in asked if task not in known)
            raise UserError(f"found task {strange!r}, expected one of {', '.join(known)}")
        use_tasks_of({"tasks": self._config["own_tasks"]})
        made = []
        places = pd.Series(range(len(frame)))
        for task, rows in places.groupby(asked.to_numpy(), sort=False):
            columns = TEXTS[: 1 + TASKS[str(task)].pair]
            if missing := [name for name in columns if name not in frame]:
                raise UserError(
                    f"found the columns {', '.join(map(str, frame))}; task '{task}' needs "
                    f"{missing[0]}, too"
                )
            sentences = (frame[name].iloc[rows].to_list() for name in columns)
            made.append(self._model(str(task))(*sentences).set_index(rows.to_numpy()))
        return pd.concat(made).sort_index().set_index(frame.index)

    def _model(self, task: str) -> Model:
        if task not in self._models:
            self._models[task] = Model(self._source(task), "auto")
        return self._models[task]

    def _source(self, task: str) -> Source:
        from minbert.predict.predictor import Source

        how = self._config["tasks"][task]
        return Source(
            variant=self._config["variant"],
            task=task,
            spec=StageSpec.model_validate(how["stage"]),
            precision=how["precision"],
            weights=self._folder / how["weights"],
            backbone=self._folder / "backbone",
        )


def _load_pyfunc(folder: str, config: Mapping[str, Any]) -> Registered:
    """Return the model in a `folder` of MLflow, which calls this; `config` is that of `MLmodel`."""
    return Registered(Path(folder), config)
