"""Grid files: inheritance, expansion, stages, tuning, and what a configuration changes."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from grid_texts import ALL, HEAD, TASKS, THREE, grid, spec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minbert.spec.config import load_config
from minbert.spec.resolve import Grid, resolve
from minbert.spec.yaml import merge, nested


def starts(found: Grid) -> dict[str, str]:
    stages = [stage for variant in found.variants.values() for stage in variant.stages]
    return {str(s.ref): str(s.start) for s in stages if s.start}


def at(found: Grid, place: str) -> Any:
    """Return what `VARIANT[/STAGE] KEY` is; a `*` in the key stands for each task."""
    where, _, key = place.partition(" ")
    variant, _, stage = where.partition("/")
    value: Any = spec(found, variant, stage or "main")
    for number, word in enumerate(words := key.split(".")):
        if word == "*":
            rest = ".".join(words[number + 1 :])
            return {task: at(found, f"{where} tasks.{task}.{rest}") for task in value}
        value = value[word] if isinstance(value, dict) else getattr(value, word)
    return value


INHERITED = """
templates:
  base:
    label: B
    optimiser: {lr: 1e-3, weight_decay: 0.1, schedule: {name: linear, warmup: 0.1}}
    smart: {weight: 1}
    tune: {epochs: [1, 2]}
    tasks:
      sst: {loss: cross_entropy, convolution: {kernel: 5}, head: {depth: 2, dropout: 0.5}}
      sts: {loss: mse, pairing: siamese, features: [u, v]}
  deep: {tasks: {sst: {head: {depth: 3}}}, epochs: 3}
  less: {label: null, smart: null, tune: null, tasks: {sts: null, sst: {convolution: null}}}
variants:
  a:
    extends: [base, deep]
    optimiser: {lr: 1e-4, schedule: null}
    tune: null
    tasks: {sts: {features: ["|u-v|"]}}
  b: {extends: a, tasks: {sts: null}, epochs: null}
  with: {extends: base, tune: null, surgery: pcgrad}
  without: {extends: base, tune: null, surgery: null}
  both: {extends: [with, without]}
  least: {extends: [base, less]}
  again: {extends: [base, less], tasks: {sts: {loss: mse, pairing: cross}}}
"""
STAR = """
templates:
  t: {tasks: {"*": {pooling: mean, head: {depth: 2}}}}
variants:
  a:
    extends: t
    tasks: {sst: {loss: cross_entropy, head: {depth: 4}}, lmrd: {loss: cross_entropy}}
  b: {extends: a, tasks: {"*": {head: {depth: 1}}}}
"""
EXPANDED = (
    ALL
    + """
  "f-{features}": {extends: t, expand: {tasks.para.features: {cat: [u, v], had: [u, v, u*v]}}}
  "s-{surgery}": {extends: t, expand: {surgery: [null, pcgrad]}}
  "p-{pooling}": {extends: t, expand: {tasks.*.pooling: [cls, mean]}}
  "a-{train}": {extends: t, expand: {train: [sst, para]}}
  "r-lr{lr}-d{dropout}":
    extends: t
    expand: {optimiser.lr: [0.0001, 1e-6, 2.5e-5], tasks.sst.head.dropout: [0.1, 0.5]}
  "w{tasks.sst.weight}-{tasks.para.weight}":
    extends: t
    expand: {tasks.sst.weight: [1, 2], tasks.para.weight: [1, 2]}
"""
)
STAGES = (
    ALL
    + """
  two:
    extends: t
    epochs: 3
    stages:
      - {name: first, epochs: 1}
      - {name: second, start: first, optimiser: {lr: 1e-3}, tasks: {lmrd: null}}
  one: {extends: t, train: sst}
  pair: {extends: t, train: [para, sst], evaluate_only: lmrd}
  rest: {extends: t, evaluate_only: [para]}
  row:
    extends: t
    stages: [{name: first, train: sst}, {name: second, train: para, evaluate_only: sst}]
"""
)
TUNED = (
    THREE
    + """\
  tuned:
    extends: t
    tune: {optimiser.lr: [1e-5, 3e-5], tasks.sst.weight: [1, 2.5]}
