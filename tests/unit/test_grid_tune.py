"""What `tune` of a variant tries: its candidates, and how they are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from grid_texts import THREE, grid, problem, spec
from planning import REPOSITORY

from minbert.spec.config import load_config
from minbert.spec.resolve import resolve

TUNED = (
    THREE
    + """\
  tuned:
    extends: t
    tune: {optimiser.lr: [1e-5, 3e-5], tasks.sst.weight: [1, 2.5]}
variants:
"""
)


def test_every_combination_is_a_candidate(tmp_path: Path) -> None:
    found = grid(tmp_path, TUNED + "  plain: {extends: tuned, label: Plain, test: true}\n")
    one = found.variants["plain"]
    assert one.tried == {
        "plain.lr-1e-5.weight-1": "lr 1e-5, weight 1",
        "plain.lr-1e-5.weight-2.5": "lr 1e-5, weight 2.5",
        "plain.lr-3e-5.weight-1": "lr 3e-5, weight 1",
        "plain.lr-3e-5.weight-2.5": "lr 3e-5, weight 2.5",
    }
    assert one.stages == () and one.best_of == tuple(one.tried) and one.test
    assert list(found.rows) == ["plain"] and len(found.variants) == 5
    last = found.variants["plain.lr-3e-5.weight-2.5"]
    assert (last.tuned_for, last.label) == ("plain", "Plain, lr 3e-5, weight 2.5")
    trained = spec(found, last.name)
    assert (trained.optimiser.lr, trained.tasks["sst"].weight) == (3e-5, 2.5)
    assert trained.tasks["sts"].weight == 1


def test_a_half_of_dev_chooses_the_epochs_too(tmp_path: Path) -> None:
    found = grid(tmp_path, TUNED + "  a: {extends: tuned}\n  b: {extends: t}\n")
    assert spec(found, "a.lr-1e-5.weight-1").select_on == "half"
    assert spec(found, "b").select_on == "dev"
    # A candidate is the same stage as a row that says the same.
    text = "  a: {extends: tuned}\n  b: {extends: t, select_on: half, optimiser: {lr: 3e-5}}\n"
    found = grid(tmp_path, TUNED + text)
    assert spec(found, "a.lr-3e-5.weight-1") == spec(found, "b")


def test_one_search_is_inherited_replaced_and_taken_back(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        TUNED
        + """\
  same: {extends: tuned, surgery: pcgrad}
  after: {extends: same, tune: {epochs: [2, 4], tasks.sst.weight: null}}
  none: {extends: same, tune: null}
  size-{epochs}: {extends: t, tune: {optimiser.lr: [1e-5, 1e-4]}, expand: {epochs: [1, 2]}}
""",
    )
    assert len(found.variants["same"].tried) == 4
    assert set(found.variants["after"].tried.values()) == {
        f"lr {lr}, epochs {epochs}" for lr in ("1e-5", "3e-5") for epochs in (2, 4)
    }
    assert not found.variants["none"].tried and spec(found, "none").surgery == "pcgrad"
    assert set(found.variants["size-2"].tried) == {"size-2.lr-1e-5", "size-2.lr-1e-4"}
    assert spec(found, "size-2.lr-1e-4").epochs == 2


def test_names_tell_settings_and_values_of_any_kind_apart(tmp_path: Path) -> None:
    tune = "{tasks.sst.weight: [1, 2], tasks.sts.weight: [1, 2], sampler.order: [null, [sst, sts]]}"
    text = (
        f"  a: {{extends: t, sampler: {{name: sequential}}, tasks: {{para: null}}, tune: {tune}}}"
    )
    found = grid(tmp_path, f"{THREE}variants:\n{text}\n")
    assert "sst.weight 2, sts.weight 1, sampler.order sst-sts" in found.variants["a"].tried.values()
    assert "a.sst.weight-1.sts.weight-1.sampler.order-none" in found.variants
    tune = "{tasks.*.convolution: [null, {kernel: 3}]}"
    found = grid(tmp_path, f"{THREE}variants:\n  a: {{extends: t, tune: {tune}}}\n")
    assert len(found.variants["a"].tried) == 2
    assert {
        bool(spec(found, name).tasks["sts"].convolution) for name in found.variants["a"].tried
    } == {
        True,
        False,
    }


def test_stages_are_tuned_and_started_from_by_the_candidates_name(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        THREE
        + """\
