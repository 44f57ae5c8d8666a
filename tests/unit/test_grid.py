"""Grid files: inheritance, expansion, stages, tuning, and what a configuration changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from grid_texts import ALL, HEAD, TASKS, THREE, grid, spec
from planning import REPOSITORY

from minbert.spec.config import load_config
from minbert.spec.resolve import Grid, resolve


def starts(found: Grid) -> dict[str, str | None]:
    stages = [stage for variant in found.variants.values() for stage in variant.stages]
    return {str(s.ref): str(s.start) if s.start else None for s in stages}


def test_a_variant_is_shown_by_its_name_unless_it_says_more(tmp_path: Path) -> None:
    text = f"variants:\n  a: {{label: A, row: R, note: n, test: true, {TASKS}}}\n  b: {{{TASKS}}}\n"
    found = grid(tmp_path, text)
    shown = {n: (v.label, v.row, v.note, v.test) for n, v in found.variants.items()}
    assert shown == {"a": ("A", "R", "n", True), "b": ("b", "b", "", False)}
    assert [str(s.ref) for s in found.variants["a"].stages] == ["a/main"]
    assert (found.paper, found.title, found.overall) == ("demo", "A demo", "normalised")
    assert found.path == tmp_path / "g0.yaml"


def test_epochs_are_chosen_by_the_papers_rule(tmp_path: Path) -> None:
    text = f"variants:\n  a: {{{TASKS}}}\n  b: {{{TASKS}, select: normalised}}\n"
    head = HEAD.replace("normalised", "plain")
    found = grid(tmp_path, text, head=head)
    assert (spec(found, "a").select, spec(found, "b").select) == ("plain", "normalised")
    found = grid(tmp_path, text, head=head, override={"select": None})
    assert spec(found, "b").select == "plain"


def test_extends_merges_deeply_replaces_lists_and_null_deletes(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        """
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
""",
    )
    a, b, least = spec(found, "a"), spec(found, "b"), spec(found, "least")
    assert (a.optimiser.lr, a.optimiser.weight_decay) == (1e-4, 0.1)
    assert a.optimiser.schedule.name == "constant"
    assert (a.tasks["sst"].head.depth, a.tasks["sst"].head.dropout, a.epochs) == (3, 0.5, 3)
    assert a.tasks["sts"].features == ("|u-v|",)
    assert (list(b.tasks), b.epochs) == (["sst"], 10)
    assert (spec(found, "with").surgery, spec(found, "both").surgery) == ("pcgrad", None)
    assert (list(least.tasks), least.smart, least.tasks["sst"].convolution) == (["sst"], None, None)
    assert found.variants["least"].label == "least"
    assert spec(found, "again").tasks["sts"].pairing == "cross"


def test_templates_pass_on_how_they_are_shown_and_variants_do_not(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        f"""
templates: {{t: {{test: true, note: shared, {TASKS}}}}}
variants:
  a: {{extends: t, label: A, row: R}}
  b: {{extends: a}}
""",
    )
    a, b = found.variants["a"], found.variants["b"]
    assert (a.test, a.note, a.label) == (True, "shared", "A")
    assert (b.test, b.note, b.label, b.row) == (False, "", "b", "b")


def test_a_star_reaches_all_tasks(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        """
templates:
  t: {tasks: {"*": {pooling: mean, head: {depth: 2}}}}
variants:
  a:
    extends: t
    tasks: {sst: {loss: cross_entropy, head: {depth: 4}}, cfimdb: {loss: cross_entropy}}
  b: {extends: a, tasks: {"*": {head: {depth: 1}}}}
""",
    )
    assert {t: s.head.depth for t, s in spec(found, "a").tasks.items()} == {"sst": 4, "cfimdb": 2}
    assert {t: s.head.depth for t, s in spec(found, "b").tasks.items()} == {"sst": 1, "cfimdb": 1}
    assert {s.pooling for s in spec(found, "b").tasks.values()} == {"mean"}


def test_expand_is_cartesian_and_names_spell_numbers_one_way(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        f"""
templates: {{t: {{{TASKS}}}}}
variants:
  "r-lr{{lr}}-d{{dropout}}":
    extends: t
    label: "lr {{lr}}"
    expand: {{optimiser.lr: [0.0001, 1e-6, 2.5e-5], tasks.sst.head.dropout: [0.1, 0.5]}}