variants:
"""
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param(
            INHERITED,
            {
                **{"a optimiser.lr": 1e-4, "a optimiser.weight_decay": 0.1, "a epochs": 3},
                **{"a optimiser.schedule.name": "constant", "a tasks.sst.head.depth": 3},
                **{"a tasks.sst.head.dropout": 0.5, "a tasks.sts.features": ("|u-v|",)},
                **{"b ordered_tasks": ("sst",), "b epochs": 10, "both surgery": None},
                **{"least ordered_tasks": ("sst",), "least smart": None, "with surgery": "pcgrad"},
                **{"least tasks.sst.convolution": None, "again tasks.sts.pairing": "cross"},
            },
            id="extends merges deeply, replaces lists, and null deletes",
        ),
        pytest.param(
            STAR,
            {
                "a tasks.*.head.depth": {"sst": 4, "lmrd": 2},
                "b tasks.*.head.depth": {"sst": 1, "lmrd": 1},
                "b tasks.*.pooling": {"sst": "mean", "lmrd": "mean"},
            },
            id="a star reaches all tasks",
        ),
        pytest.param(
            EXPANDED,
            {
                **{"f-had tasks.para.features": ("u", "v", "u*v"), "s-none surgery": None},
                **{"f-cat tasks.para.features": ("u", "v"), "s-pcgrad surgery": "pcgrad"},
                "p-mean tasks.*.pooling": dict.fromkeys(("sst", "lmrd", "para"), "mean"),
                **{"a-sst trained_tasks": ("sst",), "a-para trained_tasks": ("para",)},
                **{"r-lr1e-4-d0.1 optimiser.lr": 1e-4, "r-lr1e-6-d0.5 optimiser.lr": 1e-6},
                **{"r-lr2.5e-5-d0.5 tasks.sst.head.dropout": 0.5, "w1-2 tasks.para.weight": 2},
            },
            id="expand takes lists, words for values, stars and tasks",
        ),
        pytest.param(
            STAGES,
            {
                **{"two/first epochs": 1, "two/second epochs": 3, "one ordered_tasks": ("sst",)},
                **{"two/first optimiser.lr": 1e-5, "two/second optimiser.lr": 1e-3},
                **{"pair trained_tasks": ("sst", "para"), "rest trained_tasks": ("sst", "lmrd")},
                "pair ordered_tasks": ("sst", "para", "lmrd"),
                **{"row/first ordered_tasks": ("sst",), "row/second trained_tasks": ("para",)},
            },
            id="stages take the variant's keys as defaults, and choose tasks",
        ),
    ],
)
def test_what_variants_come_to(tmp_path: Path, text: str, values: dict[str, Any]) -> None:
    found = grid(tmp_path, text)
    assert {place: at(found, place) for place in values} == values


def test_how_variants_are_shown(tmp_path: Path) -> None:
    """Templates pass it on, variants do not."""
    found = grid(
        tmp_path,
        f"""
templates: {{t: {{test: true, note: shared, {TASKS}}}}}
variants:
  a: {{extends: t, label: A, row: R}}
  b: {{extends: a}}
  "c{{lr}}": {{extends: a, label: "lr {{lr}}", expand: {{optimiser.lr: [1e-6]}}}}
""",
    )
    shown = {n: (v.label, v.row, v.note, v.test) for n, v in found.variants.items()}
    assert shown == {
        "a": ("A", "R", "shared", True),
        "b": ("b", "b", "", False),
        "c1e-6": ("lr 1e-6", "c1e-6", "", False),
    }
    assert (found.paper, found.title, found.path) == ("demo", "A demo", tmp_path / "g0.yaml")


def test_what_a_stage_can_start_from_and_fuse(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        ALL
        + """
  a: {extends: t, stages: [{name: x}, {name: y, start: x}, {name: z, start: a/x}]}
  b: {extends: t, start: a}
  c: {extends: t, start: a/x, shared_layers: none}
  ad:
    extends: t
    trainable: adapters
    adapter: {width: 4}
    stages: [{name: sst, train: sst}, {name: para, train: para}]
  fu: {extends: t, trainable: fusion, fuse: [ad/sst, ad/para], train: para}
