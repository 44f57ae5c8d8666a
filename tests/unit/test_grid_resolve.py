"""Stages and what they start from; scale and override; the hybrid-bert paper's own grid."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from minbert.base.errors import UserError
from minbert.spec.config import load_config
from minbert.spec.resolve import Grid, StageRef, resolve

REPOSITORY = Path(__file__).parents[2]
TEXT = """
paper: demo
title: A demo
overall: normalised
templates:
  one: {tasks: {sst: {loss: cross_entropy}}}
  two: {extends: one, tasks: {cfimdb: {loss: cross_entropy}}}
variants:
"""


def grid(tmp_path: Path, variants: str, **config: Any) -> Grid:
    (tmp_path / "g.yaml").write_text(TEXT + variants)
    (found,) = resolve(load_config({"grids": ["g.yaml"], **config}), tmp_path)
    return found


def problem(tmp_path: Path, variants: str, **config: Any) -> str:
    with pytest.raises(UserError) as error:
        grid(tmp_path, variants, **config)
    return str(error.value)


def starts(found: Grid) -> dict[str, str | None]:
    stages = [stage for variant in found.variants.values() for stage in variant.stages]
    return {str(s.ref): str(s.start) if s.start else None for s in stages}


def test_what_a_stage_can_start_from(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        """
  a: {extends: two, stages: [{name: x}, {name: y, start: x}, {name: z, start: a/x}]}
  b: {extends: one, start: a}
  c: {extends: one, start: a/x}
