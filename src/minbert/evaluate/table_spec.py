"""What a paper's table shows: its published rows, and the variants that stand beside them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from minbert.common.errors import UserError, nearest
from minbert.grid.tasks import TASKS
from minbert.scoring import Rule


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Published(_Strict):
    """A row's published figures; None where the paper gives none."""

    sst: float | None = None
    para: float | None = None
    sts: float | None = None
    other: float | None = None
    overall: float | None = None


class TableRow(_Strict):
    """One row. `table` is the paper's own table that it stands in ("1", "text"), None if none.

    `reason` says why a test row cannot be scored (no public labels). A row that is the best of
    others has these as `choice`, {training key: variant}, and its note says which were chosen.
    `other_task` is the task that column `other` shows: needed only where the variant is scored
    on several tasks besides SST, para and STS.
    """

    row: str
    variant: str
    table: str | None = None
    choice: dict[str, str] = Field(default_factory=dict)
    split: Literal["dev", "test"]
    published: Published
    note: str | None = None
    reason: str | None = None
    parameters: int | None = None
    parameters_bert_base: int | None = None
    other_task: str | None = None

    @field_validator("other_task")
    @classmethod
    def _task_known(cls, name: str | None) -> str | None:
        if name is not None and name not in TASKS:
            raise ValueError(f"unknown task; known: {', '.join(TASKS)}.{nearest(name, TASKS)}")
        return name


class TableSpec(_Strict):
    """A table. `rule` is the paper's own overall; `seeds` are those that were asked for."""

    paper: str
    title: str
    caption: str
    rule: Rule
    seeds: tuple[int, ...] | int
    backbone: str
    data: str
    rows: tuple[TableRow, ...]
    footnotes: tuple[str, ...] = ()

    @property
    def seed_count(self) -> int:
        """The number of seeds that were asked for."""
        return self.seeds if isinstance(self.seeds, int) else len(self.seeds)


def parse_table(spec: dict[str, Any]) -> TableSpec:
    """Return `spec` checked; the first thing wrong with it raises `UserError`."""
    try:
        return TableSpec.model_validate(spec)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        paper = spec.get("paper", "?")
        if first["type"] == "extra_forbidden":
            words = [*TableSpec.model_fields, *TableRow.model_fields, *Published.model_fields]
            hint = nearest(str(first["loc"][-1]), words)
            raise UserError(f"table of paper '{paper}': unknown key '{where}'.{hint}") from error
        raise UserError(
            f"table of paper '{paper}', key '{where}': {first['msg']}, found {first['input']!r}"
        ) from error
