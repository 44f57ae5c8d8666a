"""Mistakes that people make, and what is said of them: a table for each kind of input."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from grid_texts import HEAD, TASKS, TEMPLATE, grid
from own_files import BOTH, DEV, GOOD, NEWS, SCORE, TWO, Files, as_json, built, configured
from own_files import HEAD as COLUMNS

from minbert.base.errors import UserError, did_you_mean
from minbert.base.files import write_text
from minbert.data.labels import file_labels
from minbert.predict.inputs import from_file
from minbert.spec.config import load_config
from minbert.spec.resolve import resolve
from minbert.spec.task import TASKS as KNOWN

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


def variant(folder: Path, keys: str) -> None:
    """Resolve the keys of variant `a`, which extends `t` if it extends nothing else."""
    keys = keys if "extends" in keys or "best_of" in keys else f"extends: t, {keys}"
    grid(folder, f"{BASE}  a: {{{keys}}}{OTHERS}")


def paper(folder: Path, texts: list[str]) -> None:
    """Resolve a paper whose first file also has the usual variants."""
    rest = "" if texts[0].startswith("paper") else HEAD
    first = f"{rest}{BASE}{OTHERS}{texts[0]}\n"
    others = (f"paper: demo\n{text}\n".replace("X", f"{{{TASKS}}}") for text in texts[1:])
    grid(folder, first, *others, head="")


CLAIM = "claims: [{text: T, variant: %s, against: %s, task: %s}]"
SAME = "{text: T, variant: c, against: s, task: sst"
FIGURE = "figures: {f: {kind: %s, title: T}}"


def whole(folder: Path, text: str) -> None:
    """Resolve a grid file that is nothing but `text`."""
    grid(folder, text, head="")


def config(folder: Path, values: dict[str, Any]) -> None:
    """Resolve the usual variants with a configuration."""
    grid(folder, f"{BASE}{OTHERS}", **values)


def task(folder: Path, entry: dict[str, Any]) -> None:
    """Read the configuration of a task of one's own."""
    configured(folder, entry)


FILES = {"files": TWO}


FLAT = "{features: [u, v], loss: cosine_embedding, head: {name: cosine, depth: 0}}"
JOINED = "{features: [u, v, u*v], head: {name: cosine}}"
HIDDEN = {"d/train.tsv": GOOD, "d/dev.tsv": DEV, "d/test.tsv": COLUMNS + "x\t-1\n"}
LATIN = GOOD.replace("text number 7", "caf\xe9").encode("latin-1")
NUMBER = as_json(60) + '{"text": 3, "topic": 1}\n'
ONE = {"dev": 0.1}
UNCLOSED = 'text,topic\na,world\n"b,sports\nc,world\n'


def data(folder: Path, given: tuple[Files, dict[str, Any]]) -> None:
    """Make the data set of files for a task with more in its entry; nothing is left of it."""
    try:
        built(folder, given[0], BOTH | given[1])
    finally:
        assert not list((folder / "results").glob("store/data/*/*"))


def labels(folder: Path, text: str) -> None:
    """Read a file of labels of SST's test rows."""
    write_text(folder / "sst.csv", text)
    file_labels(folder / "sst.csv", "sst")


def sentences(folder: Path, given: tuple[str, str, str | bytes]) -> None:
    """Read a file of a task's sentences to predict."""
    name, of, text = given
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    from_file(folder / name, None, KNOWN[of])