""",
    )
    assert list(found.variants) == [
        f"r-lr{lr}-d{d}" for lr in ("1e-4", "1e-6", "2.5e-5") for d in ("0.1", "0.5")
    ]
    last = spec(found, "r-lr2.5e-5-d0.5")
    assert (last.optimiser.lr, last.tasks["sst"].head.dropout) == (2.5e-5, 0.5)
    assert found.variants["r-lr1e-6-d0.1"].label == "lr 1e-6"


def test_expand_takes_words_for_values_stars_tasks_and_stages(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        ALL
        + """
  "f-{features}":
    extends: t
    expand: {tasks.para.features: {cat: [u, v], had: [u, v, u*v]}}
  after: {extends: f-had}
  "s-{surgery}": {extends: t, expand: {surgery: [null, pcgrad]}}
  "p-{pooling}": {extends: t, expand: {tasks.*.pooling: [cls, mean]}}
  "a-{train}": {extends: t, expand: {train: [sst, para]}}
  one: {extends: t, epochs: 3}
  "one-{lr}": {extends: one, expand: {stages.main.optimiser.lr: [1, 2]}}
""",
    )
    assert spec(found, "after").tasks["para"].features == ("u", "v", "u*v")
    assert spec(found, "f-cat").tasks["para"].features == ("u", "v")
    assert [spec(found, f"s-{w}").surgery for w in ("none", "pcgrad")] == [None, "pcgrad"]
    assert {t.pooling for t in spec(found, "p-mean").tasks.values()} == {"mean"}
    assert [spec(found, f"a-{t}").trained_tasks for t in ("sst", "para")] == [("sst",), ("para",)]
    assert [spec(found, f"one-{n}").optimiser.lr for n in (1, 2)] == [1, 2]
    assert spec(found, "one-2").epochs == 3


def test_stages_take_the_variants_keys_as_defaults(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        ALL
        + """
  two:
    extends: t
    epochs: 3
    stages:
      - {name: first, epochs: 1}
      - {name: second, start: first, optimiser: {lr: 1e-3}, tasks: {lmrd: null}}
""",
    )
    assert [spec(found, "two", s).epochs for s in ("first", "second")] == [1, 3]
    assert [spec(found, "two", s).optimiser.lr for s in ("first", "second")] == [1e-5, 1e-3]
    scored = found.variants["two"].scored  # by the last stage that has the task
    assert {task: s.ref.stage for task, s in scored.items()} == {
        **{"sst": "second", "para": "second"},
        "lmrd": "first",
    }


def test_train_takes_tasks_and_evaluate_only_carries_them(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        ALL
        + """
  one: {extends: t, train: sst}
  two: {extends: t, train: [para, sst], evaluate_only: lmrd}
  rest: {extends: t, evaluate_only: [para]}
  held: {extends: t, evaluate_only: para, tasks: {lmrd: {trained: false}}}
  again: {extends: held, train: [sst, lmrd]}
  row:
    extends: t
    stages: [{name: first, train: sst}, {name: second, train: para, evaluate_only: sst}]
