"""A paper's table with our figures beside the published ones: csv, markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from minbert.common.files import write_text
from minbert.evaluate.statistics import Interval
from minbert.evaluate.table_rows import Row, collect
from minbert.evaluate.table_spec import TableSpec, parse_table
from minbert.evaluate.table_text import to_latex, to_markdown
from minbert.evaluate.write import csv_text
from minbert.scoring import OVERALL_TASKS, Rule


def build_table(
    spec: dict[str, Any],
    scores: Path,
    out_dir: Path,
    stem: str,
    failures: Mapping[str, str] | None = None,
) -> None:
    """Write `STEM.csv`, `STEM.md` and `STEM.tex` in `out_dir`, a line a published row.

    `spec` is what `TableSpec` describes; `scores` is the parquet table of `score_runs`. Rows keep
    the order of the spec, by the paper's own tables. A row without scores says `not run`,
    `failed` where `failures` has its variant and the reason, or `no labels` where it is a test row
    whose labels are not public. The csv has every number unrounded, one column each, named
    `sst_published`, `sst_mean`, `sst_low`, `sst_high`, `sst_n`, `sst_last` (the mean after the
    last epoch) and so on, empty where there is none (its `status` says why); the other two are
    for reading.
    """
    table = parse_table(spec)
    rows = collect(table, scores, failures)
    out_dir = Path(out_dir)
    write_text(out_dir / f"{stem}.csv", to_csv(table, rows))
    write_text(out_dir / f"{stem}.md", to_markdown(table, rows))
    write_text(out_dir / f"{stem}.tex", to_latex(table, rows))


def to_csv(table: TableSpec, rows: Iterable[Row]) -> str:
    """Return the table as csv, a line a row, every number unrounded."""
    lines = [_csv_row(table, row) for row in rows]
    return csv_text(list(lines[0]) if lines else [], lines)


def _csv_row(table: TableSpec, row: Row) -> dict[str, Any]:
    spec = row.spec
    line: dict[str, Any] = {
        "paper": table.paper,
        "table": spec.table,
        "row": spec.row,
        "variant": spec.variant,
        "split": spec.split,
        "status": row.status,
        "seeds": row.n,
        "other_task": row.other_task,
    }
    for name in (*OVERALL_TASKS, "other"):
        line[f"{name}_published"] = getattr(spec.published, name)
        line |= _csv_interval(name, row.scores.get(name)) | {f"{name}_last": row.last.get(name)}
    line |= {"overall_published": spec.published.overall, "overall_rule": table.rule}
    for rule in get_args(Rule):
        line |= _csv_interval(f"overall_{rule}", row.scores.get(rule))
        line |= {f"overall_{rule}_last": row.last.get(rule)}
    line |= {"parameters": spec.parameters, "parameters_bert_base": spec.parameters_bert_base}
    line |= {"backbone": table.backbone, "data": table.data}
    line |= {"note": spec.note, "reason": spec.reason or row.remark, "keys": " ".join(row.keys)}
    return line


def _csv_interval(name: str, value: Interval | None) -> dict[str, float | None]:
    parts = value._asdict() if value else dict.fromkeys(Interval._fields)
    return {f"{name}_{part}": parts[part] for part in Interval._fields}
