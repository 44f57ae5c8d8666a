"""The figures that the papers report, as data (workflow/published.csv)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from minbert.common.errors import UserError

FIGURES = ("sst", "para", "sts", "other", "overall")
WORDS = ("paper", "table", "row", "variant", "split", "other_task", "note")


@dataclass(frozen=True)
class Published:
    """One row of a paper's table; `figures` holds None where the paper gives none.

    `other_task` is the task of the figure `other`, where the variant has several.
    """

    paper: str
    table: str
    row: str
    variant: str
    split: str
    other_task: str
    note: str
    figures: dict[str, float | None]


def read_published(path: Path) -> list[Published]:
    """Read the table of published figures; a wrong column or number: `UserError` with its line."""
    rows = []
    with path.open(encoding="utf-8", newline="") as handle:
        reader = csv.DictReader(handle)
        if set(reader.fieldnames or ()) != {*WORDS, *FIGURES}:
            found, expected = list(reader.fieldnames or ()), [*WORDS, *FIGURES]
            raise UserError(f"{path}: its columns are {found}; expected {expected}")
        for row in reader:
            try:
                figures = {name: float(row[name]) if row[name] else None for name in FIGURES}
            except ValueError as error:
                raise UserError(f"{path}, line {reader.line_num}: {error}") from None
            rows.append(Published(**{name: row[name] for name in WORDS}, figures=figures))
    return rows
