"""What a paper's table is to show, from the plan: rows, published figures, parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minbert.grid.links import Variant
from minbert.grid.published import Published
from minbert.grid.resolve import Grid

if TYPE_CHECKING:
    from minbert.grid.plan import Plan


def table_spec(plan: Plan, grid: Grid) -> dict[str, Any]:
    """Return the spec of a paper's table: its published rows in order, then what else it has."""
    rows = []
    published = [row for row in plan.published if row.paper == grid.paper]
    for row in published:
        if row.variant in grid.variants:
            rows.append(_row(plan, grid, grid.variants[row.variant], row))
    named = {row.variant for row in published}
    rows += [_row(plan, grid, v, None) for name, v in grid.variants.items() if name not in named]
    return {
        "paper": grid.paper,
        "title": grid.title,
        "caption": grid.description,
        "rule": grid.overall,
        "seeds": list(plan.config.seeds),
        "backbone": plan.config.backbone,
        "data": plan.config.data,
        "rows": rows,
        "footnotes": _ratio_notes(plan, grid),
    }


def _row(plan: Plan, grid: Grid, variant: Variant, row: Published | None) -> dict[str, Any]:
    return {
        "row": row.row if row else variant.label,
        "variant": variant.name,
        "table": row.table if row else None,
        "choice": {
            plan.train(stage.ref).key: name
            for name in variant.best_of
            for stage in grid.variants[name].stages
        },
        "split": row.split if row else "dev",
        "published": row.figures if row else {},
        "note": "; ".join(n for n in (row.note if row else "", variant.note or "") if n),
        "other_task": (row.other_task or None) if row else None,
        "parameters": plan.parameters(variant),
        "parameters_bert_base": plan.parameters(variant, base_shapes=True),
    }


def _ratio_notes(plan: Plan, grid: Grid) -> list[str]:
    notes = []
    for pair in grid.parameter_ratios:
        one, other = (grid.variants[name] for name in pair)
        shares = []
        for where, base_shapes in (("this backbone", False), ("BERT-base", True)):
            counts = [plan.parameters(v, base_shapes) for v in (one, other)]
            if counts[0] and counts[1]:
                shares.append(f"{counts[0] / counts[1]:.1%} at {where}")
        notes.append(f"Parameters of {pair[0]} over those of {pair[1]}: {', '.join(shares)}.")
    return notes