""",
    )
    assert starts(found) == {"a/y": "a/x", "a/z": "a/x", "b/main": "a/z", "c/main": "a/x"}
    assert found.variants["a"].scored["sst"].ref.stage == "z", "the last that has it"
    assert [str(ref) for ref in found.variants["fu"].stages[0].fused] == ["ad/sst", "ad/para"]


def test_files_of_a_paper_make_one_grid_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        f"{HEAD.replace('normalised', 'plain')}variants: {{a: {{{TASKS}}}}}\n"
    )
    (tmp_path / "b.yaml").write_text(
        "paper: demo\nsingle: a\nvariants: {b: {extends: a, start: a}}\n"
    )
    for names in (["a.yaml", "b.yaml"], ["b.yaml", "a.yaml"]):
        (found,) = resolve(load_config({"grids": names}), tmp_path)
        assert starts(found) == {"b/main": "a/main"}
        assert (found.title, found.overall, found.single) == ("A demo", "plain", "a")


def test_every_combination_of_tune_is_a_candidate(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        TUNED
        + """\
  one: {extends: tuned, label: One, test: true}
  same: {extends: t, selection_split: half}
  after: {extends: one, tune: {epochs: [2, 4], surgery: [pcgrad, null], tasks.sst.weight: null}}
  none: {extends: one, tune: null}
  size-{epochs}: {extends: t, tune: {optimiser.lr: [1e-5, 1e-4]}, expand: {epochs: [1, 2]}}
  from: {extends: t, start: after.lr-3e-5.epochs-2.surgery-none}
  worded: {extends: t, tune: {tasks.sst.pooling: {first: cls, all: mean}}}
""",
        defaults={"selection_split": "dev", "select": "plain"},
    )
    one, tried = found.variants["one"], {n: v.tried for n, v in found.variants.items()}
    assert one.tried == {
        f"one.lr-{lr}.weight-{weight}": f"lr {lr}, weight {weight}"
        for lr in ("1e-5", "3e-5")
        for weight in ("1", "2.5")
    }
    assert one.stages == () and one.best_of == tuple(one.tried) and one.test
    assert set(found.rows) == {"one", "same", "after", "none", "size-1", "size-2", "from", "worded"}
    last = found.variants["one.lr-3e-5.weight-2.5"]
    assert (last.tuned_for, last.label) == ("one", "One, lr 3e-5, weight 2.5")
    assert at(found, f"{last.name} tasks.*.weight") == {"sst": 2.5, "para": 1, "sts": 1}
    assert spec(found, "one.lr-1e-5.weight-1") == spec(found, "same"), "half of dev chooses"
    assert len(tried["after"]) == 8 and not tried["none"]
    assert set(tried["size-2"]) == {"size-2.lr-1e-5", "size-2.lr-1e-4"}
    assert tried["worded"] == {f"worded.pooling-{n}": f"pooling {n}" for n in ("first", "all")}
    assert at(found, "none select") == "plain", "which its grid does not say"
    name = "after.lr-3e-5.epochs-2.surgery-"
    assert [at(found, f"{name}{s} surgery") for s in ("none", "pcgrad")] == [None, "pcgrad"]
    assert starts(found) == {"from/main": f"{name}none/main"}


def test_the_grid_beats_defaults_and_override_beats_the_grid(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        ALL
        + """
  plain: {extends: t, epochs: 5, surgery: pcgrad, select: normalised}
  said: {extends: t, optimiser: {schedule: {name: constant}}, tasks: {sst: {weight: 5}}}
