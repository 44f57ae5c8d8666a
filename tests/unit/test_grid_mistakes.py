"""Mistakes that people make in grid files, and what is said of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from grid_texts import HEAD, TASKS, TEMPLATE, problem

from minbert.base.errors import UserError, did_you_mean
from minbert.spec.config import load_config
from minbert.spec.resolve import resolve

BASE = f"""{TEMPLATE}  adapted: {{extends: t, trainable: adapters, adapter: {{width: 4}}}}
  searched: {{extends: t, tune: {{optimiser.lr: [1e-5, 3e-5]}}}}
variants:
"""


def check(said: str, *fragments: str) -> None:
    for fragment in fragments:
        assert fragment in said, said


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        # Keys and types, where they stand.
        ("epoch: 3", "unknown key 'variants.a.epoch'. Did you mean 'epochs'?"),
        ("optimiser: {lrr: 3}", "unknown key 'variants.a.optimiser.lrr'. Did you mean 'lr'?"),
        ("tasks: {stss: {}}", "'variants.a.tasks.stss': unknown task 'stss'; known: sst, para"),
        ("stages: {}", "'variants.a.stages' is {}; expected a list"),
        ("tasks: {}", "'variants.a.tasks' is {}; expected 1 or more entries"),
        ("optimiser: {betas: [0.9]}", "the entry 'variants.a.optimiser.betas.1' is missing"),
        ("optimiser: {betas: [0, 0, 0]}", "is [0, 0, 0]; expected 2 or fewer entries"),
        ("stages: [{epochs: 1}]", "the key 'variants.a.stages.0.name' is missing"),
        ("optimiser: {lr: fast}", "'variants.a.optimiser.lr' is 'fast'; expected a number"),
        ("epochs: 1.5", "'variants.a.epochs' is 1.5; expected a whole number"),
        ("epochs: true", "'variants.a.epochs': expected a number, not true or"),
        ("optimiser: {betas: [true, 0.9]}", "betas': expected a number, not true or false"),
        (
            "also_score: sst",
            "unknown key 'variants.a.also_score': it is called 'evaluate_only' now",
        ),
        ("tasks: {sst: {loss: cross_entrpy}}", "or 'mse'. Did you mean 'cross_entropy'?"),
        ("tasks: {para: {features: [u, u]}}", "features': 'u' is there twice; name each once"),
        ("expand: {epochs: 3}, label: '{epochs}'", "'variants.a.expand.epochs' is 3; expected"),
        ("tune: {epochs: [3]}", "'variants.a.tune.epochs' is [3]; expected 2 or more entries"),
        ("tune: {epochs: [3, 4, 3]}", "'variants.a.tune.epochs': 3 is there twice"),
        # Inheritance, expansion and tuning.
        ("extends: a", "'extends' goes round in a circle: a -> a"),
        ("extends: [tt]", "variant 'a': 'a' extends unknown 'tt'. Did you mean 't'?"),
        ("expand: {optimiser.lr: [1]}", "variant 'a': the name must hold the last word of each"),
        ("stages: [{name: x}, {name: x}]", "variant 'a': stage 'x': two stages are called so"),
        (
            "stages: [{name: x}, {name: x}], tune: {stages.x.epochs: [1, 2]}",
            "variant 'a': epochs 1: stage 'x': two stages are called so; rename one",
        ),
        (
            "tune: {}",
            "variant 'a': 'tune' has no values to try; list two or more by dotted key, or",
        ),
        ("tune: {epochs: null}", "variant 'a': 'tune' has no values to try"),
        ("tune: {optimiser.lrr: [1, 2]}", "'a': expand or tune: unknown key 'optimiser.lrr'. Did"),
        ("tune: {tasks.sts.weight: [1, 2]}", "'a': weight 1: stage 'main': the key 'tasks.sts.los"),
        ("tune: {stages.on.epochs: [1, 2]}", "there is no stage 'on'. Known: main"),
        ("tune: {optimiser.lr: [0.1, 0.10000001]}", "'a': two variants are called 'a.lr-0.1'; ren"),
        ("tune: {tasks.para: [null, {weight: 2}]}", "'a': 'tune' compares settings that have diff"),
        (
            "tune: {selection_split: [dev, half]}",
            "has 'selection_split: dev' and is tuned, or comes before wh",
        ),
        ("best_of: [c], epochs: 2", "variant 'a': 'best_of' trains nothing, so 'epochs' does not"),
        ("best_of: [c], tune: {epochs: [1, 2]}", "'best_of' trains nothing, so 'tune' does not"),
        # What a stage cannot be.
        ("train: spt", "Did you mean 'sst'?"),
        (
            "train: sst, evaluate_only: sst",
            "stage 'main': task 'sst' is in 'train' and in 'evaluate",
        ),
        ("tasks: {sst: {loss: mse}}", "variant 'a': stage 'main': task 'sst' is classification"),
        ("train: sst, surgery: pcgrad", "surgery 'pcgrad' needs two or more trained tasks"),
        ("shared_end: top", "'shared_end: top' with 'shared_layers: all': give a number"),
        ("trainable: adapters", "'adapter' (its width) and 'trainable: adapters' go together"),
        ("trainable: fusion", "'fuse' (stages with adapters) and 'trainable: fusion' go"),
        ("extends: adapted, shared_layers: none", "'shared_layers' with 'trainable: adapters'"),
        ("extends: adapted, start: c", "'trainable: adapters' starts from the backbone, found 'c'"),
        ("trainable: heads, smart: {weight: 1}", "'smart' with 'trainable: heads'"),
        ("trainable: heads, tasks: {sst: {convolution: {}}}", "'convolution' with 'trainable: hea"),
        ("tasks: {sst: {convolution: {kernel: 4}}}", "an odd width, found 4"),
        ("tasks: {sst: {head: {depth: 0}}}", "an mlp head has a 'depth' of 1 or more"),
        ("tasks: {sst: {head: {name: cosine}}}", "task 'sst' has 'head: cosine', which compares"),
        ("tasks: {para: {loss: cosine_embedding}}", "which reads a cosine: it needs"),
        (
            "tasks: {sst: {init_head_from: lmrd}}",
            "'init_head_from: lmrd' needs a stage to start from",
        ),
        ("smart: {weight: 1, regression: kl}", "'variants.a.smart.regression' is 'kl'; expected "),
        ("smart: {weight: 1, radius: 1e-5}", "'radius' and 'normalise: row' go together"),
        # What a stage cannot start from or fuse.
        (
            "start: cd",
            "stage 'main': no stage 'cd' to start from or to fuse. Did you mean 'c'? Give '",
        ),
        ("stages: [{name: x, start: y}, {name: y}]", "stage 'x': no stage 'y' to start from or t"),
        ("start: a", "stage 'main': no stage 'a' to start from or to fuse."),
        ("start: after", "'start' goes round in a circle: a/main -> after/main -> a/main"),
        ("start: best", "no stage 'best' to start from or to fuse. Give 'backbone', an earlier"),
        ("start: half", "('all', 'bottom'), and starts from 'half/main', which has (1, 'bottom'"),
        ("start: apart, shared_layers: none", "task 'para' has none there; start from a stage"),
        ("start: ad", "starts from 'ad/main', which trains adapters and leaves no encoder; start"),
        ("trainable: fusion, fuse: [ad, c]", "'fuse' names 'c/main', which trains all, expecte"),
        (
            "start: apart, tasks: {sst: {init_head_from: para}}",
            "'apart/main' has no such task; it has",
        ),
        (
            "start: c, tasks: {sst: {init_head_from: para}}",
            "that head has another shape in 'c/main'",
        ),
        # Names of what has no score or no stage.
        ("best_of: [d]", "variant 'a': best_of: no variant 'd'."),
        (
            "best_of: [best]",
            "variant 'best' is the best of others and trains nothing itself; name ",
        ),
        ("best_of: [s]", "itself; name one of those: s.lr-1e-5"),
        ("best_of: [s.lr-1e-5]", "is one of the settings that 's' tries, which have"),
        (
            "extends: searched, selection_split: dev",
            "has 'selection_split: dev' and is tuned, or comes befor",
        ),
        (
            "extends: searched, start: c",
            "stage 'main': 'c/main' has 'selection_split: dev' and is tuned",
        ),
    ],
)
def test_mistakes_in_a_variant(tmp_path: Path, keys: str, said: str) -> None:
    others = """
  c: {extends: t}
  after: {extends: t, start: a}
  apart: {extends: t, train: sst, shared_layers: none}
  half: {extends: t, shared_layers: 1}
  ad: {extends: adapted}
  best: {best_of: [c]}
  s: {extends: searched}
