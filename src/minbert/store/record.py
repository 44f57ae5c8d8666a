"""The records beside results: how a run came out, what a data set holds, what labels it got.

A damaged one stops nobody who can do without it; `read_record` says which it is, and the way out.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from minbert.base.errors import UserError
from minbert.base.files import read_json

ADOPTED = "adopted.json"
"""Beside a result that was carried over from another key: a list of how, the oldest first."""


class _Outcome(BaseModel):
    seconds: Annotated[float, Field(gt=0, lt=1e10)]
    best_epoch: int | None = None
    steps: float | None = None
    tokens_per_second: float | None = None


class _Environment(BaseModel):
    commit: str = ""
    device: str = ""
    precision: Literal["fp32", "bf16"] = "fp32"
    packages: dict[str, str] = {}


class _Run(BaseModel):
    seed: int | None = None
    format: int | None = None
    code: str | None = None
    data: dict[str, dict[str, dict[str, str]]] = {}
    backbone: str | None = None
    spec: dict[str, Any] = {}
    outcome: _Outcome
    environment: _Environment = _Environment()
    parameters: int | None = None
    peak_memory_bytes: float | None = None
    peak_device_memory_bytes: float | None = None


class _Data(BaseModel):
    rows: dict[str, Annotated[int, Field(ge=0, lt=10**12)]]
    mean_words: dict[str, float] = {}
    overlaps: dict[str, int] = {}
    rejected: dict[str, int] = {}
    warnings: list[str] = []


class _Labels(BaseModel):
    task: str
    rows: int
    labelled: int


RECORDS: dict[str, type[BaseModel]] = {
    "run.json": _Run,
    "report.json": _Data,
    "labels.json": _Labels,
}
"""What is read of the records, by the file's name."""


def read_record(path: Path) -> dict[str, Any]:
    """Read a record; `UserError` if it is damaged, or lacks what is read of it."""
    try:
        found = read_json(path)
        RECORDS[path.name].model_validate(found, strict=True)
        return found
    except (UserError, ValidationError):
        pages = next(folder for folder in path.parents if folder.name == "store") / "report"
        raise UserError(
            f"{path} is damaged: delete {path.parent} and {pages}, and the next `snakemake all` "
            "makes both again"
        ) from None


def precision_of(record: dict[str, Any]) -> str:
    """Return what a training computed in, fp32 or bf16, by what its `run.json` holds."""
    return _Run.model_validate(record).environment.precision


def adoptions(folder: Path) -> list[dict[str, Any]]:
    """Return how a result came to its folder; `UserError` if what says so is damaged."""
    path = folder / ADOPTED
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        if isinstance(found, list) and all(isinstance(each, dict) for each in found):
            return found
    except (ValueError, RecursionError):
        pass
    raise UserError(f"{path} is damaged, expected a list of objects in JSON; delete it")


def sound(path: Path) -> dict[str, Any] | None:
    """Return a record, or None if there is none or it is damaged."""
    try:
        return read_record(path)
    except (FileNotFoundError, UserError):
        return None
