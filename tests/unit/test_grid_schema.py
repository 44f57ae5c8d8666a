"""The JSON schemas for editors: not drifted from the models, and right about real files."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pages.schemas import FILES, schemas

from minbert.base.files import read_json
from minbert.spec.yaml import load_yaml, parse_yaml

WORKFLOW = Path(__file__).parents[2] / "workflow"
SCHEMAS = schemas()


@pytest.mark.parametrize("name", FILES)
def test_the_kept_schemas_have_not_drifted(name: str) -> None:
    assert read_json(WORKFLOW / FILES[name]) == SCHEMAS[name], (
        "run 'cd tests && python -m pages.schemas' and keep what it writes"
    )


def errors(name: str, value: Any) -> list[str]:
    schema = SCHEMAS[name]
    validator = jsonschema.Draft202012Validator
    validator.check_schema(schema)
    return [error.message for error in validator(schema).iter_errors(value)]


@pytest.mark.parametrize("path", sorted(WORKFLOW.glob("grids/*.yaml")), ids=lambda p: p.stem)
def test_grid_files_name_their_schema_and_keep_it(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=grid.schema.json"
    assert errors("grid", load_yaml(path)) == []


HEAD = "{paper: p, title: t, overall: plain, variants: {a: %s}}"


@pytest.mark.parametrize(
    ("variant", "fits"),
    [
        (
            "{extends: [b, c], surgery: null, expand: {optimiser.lr: [1e-3], x: {off: null}},"
            " tasks: {'*': {head: null}, sst: {loss: cross_entropy}},"
            " stages: [{name: x, shared_layers: 0.5}]}",
            True,
        ),
        ("{epoch: 3}", False),
        ("{tasks: {sst-2: {}}}", False),
        ("{tasks: {sst: {loss: msee}}}", False),
        ("{stages: [{epochs: 3}]}", False),
    ],
)
def test_grid_schema(variant: str, fits: bool) -> None:
    assert (errors("grid", parse_yaml(HEAD % variant, "")) == []) == fits


def test_config_schema() -> None:
    good = {"grids": ["a"], "seeds": [0, 1], "override": {"tasks": {"*": {"batch_size": 4}}}}
    assert errors("config", good) == []
    for bad in ({"seed": [1]}, {"override": {"start": "x"}}, {"data": "reel"}):
        assert errors("config", {"grids": ["a"], **bad})
