"""JSON schemas for editors: of config.yaml, grid files and figures.yaml.

`cd tests && python -m pages.schemas` writes them into `workflow/`; a test holds them to the models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minbert.base.files import write_json
from minbert.spec.config import Config
from minbert.spec.entry import NAME
from minbert.spec.grid import CHOICE, FiguresFile, GridFile, Looks
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS

FILES = {
    "config": "config.schema.json",
    "grid": "grids/grid.schema.json",
    "figures": "figures.schema.json",
}
"""Where each schema is kept, under `workflow/`."""


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON schemas (draft 2020-12) of config.yaml, grid files and figures.yaml."""
    stage, parts = _partial_stage()
    tunable = {name: value for name, value in stage.items() if name not in ("start", "fuse")}
    config = Config.model_json_schema()
    config["$defs"] |= parts
    for key in ("defaults", "override"):
        config["properties"][key] = _closed(tunable)
    grid = GridFile.model_json_schema()
    looks = Looks.model_json_schema()["properties"]
    text = {"type": "string"}
    names = {"anyOf": [text, {"type": "array", "items": text}]}
    stage |= dict.fromkeys(CHOICE, names)
    figures = FiguresFile.model_json_schema()
    grid["$defs"] |= parts
    grid["$defs"]["Stage"] = {**_closed({"name": text, **stage}), "required": ["name"]}
    grid["$defs"]["Variant"] = _closed(
        {
            **looks,
            "extends": names,
            "expand": {"type": "object", "additionalProperties": {"type": ["array", "object"]}},
            "tune": {
                "type": ["object", "null"],
                "additionalProperties": {"type": ["array", "null"], "minItems": 2},
            },
            "stages": {"type": "array", "items": {"$ref": "#/$defs/Stage"}, "minItems": 1},
            **stage,
        }
    )
    for key in ("templates", "variants"):
        grid["properties"][key]["additionalProperties"] = {"$ref": "#/$defs/Variant"}
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {"config": draft | config, "grid": draft | grid, "figures": draft | figures}


def _partial_stage() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the properties of a stage and their definitions, nothing required, `null` allowed.

    Inheritance may leave any key to another place, and `null` takes a key back.
    """
    whole = StageSpec.model_json_schema()
    definitions: dict[str, Any] = whole.pop("$defs")
    definitions["StageSpec"] = whole
    for definition in definitions.values():
        definition.pop("required", None)
        definition["properties"] = {
            name: {"anyOf": [value, {"type": "null"}]}
            for name, value in definition["properties"].items()
        }
    stage: dict[str, Any] = definitions.pop("StageSpec")["properties"]
    task = {"anyOf": [{"$ref": "#/$defs/TaskSpec"}, {"type": "null"}]}
    stage["tasks"] = _closed(dict.fromkeys((*TASKS, "*"), task))
    # Tasks of one's own are in another file.
    stage["tasks"]["patternProperties"] = {f"^{NAME.pattern}$": task}
    return stage, definitions


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def write_schemas(folder: Path) -> None:
    """Write the schemas under `folder`, the repository's `workflow/`."""
    for name, schema in schemas().items():
        write_json(folder / FILES[name], schema)


if __name__ == "__main__":
    write_schemas(Path(__file__).parents[2] / "workflow")
