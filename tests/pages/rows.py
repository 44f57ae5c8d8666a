"""docs/rows.md: what each row of the default grids trains, resolved from the grid files.

`cd tests && python -m pages.rows` writes the page; a test holds it to the grids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from minbert.base.files import write_text
from minbert.spec.config import load_config
from minbert.spec.published import Published, read_published
from minbert.spec.resolve import Grid, Stage, Variant, resolve
from minbert.spec.stage import StageSpec
from minbert.spec.task import TaskSpec

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "rows.md"

INTRODUCTION = """# Every row

What each variant of the grids in `config.yaml` trains, with nothing left to inherit. Made from the
grid files by `cd tests && python -m pages.rows`; `minbert plan` shows the same for a configuration,
with keys. Settings that a stage does not name have these values:
"""


def rows_page(base: Path) -> str:
    """Return the page for the grids that `base`/config.yaml names, as markdown."""
    config = load_config([base / "config.yaml"])
    published = read_published(base / "workflow" / "published.csv")
    lines = [INTRODUCTION, *_yaml(_defaults())]
    for grid in resolve(config, base):
        lines += [f"\n## {grid.paper}\n", f"{grid.title}. Overall: {grid.overall}."]
        for variant in grid.variants.values():
            reported = [
                row for row in published if row.paper == grid.paper and row.variant == variant.name
            ]
            lines += _variant(grid, variant, reported)
    return "\n".join(lines) + "\n"


def _defaults() -> dict[str, Any]:
    task = {n: f.default for n, f in TaskSpec.model_fields.items() if not f.is_required()}
    every = TaskSpec.model_construct(**task).model_dump(mode="json")
    stage = StageSpec.model_construct(tasks={}).model_dump(mode="json", exclude={"select"})
    return stage | {"tasks": {"*": every}}


def _variant(grid: Grid, variant: Variant, reported: list[Published]) -> Iterator[str]:
    yield f"\n### {grid.paper} / {variant.name}\n"
    for row in reported:
        figures = ", ".join(f"{name} {value}" for name, value in row.figures.items())
        where = "In the text" if row.table == "text" else f"Table {row.table}"
        note = f" ({row.note})" if row.note else ""
        yield f"{where}, {row.row}, {row.split}: {figures}{note}.\n"
    if variant.note:
        yield f"{variant.note}\n"
    if variant.best_of:
        how = "for each task" if variant.best_by == "task" else "by the overall score"
        yield f"The best on dev, {how}, of: {', '.join(variant.best_of)}.\n"
    for stage in variant.stages:
        if len(variant.stages) > 1:
            yield f"Stage `{stage.ref.stage}`:\n"
        yield from _yaml(_stage(stage))


def _stage(stage: Stage) -> dict[str, Any]:
    """Return a stage's settings, without those that are as `_defaults` says."""
    values = stage.spec.model_dump(mode="json", exclude_defaults=True, exclude={"select"})
    if stage.start is not None:
        values["start"] = str(stage.start)
    if stage.fused:
        values["fuse"] = [str(ref) for ref in stage.fused]
    return values


def _yaml(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a block of YAML: a line a setting, and a line a task."""
    yield "```yaml"
    for key, value in values.items():
        if key == "tasks":
            yield "tasks:"
            yield from (f"  {_flow(task)}: {_flow(inner)}" for task, inner in value.items())
        else:
            yield f"{key}: {_flow(value)}"
    yield "```"


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, sort_keys=False, default_flow_style=True, width=10**9)
    return text.strip().removesuffix("...").strip()


if __name__ == "__main__":
    write_text(PAGE, rows_page(ROOT))
