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


def test_words_of_a_command_line_get_their_types() -> None:
    config = load_config(
        {},
        [
            "grids=[a, b]",
            "seeds=[0, 1]",
            "keep_weights=false",
            "threads=3",
            "scale={learning_rate: 1e-4, epochs: '2'}",
            "tracking={'enabled': False}",
            "corpus={sizes: {sst: {train: 10, dev: 2, test: 2}}}",
            "override={optimiser: {lr: 1e-3}, tasks: {'*': {batch_size: 8}}}",
        ],
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
    [(3, (3,)), ("3", (3,)), (["1", 2], (1, 2)), ((0, 7), (0, 7)), (2**32 - 1, (2**32 - 1,))],
)
def test_seeds(given: Any, seeds: tuple[int, ...]) -> None:
    assert load(seeds=given).seeds == seeds


@pytest.mark.parametrize("bad", ["one", "1.5", 1.0, -1, None, "-2", 2**63, 2**32, "٣"])
def test_what_is_no_seed_is_refused(bad: Any) -> None:
    assert f"'seeds.0': seed {bad!r} is not a whole number" in problem(seeds=[bad])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seeds": []}, "'seeds' is []; expected a list of 1 or more"),
        ({"seeds": 1.5}, "'seeds' is 1.5; expected a list"),
        ({"seeds": [1, "1"]}, "'seeds': 1 is there twice"),
        ({"grids": ["a", "a"]}, "'grids': 'a' is there twice"),
        ({"grids": []}, "'grids' is []; expected a list of 1 or more"),
        ({"grids": ["a\0b"]}, "'grids': 'a\\x00b' is no path"),
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
        ({"threads": 10**9}, "'threads' is 1000000000; expected less than or equal to 1024"),
        ({"device": "cuda:\u0663"}, "expected text that matches ^(auto|cpu|"),
        ({"device": "cuda:100"}, "expected text that matches ^(auto|cpu|"),
        ({"device": "cuda:9999999999"}, "expected text that matches ^(auto|cpu|"),
        ({"pretraining": {"layers": 300}}, "'pretraining.layers' is 300; expected less than"),
        ({"pretraining": {"vocabulary": 99999999}}, "'pretraining.vocabulary' is 99999999; exp"),
        ({"pretraining": {"hidden": 2**40}}, "'pretraining.hidden' is 1099511627776; expected"),
        (
            {"corpus": {"sizes": {"sts": {"train": 10**15, "dev": 1, "test": 1}}}},
            "'corpus.sizes.sts.train' is 1000000000000000; expected less than",
        ),
        ({"course": "http://[bad"}, "'course': 'http://[bad' cannot be downloaded from: Invalid"),
        ({"course": "https://"}, "cannot be downloaded from: it names no server; give a folder"),
        ({"course": "http://127.0.0.1:99999"}, "cannot be downloaded from: Port out of range"),
        ({"course": "http://a/b c"}, "cannot be downloaded from: it has a space"),
        ({"course": "http://a/b\0c"}, "cannot be downloaded from: it has a space, a control char"),
        ({"course": "ftp://x.org"}, "it begins with 'ftp:'; give a folder or file, or a URL such"),
        ({"lmrd": "HTTPS:/x.org/l.tgz"}, "'lmrd': 'HTTPS:/x.org/l.tgz' cannot be downloaded"),
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
        ({"scale": "{a: 1}"}, "'scale' is '{a: 1}'; expected a mapping"),
        ({"seeds": list(range(1001))}, " ...; expected at most 1000 entries"),
        ({"backbone": "x" * 5000}, "'backbone': 'xxx"),
        ({"course": "a\0b"}, "'course': 'a\\x00b' is no path"),
        ({"lmrd": "x" * 5000}, "is no path: it is too long"),
        ({"scale": {"epochs": 1e308}}, "'scale.epochs' is 1e+308; expected less than or equal"),
        ({"scale": {"heads": {"epochs": 1e308}}}, "'scale.heads.epochs' is 1e+308; expected less"),
        ({"seeds": True}, "'seeds': expected a number, not true or false"),
        ({"seeds": [0, True]}, "'seeds': expected a number, not true or false"),
        ({"threads": True}, "'threads': expected a number, not true or false"),
        ({"corpus": {"seed": True}}, "'corpus.seed': expected a number, not true or false"),
        ({"corpus": {"seed": 2**63}}, "'corpus.seed' is 9223372036854775808; expected less than"),
        ({"pretraining": {"lr": True}}, "'pretraining.lr': expected a number, not true"),
        ({"scale": {"epochs": "1_0"}}, "'scale.epochs': expected a number, found '1_0'"),
        ({"scale": {"epochs": float("inf")}}, "'scale.epochs' is inf; expected a finite number"),
        ({"checkpoint_seconds": float("nan")}, "'checkpoint_seconds' is nan; expected a finite"),
    ],
)
def test_problems(values: dict[str, Any], message: str) -> None:
    text = problem(**values)
    assert message in text
    assert all(line.startswith("config: ") for line in text.splitlines())


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ("a\0b", "has control characters"),
        ("a\nb", "has control characters"),
        ("{key}", "takes what is in braces for a wildcard"),
        ("what?", "MLflow reads ? in"),
        ("50%20of", "MLflow reads %20 in"),
        ('a"b', 'MLflow reads " in'),
        ("-x", "begins with '-'"),
        ("x" * 300, "is no path: it is too long"),
        ("/".join(["x" * 100] * 45), "File name too long"),
        ("loop", "Too many levels of symbolic links"),
        ("a-file", "Not a directory"),
        ("/proc/r", "the kernel alone makes files there"),
        ("~nobody-of-that-name/results", "there is no such home folder"),
    ],
)
def test_folders_that_cannot_hold_results(
    results: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    Path("a-file").write_text("")
    assert "config: 'results': " in problem(results=results)
    assert reason in problem(results=results)


def test_a_question_mark_above_the_results_is_found_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "why?").mkdir()
    monkeypatch.chdir(tmp_path / "why?")
    assert "why?/results as something else" in problem(results="results")


def test_home_folders_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    config = load(results="~/results", course="~/course", lmrd="~/lmrd", backbone="~/bert")
    assert config.results == "/home/me/results"
    assert (config.course, config.lmrd) == ("/home/me/course", "/home/me/lmrd")
    assert config.backbone == "/home/me/bert"


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
    with pytest.raises(UserError, match=r"my\.yaml, --config: unknown key 'sede'. Did you mean"):
        load_config(path, ["sede=1"])


def test_a_list_whose_entries_are_wrong_is_not_called_too_short() -> None:
    assert problem(seeds="0,1").splitlines() == [
        "config: 'seeds.0': seed '0,1' is not a whole number from 0 to 4294967295"
    ]


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
