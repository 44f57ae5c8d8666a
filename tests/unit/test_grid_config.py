"""config.yaml and YAML: defaults, files and words put together, and what scalars mean."""

from __future__ import annotations

import copy
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from planning import REPOSITORY
from snakemake.utils import update_config

from minbert.base.errors import UserError
from minbert.spec.config import BACKBONE, REVISION, Config, config_files, load_config
from minbert.spec.yaml import load_yaml, parse_yaml, update


def load(**values: Any) -> Config:
    return load_config({"grids": ["hybrid-bert"], **values})


def test_what_a_configuration_has_by_itself() -> None:
    assert (load().backbone, load().revision, load().seeds) == (BACKBONE, REVISION, (0,))
    assert load(revision="main").revision == "main"
    assert load(seeds=3).seeds == (3,)


def test_tasks_may_be_in_a_file_that_the_configuration_names(tmp_path: Path) -> None:
    path = tmp_path / "tasks.yaml"
    path.write_text("a: {kind: binary, sentence1: s, label: l, files: a.tsv, dev: 0.1}\n")
    assert load(tasks=str(path)).tasks["a"].dev == 0.1
    with pytest.raises(UserError, match=r"'tasks': .*gone\.yaml: there is no such file"):
        load(tasks=str(tmp_path / "gone.yaml"))


def test_words_of_a_command_line_get_their_types() -> None:
    words = ["grids=[a, b]", "keep_weights=false", "scale.learning_rate=1e-4", "only=*-bert"]
    config = load_config({}, [*words, "scale={epochs: '2'}"])
    assert (config.grids, config.keep_weights, config.only) == (("a", "b"), False, ("*-bert",))
    assert (config.scale.learning_rate, config.scale.epochs) == (1e-4, 2.0)
    for word, said in (
        ("epochs", "'epochs': expected KEY=VALUE"),
        ("seeds=[0", "^--config seeds, line 1, column 3: expected ',' or"),
    ):
        with pytest.raises(UserError, match=said):
            load_config({}, [word])


def test_files_merge_in_order_and_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    base, over = tmp_path / "config.yaml", tmp_path / "over.yaml"
    over.write_text("scale: {epochs: 10}\nbackbone: ~/bert\n")
    assert config_files([over], base) == [over]
    base.write_text("grids: [a]\nscale: {epochs: 2, learning_rate: 3}\n")
    files = config_files([over], base)
    config = load_config(files, ["seeds=[5]"])
    assert (config.scale.epochs, config.scale.learning_rate, config.seeds) == (10, 3, (5,))
    assert config.backbone == "/home/me/bert"
    with pytest.raises(UserError, match=rf"^{base}, {over}, --config: unknown key 'sede'"):
        load_config(files, ["sede=1"])


def test_configuration_files_are_put_together_as_snakemake_does() -> None:
    layers: list[dict[str, Any]] = [
        load_yaml(REPOSITORY / "config.yaml"),
        load_yaml(REPOSITORY / "workflow/overlays/demo.yaml"),
        {"override": {"tasks": {"*": {"weight": 2}, "para": None, "sst": {"weight": 3}}}},
        {"override": {"tasks": {"sst": None}}, "scale": 1},
        {"scale": {"epochs": 2}},
    ]
    expected: dict[str, Any] = {}
    for layer in copy.deepcopy(layers):
        update_config(expected, layer)
    assert reduce(update, layers, dict[str, Any]()) == expected


VALUES: dict[str, Any] = {
    **{"1e-5": 1e-5, "1.5e+3": 1500.0, "-.5": -0.5, ".inf": float("inf"), "010": 10, "-3": -3},
    **{"true": True, "yes": "yes", "off": "off", "null": None, "2026-11-21": "2026-11-21"},
    **{"12:30": "12:30", "1_000": "1_000", "'1e-5'": "1e-5"},
}


@pytest.mark.parametrize("text", VALUES)
def test_scalars_follow_yaml_1_2(text: str) -> None:
    found = parse_yaml(text, "here")
    assert found == VALUES[text] and type(found) is type(VALUES[text])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"x:\n  a: 1\n  'a': 3\n", "line 3, column 3: duplicate key 'a'"),
        (b"x: [1, 2\n", "expected ',' or ']'"),
        (b"- a\n", "expected 'key: value' lines, found ['a']"),
        (b"a: !!python/object:os.system {}\n", "line 1, column 4: could not determine a construct"),
        (b"a: \x01\n", "unacceptable character"),
        (b"a: \xff\n", "byte 3 is not UTF-8; save it as UTF-8"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, text: bytes, said: str) -> None:
    path = tmp_path / "grid.yaml"
    path.write_bytes(text)
    with pytest.raises(UserError) as error:
        load_yaml(path)
    assert str(error.value).startswith(str(path)) and said in str(error.value)