"""
    keys = keys if "extends" in keys or "best_of" in keys else f"extends: t, {keys}"
    if "start: after" not in keys:
        others = others.replace("start: a}", "start: c}")
    found = problem(tmp_path, f"{BASE}  a: {{{keys}}}{others}")
    check(found, f"{tmp_path / 'g0.yaml'}: ", said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("  a: {}\n  a: {}\n", "line 15, column 3: duplicate key 'a' (first on line 14)"),
        ("  t: {extends: t}", "'t' is taken in "),
        ("  a: {epochs: 3}", "variant 'a': stage 'main': 'tasks' is {}; expected 1 or m"),
        ("  a/b: {extends: t}", "'a/b' is no name: it has letters, digits"),
        ("  'a{x}': {extends: t}", "variant 'a{x}': the name must hold the last word"),
        ("  'a{lr}': {extends: t, expand: {optimiser.lr: [1e-4, 0.0001]}}", "is there twice"),
        (
            "  'a{lr}': {extends: t, expand: {optimiser.lr: [.inf]}}",
            "'ainf': expand or tune: 'opti",
        ),
        (
            "  s: {extends: searched}\n  s.lr-1e-5: {extends: t}",
            "two variants are called 's.lr-1e-",
        ),
        ("  a: {extends: b}\n  b: {extends: [c]}\n  c: {extends: a}", "circle: a -> b -> c -> a"),
        ("variant: {}", "unknown key 'variant'. Did you mean 'variants'?"),
        (
            "parameter_ratios: [[one, oen]]",
            "g0.yaml: parameter_ratios: no variant 'oen'. Did you m",
        ),
        ("overall_tasks: [sts]", "overall_tasks: no variant has the task 'sts'"),
        ("single: oen", "g0.yaml: single: no variant 'oen'. Did you mean 'one'?"),
        ("single: one", "single: 'one' needs a stage that trains 'sst' alone and is the last"),
        ("single: tuned.lr-1e-5", "one of the settings that 'tuned' tries, which have no scores;"),
        ("figures: {f: {kind: rankin, title: T}}", "'figures.f.kind' is 'rankin'; expected 'arch"),
        ("figures: {f: {kind: run-pairs, title: T}}", "is 'run-pairs': it is kind 'curves' with"),
        *(
            (f"figures: {{f: {{kind: {kind}, title: T, {keys}}}}}", said)
            for kind, keys, said in (
                ("ranking", "variants: [a, a]", "'figures.f.variants': 'a' is there twice"),
                ("ranking", "variants: [oen]", "figure 'f': no variant 'oen'. Did you mean 'one'"),
                ("ranking", "variants: [tuned.lr-1e-5]", "'tuned' tries, which have no scores"),
                ("curves", "variants: [best]", "figure 'f': variant 'best' is the best of o"),
                ("architectures", "variants: [tuned]", "'tuned' is the best of others and trains"),
            )
        ),
        *(
            (f"claims: [{{text: T, variant: {variant}, against: {against}}}]", said)
            for variant, against, said in (
                ("one", "true", "'claims.0.against': expected a number, not true or false"),
                ("one", "[best]", "is ['best']; expected text or a number or 2 or more entries"),
                ("tuned.lr-1e-5", "one", "claim 'T': variant 'tuned.lr-1e-5' is one of the sett"),
            )
        ),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, text: str, said: str) -> None:
    rows = "  one: {extends: t}\n  best: {best_of: [one]}\n  tuned: {extends: searched}\n"
    check(problem(tmp_path, f"{BASE}{text if text[0] == ' ' else rows + text}\n"), said, "g0.yaml")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["", ""], "'variants' is {{}}; expected"),
        (["variants: {a: X}", "variants: {a: X}"], "{1}: 'a' is taken in {0}; rename one"),
        (["variants: {a: X}\nF", "F"], "{1}: figure 'f' is in {0} too; rename one"),
        (["overall: plain", "overall: normalised"], "{1}: another file says that 'overall' of pap"),
        (["single: a", "", "single: b"], "{2}: another file says that 'single' of paper 'demo'"),
        (["", "paper: A b"], "{1}: 'paper' is 'A b'; expected text that matches"),
        (["paper: all"], "'paper': 'all' is the name of a file of all papers; choose another"),
        ([f"paper: {'p' * 101}"], "expected text of at most 100 characters"),
        (["variants: {a: X}", "C"], "{1}: claim 'T': no variant 'b'"),
        (["variants: {a: X, b: X}\nC", "C"], "{0}: claim 'T': is there twice; keep one of them"),
        (["variants: {a: X}", "parameter_ratios: [[a, b]]"], "{1}: parameter_ratios: no variant"),
        (["variants: {a: X}", "overall_tasks: [sts]"], "{1}: overall_tasks: no variant has the"),
    ],
)
def test_mistakes_in_the_files_of_a_paper(tmp_path: Path, texts: list[str], said: str) -> None:
    figure = "figures: {f: {kind: curves, title: T}}"
    claim = "claims: [{text: T, variant: a, against: b, task: sst}]"
    written = {"X": f"{{{TASKS}}}", "F": figure, "C": claim}
    texts = [re.sub(r"\b[XFC]\b", lambda word: written[word[0]], text) for text in texts]
    heads = ["" if "paper" in text else "paper: demo\ntitle: T\n" for text in texts]
    found = problem(tmp_path, *(f"{a}{b}\n" for a, b in zip(heads, texts, strict=True)), head="")
    check(found, said.format(*(tmp_path / f"g{n}.yaml" for n in range(len(texts)))))


def test_a_paper_needs_its_name_and_title(tmp_path: Path) -> None:
    check(problem(tmp_path, "", head=""), "g0.yaml: the key 'paper' is missing")
    check(problem(tmp_path, "", head="paper: demo\n"), "g0.yaml: the key 'title' is missing")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"override": {"epoch": 3}},
            "config: override: unknown key 'epoch'. Did you mean 'epochs'",
        ),
        ({"override": {"tasks": {"*": {"batch": 3}}}}, "unknown key 'tasks.*.batch'. Did you mean"),
        ({"override": {"tasks": {"sst": None}}}, "after scale and override of the config: 'tasks"),
        (
            {"override": {"trainable": "heads", "surgery": "pcgrad"}},
            "stage 'main': after scale and",
        ),
        ({"override": {"start": "x"}}, "config: override: unknown key 'start'."),
        ({"defaults": {"epoch": 3}}, "config: defaults: unknown key 'epoch'. Did you mean 'epochs"),
        (
            {"allow_duplicates": ["optimiser.lrr"]},
            "allow_duplicates: unknown key 'optimiser.lrr'. Did",
        ),
    ],
)
def test_mistakes_in_a_configuration(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    check(problem(tmp_path, f"{BASE}  a: {{extends: t}}\n", **config), said)


def test_an_override_by_which_all_of_dev_would_choose(tmp_path: Path) -> None:
    found = problem(
        tmp_path, f"{BASE}  a: {{extends: searched}}\n", override={"selection_split": "dev"}
    )
    check(found, "variant 'a.lr-1e-5': stage 'main': ", "nothing in 'override'")


def test_grids_that_are_missing_or_named_twice(tmp_path: Path) -> None:
    (tmp_path / "workflow/grids").mkdir(parents=True)
    (tmp_path / "workflow/grids/demo.yaml").write_text(HEAD)
    for grids, said in (
        (["dmo"], "workflow/grids/dmo.yaml: there is no such file. Did you mean 'demo.yaml'?"),
    ):
        with pytest.raises(UserError) as error:
            resolve(load_config({"grids": grids}), tmp_path)
        check(str(error.value).replace(f"{tmp_path}/", ""), said)


@pytest.mark.parametrize(
    ("word", "choices", "said"),
    [
        ("SST", ["sst", "sts"], " Did you mean 'sst'?"),
        ("multi-task", ["Multitask", "single"], " Did you mean 'Multitask'?"),
        ("DistilBERT", ["bert"], ""),
        ("cosine", ["constant", "linear"], ""),
    ],
)
def test_only_close_words_are_suggested(word: str, choices: list[str], said: str) -> None:
    assert did_you_mean(word, choices) == said
