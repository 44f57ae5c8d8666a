"""config.yaml: defaults, what Snakemake passes as text, and errors that say what to do."""

from pathlib import Path
from typing import Any

import pytest

from minbert.base.errors import UserError
from minbert.spec.config import BACKBONE, REVISION, Config, load_config


def load(**values: Any) -> Config:
    return load_config({"grids": ["hybrid-bert"], **values}, where="config.yaml")


def problem(**values: Any) -> str:
    with pytest.raises(UserError) as error:
        load(**values)
    return str(error.value)


def test_defaults() -> None:
    config = load()
    assert config.results == "results"
    assert config.seeds == (0,)
    assert (config.backbone, config.revision) == (BACKBONE, REVISION)
    assert config.keep_weights and config.tracking.enabled
    assert (config.scale.learning_rate, config.scale.epochs) == (1, 1)
    assert config.override == {}


def test_the_pin_is_of_the_default_backbone_only() -> None:
    assert load(backbone="builtin").revision is None
    assert load(backbone=BACKBONE).revision == REVISION
    assert load(revision="main").revision == "main"


def test_text_from_a_command_line_gets_its_type() -> None:
    config = load_config(
        {
            "grids": "[a, b]",
            "seeds": "[0, 1]",
            "keep_weights": "false",
            "threads": "3",
            "scale": {"learning_rate": "1e-4", "epochs": "2"},
            "tracking": "{enabled: false}",
            "corpus": {"sizes": {"sst": {"train": "10", "dev": 2, "test": 2}}},
            "override": "{optimiser: {lr: '1e-3'}, tasks: {'*': {batch_size: '8'}}}",
        }
    )
    assert config.grids == ("a", "b")
    assert config.seeds == (0, 1)
    assert config.keep_weights is False
    assert config.threads == 3
    assert (config.scale.learning_rate, config.scale.epochs) == (1e-4, 2.0)
    assert config.tracking.enabled is False
    assert config.corpus.sizes is not None and config.corpus.sizes["sst"].train == 10
    assert config.override == {"optimiser": {"lr": 1e-3}, "tasks": {"*": {"batch_size": 8}}}


@pytest.mark.parametrize(
    ("given", "seeds"),
    [(3, (3,)), ("3", (3,)), (["1", 2], (1, 2)), ("[4, 5]", (4, 5)), ((0, 7), (0, 7))],
)
def test_seeds(given: Any, seeds: tuple[int, ...]) -> None:
    assert load(seeds=given).seeds == seeds


@pytest.mark.parametrize("bad", ["one", "1.5", 1.0, -1, True, None, "-2"])
def test_what_is_no_seed_is_refused(bad: Any) -> None:
    assert f"'seeds.0': seed {bad!r} is not a whole number" in problem(seeds=[bad])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seeds": []}, "'seeds' is []; expected at least one entry"),
        ({"seeds": 1.5}, "'seeds' is 1.5; expected a list"),
        ({"seeds": [1, "1"]}, "'seeds': 1 is there twice"),
        ({"grids": ["a", "a"]}, "'grids': 'a' is there twice"),
        ({"grids": []}, "'grids' is []; expected at least one entry"),
        ({"processes": 2}, "unknown key 'processes'"),
        ({"cuda_graphs": True}, "unknown key 'cuda_graphs'"),
        ({"seed": [1]}, "unknown key 'seed'. Did you mean 'seeds'?"),
        ({"scale": {"epoch": 1}}, "unknown key 'scale.epoch'. Did you mean 'epochs'?"),
        ({"scale": {"epochs": 0}}, "'scale.epochs' is 0; expected greater than 0"),
        ({"scale": {"epochs": True}}, "expected a number, not true or false"),
        ({"scale": 2}, "'scale' is 2; expected a mapping"),
        ({"data": "reel"}, "'data' is 'reel'; expected 'real' or 'builtin'"),
        ({"device": "gpu"}, "'device' is 'gpu'; expected text that matches ^(auto|cpu|"),
        ({"precision": "fp16"}, "'precision' is 'fp16'; expected 'auto', 'fp32' or 'bf16'"),
        ({"threads": "two"}, "'threads' is 'two'; expected a whole number"),
        ({"threads": 0}, "'threads' is 0; expected greater than or equal to 1"),
        ({"keep_weights": "maybe"}, "'keep_weights' is 'maybe'; expected true or false"),
        ({"results": ""}, "'results' is ''; expected text that is not empty"),
        ({"backbone": 3}, "'backbone' is 3; expected text"),
        ({"pretraining": {"hidden": 129}}, "hidden (129) must be a multiple of heads (2)"),
        ({"corpus": {"sizes": {"sts": {"train": 1, "dev": 1}}}}, "'corpus.sizes.sts.test' is miss"),
        (
            {"corpus": {"sizes": {"parra": {"train": 1, "dev": 1, "test": 1}}}},
            "unknown task 'parra'; known: sst, para, sts, cfimdb, lmrd. Did you mean 'para'?",
        ),
        ({"override": "lr"}, "'override' is 'lr'; expected a mapping"),
        ({"override": {"start": "x"}}, "'start' cannot be set here"),
        ({"scale": "{a: 1"}, "expected ',' or '}'"),
    ],
)
def test_problems(values: dict[str, Any], message: str) -> None:
    text = problem(**values)
    assert message in text
    assert all(line.startswith("config.yaml: ") for line in text.splitlines())


def test_all_problems_are_reported_at_once() -> None:
    text = problem(seed=1, threads="x", data=3)
    assert len(text.splitlines()) == 3


def test_a_missing_key_is_named() -> None:
    with pytest.raises(UserError, match="config: the key 'grids' is missing"):
        load_config({})


def test_a_file_with_overrides(tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_text("grids: [a]\nscale: {epochs: 2}\nseeds: [0, 1]\n")
    config = load_config(path, ["scale.learning_rate=1e1", "seeds=[5]"])
    assert (config.scale.epochs, config.scale.learning_rate, config.seeds) == (2, 10, (5,))
    assert load_config(path, {"scale": {"epochs": 3}}).scale.epochs == 3
    with pytest.raises(UserError, match=r"my\.yaml: unknown key 'sede'. Did you mean 'seeds'"):
        load_config(path, ["sede=1"])
