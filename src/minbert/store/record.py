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


def read_record(path: Path) -> dict[str, Any]:
    """Read a record; `UserError` if it is damaged."""
    try:
        return read_json(path)
    except UserError:
        raise UserError(
            f"{path} is damaged: delete {path.parent} and store/report, and the next `snakemake "
            "all` makes both again"
        ) from None


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
        found: list[dict[str, Any]] = json.loads(path.read_bytes()) if path.exists() else []
    except ValueError:
        raise UserError(f"{path} is damaged; delete it") from None
    return found
