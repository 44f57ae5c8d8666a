"""JSON schemas for editors: of config.yaml, grid files and figures.yaml.

`cd tests && python -m pages.schemas` writes them into `workflow/`; a test holds them to the models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minbert.base.files import write_json
from minbert.spec.config import BatchSizes, Config, Factors, Scale, Steps, Tracking
from minbert.spec.grid import Adjustments, FiguresFile, GridFile
from minbert.spec.task import NAME, TASKS
from pages.configuration import field_texts

FILES = {
    "config": "config.schema.json",
    "grid": "grids/grid.schema.json",
    "figures": "figures.schema.json",
}
"""Where each schema is kept, under `workflow/`."""

PARTS = (Scale, Factors, Steps, BatchSizes, Tracking)
"""Models whose fields are keys of a configuration, below `Config`'s own."""

ADJUST = ("defaults", "override")
"""Keys of a configuration that hold settings of a stage."""


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON schemas (draft 2020-12) of config.yaml, grid files and figures.yaml."""
    stage = Adjustments.model_json_schema()
    config, grid = Config.model_json_schema(), GridFile.model_json_schema()
    config["$defs"] |= stage.pop("$defs")
    for model, schema in ((Config, config), *((m, config["$defs"][m.__name__]) for m in PARTS)):
        for key, text in field_texts(model).items():
            schema["properties"][key]["description"] = text
    for key in ADJUST:
        config["properties"][key] |= {**stage, "properties": {**stage["properties"]}}
    task = {"anyOf": [{"$ref": "#/$defs/TaskSpec"}, {"type": "null"}]}
    tasks = {
        "type": ["object", "null"],
        "properties": dict.fromkeys((*TASKS, "*"), task),
        "patternProperties": {f"^{NAME.pattern}$": task},  # tasks of one's own are in another file
        "additionalProperties": False,
    }
    for model in (*grid["$defs"].values(), *(config["properties"][key] for key in ADJUST)):
        if "tasks" in model.get("properties", {}):
            model["properties"]["tasks"] = tasks
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    figures = FiguresFile.model_json_schema()
    return {"config": draft | config, "grid": draft | grid, "figures": draft | figures}


def write_schemas(folder: Path) -> None:
    """Write the schemas under `folder`, the repository's `workflow/`."""
    for name, schema in schemas().items():
        write_json(folder / FILES[name], schema)


if __name__ == "__main__":
    write_schemas(Path(__file__).parents[2] / "workflow")
