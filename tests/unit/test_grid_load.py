"""Grid files: inheritance, expansion, references."""

from __future__ import annotations

from pathlib import Path

from grid_texts import HEAD, TASKS, grid, spec


def test_a_variant_of_one_stage(tmp_path: Path) -> None:
    found = grid(tmp_path, f"variants:\n  a: {{label: A, row: R, note: n, test: true, {TASKS}}}\n")
    variant = found.variants["a"]
    assert (variant.label, variant.row, variant.note, variant.test) == ("A", "R", "n", True)
    assert [str(s.ref) for s in variant.stages] == ["a/main"]
    assert (found.paper, found.title, found.overall) == ("demo", "A demo", "normalised")
    assert found.path == tmp_path / "g0.yaml"


def test_looks_default_to_the_name(tmp_path: Path) -> None:
    variant = grid(tmp_path, f"variants:\n  a: {{{TASKS}}}\n").variants["a"]
    assert (variant.label, variant.row, variant.note, variant.test) == ("a", "a", "", False)


def test_select_defaults_to_the_papers_rule(tmp_path: Path) -> None:
    text = f"variants:\n  a: {{{TASKS}}}\n  b: {{{TASKS}, select: normalised}}\n"
    found = grid(tmp_path, text, head=HEAD.replace("normalised", "plain"))
    assert (spec(found, "a").select, spec(found, "b").select) == ("plain", "normalised")


def test_extends_merges_deeply_replaces_lists_and_null_deletes(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        """
templates:
  base:
    optimiser: {lr: 1e-3, weight_decay: 0.1, schedule: {name: linear, warmup: 0.1}}
    tasks:
      sst: {loss: cross_entropy, head: {depth: 2, dropout: 0.5}}
      sts: {loss: mse, pairing: siamese, features: [u, v]}
  deep: {tasks: {sst: {head: {depth: 3}}}, epochs: 3}
variants:
  a:
    extends: [base, deep]
    optimiser: {lr: 1e-4, schedule: null}
    tasks: {sts: {features: ["|u-v|"]}}
  b: {extends: a, tasks: {sts: null}, epochs: null}
""",
    )
    a, b = spec(found, "a"), spec(found, "b")
    assert (a.optimiser.lr, a.optimiser.weight_decay) == (1e-4, 0.1)
    assert a.optimiser.schedule.name == "constant"
    assert (a.tasks["sst"].head.depth, a.tasks["sst"].head.dropout, a.epochs) == (3, 0.5, 3)
    assert a.tasks["sts"].features == ("|u-v|",)
    assert (list(b.tasks), b.epochs) == (["sst"], 10)


def test_null_deletes_what_any_parent_before_it_gives(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        """
templates:
  t:
    label: T
    tasks:
      sst: {loss: cross_entropy, convolution: {kernel: 5}}
      sts: {loss: mse, pairing: cross}
    smart: {weight: 1}
    tune: {epochs: [1, 2]}
  less: {label: null, smart: null, tune: null, tasks: {sts: null, sst: {convolution: null}}}
variants:
  both: {extends: t, tune: null, surgery: pcgrad}
  no-surgery: {extends: t, tune: null, surgery: null}
  without: {extends: [both, no-surgery]}
  least: {extends: [t, less]}
  again: {extends: [t, less], tasks: {sts: {loss: mse, pairing: siamese, features: [u, v]}}}
""",
    )
    assert (spec(found, "both").surgery, spec(found, "without").surgery) == ("pcgrad", None)
    least = spec(found, "least")
    assert (list(least.tasks), least.smart, least.tasks["sst"].convolution) == (["sst"], None, None)
    assert found.variants["least"].label == "least"
    assert spec(found, "again").tasks["sts"].pairing == "siamese"


def test_templates_pass_on_their_looks_and_variants_do_not(tmp_path: Path) -> None:
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


def test_star_of_tasks_reaches_all_tasks(tmp_path: Path) -> None:
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


def test_expand_with_words_for_values_and_a_star(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        """
templates:
  t:
    tasks: {sst: {loss: cross_entropy}, sts: {loss: mse, pairing: siamese, features: [u, v]}}
variants:
  "f-{features}":
    extends: t
    expand: {tasks.sts.features: {cat: [u, v], had: [u, v, u*v]}}
  "s-{surgery}": {extends: t, expand: {surgery: [null, pcgrad]}}
  "p-{pooling}": {extends: t, expand: {tasks.*.pooling: [cls, mean]}}
  after: {extends: f-had}
""",
    )
    assert spec(found, "after").tasks["sts"].features == ("u", "v", "u*v")
    assert spec(found, "f-cat").tasks["sts"].features == ("u", "v")
    assert [spec(found, f"s-{w}").surgery for w in ("none", "pcgrad")] == [None, "pcgrad"]
    assert {t.pooling for t in spec(found, "p-mean").tasks.values()} == {"mean"}


def test_stages_take_the_variants_keys_as_defaults(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        f"""
variants:
  two:
    {TASKS}
    epochs: 3
    stages:
      - {{name: first, epochs: 1}}
      - {{name: second, start: first, optimiser: {{lr: 1e-3}}}}
  "two-{{lr}}": {{extends: two, expand: {{stages.second.optimiser.lr: [1, 2]}}}}
""",
    )
    assert [spec(found, "two", s).epochs for s in ("first", "second")] == [1, 3]
    assert [spec(found, f"two-{n}", "second").optimiser.lr for n in (1, 2)] == [1, 2]
    assert spec(found, "two-1", "first").optimiser.lr == 1e-5


def test_the_one_stage_of_a_variant_is_called_main(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        f"""
variants:
  one: {{{TASKS}, epochs: 3}}
  "one-{{lr}}": {{extends: one, expand: {{stages.main.optimiser.lr: [1, 2]}}}}
  tuned: {{extends: one, tune: {{stages.main.epochs: [4, 5]}}}}
""",
    )
    assert [spec(found, f"one-{n}").optimiser.lr for n in (1, 2)] == [1, 2]
    assert spec(found, "one-2").epochs == 3
    assert [spec(found, f"tuned.epochs-{n}").epochs for n in (4, 5)] == [4, 5]


def test_two_files_of_a_paper_make_one_grid(tmp_path: Path) -> None:
    one, two = f"variants: {{a: {{{TASKS}}}}}", "variants: {b: {extends: a, start: a}}"
    found = grid(tmp_path, one, two)
    assert list(found.variants) == ["a", "b"]
    assert str(found.variants["b"].stages[0].start) == "a/main"


def test_each_file_of_a_paper_may_have_parameter_ratios(tmp_path: Path) -> None:
    one = f"variants: {{a: {{{TASKS}}}, b: {{{TASKS}}}}}\nparameter_ratios: [[a, b]]"
    assert grid(tmp_path, one, "parameter_ratios: [[b, a]]").parameter_ratios == (
        ("a", "b"),
        ("b", "a"),
    )


def test_the_spelling_of_numbers_and_the_order_of_keys_do_not_matter(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        """
variants:
  a: {epochs: 3, optimiser: {lr: 1e-5, eps: 1e-6}, tasks: {sst: {loss: cross_entropy, weight: 1}}}
  b: {tasks: {sst: {weight: 1.0, loss: cross_entropy}}, optimiser: {eps: 0.000001, lr: 0.00001},
      epochs: 3}
""",
    )
    assert spec(found, "a") == spec(found, "b")
    assert spec(found, "a").model_dump_json() == spec(found, "b").model_dump_json()
