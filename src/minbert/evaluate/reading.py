"""The score table: its columns, and the scores in it by what they are of."""

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from minbert.base.errors import UserError
from minbert.data.parquet import read_file
from minbert.evaluate.gain import DELTA_M
from minbert.evaluate.statistics import LEVEL
from minbert.spec.protocol import RULES
from minbert.spec.task import TASKS

_NULLABLE = {
    "last": pa.float64(),
    "floor": pa.float64(),
    "p_floor": pa.float64(),
    "constant": pa.bool_(),
    "error": pa.float64(),
}
_NAMES = ("paper", "variant", "seed", "split", "task", "metric", "value", "key", *_NULLABLE)
_TYPES = {"seed": pa.int64(), "value": pa.float64(), **_NULLABLE}
SCHEMA = pa.schema([(name, _TYPES.get(name, pa.string())) for name in _NAMES])
"""The score table's columns. `score.score_runs` says what is in them."""


METRIC_TITLES = {
    "accuracy": "accuracy",
    "macro_f1": "macro-F1",
    "f1": "F1",
    "matthews": "Matthews r",
    "pearson": "Pearson r",
    "spearman": "Spearman rho",
}


def score_title(task: str) -> str:
    """Return what a task's own score is called: "SST accuracy"."""
    return f"{TASKS[task].title} {METRIC_TITLES[TASKS[task].metric]}"


class Of(NamedTuple):
    """What a score is of.

    `measure` is a task, by its own metric, a rule of the overall score, or `DELTA_M`.
    """

    variant: str
    split: str
    measure: str


class Score(NamedTuple):
    """A score, the key of the stage that it comes from, and what the score table says beside it.

    The overall score of a row that is the best of other variants has the key "". `last` is
    the score after the last epoch, None if it was not measured. `floor` is what takes no learning;
    `p_floor` and `constant` are those of a task's run (`floors.against_floor`), None for others.
    `error` is the standard error over examples (`sampling`), None for the gain over single tasks.
    """

    value: float
    key: str
    last: float | None
    floor: float | None = None
    p_floor: float | None = None
    constant: bool | None = None
    error: float | None = None

    @property
    def learned(self) -> bool | None:
        """Whether the score is above its floor at the 5 % level; None if that is not tested."""
        return None if self.p_floor is None else self.p_floor <= LEVEL


Scores = dict[Of, dict[int, Score]]
"""Scores by seed."""


def read_scores(path: Path | str, paper: str) -> Scores:
    """Return the scores of `paper` from the score table at `path`, in the order of the table.

    Additional metrics (`metrics.task_metrics`) are left out.
    """
    measures: dict[tuple[str, str], str] = {(n, t.metric): n for n, t in TASKS.items()}
    measures |= {("overall", rule): rule for rule in (*RULES, DELTA_M)}
    found: Scores = {}
    table = read_file(path, SCHEMA.names)
    for name, column in zip(SCHEMA.names, table.columns, strict=True):
        if column.type != (wanted := SCHEMA.field(name).type):
            raise _damaged(path, f"column '{name}' is {column.type}, expected {wanted}")
        if column.null_count and name not in _NULLABLE:
            raise _damaged(path, f"column '{name}' has {column.null_count} empty cells")
    for row in table.to_pylist():
        measure = measures.get((row["task"], row["metric"]))
        if measure and row["paper"] == paper:
            of = Of(row["variant"], row["split"], measure)
            values = (row[name] for name in ("value", "key", *_NULLABLE))
            found.setdefault(of, {})[row["seed"]] = Score(*values)
    return found


def _damaged(path: Path | str, what: str) -> UserError:
    return UserError(f"{path}: {what}; delete it, and snakemake makes it again")