""",
        head=HEAD.replace("normalised", "plain"),
        defaults={
            "optimiser": {"schedule": {"name": "linear", "warmup": 0.1}},
            "tasks": {"*": {"weight": 2}, "sst": {"weight": 3}, "sts": {}},
        },
        scale={"epochs": 2},
        override={
            "epochs": 7,
            "surgery": None,
            "tasks": {"*": {"pooling": "max"}, "para": {"pooling": "mean"}, "sts": {}},
        },
    )
    values = {
        **{"plain optimiser.schedule.name": "linear", "said optimiser.schedule.name": "constant"},
        **{"plain epochs": 7, "plain surgery": None, "said tasks.sst.weight": 5},
        "plain tasks.*.weight": {"sst": 3, "lmrd": 2, "para": 2},
        "said tasks.*.pooling": {"sst": "max", "lmrd": "max", "para": "mean"},
        **{"plain select": "normalised", "said select": "plain"},
    }
    assert {place: at(found, place) for place in values} == values
    plain = ALL + "\n  plain: {extends: t}\n"
    undone = grid(tmp_path, plain, override={"tasks": None})
    assert spec(undone, "plain") == spec(grid(tmp_path, plain), "plain")


@pytest.mark.parametrize(
    ("keys", "scale", "values"),
    [
        (
            "epochs: 5, optimiser: {lr: 1e-5}",
            {"learning_rate": 3, "epochs": 0.3},
            {"optimiser.lr": 3e-5, "epochs": 2},
        ),
        (
            "trainable: heads",
            {
                **{"learning_rate": 10, "epochs": 0.1, "steps": {"per_epoch": 30}},
                **{"batch_size": {"max": 2}, "heads": {"learning_rate": 3, "epochs": 2}},
            },
            {
                **{"optimiser.lr": 3e-5, "epochs": 20, "sampler.steps": None},
                "tasks.*.batch_size": {"sst": 16, "lmrd": 16, "para": 16},
            },
        ),
        (
            "tasks: {sst: {batch_size: 128}, lmrd: {batch_size: 8}, para: {batch_size: 8}}",
            {"batch_size": {"max": 64, "min": 6}},
            {"tasks.*.batch_size": {"sst": 64, "lmrd": 6, "para": 6}},
        ),
        *(
            (
                keys,
                {"epochs": 0.15, "steps": {"per_epoch": 25, "min": 100, **steps}},
                {"epochs": epochs, "sampler.steps": total // epochs},
            )
            for keys, steps, epochs, total in (
                ("epochs: 40", {}, 6, 1002),
                ("epochs: 1", {}, 1, 100),
                ("epochs: 40", {"epochs": 10}, 10, 1000),
                # Each step has one of the two trained tasks.
                ("sampler: {name: sequential}, tasks: {lmrd: {trained: false}}", {}, 2, 500),
            )
        ),
    ],
)
def test_scale(tmp_path: Path, keys: str, scale: dict[str, Any], values: dict[str, Any]) -> None:
    found = grid(tmp_path, f"{ALL}  a: {{extends: t, {keys}}}\n", scale=scale)
    assert {key: at(found, f"a {key}") for key in values} == values


SETTINGS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(
        ("optimiser.lr", "optimiser.schedule.warmup", "smart.weight", "tasks.sst.head.dropout"),
        st.floats(1e-7, 0.5).map(lambda x: float(f"{x:.6g}")),
    ),
    **dict.fromkeys(("epochs", "sampler.examples", "tasks.sst.batch_size"), st.integers(1, 60)),
    "shared_layers": st.sampled_from(["all", 1, 0]),
    "tasks.sst.pooling": st.sampled_from(["cls", "mean", "max"]),
    "tasks.para.convolution.kernel": st.sampled_from([1, 3, 5, 7]),
}
NEEDED = {
    **{"tasks.sst.loss": "cross_entropy", "tasks.sst.head.depth": 2},
    **{"tasks.para.loss": "binary_cross_entropy", "tasks.para.pairing": "cross"},
}
stages = st.fixed_dictionaries(SETTINGS).map(lambda chosen: NEEDED | chosen)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("grids")


def spelt(values: Any) -> str:
    """Return values as YAML that is spelt otherwise than JSON."""
    if isinstance(values, dict):
        return "{" + ", ".join(f"{key}: {spelt(values[key])}" for key in reversed(values)) + "}"
    return format(Decimal(repr(values)), "f") if isinstance(values, float) else str(values)


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(stage=stages, beaten=stages, own=st.sets(st.sampled_from(sorted(SETTINGS))))
def test_spelling_order_and_inheritance_change_no_spec(
    folder: Path, stage: dict[str, Any], beaten: dict[str, Any], own: set[str]
) -> None:
    template = {path: beaten[path] if path in own else stage[path] for path in stage}
    whole, parent, child = (
        reduce(merge, (nested(path, value) for path, value in flat.items()), {})
        for flat in (stage, template, {path: stage[path] for path in own})
    )
    one, other = f"a: {json.dumps(whole)}", f"b: {spelt({**child, 'extends': 't'})}"
    text = f"templates: {{t: {spelt(parent)}}}\nvariants:\n  {one}\n  {other}\n"
    found = grid(folder, text)
    assert spec(found, "a") == spec(found, "b")