""",
    )
    assert starts(found) == {
        "a/x": None,
        "a/y": "a/x",
        "a/z": "a/x",
        "b/main": "a/z",
        "c/main": "a/x",
    }
    assert found.variants["c"].stages[0].start == StageRef("demo", "a", "x")


def test_the_last_stage_with_a_task_scores_it(tmp_path: Path) -> None:
    variant = grid(
        tmp_path, "  a: {extends: two, stages: [{name: x}, {name: y, tasks: {cfimdb: null}}]}"
    ).variants["a"]
    assert {t: str(s.ref) for t, s in variant.scored.items()} == {"sst": "a/y", "cfimdb": "a/x"}


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ("  abc: {extends: one}\n  b: {extends: one, start: abd}", "unknown: 'abd'. Did.*'abc'"),
        (
            "  a: {extends: one}\n  b: {extends: one, start: a/mian}",
            "'start: a/mian': variant 'a' has no stage 'mian'. Did you mean 'main'",
        ),
        (
            "  a: {extends: one, stages: [{name: x, start: y}, {name: y}]}",
            "variant 'a', stage 'x': 'start: y' is this stage or a later one",
        ),
        ("  a: {extends: one, start: a}", "'start: a' is this stage"),
        ("  a: {extends: one, start: main}", "'start: main' is this stage"),
        (
            "  a: {extends: one, start: b}\n  b: {extends: one, start: c}\n"
            "  c: {extends: one, start: a}",
            "circle: a/main -> b/main -> c/main -> a/main",
        ),
        (
            "  z: {extends: one, start: b}\n  b: {extends: one, start: c}\n"
            "  c: {extends: one, start: b}",
            "variant 'z'.* circle: b/main -> c/main -> b/main",
        ),
        (
            "  a: {extends: two, shared_layers: 0.5}\n"
            "  b: {extends: two, start: a, shared_layers: 4}",
            "variant 'b'.*'shared_layers: 4' cannot start from 'a/main', .*'shared_layers: 0.5'",
        ),
        (
            "  a: {extends: two, shared_layers: 4}\n"
            "  b: {extends: two, start: a, shared_layers: 4, shared_end: top}",
            "variant 'b'.*'shared_end: top' cannot start from 'a/main', .*'shared_end: bottom'",
        ),
        (
            "  a: {extends: one, shared_layers: none}\n"
            "  b: {extends: two, start: a, shared_layers: none}",
            "variant 'b'.*task 'cfimdb' has none there",
        ),
    ],
)
def test_impossible_references_are_refused(tmp_path: Path, variants: str, message: str) -> None:
    text = problem(tmp_path, variants)
    assert re.search(message, text), text
    assert str(tmp_path / "g.yaml") in text


def test_a_stage_with_layers_apart_may_start_from_one_encoder(tmp_path: Path) -> None:
    found = grid(
        tmp_path, "  a: {extends: one}\n  b: {extends: two, start: a, shared_layers: none}"
    )
    assert starts(found)["b/main"] == "a/main"


def test_scale(tmp_path: Path) -> None:
    text = "  a: {extends: one, epochs: 5, optimiser: {lr: 1e-5}}\n  b: {extends: one, epochs: 1}"
    found = grid(tmp_path, text, scale={"learning_rate": 3, "epochs": 0.3})
    a, b = (found.variants[name].stages[0].spec for name in "ab")
    assert (a.optimiser.lr, a.epochs, b.epochs) == (3e-5, 2, 1)


def test_override_beats_scale_and_reaches_every_task_of_a_stage(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        "  a: {extends: two, epochs: 5}\n  b: {extends: one}",
        scale={"epochs": 2},
        override={
            "epochs": 7,
            "optimiser": {"schedule": {"name": "linear", "warmup": 0.1}},
            "tasks": {"*": {"batch_size": 4}, "cfimdb": {"pooling": "mean"}},
        },
    )
    a, b = (found.variants[name].stages[0].spec for name in "ab")
    assert (a.epochs, a.optimiser.schedule.name, a.optimiser.lr) == (7, "linear", 1e-5)
    assert {n: (t.batch_size, t.pooling) for n, t in a.tasks.items()} == {
        "sst": (4, "cls"),
        "cfimdb": (4, "mean"),
    }
    assert list(b.tasks) == ["sst"]
    assert b.tasks["sst"].batch_size == 4


def test_a_null_override_takes_a_key_back_to_its_default(tmp_path: Path) -> None:
    found = grid(tmp_path, "  a: {extends: two, surgery: pcgrad}", override={"surgery": None})
    assert found.variants["a"].stages[0].spec.surgery is None


def test_the_default_of_the_key_that_chooses_epochs_is_the_papers_own_rule(tmp_path: Path) -> None:
    text = TEXT.replace("normalised", "plain") + "  a: {extends: two, select: normalised}"
    (tmp_path / "p.yaml").write_text(text)
    config = load_config({"grids": ["p.yaml"], "override": {"select": None}})
    (found,) = resolve(config, tmp_path)
    assert found.variants["a"].stages[0].spec.select == "plain"


def test_defaults_for_every_task_reach_those_that_they_name_too(tmp_path: Path) -> None:
    named = {"*": {"batch_size": 99, "weight": 3}, "sst": {"weight": 2}}
    found = grid(tmp_path, "  a: {extends: two}", defaults={"tasks": named})
    tasks = found.variants["a"].stages[0].spec.tasks
    assert {n: (t.batch_size, t.weight) for n, t in tasks.items()} == {
        "sst": (99, 2),
        "cfimdb": (99, 3),
    }


def test_null_among_the_defaults_is_the_default(tmp_path: Path) -> None:
    found = grid(tmp_path, "  a: {extends: two}", defaults={"epochs": None, "optimiser": None})
    assert found.variants["a"].stages[0].spec.epochs == 10


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ({"epoch": 3}, ["config: unknown key 'override.epoch'", "mean 'epochs'"]),
        ({"tasks": {"*": {"batch": 3}}}, ["unknown key 'override.tasks.*.batch'", "batch_size"]),
        ({"tasks": {"stss": {}}}, ["unknown key 'override.tasks.stss'", "mean 'sts'"]),
        (
            {"optimiser": {"lr": "fast"}},
            ["variant 'a'", "override of the config: 'optimiser.lr' is 'fast'; expected a number"],
        ),
        ({"tasks": 3}, ["config: 'override.tasks' is 3; expected a mapping"]),
        ({"tasks": {"sst": None}}, ["config: 'override.tasks.sst' is null, which takes no task"]),
        ({"surgery": "pcgrad", "shared_layers": "none"}, ["override of the config: surgery"]),
    ],
)
def test_override_problems(tmp_path: Path, override: dict[str, Any], parts: list[str]) -> None:
    text = problem(tmp_path, "  a: {extends: two}", override=override)
    for part in parts:
        assert part in text


def test_grids_are_found_by_bare_name_and_misspelt_names_are_reported(tmp_path: Path) -> None:
    folder = tmp_path / "workflow" / "grids"
    folder.mkdir(parents=True)
    (folder / "demo.yaml").write_text(TEXT + "  a: {extends: one}")
    assert [g.paper for g in resolve(load_config({"grids": ["demo"]}), tmp_path)] == ["demo"]
    with pytest.raises(UserError, match=r"config: grids: 'dmo' is .* no such file\. Did.*'demo'\?"):
        resolve(load_config({"grids": ["dmo"]}), tmp_path)
    with pytest.raises(UserError, match=r"dmo\.yaml: there is no such file\. Did.*'demo\.yaml'\?"):
        resolve(load_config({"grids": ["workflow/grids/dmo.yaml"]}), tmp_path)


def test_table_1_of_the_hybrid_bert_paper() -> None:
    (found,) = resolve(load_config({"grids": ["hybrid-bert"]}), REPOSITORY)
    assert found.overall == "normalised"
    assert [name for name, v in found.variants.items() if v.test] == ["hybrid-bert-40"]
    specs = {
        name: v.stages[0].spec
        for name, v in found.variants.items()
        if not name.startswith(("sequential", "single-task"))
    }
    assert {n: (s.shared_layers, s.surgery, s.epochs) for n, s in specs.items()} == {
        "baseline": ("all", None, 10),
        "1-bert": ("all", "pcgrad", 20),
        "3-bert": ("none", None, 20),
        "hybrid-bert": (0.5, "pcgrad", 20),
        "hybrid-bert-40": (0.5, "pcgrad", 40),
    }
    for name, spec in specs.items():
        rate = (1e-3, 0.0) if name == "baseline" else (1e-5, 0.001)
        assert (spec.optimiser.lr, spec.optimiser.weight_decay) == rate
        assert spec.optimiser.schedule.name == "constant"
        assert [spec.tasks[t].loss for t in spec.ordered_tasks] == [
            "cross_entropy",
            "binary_cross_entropy",
            "mse",
        ]
        assert {t.head.dropout for t in spec.tasks.values()} == {0.3}
        assert {t.batch_size for t in spec.tasks.values()} == {16}
        assert {t.pooling for t in spec.tasks.values()} == {"cls"}
    baseline = specs.pop("baseline")
    assert (baseline.trainable, baseline.trained_tasks) == ("heads", ("sst",))
    assert {t.head.depth for t in baseline.tasks.values()} == {1}
    assert [baseline.tasks[t].features for t in ("sst", "para", "sts")] == [None, *[("u", "v")] * 2]
    for spec in specs.values():
        assert {(t.head.depth, t.head.width) for t in spec.tasks.values()} == {(3, 256)}
        assert [spec.tasks[t].pairing for t in ("sst", "para", "sts")] == [None, "cross", "cross"]
        assert (spec.trainable, spec.sampler.name) == ("all", "unified")
    assert found.figures["multitask-loss"].variants == ("1-bert", "3-bert", "hybrid-bert")


def test_a_plan_imports_no_heavy_library() -> None:
    code = (
        "import sys, minbert.spec.resolve, minbert.plan.parameters, minbert.store.code\n"
        "print([m for m in ('torch', 'numpy', 'pandas', 'pyarrow', 'mlflow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
