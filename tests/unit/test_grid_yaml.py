"""YAML: the scalars people mean, the mistakes they make, and how mappings merge."""

import copy
from pathlib import Path
from typing import Any

import pytest
from snakemake.utils import update_config

from minbert.base.errors import UserError
from minbert.spec.yaml import (
    from_words,
    load_yaml,
    merge,
    parse_yaml,
    update,
    without_nulls,
)

OVERLAYS = Path(__file__).parents[2] / "workflow" / "overlays"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("0.00001", 1e-5),
        ("1E5", 1e5),
        ("1.5e+3", 1500.0),
        ("-.5", -0.5),
        ("2.", 2.0),
        ("010", 10),
        ("-3", -3),
        ("0x1F", 31),
        (".inf", float("inf")),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("off", "off"),
        ("null", None),
        ("~", None),
        ("2026-11-21", "2026-11-21"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("1e", "1e"),
        ("e5", "e5"),
        ("'1e-5'", "1e-5"),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: Any) -> None:
    found = parse_yaml(text, "here")
    assert found == value
    assert type(found) is type(value)


def test_order_is_kept_and_merge_keys_work(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("z: &base {a: 1, b: 2}\na: {<<: *base, b: 3}\nm: {<<: *base}\n")
    assert list(load_yaml(path)) == ["z", "a", "m"]
    assert load_yaml(path)["a"] == {"a": 1, "b": 3}


def test_an_empty_file_is_an_empty_mapping(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("# nothing\n")
    assert load_yaml(path) == {}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a: 1\nb: 2\na: 3\n", ["line 3", "duplicate key 'a'", "first on line 1"]),
        ("x:\n  a: 1\n  'a': 3\n", ["line 3", "duplicate key 'a'"]),
        ("x:\n\ta: 1\n", ["line 2"]),
        ("x: [1, 2\n", ["line 2", "expected ',' or ']'"]),
        ("3: x\n", ["line 1", "must be text, found 3", "quotes"]),
        ("? [a]\n: x\n", ["line 1", "found a list or a mapping"]),
        ("- a\n", ["found list"]),
        ("a: !!python/object:os.system {}\n", ["line 1", "unknown tag"]),
        ("a: \x01\n", ["not readable as YAML"]),
        ("a: 1\nb: " + "9" * 5000, ["line 2", "a whole number of 5,000 digits; at most 18"]),
        ("a: !!int abc\n", ["line 1", "'abc' is tagged !!int and is none"]),
        ("a: !!int {b: 1}\n", ["line 1", "expected a scalar node"]),
        ("a: !!bool maybe\n", ["line 1", "'maybe' is tagged !!bool and is none"]),
        ("a: !!float 1:30\n", ["line 1", "'1:30' is tagged !!float and is none"]),
        ("a: !!timestamp 2001-99-99\n", ["line 1", "unknown tag"]),
        ("a: !!binary aGk=\n", ["line 1", "unknown tag"]),
        ("a: &me [*me]\n", ["line 1", "'*me' refers to what it stands in"]),
        ("a: &me\n  b: *me\n", ["line 2", "'*me' refers to what it stands in"]),
        ("a: " + "[" * 5000, ["line 1, column 52", "more than 50 levels of lists and mappings"]),
        ("a: " + "{b: " * 5000, ["line 1", "more than 50 levels of lists and mappings"]),
        ("\n".join(" " * n + "a:" for n in range(90)), ["line 49", "more than 50 levels"]),
        ("a: [" + "1," * 20_000 + "]", ["line 1", "more than 20,000 values"]),
        ('a: "\\ud800"\n', ["line 1", "half a character"]),
        ("a: " + "x" * 1_000_000, ["more than 1,000,000 bytes"]),
    ],
    ids=lambda value: value[:20].strip() if isinstance(value, str) else None,
)
def test_errors_name_file_and_line(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        load_yaml(path)
    assert str(path) in str(error.value)
    for part in parts:
        assert part in str(error.value)


def bomb(first: str, further: str) -> str:
    """Return lines of which each holds the line before it nine times."""
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{n}: &a{n} {further % ', '.join([f'*a{n - 1}'] * 9)}" for n in range(1, 12)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (bomb("[x, x, x, x]", "[%s]"), "more than 20,000 values, counted at each alias"),
        (bomb("{x: 1, y: 2}", "{<<: [%s]}"), "more than 20,000 values, counted at each alias"),
        (
            "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 3000)),
            "line 48, column 12: more than 50 levels",
        ),
    ],
    ids=["lists", "merged mappings", "levels"],
)
def test_aliases_that_stand_for_more_than_fits_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_yaml(text, "here")


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "hybrid.yaml").write_bytes(b"a: \xff\n")
    with pytest.raises(UserError, match=r"hybird.yaml: there is no such file. Did.*'hybrid.yaml'"):
        load_yaml(tmp_path / "hybird.yaml")
    with pytest.raises(UserError, match=r"hybrid.yaml: byte 3 is not UTF-8"):
        load_yaml(tmp_path / "hybrid.yaml")
    with pytest.raises(UserError, match="cannot be read: it is not a regular file"):
        load_yaml(tmp_path)
    with pytest.raises(UserError, match="cannot be read: it is not a regular file"):
        load_yaml("/dev/zero")
    (tmp_path / "link.yaml").symlink_to("none")
    with pytest.raises(UserError, match=r"link\.yaml: cannot be read: it is a link that leads now"):
        load_yaml(tmp_path / "link.yaml")
    with pytest.raises(UserError, match="cannot be read: File name too long"):
        load_yaml(tmp_path / ("x" * 300))
    with pytest.raises(UserError, match=r"cannot be read: .*null byte"):
        load_yaml(tmp_path / "a\0b")


