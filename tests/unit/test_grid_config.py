"""config.yaml: defaults, what Snakemake passes as text, and errors that say what to do."""

from pathlib import Path
from typing import Any

import pytest

from minbert.base.errors import UserError
from minbert.spec.config import BACKBONE, REVISION, Config, config_files, load_config


def load(**values: Any) -> Config:
    return load_config({"grids": ["hybrid-bert"], **values})


def problem(**values: Any) -> str:
    with pytest.raises(UserError) as error:
        load(**values)
    return str(error.value)


def test_the_pin_is_of_the_default_backbone_only() -> None:
    assert (load().backbone, load().revision, load().seeds) == (BACKBONE, REVISION, (0,))
    assert load(backbone="builtin").revision is None
    assert load(backbone=BACKBONE).revision == REVISION
    assert load(revision="main").revision == "main"
    assert load(seeds=3).seeds == (3,) and load(seeds=["1", 2]).seeds == (1, 2), "or as text"


def test_words_of_a_command_line_get_their_types() -> None:
    words = ["grids=[a, b]", "keep_weights=false", "threads=3", "scale.learning_rate=1e-4"]
    words += ["scale={epochs: '2'}", "override={tasks: {'*': {batch_size: 8}}}", "only=*-bert"]
    config = load_config({}, words)
    assert (config.grids, config.keep_weights, config.threads) == (("a", "b"), False, 3)
    assert (config.scale.learning_rate, config.scale.epochs) == (1e-4, 2.0)
    assert config.override == {"tasks": {"*": {"batch_size": 8}}}
    assert config.only == ("*-bert",)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seeds": []}, "'seeds' is []; expected 1 or more entries"),
        ({"seeds": [*range(1001)]}, " ...; expected 1000 or fewer entries"),
        ({"seeds": 1.5}, "'seeds' is 1.5; expected a list"),
        ({"seeds": [1, "1"]}, "'seeds': 1 is there twice"),
        ({"seeds": ["one"]}, "'seeds.0' is 'one'; expected a whole number"),
        ({"seeds": [2**32]}, "'seeds.0' is 4294967296; expected less than or equal to 4294967295"),
        ({"seeds": [0, True]}, "'seeds': expected a number, not true or false"),
        ({"seed": [1]}, "unknown key 'seed'. Did you mean 'seeds'?"),
        ({"scale": {"epoch": 1}}, "unknown key 'scale.epoch'. Did you mean 'epochs'?"),
        ({"scale": {"epochs": float("inf")}}, "'scale.epochs' is inf; expected a finite number"),
        ({"scale": 2}, "'scale' is 2; expected a mapping"),
        ({"data": "reel"}, "'data' is 'reel'; expected 'real' or 'builtin'. Did you mean 'real'?"),
        ({"dependencies": "troch"}, "'torch'. Did you mean 'torch'?"),
        ({"device": "gpu"}, "'device' is 'gpu'; expected text that matches ^(auto|cpu|"),
        ({"limit": 0}, "'limit' is 0; expected greater than or equal to 1"),
        ({"corpus": {"seed": 1}}, "unknown key 'corpus': the built-in corpus is the files in"),
        ({"tracking": {"system_metrics": True}}, "system_metrics': it is gone; `nvidia-smi`"),
        ({"course": "ftp://x.org"}, "'ftp://x.org' cannot be downloaded from; give a folder or fi"),
        ({"course": "~nobody-here/x"}, "'~nobody-here/x': there is no such home folder"),
        ({"keep_weights": "maybe"}, "'keep_weights' is 'maybe'; expected true or false"),
        ({"results": ""}, "'results' is ''; expected text that is not empty"),
        ({"results": "{key}"}, "Snakemake or MLflow reads { in"),
        ({"backbone": 3}, "'backbone' is 3; expected text"),
    ],
)
def test_problems(values: dict[str, Any], message: str) -> None:
    text = problem(**values)
    assert message in text
    assert all(line.startswith("config: ") for line in text.splitlines())


def test_home_folders_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    config = load(results="~/results", course="~/course", lmrd="~/lmrd", backbone="~/bert")
    assert config.results == "/home/me/results"
    assert (config.course, config.lmrd) == ("/home/me/course", "/home/me/lmrd")
    assert config.backbone == "/home/me/bert"


def test_all_problems_are_reported_at_once() -> None:
    assert len(problem(seed=1, threads="x", data=3).splitlines()) == 3
    with pytest.raises(UserError, match="config: the key 'grids' is missing"):
        load_config({})


def test_files_merge_in_their_order_and_errors_name_all(tmp_path: Path) -> None:
    base, over = tmp_path / "config.yaml", tmp_path / "over.yaml"
    over.write_text("scale: {epochs: 010}\n")
    assert config_files([over], base) == [over]
    assert config_files([], base) == [base]
    base.write_text("grids: [a]\nscale: {epochs: 2, learning_rate: 3}\n")
    files = config_files([over], base)
    config = load_config(files, ["seeds=[5]"])
    assert (config.scale.epochs, config.scale.learning_rate, config.seeds) == (10, 3, (5,))
    with pytest.raises(UserError, match=rf"^{base}, {over}, --config: unknown key 'sede'"):
        load_config(files, ["sede=1"])