variants:
  a:
    extends: t
    tune: {stages.second.epochs: [2, 3]}
    stages: [{name: first, epochs: 1}, {name: second, start: first}]
  b: {extends: t, start: a.epochs-3}
""",
    )
    stages = {s.ref.stage: s for s in found.variants["a.epochs-3"].stages}
    assert [stage.spec.epochs for stage in stages.values()] == [1, 3]
    assert str(stages["second"].start) == "a.epochs-3/first"
    assert str(found.variants["b"].stages[0].start) == "a.epochs-3/second"


def test_null_takes_a_key_of_the_variant_out_of_one_stage(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        THREE
        + """\
variants:
  a:
    extends: t
    surgery: pcgrad
    tune: {stages.second.surgery: [pcgrad, null]}
    stages: [{name: first}, {name: second, start: first}]
""",
    )
    assert spec(found, "a.surgery-pcgrad", "second").surgery == "pcgrad"
    assert spec(found, "a.surgery-none", "second").surgery is None
    assert spec(found, "a.surgery-none", "first").surgery == "pcgrad"


@pytest.mark.parametrize(
    ("tune", "said"),
    [
        ("{}", "'tune' is {}; expected a mapping of keys"),
        ("[1e-5]", "'tune' is [1e-05]; expected a mapping of keys"),
        ("{optimiser.lrr: [1, 2]}", "unknown key 'optimiser.lrr'. Did you mean 'lr'?"),
        ("{train: [sst, sts]}", "'tune.train': unknown key 'train'"),
        ("{optimiser.lr: []}", "'tune.optimiser.lr': is []; expected a list of two values or more"),
        ("{optimiser.lr: [1e-5]}", "'tune.optimiser.lr': is [1e-05]; expected a list of two"),
        ("{optimiser.lr: 1e-5}", "'tune.optimiser.lr': is 1e-05; expected a list of two"),
        ("{optimiser.lr: [1e-5, 2e-5, 0.00001]}", "'tune.optimiser.lr': 1e-5 is there twice"),
        ("{optimiser.lr: [0.1, 0.10000001]}", "two combinations would be called 'lr-0.1'"),
        ("{tasks.ssst.weight: [1, 2]}", "unknown key 'tasks.ssst'. Did you mean 'sst'?"),
        ("{tasks.cfimdb.weight: [1, 2]}", "the variant has no task 'cfimdb'. It has sst, para"),
        ("{tasks: [{}, {sst: {}}]}", "'tune.tasks': decides what settings are compared by"),
        ("{tasks.sst: [5, 6]}", "'tune.tasks.sst': 'tasks.sst' is 5; expected a mapping"),
        ("{select_on: [dev, half]}", "'tune.select_on': decides what settings are compared by"),
        ("{tasks.sts: [null, {weight: 2}]}", "'tune.tasks.sts': null takes the task out, and"),
        ("{stages.s.tasks.sts: [null, {weight: 2}]}", "tasks.sts': null takes the task out, and"),
        ("{stages.s.select_on: [dev, half]}", "select_on': decides what settings are compared by"),
        ("{stages.on.epochs: [1, 2]}", "'tune.stages.on.epochs': there is no stage 'on'"),
        (
            "{epochs: [1, 2, 3, 4, 5, 6, 7], max_length: [8, 9, 10, 11, 12], lora.rank: [1, 2, 3]}",
            "'tune' makes 105 combinations (7 x 5 x 3); at most 100",
        ),
    ],
)
def test_a_search_that_cannot_be_made(tmp_path: Path, tune: str, said: str) -> None:
    message = problem(tmp_path, f"{THREE}variants:\n  a: {{extends: t, tune: {tune}}}\n")
    assert "g0.yaml: variant 'a': " in message and said in message, message


def test_a_value_that_a_setting_cannot_have_names_its_candidate(tmp_path: Path) -> None:
    text = f"{THREE}variants:\n  a: {{extends: t, tune: {{optimiser.lr: [1e-5, fast]}}}}\n"
    message = problem(tmp_path, text)
    assert "variant 'a.lr-fast'" in message and "'optimiser.lr' is 'fast'" in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  b: {extends: t, start: a}", "'start: a': variant 'a' is the best of others"),
        ("  b: {extends: t, start: a}", "known after training; name one of those: a.lr-1e-5."),
        ("  b: {best_of: [a, a.lr-1e-5.weight-1]}", "'best_of' names 'a', which is tuned"),
        (
            "  c: {extends: t}\n  b: {best_of: [c, a.lr-1e-5.weight-1]}",
            "'a' tries; make it a variant of its own",
        ),
        ("  b: {best_of: [a.lr-1e-5.weight-1], tune: {}}", "so 'tune' does not apply"),
        ("  a.lr-1e-5.weight-1: {extends: t}", "'a.lr-1e-5.weight-1', a name that is taken by"),
        ("single: a.lr-1e-5.weight-1", "of the settings that 'a' tries; make it a variant of its"),
        ("parameter_ratios: [[a, b]]", "no variant 'b'"),
        (
            "claims: [{text: T, section: S, variant: a.lr-1e-5.weight-1, against: majority}]",
            "one of the settings that 'a' tries, which have no scores of their own; name 'a'",
        ),
        (
            "figures: {f: {kind: loss-curves, title: T, variants: [a]}}",
            "is the best of others and trains nothing that could be shown; name one of those: a.lr",
        ),
        (
            "figures: {f: {kind: architectures, title: T, variants: [a]}}",
            "is the best of others and trains nothing that could be shown; name one of those: a.lr",
        ),
        (
            "figures: {f: {kind: ranking, title: T, variants: [a.lr-1e-5.weight-1]}}",
            "one of the settings that 'a' tries, which have no scores of their own; name 'a'",
        ),
        ("  b: {extends: tuned, select_on: dev}", "'select_on: dev' with 'tune'"),
        (
            "  c: {extends: t}\n  b: {extends: tuned, start: c}",
            "comes after 'c/main', whose epoch all of dev chose",
        ),
    ],
)
def test_what_does_not_go_with_a_tuned_variant(tmp_path: Path, text: str, said: str) -> None:
    message = problem(tmp_path, f"{TUNED}  a: {{extends: tuned}}\n{text}\n")
    assert said in message, message


def test_an_override_by_which_all_of_dev_would_choose_is_refused(tmp_path: Path) -> None:
    text = TUNED + "  a: {extends: tuned}\n"
    message = problem(tmp_path, text, override={"select_on": "dev"})
    assert "variant 'a.lr-1e-5.weight-1', stage 'main'" in message and "'override'" in message
    # Defaults do not reach it: the search says `half` itself.
    found = grid(tmp_path, text, defaults={"select_on": "dev"})
    assert spec(found, "a.lr-1e-5.weight-1").select_on == "half"


def test_runs_of_a_setting_can_be_drawn(tmp_path: Path) -> None:
    figure = "figures: {f: {kind: loss-curves, title: T, variants: [a.lr-1e-5.weight-1]}}\n"
    assert "f" in grid(tmp_path, f"{TUNED}  a: {{extends: tuned}}\n{figure}").figures


def test_the_grid_of_methods_differs_in_the_method_alone() -> None:
    assert "tuned-sum" not in load_config(REPOSITORY / "config.yaml").grids, "it needs torchjd"
    (found,) = resolve(load_config({"grids": ["tuned-sum"]}), REPOSITORY)
    methods = {}
    for name, row in found.rows.items():
        assert row.test and list(row.tried.values()) == list(
            found.variants["plain-sum"].tried.values()
        )
        for candidate, plain in zip(row.tried, found.variants["plain-sum"].tried, strict=True):
            one, other = spec(found, candidate), spec(found, plain)
            same = {"surgery": other.surgery, "weighting": other.weighting}
            assert one.model_copy(update=same) == other
            methods[name] = one.surgery or one.weighting
    assert list(methods.values()) == [
        *(None, "pcgrad", "cagrad", "nash_mtl", "upgrad", "uncertainty", "random")
    ]
    others = [claim.against for claim in found.claims]
    assert others == [name for name in methods if name != "plain-sum"]
