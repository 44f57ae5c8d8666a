"""The shape of a grid file, and JSON schemas for editors: of it, config.yaml and figures.yaml.

`python -m minbert.grid.schema` writes them into `workflow/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, Field, field_validator

from minbert.common.errors import UserError, nearest
from minbert.common.files import write_json
from minbert.grid.claims import Claim
from minbert.grid.config import Config
from minbert.grid.parts import PARTS, part_module
from minbert.grid.spec import Rule, StageSpec
from minbert.grid.task_spec import Spec
from minbert.grid.tasks import TASKS

STRUCTURE = ("extends", "expand", "stages", "train", "also_score")
"""Keys of a variant that say how it is put together."""

CHOICE = ("train", "also_score")
"""Those of them that a stage can have too: which of its tasks it trains, and which it carries."""

ALL = "all"
"""The folder of the figures over all papers; so no paper is called that."""

FILES = {
    "config": "config.schema.json",
    "grid": "grids/grid.schema.json",
    "figures": "figures.schema.json",
}
"""Where each schema is kept, under `workflow/`."""


class Looks(Spec):
    """How a variant is shown and whether it is scored on test; it changes no stage's key.

    `row` is the variant's row in the paper's table, `label` its name in figures. Templates hand
    these on to what extends them; variants do not. A variant with `best_of` trains nothing: it is
    the one of those variants with the best dev score, by the paper's overall rule or, with
    `best_by: task`, for each task apart.
    """

    label: str | None = None
    row: str | None = None
    note: str = ""
    test: bool = False
    best_of: tuple[str, ...] = ()
    best_by: Literal["overall", "task"] = "overall"


class Drawing(Spec):
    """A figure: a part of kind `figure`, and how it looks."""

    kind: str
    title: str
    caption: str = ""
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("kind")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            part_module("figure", name)
        except UserError as error:
            raise ValueError(str(error)) from None
        return name


class Figure(Drawing):
    """A paper's figure; without `variants` it shows all of the paper that it can."""

    variants: tuple[str, ...] = ()


class FiguresFile(Spec):
    """workflow/figures.yaml: the figures over all papers, published under `figures/all`."""

    figures: dict[str, Drawing] = Field(default_factory=dict)


class GridFile(Spec):
    """The top level of a grid file. `overall` is the paper's rule for its overall score.

    Further files of a paper name it and leave its title, rule and description to the first.
    `parameter_ratios` are pairs of variants whose counted parameters the table's notes compare.
    """

    paper: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    title: str = ""
    overall: Rule = "normalised"
    description: str = ""
    templates: dict[str, dict[str, Any]] = Field(default_factory=dict)
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    figures: dict[str, Figure] = Field(default_factory=dict)
    parameter_ratios: tuple[tuple[str, str], ...] = ()
    claims: tuple[Claim, ...] = ()

    @field_validator("paper")
    @classmethod
    def _own_folder(cls, name: str) -> str:
        if name == ALL:
            raise ValueError(f"no paper is called '{ALL}': figures over all papers lie there")
        return name


def unknown_keys(values: Any, annotation: Any, path: str = "") -> Iterator[str]:
    """Yield a message for each key of nested `values` that `annotation`, a model, has not."""
    if not isinstance(values, Mapping):
        return
    inner: Mapping[str, Any] = {}
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        inner = {name: f.annotation for name, f in annotation.model_fields.items()}
    elif get_origin(annotation) is dict:
        inner = dict.fromkeys([*TASKS, "*"], get_args(annotation)[1])
    else:
        return
    for key, value in values.items():
        if key in inner:
            yield from unknown_keys(value, inner[key], f"{path}{key}.")
        else:
            yield f"unknown key '{path}{key}'.{nearest(key, inner)} Known here: {', '.join(inner)}"


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
    for figure in (grid["$defs"]["Figure"], figures["$defs"]["Drawing"]):
        figure["properties"]["kind"]["enum"] = sorted(PARTS["figure"])
    grid["$defs"] |= parts
    grid["$defs"]["Stage"] = {**_closed({"name": text, **stage}), "required": ["name"]}
    grid["$defs"]["Variant"] = _closed(
        {
            **looks,
            "extends": names,
            "expand": {"type": "object", "additionalProperties": {"type": ["array", "object"]}},
            "stages": {"type": "array", "items": {"$ref": "#/$defs/Stage"}, "minItems": 1},
            **stage,
        }
    )
    for key in ("templates", "variants"):
        grid["properties"][key]["additionalProperties"] = {"$ref": "#/$defs/Variant"}
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {"config": draft | config, "grid": draft | grid, "figures": draft | figures}


_PARTS_IN = {
    ("Head", "name"): "head",
    ("TaskSpec", "pooling"): "pooling",
    ("TaskSpec", "loss"): "loss",
    ("Sampler", "name"): "sampler",
    ("Schedule", "name"): "schedule",
    ("StageSpec", "trainable"): "trainable",
    ("StageSpec", "surgery"): "surgery",
    ("Smart", "regression"): "divergence",
}


def _partial_stage() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the properties of a stage and their definitions, nothing required, `null` allowed.

    Inheritance may leave any key to another place, and `null` takes a key back.
    """
    whole = StageSpec.model_json_schema()
    definitions: dict[str, Any] = whole.pop("$defs")
    definitions["StageSpec"] = whole
    for (model, key), kind in _PARTS_IN.items():
        known = {"type": "string", "enum": sorted(PARTS[kind])}
        definitions[model]["properties"][key] |= known
        definitions[model]["properties"][key].pop("anyOf", None)
    for definition in definitions.values():
        definition.pop("required", None)
        definition["properties"] = {
            name: {"anyOf": [value, {"type": "null"}]}
            for name, value in definition["properties"].items()
        }
    stage: dict[str, Any] = definitions.pop("StageSpec")["properties"]
    tasks = {name: {"$ref": "#/$defs/TaskSpec"} for name in (*TASKS, "*")}
    stage["tasks"] = _closed({n: {"anyOf": [t, {"type": "null"}]} for n, t in tasks.items()})
    return stage, definitions


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def write_schemas(folder: Path) -> None:
    """Write the schemas under `folder`, the repository's `workflow/`."""
    for name, schema in schemas().items():
        write_json(folder / FILES[name], schema)


if __name__ == "__main__":
    write_schemas(Path("workflow"))