""",
    )
    assert list(spec(found, "one").tasks) == ["sst"]
    assert spec(found, "two").trained_tasks == ("sst", "para")
    assert spec(found, "two").ordered_tasks == ("sst", "para", "lmrd")
    assert spec(found, "rest").trained_tasks == ("sst", "lmrd")
    assert spec(found, "held").trained_tasks == ("sst",)
    assert spec(found, "again").trained_tasks == ("sst", "lmrd")
    assert spec(found, "row", "first").ordered_tasks == ("sst",)
    assert spec(found, "row", "second").trained_tasks == ("para",)
    assert found.variants["row"].scored["sst"].ref.stage == "second"


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
    expected = {"a/y": "a/x", "a/z": "a/x", "b/main": "a/z", "c/main": "a/x"}
    assert {ref: start for ref, start in starts(found).items() if start} == expected
    (stage,) = found.variants["fu"].stages
    assert [str(ref) for ref in stage.fused] == ["ad/sst", "ad/para"]


def test_files_of_a_paper_make_one_grid_in_any_order(tmp_path: Path) -> None:
    ratios = "parameter_ratios: [[a, b]]\n"
    (tmp_path / "a.yaml").write_text(
        f"{HEAD.replace('normalised', 'plain')}description: D\nsingle: a\noverall_tasks: [sst]\n"
        f"variants: {{a: {{{TASKS}}}}}\n{ratios}"
    )
    (tmp_path / "b.yaml").write_text(
        f"paper: demo\nsingle: a\nvariants: {{b: {{extends: a, start: a}}}}\n{ratios}"
    )
    for names in (["a.yaml", "b.yaml"], ["b.yaml", "a.yaml"]):
        (found,) = resolve(load_config({"grids": names}), tmp_path)
        assert starts(found) == {"a/main": None, "b/main": "a/main"}
        assert (found.title, found.overall, found.description) == ("A demo", "plain", "D")
        assert (found.single, found.overall_tasks) == ("a", ("sst",))
        assert found.path == tmp_path / "a.yaml"
        assert found.parameter_ratios == (("a", "b"), ("a", "b"))


def test_grids_are_found_by_bare_name(tmp_path: Path) -> None:
    (tmp_path / "workflow/grids").mkdir(parents=True)
    (tmp_path / "workflow/grids/g.yaml").write_text(f"{HEAD}variants: {{a: {{{TASKS}}}}}\n")
    assert [g.paper for g in resolve(load_config({"grids": ["g"]}), tmp_path)] == ["demo"]


def test_spelling_and_the_order_of_keys_do_not_matter(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        """
variants:
  a: {epochs: 3, optimiser: {lr: 1e-5, eps: 1e-6}, tasks: {sst: {loss: cross_entropy, weight: 1}}}
  b: {tasks: {sst: {weight: 1.0, loss: cross_entropy}}, optimiser: {eps: 0.000001, lr: 0.00001},
      epochs: 3}
  c: {extends: a, smart: {weight: 0, noise: 1e-2}}
""",
    )
    assert spec(found, "a") == spec(found, "b") == spec(found, "c"), "no penalty is no SMART"
    assert spec(found, "a").model_dump_json() == spec(found, "b").model_dump_json()


TUNED = (
    THREE
    + """\
  tuned:
    extends: t
    tune: {optimiser.lr: [1e-5, 3e-5], tasks.sst.weight: [1, 2.5]}
variants:
"""
)


def test_every_combination_of_tune_is_a_candidate(tmp_path: Path) -> None:
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


def test_a_half_of_dev_chooses_the_epochs_of_candidates(tmp_path: Path) -> None:
    text = "  a: {extends: tuned}\n  b: {extends: t, select_on: half, optimiser: {lr: 3e-5}}\n"
    found = grid(tmp_path, f"{TUNED}{text}  c: {{extends: t}}\n", defaults={"select_on": "dev"})
    assert spec(found, "c").select_on == "dev"
    assert spec(found, "a.lr-3e-5.weight-1") == spec(found, "b"), "the same as a row that says so"


def test_a_search_is_inherited_replaced_and_taken_back(tmp_path: Path) -> None:
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
    keys = f"sampler: {{name: sequential}}, tasks: {{para: null}}, tune: {tune}"
    convolved = "tune: {tasks.*.convolution: [null, {kernel: 3}]}"
    text = f"{THREE}variants:\n  a: {{extends: t, {keys}}}\n  b: {{extends: t, {convolved}}}\n"
    found = grid(tmp_path, text)
    assert "sst.weight 2, sts.weight 1, sampler.order sst-sts" in found.variants["a"].tried.values()
    assert "a.sst.weight-1.sts.weight-1.sampler.order-none" in found.variants
    of = {bool(spec(found, name).tasks["sts"].convolution) for name in found.variants["b"].tried}
    assert of == {True, False}


def test_stages_are_tuned_and_started_from_by_the_candidates_name(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        THREE
        + """\
variants:
  a:
    extends: t
    surgery: pcgrad
    tune: {stages.second.epochs: [2, 3], stages.second.surgery: [pcgrad, null]}
    stages: [{name: first, epochs: 1}, {name: second, start: first}]
  b: {extends: t, start: a.epochs-3.surgery-none}
