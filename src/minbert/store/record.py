"""The records beside results: how a run came out, what a data set holds, what labels it got.

A damaged one stops nobody who can do without it; `read_record` says which it is, and the way out.
"""

import json
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.files import read_json

ADOPTED = "adopted.json"
"""Beside a result that was carried over from another key: a list of how, the oldest first."""

RECORDS: dict[str, dict[str, type]] = {
    "run.json": {"outcome": dict, "environment": dict},
    "report.json": {"rows": dict},
    "labels.json": {"task": str, "rows": int, "labelled": int},
}
"""What must be in the records, by the file's name."""


def read_record(path: Path) -> dict[str, Any]:
    """Read a record; `UserError` if it is damaged."""
    try:
        found = read_json(path)
    except UserError:
        found = {}
    if all(isinstance(found.get(name), of) for name, of in RECORDS[path.name].items()):
        return found
    raise UserError(
        f"{path} is damaged: delete {path.parent} and store/report, and the next `snakemake all` "
        "makes both again"
    )


def sound(path: Path) -> dict[str, Any] | None:
    """Return a record, or None if there is none or it is damaged."""
    try:
        return read_record(path)
    except (FileNotFoundError, UserError):
        return None


def adoptions(folder: Path) -> list[dict[str, Any]]:
    """Return how a result came to its folder; `UserError` if what says so is damaged."""
    path = folder / ADOPTED
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        return [dict(step) for step in found]
    except (ValueError, TypeError):
        raise UserError(f"{path} is damaged, expected a list of objects; delete it") from None