CASES: dict[Callable[[Path, Any], None], list[tuple[Any, str]]] = {
    variant: [
        # Keys, names and types, where they stand.
        ("epoch: 3", "unknown key 'variants.a.epoch'. Did you mean 'epochs'? Known: start, "),
        ("also_score: sst", "variants.a.also_score': it is called 'evaluate_only' now"),
        ("tasks: {stss: {}}", "'variants.a.tasks.stss': unknown task 'stss'; known: sst, para"),
        ("stages: [{epochs: 1}]", "the key 'variants.a.stages.0.name' is missing"),
        ("optimiser: {betas: [0.99, 0.999]}", "betas.0' is 0.99; expected less than or equal to"),
        ("optimiser: {lr: fast}", "'variants.a.optimiser.lr' is 'fast'; expected a valid number"),
        ("epochs: 1.5", "'variants.a.epochs' is 1.5; expected a valid integer"),
        ("expand: {optimiser.lr: []}", "expand.optimiser.lr' is []; expected at least 1 item"),
        ('shared_layers: "1"', "'variants.a.shared_layers' is '1'; expected a valid integer"),
        ("shared_layers: half", "expected a valid integer or expected a valid number"),
        ("tasks: {sst: {loss: cross_entrpy}}", "or 'mse'. Did you mean 'cross_entropy'?"),
        # Inheritance, expansion, stages and tuning.
        ("extends: a", "variant 'a': 'extends' goes round in a circle: a -> a"),
        ("extends: [tt]", "'a' extends 'tt', which no grid of this paper in 'grids' has. Did you "),
        ("expand: {optimiser.lr: [1, 2]}", "two variants or templates are called 'a'; rename one"),
        ("stages: []", "'variants.a.stages'"),
        ("stages: [{name: x}, {name: x}]", "variant 'a': stage 'x': two stages have this name"),
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
        (f"tasks: {{para: {JOINED}}}", "task 'para' has 'head: cosine', which needs"),
        ("tasks: {sst: {head: {name: cosine}}}", "task 'sst' is classification: 'head: cosine' gi"),
        ("tasks: {para: {loss: cosine_embedding}}", "which reads a cosine: it needs"),
        ("tasks: {sst: {init_head_from: lmrd}}", "'init_head_from', which needs a stage to start"),
        ("train: sst, surgery: pcgrad", "need two or more tasks in each step"),
        ("trainable: heads, surgery: pcgrad", "'surgery' needs trained parameters that tasks sha"),
        ("weighting: random, reduction: mean", "both say how losses are combined; drop one"),
        ("trainable: adapters", "'adapter' and 'trainable: adapters' go together"),
        ("extends: adapted, shared_layers: none", "'shared_layers' with 'trainable: adapters'"),
        ("extends: adapted, start: c", "'trainable: adapters' starts from the backbone, found 'c'"),
        ("trainable: heads, start: c", "'trainable: heads' starts from the backbone, found 'c'"),
        ("trainable: heads, smart: {weight: 1}", "'trainable: heads' caches pooled features"),
        (f"trainable: heads, tasks: {{para: {FLAT}}}", "task 'para' has nothing to train: its cos"),
        ("smart: {weight: 1, radius: 1e-5}", "'radius' and 'normalise: row' go together"),
        ("smart: {weight: 1, divergence: squared_error}", "task 'sst' has classes: 'smart.diverg"),
        ("sampler: {order: [sst]}", "'sampler.order' names each trained task once, for"),
        # What a stage cannot start from or fuse.
        ("start: cd", "'a/main': no stage 'cd' to start from or to fuse. Did you mean 'c'? Give"),
        ("start: a", "'start' goes round in a circle: a/main -> a/main"),
        ("start: apart, shared_layers: none", "starts from 'apart/main', where tasks have layers"),
        ("start: ad", "'a/main' starts from 'ad/main', which trains adapters and leaves no enc"),
        ("trainable: fusion, fuse: [ad, c]", "fuses 'c/main', which has no adapters"),
        ("start: c, tasks: {sst: {init_head_from: para}}", "but 'c/main' has no such head of"),
        ("start: c, tasks: {sst: {init_head_from: sstt}}", "'a/main' has 'init_head_from: sstt', "),
    ],
    paper: [
        (["  a: {}\n  a: {}\n"], "0.yaml, line 21, column 3: duplicate key 'a'; keep one of them"),
        (["  t: {extends: t}"], "two variants or templates are called 't'"),
        (["  a/b: {extends: t}"], "'a/b'; expected pattern '^[A-Za-z0-9]"),
        (["  'a{lr}': {extends: t, expand: {optimiser.lr: [1e-4, 0.0001]}}"], "is there twice"),
        (["single: beest"], "single: there is no variant 'beest' with results."),
        ([FIGURE % "rankin"], "'figures.f.kind' is 'rankin'; expected 'architectures'"),
        ([CLAIM % ("cc", "s", "sst")], "claim 'T': there is no variant 'cc' with results. Did you"),
        ([CLAIM % ("c", "s", "spt")], "claim 'T': 'c' has no task 'spt'. Did you mean 'sst'?"),
        ([CLAIM % ("c", "apart", "overall")], "claim 'T': 'c' has no task 'sts'."),
        ([CLAIM % ("c", "57.3", "sst")], "'against' is 57.3, expected a score from -1 to 1"),
        ([CLAIM % ("c", "[s, majority]", "sst")], "'against' lists 'majority'; make the compari"),
        ([CLAIM % ("c", "[]", "sst")], "'claims.0.against' is []; expected"),
        ([CLAIM % ("c", "c", "sst")], "'against' names 'c', the claim's own variant"),
        ([CLAIM % ("c", "s", "sst, margin: 0.1")], "'margin' has no effect on the direction 'hig"),
        ([CLAIM % ("c", "s", f"sst}}, {SAME}")], "claim 'T' is there twice; take one out"),
        (["  majority: {extends: t}"], "a variant is called 'majority', as claims call the most"),
        (["single: c"], "single: a stage of 'c' trains several tasks; it trains each alone"),
        (["paper: A b"], "'paper' is 'A b'; expected pattern"),
        # Several files of a paper.
        (["", "variants: {c: X}"], "g0.yaml, {0}/g1.yaml: two files have variants called 'c'"),
        (["", "title: Y"], "g0.yaml, {0}/g1.yaml: two files differ in 'title': "),
    ],
    whole: [
        ("title: T\n", "the key 'paper' is missing"),
        (f"paper: demo\nvariants: {{a: {{{TASKS}}}}}\n", "the key 'title' is missing"),
        (HEAD, "'variants' is {}; "),
    ],
    config: [
        ({"override": {"tasks": {"stss": {}}}}, "config: override: 'tasks.stss': unknown task"),
        ({"override": {"tasks": {"sst": None}}}, "after scale and override of the config: 'tasks"),
        ({"override": {"start": "x"}}, "config: override: unknown key 'start'."),
        ({"override": {"selection_split": "dev"}}, "so 's.lr-1e-5/main' needs 'selection_split"),
        ({"seed": [1]}, "config: unknown key 'seed'. Did you mean 'seeds'?"),
        ({"seeds": [1, 1]}, "'seeds': 1 is there twice"),
        ({"grids": None}, "'grids' is None; expected a list"),
        ({"seeds": [2**32]}, "'seeds.0' is 4294967296; expected less than 4294967296"),
        ({"data": "reel"}, "'data' is 'reel'; expected 'real' or 'builtin'. Did you mean 'real'?"),
        ({"device": "gpu"}, "'device' is 'gpu'; expected pattern '^(auto|cpu|"),
        ({"threads": "x", "data": 3}, "'data' is 3; expected 'real' or 'builtin'\nconfig: 'thr"),
    ],
    task: [
        (BOTH | {"classes": ["a"]}, "'tasks.news': kind classification needs 'classes': their na"),
        (BOTH | {"kind": "binary"}, "kind binary needs no 'classes', or two names"),
        (SCORE | FILES | {"range": None}, "kind regression needs a 'range', the lowest and hig"),
        (BOTH | {"metric": "pearson"}, "metric 'pearson' is not for kind classification, which"),
        (NEWS | {"files": {"train": "t.tsv"}}, "no dev examples to choose the best epoch by"),
        (BOTH | {"dev": 0.1}, "'dev' is both a file and a share of train"),
        (
            NEWS | {"files": {"folder": {"path": "n", "md5": "0" * 32}}},
            "'files.folder' is a path a",
        ),
        (NEWS | {"files": 3}, "'tasks.news.files' is 3; expected a mapping"),
        (NEWS | {"files": {"folder": "n", "test": "e.tsv"}}, "'tasks.news': give 'files.train',"),
        (NEWS | {"files": "https://x.org/t.tsv"}, "needs the checksum of what is there, as {url:"),
        (NEWS | {"files": {"url": "https://x.org", "md5": "abc"}}, "md5' is 'abc'; expected pat"),
    ],
    data: [
        (({}, {"label": "topics"}), "60 of 60 ... line 2: no column 'topics'; found text, topic"),
        (({"t.tsv": GOOD + 2 * "x\tsad\n"}, {}), "more than 1% ... label 'sad' is not one of"),
        ((HIDDEN, {"files": "d"}), "; if test labels are not public, leave their"),
        (({"t.tsv": "id\ttext\ttopic\n" + "7\tx\t0\n" * 2}, {"id": "id"}), "has the id '7'"),
        (({"t.tsv": ""}, {}), "train has 0 rows, expected two different labels or more"),
        (({"d.tsv": GOOD}, {}), "the text of each is in train, too; ... 'dev: 0.1'"),
        (({"t.tsv": LATIN}, {}), "t.tsv, line 9: byte 0xe9 ... iconv -f windows-1252"),
        (({"t.tsv": "text\t text\ttopic\na\tb\tworld\n"}, {}), "two columns are called 'text'"),
        (({"t.csv": UNCLOSED}, ONE | {"files": "t.csv"}), "line 3: found malformed quotes"),
        (({"t.jsonl": NUMBER}, ONE | {"files": "t.jsonl"}), "line 61: text is 3, not text"),
        (({"t.parquet": b"PAR1"}, ONE | {"files": "t.parquet"}), "damaged or no such table"),
        (({"t.xlsx": b"PK\x03\x04"}, ONE | {"files": "t.xlsx"}), "cannot tell its form ... .tsv"),
        (({}, {"files": "t.tsv"}), "t.tsv has train alone; expected one file of train (train.ts"),
        (({}, ONE | {"files": "e.tsv"}), "e.tsv: there is no such file. Did you mean"),
        (({"d/training.tsv": GOOD}, {"files": "d"}), "training.tsv; expected one file of train ("),
        (({"data/train.tsv": GOOD}, {"files": "dta"}), "no such folder. Did you mean 'data'?"),
    ],
    labels: [
        ("id,labels\na,1\n", "sst.csv, line 2: no column 'label'; found id, labels"),
        ("id,label\na,1\nb,7\n", "line 3: label '7' is not one of negative, ... from 0 to 4"),
        ("id,label\na,\n", "sst.csv, line 2: a row without a label"),
        ("id,label\na,1\na,2\n", "sst.csv, line 3: a second row of id 'a'"),
    ],
    sentences: [
        (
            ("in.txt", "sst", "good\ta\n"),
            "in.txt, line 1: found 2 sentences, expected 1 (task 'sst'",
        ),
        (("in.txt", "para", "a\tb\n\t\n"), "in.txt, line 2: a sentence is empty"),
        (("in.txt", "sst", b"a\nb\xe9\n"), "in.txt, line 2: byte 0xe9 is not UTF-8 ... iconv"),
        (("in.csv", "sst", "id,sentence\n"), "in.csv: found no sentences (csv)"),
        (
            ("in.csv", "sst", "id,words\n1,a\n"),
            "2: found id, words, expected sentence or sentence1 or",
        ),
        (
            ("in.csv", "sst", 'text\n"a\nb"\nc,d\n'),
            "in.csv, line 4: 2 columns, but the header has 1",
        ),
        (("in.jsonl", "sst", '{"text": "a"}\n\n{'), "in.jsonl, line 3: is not JSON"),
        (("in.parquet", "sst", b"PAR1"), "in.parquet: expected a file that ends in .txt, "),
    ],
}
"""By who reads it: the input, and what the message says; ` ... ` stands for anything."""


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize(
    ("read", "given", "said"), [(read, *case) for read in CASES for case in CASES[read]]
)
def test_mistakes_are_named(
    tmp_path: Path, read: Callable[[Path, Any], None], given: Any, said: str
) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, given)
    found = str(error.value)
    said = said.replace("{0}", str(tmp_path))
    assert re.search(".*".join(map(re.escape, said.split(" ... "))), found), found
    assert read not in (variant, paper, whole) or "g0.yaml" in found, found
    assert read is not data or "\n" not in found, found


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"seeds": "0-4"}, "'seeds.0' is '0-4'; expected a valid integer"),
        ({"seeds": -1}, "'seeds' is -1; expected greater than or equal to 0"),
        ({"seeds": []}, r"'seeds' is \[\]; expected at least 1 item"),
        ({"scale": {"batch_size": {"least": 1}}}, "unknown key '.*least': it is called 'min' now"),
        ({"scale": {"least": 1}}, r"unknown key 'scale.least'\. Known: learning_rate, .*"),
    ],
)
def test_a_mistake_is_one_line(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        load_config({"grids": ["demo"], **values})
    assert re.fullmatch(f"config: {said}", str(error.value)), error.value


def test_a_grid_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "workflow/grids").mkdir(parents=True)
    (tmp_path / "workflow/grids/demo.yaml").write_text(HEAD)
    with pytest.raises(UserError, match=r"grids/dmo\.yaml: there is no such file\. Did .*'demo\.y"):
        resolve(load_config({"grids": ["dmo"]}), tmp_path)


@pytest.mark.parametrize("name", ["sst", "overall", "My-Task"])
def test_names_that_no_task_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"'{name}' cannot name a task: up to 40 small letters"):
        configured(tmp_path, BOTH, name)


def test_only_close_words_are_suggested() -> None:
    assert did_you_mean("SST", ["sst", "sts"]) == " Did you mean 'sst'?"
    assert did_you_mean("DistilBERT", ["bert"]) == ""