""",
    )
    name = "a.epochs-3.surgery-none"
    assert [spec(found, name, stage).epochs for stage in ("first", "second")] == [1, 3]
    assert [spec(found, name, s).surgery for s in ("first", "second")] == ["pcgrad", None]
    assert (starts(found)[f"{name}/second"], starts(found)["b/main"]) == (
        f"{name}/first",
        f"{name}/second",
    )


def test_runs_of_a_setting_can_be_drawn(tmp_path: Path) -> None:
    figure = "figures: {f: {kind: loss-curves, title: T, variants: [a.lr-1e-5.weight-1]}}\n"
    assert "f" in grid(tmp_path, f"{TUNED}  a: {{extends: tuned}}\n{figure}").figures


def test_a_choice_among_variants(tmp_path: Path) -> None:
    text = "  a: {extends: t}\n  c: {best_of: [a], best_by: task, test: true, note: n}\n"
    chosen = grid(tmp_path, ALL + text).variants["c"]
    assert (chosen.best_of, chosen.best_by, chosen.test, chosen.stages) == (
        ("a",),
        "task",
        True,
        (),
    )


def test_the_grid_beats_defaults_and_override_beats_the_grid(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        ALL
        + """
  plain: {extends: t, epochs: 5, surgery: pcgrad}
  said: {extends: t, optimiser: {schedule: {name: constant}}, tasks: {sst: {weight: 5}}}
""",
        defaults={
            "epochs": None,
            "optimiser": {"schedule": {"name": "linear", "warmup": 0.1}},
            "tasks": {"*": {"weight": 2, "batch_size": 99}, "sst": {"weight": 3}, "sts": {}},
        },
        scale={"epochs": 2},
        override={
            "epochs": 7,
            "surgery": None,
            "tasks": {"*": {"pooling": "max"}, "para": {"pooling": "mean"}, "sts": {}},
        },
    )
    plain, said = spec(found, "plain"), spec(found, "said")
    assert (plain.optimiser.schedule.name, said.optimiser.schedule.name) == ("linear", "constant")
    assert (plain.epochs, plain.surgery) == (7, None)
    assert {t: s.weight for t, s in plain.tasks.items()} == {"sst": 3, "lmrd": 2, "para": 2}
    assert said.tasks["sst"].weight == 5
    assert {t.batch_size for t in plain.tasks.values()} == {99}, "their star is for all they name"
    assert {t: s.pooling for t, s in said.tasks.items()} == {
        **{"sst": "max", "lmrd": "max"},
        "para": "mean",
    }


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
    for name, one in specs.items():
        rate = (1e-3, 0.0) if name == "baseline" else (1e-5, 0.001)
        assert (one.optimiser.lr, one.optimiser.weight_decay) == rate
        assert one.optimiser.schedule.name == "constant"
        losses = ["cross_entropy", "binary_cross_entropy", "mse"]
        assert [one.tasks[t].loss for t in one.ordered_tasks] == losses
        of_tasks = {(t.head.dropout, t.batch_size, t.pooling) for t in one.tasks.values()}
        assert of_tasks == {(0.3, 16, "cls")}
    baseline = specs.pop("baseline")
    assert (baseline.trainable, baseline.trained_tasks) == ("heads", ("sst",))
    assert {t.head.depth for t in baseline.tasks.values()} == {1}
    assert [baseline.tasks[t].features for t in ("sst", "para", "sts")] == [None, *[("u", "v")] * 2]
    for one in specs.values():
        assert {(t.head.depth, t.head.width) for t in one.tasks.values()} == {(3, 256)}
        assert [one.tasks[t].pairing for t in ("sst", "para", "sts")] == [None, "cross", "cross"]
        assert (one.trainable, one.sampler.name) == ("all", "unified")
    assert found.figures["multitask-loss"].variants == ("1-bert", "3-bert", "hybrid-bert")


def test_the_grid_of_methods_differs_in_the_method_alone() -> None:
    assert "tuned-sum" not in load_config(REPOSITORY / "config.yaml").grids, "it needs torchjd"
    (found,) = resolve(load_config({"grids": ["tuned-sum"]}), REPOSITORY)
    methods, plain = {}, found.variants["plain-sum"].tried
    for name, row in found.rows.items():
        assert row.test and list(row.tried.values()) == list(plain.values())
        for candidate, other in zip(row.tried, plain, strict=True):
            one, same = spec(found, candidate), spec(found, other)
            method = {"surgery": one.surgery, "weighting": one.weighting}
            assert same.model_copy(update=method) == one
            methods[name] = one.surgery or one.weighting
    assert list(methods.values()) == [
        *(None, "pcgrad", "cagrad", "nash_mtl", "upgrad", "uncertainty", "random")
    ]
    assert [claim.against for claim in found.claims] == [n for n in methods if n != "plain-sum"]


def test_a_plan_imports_no_heavy_library() -> None:
    code = (
        "import sys, minbert.spec.resolve, minbert.plan.parameters, minbert.store.code\n"
        "print([m for m in ('torch', 'numpy', 'pandas', 'pyarrow', 'mlflow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
