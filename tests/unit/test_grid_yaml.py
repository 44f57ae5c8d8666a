"""YAML: the scalars people mean, the mistakes they make, and how mappings merge."""

import copy
from pathlib import Path
from typing import Any

import pytest
from snakemake.utils import update_config

from minbert.base.errors import UserError
from minbert.spec.yaml import from_words, load_yaml, merge, parse_yaml, update, without_nulls

OVERLAYS = Path(__file__).parents[2] / "workflow" / "overlays"

VALUES: dict[str, Any] = {
    **{"1e-5": 1e-5, "0.00001": 1e-5, "1E5": 1e5, "1.5e+3": 1500.0, "-.5": -0.5, "2.": 2.0},
    **{"010": 10, "-3": -3, ".inf": float("inf"), "true": True, "False": False},
    **{"yes": "yes", "off": "off", "null": None, "~": None, "2026-11-21": "2026-11-21"},
    **{"12:30": "12:30", "1_000": "1_000", "1e": "1e", "'1e-5'": "1e-5"},
}


@pytest.mark.parametrize("text", VALUES)
def test_scalars_follow_yaml_1_2(text: str) -> None:
    found = parse_yaml(text, "here")
    assert found == VALUES[text] and type(found) is type(VALUES[text])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("z: &base {a: 1, b: 2}\na: {<<: *base, b: 3}\n", {"a": {"a": 1, "b": 3}}),
        ("# nothing\n", {}),
        ("\ufeffgrids: [a]\n", {"grids": ["a"]}),  # with a byte order mark
    ],
)
def test_files_that_are_read(tmp_path: Path, text: str, value: dict[str, Any]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")
    found = load_yaml(path)
    assert {key: found[key] for key in value} == value and bool(found) == bool(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1: duplicate key 'a' (first on line 1)"),
        ("x:\n  a: 1\n  'a': 3\n", "line 3, column 3: duplicate key 'a'"),
        ("x: [1, 2\n", "expected ',' or ']'"),
        ("? [a]\n: x\n", "found unhashable key"),
        ("- a\n", "expected 'key: value' lines at the top level, found list"),
        ("a: !!python/object:os.system {}\n", "line 1, column 4: could not determine a construct"),
        ("a: *b\n", "undefined alias 'b'; put a value that begins with * into quotes"),
        ("a: \x01\n", "not readable as YAML"),
        (b"a: \xff\n", "byte 3 is not UTF-8; save it as UTF-8"),
        (None, "there is no such file. Did you mean 'grids.yaml'?"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, text: str | bytes | None, said: str) -> None:
    path = tmp_path / "grid.yaml"
    (tmp_path / "grids.yaml").write_text("")
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(UserError) as error:
        load_yaml(path)
    assert str(error.value).startswith(str(path)) and said in str(error.value)


@pytest.mark.parametrize(
    ("base", "over", "found"),
    [
        ({"a": {"x": 1, "y": 2}, "c": 3}, {"a": {"y": 5}}, {"a": {"x": 1, "y": 5}, "c": 3}),
        ({"b": [1, 2], "c": 3}, {"b": [9], "c": None}, {"b": [9]}),
        ({"x": {"d": 2}}, {"*": {"d": 1, "e": 1}}, {"*": {"d": 1, "e": 1}, "x": {"d": 1, "e": 1}}),
        ({"x": {}}, {"*": {"d": 1}, "x": {"d": 2}}, {"*": {"d": 1}, "x": {"d": 2}}),
        ({"*": {"d": 1}, "x": None}, {"x": {"e": 2}}, {"*": {"d": 1}, "x": {"d": 1, "e": 2}}),
    ],
)
def test_merge_is_deep_replaces_lists_deletes_by_null_and_reaches_all_by_a_star(
    base: dict[str, Any], over: dict[str, Any], found: dict[str, Any]
) -> None:
    before = copy.deepcopy(base)
    assert without_nulls(merge(base, over)) == found and base == before


@pytest.mark.parametrize("overlay", sorted(OVERLAYS.glob("*.yaml")), ids=lambda path: path.stem)
def test_configuration_files_are_put_together_as_snakemake_does(overlay: Path) -> None:
    layers = [
        load_yaml(OVERLAYS.parents[1] / "config.yaml"),
        load_yaml(overlay),
        {"override": {"tasks": {"*": {"weight": 2}, "para": None, "sst": {"weight": 3}}}},
        {"override": {"tasks": {"sst": None}}, "scale": 1},
        {"scale": {"epochs": 2}},
    ]
    expected: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for layer in layers:
        update_config(expected, copy.deepcopy(layer))
        found = update(found, layer)
    assert found == expected


def test_words_of_a_command_line() -> None:
    assert from_words(["seeds=[0, 1]", "x="]) == {"seeds": [0, 1], "x": ""}
    for word in ("epochs", "a..b=1", "=1"):
        with pytest.raises(UserError, match="expected KEY=VALUE"):
            from_words([word])
    with pytest.raises(UserError, match=r"^--config seeds, line 1, column 3: .* expected ',' or"):
        from_words(["seeds=[0"])
