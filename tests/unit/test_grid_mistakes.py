"""Mistakes that people make in grids, configurations and tasks, and what is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from grid_texts import HEAD, TASKS, TEMPLATE, problem
from own_files import BOTH, NEWS, SCORE, TWO, configured

from minbert.base.errors import UserError, did_you_mean
from minbert.spec.config import load_config
from minbert.spec.resolve import resolve

BASE = f"""{TEMPLATE}  adapted: {{extends: t, trainable: adapters, adapter: {{width: 4}}}}
  searched: {{extends: t, tune: {{optimiser.lr: [1e-5, 3e-5]}}}}
variants:
"""
OTHERS = """
  c: {extends: t}
  apart: {extends: t, train: sst, shared_layers: none}
  ad: {extends: adapted}
  best: {best_of: [c]}
  s: {extends: searched}
"""


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        # Keys, names and types, where they stand.
        ("epoch: 3", "unknown key 'variants.a.epoch'. Did you mean 'epochs'? Known: start, "),
        ("also_score: sst", "variants.a.also_score': it is called 'evaluate_only' now"),
        ("tasks: {stss: {}}", "'variants.a.tasks.stss': unknown task 'stss'; known: sst, para"),
        ("stages: [{epochs: 1}]", "the key 'variants.a.stages.0.name' is missing"),
        ("optimiser: {lr: fast}", "'variants.a.optimiser.lr' is 'fast'; expected a valid number"),
        ("epochs: 1.5", "'variants.a.epochs' is 1.5; expected a valid integer"),
        ("shared_layers: half", "expected a valid integer or expected a valid number, unable"),
        ("tasks: {sst: {loss: cross_entrpy}}", "or 'mse'. Did you mean 'cross_entropy'?"),
        # Inheritance, expansion, stages and tuning.
        ("extends: a", "variant 'a': 'extends' goes round in a circle: a -> a"),
        ("extends: [tt]", "variant 'a': 'a' extends unknown 'tt'. Did you mean 't'?"),
        ("expand: {optimiser.lr: [1, 2]}", "two variants or templates are called 'a'; rename one"),
        ("stages: [{name: x}, {name: x}]", "variant 'a': stage 'x': two stages are called so"),
        ("tune: {optimiser.lrr: [1, 2]}", "variant 'a.lrr-1': unknown key 'optimiser.lrr'. Did"),
        ("best_of: [c], epochs: 2", "variant 'a': 'best_of' trains nothing, so 'epochs' does not"),
        ("best_of: [d]", "'a': best_of: there is no variant 'd' with results. Did you mean 'ad'?"),
        ("best_of: [best]", "'a': best_of: there is no variant 'best' with results."),
        (
            "extends: searched, selection_split: dev",
            "so 'a.lr-1e-5/main' needs 'selection_split: h",
        ),
        ("extends: searched, start: c", "so 'c/main' needs 'selection_split: half', too"),
        # What a stage cannot be.
        ("train: cfimdb", "variant 'a': stage 'main': the key 'tasks.cfimdb.loss' is missing"),
        ("tasks: {sst: {loss: mse}}", "variant 'a': stage 'main': task 'sst' is classification"),
        ("tasks: {para: {pairing: null}}", "task 'para' needs 'pairing', siamese or cross, if it"),
        ("tasks: {para: {features: null}}", "task 'para' needs 'features', such as [u, v], with"),
        ("tasks: {sst: {convolution: {kernel: 4}}}", "kernel' is 4; expected 1, 3, 5"),
        ("tasks: {sst: {head: {depth: 0}}}", "an mlp head has a 'depth' of 1 or more"),
        ("tasks: {sst: {head: {name: cosine}}}", "task 'sst' has 'head: cosine', which needs"),
        ("tasks: {para: {loss: cosine_embedding}}", "which reads a cosine: it needs"),
        ("tasks: {sst: {init_head_from: lmrd}}", "'init_head_from', which needs a stage to start"),
        ("train: sst, surgery: pcgrad", "need two or more tasks in each step"),
        ("trainable: heads, surgery: pcgrad", "'surgery' needs trained parameters that tasks sha"),
        ("weighting: random, reduction: mean", "both say how losses are combined; drop one"),
        ("trainable: adapters", "'adapter' and 'trainable: adapters' go together"),
        ("extends: adapted, shared_layers: none", "'shared_layers' with 'trainable: adapters'"),
        ("extends: adapted, start: c", "'trainable: adapters' starts from the backbone, found 'c'"),
        ("trainable: heads, smart: {weight: 1}", "'trainable: heads' caches pooled features"),
        ("smart: {weight: 1, radius: 1e-5}", "'radius' and 'normalise: row' go together"),
        ("sampler: {order: [sst]}", "'sampler.order' names each trained task once, for"),
        # What a stage cannot start from or fuse.
        ("start: cd", "'a/main': no stage 'cd' to start from or to fuse. Did you mean 'c'? Give"),
        ("start: a", "'start' goes round in a circle: a/main -> a/main"),
        ("start: apart, shared_layers: none", "starts from 'apart/main', where tasks have layers"),
        ("start: ad", "'a/main' starts from 'ad/main', which trains adapters and leaves no enc"),
        ("trainable: fusion, fuse: [ad, c]", "fuses 'c/main', which has no adapters"),
        ("start: c, tasks: {sst: {init_head_from: para}}", "but 'c/main' has no such head of"),
    ],
)
def test_mistakes_in_a_variant(tmp_path: Path, keys: str, said: str) -> None:
    keys = keys if "extends" in keys or "best_of" in keys else f"extends: t, {keys}"
    found = problem(tmp_path, f"{BASE}  a: {{{keys}}}{OTHERS}")
    assert found.startswith(f"{tmp_path / 'g0.yaml'}: ") and said in found, found


CLAIM = "claims: [{text: T, variant: %s, against: %s, task: %s}]"
FIGURE = "figures: {f: {kind: %s, title: T}}"


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["  a: {}\n  a: {}\n"], "0.yaml, line 21, column 3: duplicate key 'a'; keep one of them"),
        (["  t: {extends: t}"], "two variants or templates are called 't'"),
        (["  a/b: {extends: t}"], "'a/b'; String should match pattern '^[A-Za-z0-9]"),
        (["  'a{lr}': {extends: t, expand: {optimiser.lr: [1e-4, 0.0001]}}"], "is there twice"),
        (["single: beest"], "single: there is no variant 'beest' with results."),
        ([FIGURE % "rankin"], "'figures.f.kind' is 'rankin'; expected 'architectures'"),
        ([CLAIM % ("cc", "s", "sst")], "claim 'T': there is no variant 'cc' with results. Did you"),
        ([CLAIM % ("c", "s", "spt")], "'spt' needs the task 'spt', but variant 'c' has lmrd, pa"),
        ([CLAIM % ("c", "apart", "overall")], "'overall' needs the task 'sts', but variant 'c'"),
        ([CLAIM % ("c", "57.3", "sst")], "'against' is 57.3, expected a score from -1 to 1"),
        (["paper: A b"], "'paper' is 'A b'; String should match pattern"),
        # Several files of a paper.
        (["", "variants: {c: X}"], "g0.yaml, {0}/g1.yaml: two files have variants called 'c'"),
    ],
)
def test_mistakes_in_the_files_of_a_paper(tmp_path: Path, texts: list[str], said: str) -> None:
    rest = "" if texts[0].startswith("paper") else HEAD
    first = f"{BASE}{OTHERS}{texts[0]}\n"
    others = (f"paper: demo\n{text}\n".replace("X", f"{{{TASKS}}}") for text in texts[1:])
    found = problem(tmp_path, rest + first, *others, head="")
    assert said.replace("{0}", str(tmp_path)) in found and "g0.yaml" in found, found


def test_what_a_paper_needs(tmp_path: Path) -> None:
    for text, said in (
        ("title: T\n", "g0.yaml: the key 'paper' is missing"),
        (f"paper: demo\nvariants: {{a: {{{TASKS}}}}}\n", "g0.yaml: the key 'title' is missing"),
        (HEAD, "g0.yaml: 'variants' is {}; "),
    ):
        assert said in problem(tmp_path, text, head="")


def test_a_grid_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "workflow/grids").mkdir(parents=True)
    (tmp_path / "workflow/grids/demo.yaml").write_text(HEAD)
    with pytest.raises(UserError, match=r"grids/dmo\.yaml: there is no such file\. Did .*'demo\.y"):
        resolve(load_config({"grids": ["dmo"]}), tmp_path)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"override": {"tasks": {"stss": {}}}}, "config: override: 'tasks.stss': unknown task"),
        ({"override": {"tasks": {"sst": None}}}, "after scale and override of the config: 'tasks"),
        ({"override": {"start": "x"}}, "config: override: unknown key 'start'."),
        ({"override": {"selection_split": "dev"}}, "so 's.lr-1e-5/main' needs 'selection_split"),
        ({"seed": [1]}, "config: unknown key 'seed'. Did you mean 'seeds'?"),
        ({"seeds": [1, "1"]}, "'seeds': 1 is there twice"),
        ({"seeds": [2**32]}, "'seeds.0' is 4294967296; expected less than 4294967296"),
        ({"data": "reel"}, "'data' is 'reel'; expected 'real' or 'builtin'. Did you mean 'real'?"),
        ({"device": "gpu"}, "'device' is 'gpu'; String should match pattern '^(auto|cpu|"),
        ({"threads": "x", "data": 3}, "'data' is 3; expected 'real' or 'builtin'\nconfig: 'thr"),
    ],
)
def test_mistakes_in_a_configuration(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    found = problem(tmp_path, f"{BASE}{OTHERS}", **config)
    assert said in found, found


FILES = {"files": TWO}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (BOTH | {"classes": ["a"]}, "'tasks.news': kind classification needs 'classes': their na"),
        (BOTH | {"kind": "binary"}, "kind binary needs no 'classes', or two names"),
        (SCORE | FILES | {"range": None}, "kind regression needs a 'range', the lowest and hig"),
        (BOTH | {"metric": "pearson"}, "metric 'pearson' is not for kind classification, which"),
        (NEWS | {"files": {"train": "t.tsv"}}, "no dev examples to choose the best epoch by"),
        (BOTH | {"dev": 0.1}, "'dev' is both a file and a share of train"),
        (NEWS | {"files": {"folder": "n", "test": "e.tsv"}}, "'tasks.news.files': give 'train',"),
        (NEWS | {"files": "https://x.org/t.tsv"}, "needs the checksum of what is there, as {url:"),
        (NEWS | {"files": {"url": "https://x.org", "md5": "abc"}}, "md5' is 'abc'; String should"),
    ],
)
def test_mistakes_in_a_task_of_ones_own(tmp_path: Path, entry: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        configured(tmp_path, entry)
    assert said in str(error.value), error.value


@pytest.mark.parametrize("name", ["sst", "overall", "type", "My-Task"])
def test_names_that_no_task_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"'{name}' cannot name a task: up to 40 small letters"):
        configured(tmp_path, BOTH, name)


def test_no_head_can_be_called_what_torch_has() -> None:
    from torch import nn

    from minbert.spec.task import NAME, RESERVED

    taken = {name for name in dir(nn.ModuleDict()) if NAME.fullmatch(name) and name[0] != "_"}
    assert taken <= RESERVED, taken - RESERVED


def test_only_close_words_are_suggested() -> None:
    assert did_you_mean("SST", ["sst", "sts"]) == " Did you mean 'sst'?"
    assert did_you_mean("DistilBERT", ["bert"]) == ""