def test_merge_is_deep_replaces_lists_and_null_deletes() -> None:
    base = {"a": {"x": 1, "y": 2}, "b": [1, 2], "c": 3}
    assert without_nulls(merge(base, {"a": {"y": 5, "z": 6}, "b": [9], "c": None})) == {
        "a": {"x": 1, "y": 5, "z": 6},
        "b": [9],
    }
    assert without_nulls(merge({"a": 3}, {"a": {"b": 1, "c": None}})) == {"a": {"b": 1}}
    later = merge({"c": None}, {"d": 4})
    assert without_nulls(merge(base, later)) == {"a": {"x": 1, "y": 2}, "b": [1, 2], "d": 4}
    assert base == {"a": {"x": 1, "y": 2}, "b": [1, 2], "c": 3}


def test_star_applies_to_present_and_later_keys() -> None:
    base = {"*": {"d": 1}, "sst": {"d": 2}}
    over = merge(base, {"*": {"d": 3}, "sts": {"e": 4}})
    assert over == {"*": {"d": 3}, "sst": {"d": 3}, "sts": {"d": 3, "e": 4}}
    assert merge(over, {"sst": {"d": 5}, "*": {"d": 6}})["sst"] == {"d": 5}
    assert merge({"*": {"d": 1}, "sst": None}, {"sst": {"e": 2}})["sst"] == {"d": 1, "e": 2}
    assert merge({"*": None}, {"*": {"d": 1}, "sst": {}}) == {"*": {"d": 1}, "sst": {"d": 1}}


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
    assert from_words(["scale.epochs=0.5", "scale.learning_rate=1e1", "seeds=[0, 1]", "x="]) == {
        "scale": {"epochs": 0.5, "learning_rate": 10.0},
        "seeds": [0, 1],
        "x": "",
    }
    for word in ("epochs", "a..b=1", "=1", "a" + ".a" * 5000 + "=1"):
        with pytest.raises(UserError, match="expected KEY=VALUE"):
            from_words([word])
    with pytest.raises(UserError, match=r"^--config seeds, line 1, column 3: .* expected ',' or"):
        from_words(["seeds=[0"])
