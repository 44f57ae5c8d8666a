"""Every kind of figure: texts that fit, what is absent, the same bytes, refused options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from figure_files import OVERALL, make_inputs, many, qualities, write_scores
from figure_texts import text_faults, texts_of

from minbert.base.errors import UserError
from minbert.figures import style
from minbert.figures.inputs import Inputs
from minbert.figures.make import draw_kind
from minbert.spec.architecture import BERT_BASE

PAPERS = ("hybrid-bert", "adapter-fusion", "minbert-downstream", "minibert-unleashed")
VARIANTS = many(5)
TABLES = [
    {"title": f"Table {n}: {label}", "variant": name, "stage": "main", "task": task}
    | {"loss": [0.9, 0.5, 0.3], "train": [0.6, 0.7, 0.8], "dev": [0.5, 0.6, 0.55]}
    for n, ((name, label), task) in enumerate(zip(VARIANTS.items(), OVERALL * 2, strict=False))
]
LINES = {
    "with surgery": {name: n for n, name in enumerate(VARIANTS)},
    "without": {"v0": 0, "v4": 2.5},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        kind: (kind, {})
        for kind in ("ranking", "score-parameters", "stability", "transfer", "fusion-attention")
    },
    "confusion-matrix": ("confusion-matrix", {"task": "sst"}),
    "calibration": ("calibration", {"task": "para"}),
    "sts-scatter": ("sts-scatter", {"task": "sts"}),
    "ladder": ("ladder", {"over": {"v3": "v1"}}),
    "sweep": ("sweep", {"x": "Shared layers", "lines": LINES}),
    "loss": ("curves", {}),
    "scores": ("curves", {"show": "scores"}),
    "runs": ("curves", {"show": "runs"}),
    "pairs": ("curves", {"show": "runs", "pairs": [["v1", "v2"], ["v3", "v4"], ["v4", "v0"]]}),
    "tables": ("curves", {"show": "tables", "tables": TABLES}),
    "cosines": ("curves", {"show": "cosines"}),
}
"""What is drawn of five variants: the kind and its options."""
MOVES = [("sst", "para"), ("sst", "sts"), ("para", "sst"), ("para", "sts")]
"""From the model of v4."""


def task(trained: bool = True) -> dict[str, Any]:
    head = {"name": "mlp", "depth": 3}
    return {"trained": trained, "weight": 1.0, "head": head, "convolution": None}


def stage(tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    spec = {"tasks": tasks, "reduction": "mean", "shared_end": "bottom"}
    spec["shared_layers"] = more.pop("shared_layers", 0.5)
    about = {"name": "main", "start": None, "fused": [], "spec": spec}
    return about | {"parameters": {"total": 195_000_000, "heads": 1_800_000}} | more


def facts(names: list[str]) -> dict[str, Any]:
    """Return what a plan knows of variants of three tasks each."""
    depths = ("all", "none", 0.5, 1, 0.5)
    figures = {"sst": 0.5, "para": 0.8, "sts": None, "overall": 0.7}
    return {
        "rules": {"hybrid-bert": "normalised"},
        "architecture": BERT_BASE.model_dump(),
        "parameters": {name: {"here": 10**8 + 10**7 * (n % 4)} for n, name in enumerate(names)},
        "published": [{"variant": name, "split": "dev", "figures": figures} for name in names],
        "stages": {
            name: [
                stage({t: task() for t in OVERALL}, shared_layers=depth, fused=["a/lmrd", "b/own"])
            ]
            for name, depth in zip(names, depths * 8, strict=False)
        },
    }


def draw(case: str, inputs: Inputs) -> str:
    """Return the texts of a case; `transfer` is of variants that start from others."""
    stages = {
        f"v{n}": [stage({second: task(), first: task(trained=False)}, start=f"v4/{first}")]
        for n, (first, second) in enumerate(MOVES)
    }
    if case == "transfer":
        facts = {**inputs.facts, "stages": inputs.facts["stages"] | stages}
        inputs = replace(inputs, facts=facts)
    kind, options = CASES[case]
    return texts_of(kind, inputs, **options)


def make(folder: Path, seeds: int, **more: Any) -> Inputs:
    about = {"facts": facts(list(VARIANTS)), "epochs": 4, "adapters": 2}
    return make_inputs(folder, VARIANTS, range(seeds), **{**about, **more})


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """Return what one seed of five variants leaves."""
    return make(tmp_path_factory.mktemp("one"), 1)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """Return what five seeds of five variants leave, of which one failed and one was not run."""
    return make(tmp_path_factory.mktemp("several"), 5, absent=["v2"], failed=["v0"])


def over_all(folder: Path, seeds: int) -> Inputs:
    """Return the scores of four papers, each with ten published rows, one of them tested."""
    published = [
        {
            **{"paper": paper, "variant": f"v{n}", "split": "dev" if n else "test"},
            "other_task": "",
            "figures": {"sst": 0.5, "para": 0.8, "sts": 0.02 * n, "other": None, "overall": 0.7},
        }
        for paper in PAPERS
        for n in range(10)
    ]
    scores = {
        paper: write_scores(folder / paper, paper, qualities(many(9)), range(seeds), tested=["v0"])
        for paper in PAPERS
    }
    rules = dict.fromkeys(PAPERS, "normalised")
    return Inputs(scores=scores, facts={"rules": rules, "published": published})


@pytest.mark.parametrize("case", CASES)
def test_one_seed(case: str, one: Inputs) -> None:
    texts = draw(case, one)
    assert "1 seed" in texts
    assert "Not run" not in texts and "interval over seeds (" not in texts


@pytest.mark.parametrize("case", CASES)
def test_five_seeds_without_what_failed(case: str, several: Inputs) -> None:
    texts = draw(case, several)
    failed = {"tables": "Table 0: variant 0", "fusion-attention": "variant 0, SST"}
    absent = {"tables": "Table 2: variant 2", "fusion-attention": "variant 2, SST"}
    assert f"Failed: {failed.get(case, 'variant 0')}" in texts
    assert f"Not run: {absent.get(case, 'variant 2')}" in texts
    assert "5 seeds" in texts


@pytest.mark.parametrize("case", [case for case in CASES if case != "tables"])
def test_nothing_run(case: str, tmp_path: Path) -> None:
    texts = draw(case, make(tmp_path, 1, absent=VARIANTS))
    said = "no attention yet" if case == "fusion-attention" else "no run yet"
    assert said in texts and "Not run: variant 0" in texts


def test_models_are_drawn_from_their_specs_alone(one: Inputs) -> None:
    assert "parameters: 195 M" in texts_of("architectures", Inputs(one.variants, facts=one.facts))


@pytest.mark.parametrize("against", ["published", "dev"])
@pytest.mark.parametrize("seeds", [1, 3])
def test_over_all_papers(against: str, seeds: int, tmp_path: Path) -> None:
    texts = texts_of("published-reproduced", over_all(tmp_path, seeds), against=against)
    assert ("1 seed" in texts) == (seeds == 1)
    over = {1: "over examples, not over seeds", 3: "over seeds (Student t)"}[seeds]
    if against == "published":
        over = {1: "so no intervals", 3: "95 % interval for a single run"}[seeds]
    assert over in texts and "minibert-unleashed" in texts and "n = " in texts
    given = {"rules": {"p": "plain"}, "published": []}
    nowhere = Inputs(scores={"p": tmp_path / "no"}, facts=given)
    assert "no " in texts_of("published-reproduced", nowhere, against=against)


@pytest.mark.parametrize("case", ["ranking", "score-parameters", "stability", "scores", "loss"])
def test_forty_variants(case: str, tmp_path: Path) -> None:
    labels = many(40)
    given = facts(list(labels))
    texts = draw(case, make_inputs(tmp_path, labels, facts=given, tasks=("sst",), epochs=2))
    if case == "ranking":
        assert all(label in texts for label in labels.values() if len(label) < 20)


@pytest.mark.parametrize("case", ["confusion-matrix", "sts-scatter"])
def test_more_panels_than_a_page_holds(
    case: str, several: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minbert.figures.predicted.MOST_PANELS", 2)
    texts = draw(case, several)
    assert "variant 1" in texts and "variant 4" not in texts
    assert "Not shown, for lack of space: 1 more variants." in texts


@pytest.mark.parametrize("case", ["ranking", "loss", "calibration", "transfer", "pairs"])
def test_the_same_bytes_twice(case: str, one: Inputs, tmp_path: Path) -> None:
    kind, options = CASES[case]
    for name in ("a", "b"):
        draw_kind(kind, options, one, tmp_path / name, title="T")
    for ending in ("pdf", "png"):
        first, second = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("a", "b"))
        assert first == second and len(first) > 5000


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("calibration", {"bins": 1}, "'bins' is 1; expected .*greater than or equal to 2"),
        ("ranking", {"split": "train"}, "'split' is 'train'; expected 'dev' or 'test'"),
        ("stability", {"last": 1}, "'last' is 1"),
        ("curves", {"smooth": 1}, "'smooth' is 1; expected .*less than 1"),
        ("curves", {"show": "runs", "smooth": 0.1}, "'show: runs' has no option 'smooth'"),
        ("curves", {"show": "runs", "pairs": [["v1"]]}, r"'pairs\.0"),
        (
            "curves",
            {"show": "tables", "tables": [TABLES[0] | {"los": [1]}]},
            r"unknown key 'tables\.0\.los'",
        ),
        (
            "curves",
            {"show": "tables", "tables": [TABLES[0] | {"stage": "mian"}]},
            "only main. Did you mean",
        ),
        (
            "curves",
            {"show": "tables", "tables": [TABLES[0] | {"task": "stt"}]},
            "task 'stt'. Did you mean",
        ),
        ("sweep", {"x": "X", "lines": {"a": {}}}, r"'lines\.a'"),
        ("sweep", {"x": "X"}, "the key 'lines' is missing"),
    ],
)
def test_wrong_options_are_named(
    kind: str, options: dict[str, Any], message: str, one: Inputs, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        draw_kind(kind, options, one, tmp_path / "no", title="T")
    assert list(tmp_path.iterdir()) == []


def test_the_check_of_texts_finds_faults() -> None:
    with style.style():
        figure = style.new_figure()
        axes = figure.add_subplot()
        axes.text(0.5, 0.5, "one")
        axes.text(0.5, 0.52, "other")
        figure.text(0.99, 0.5, "outside")
        axes.text(0.1, 0.1, "fine")
        faults = text_faults(figure, ["a note"])
    assert [fault.partition(":")[0] for fault in faults] == [
        "'outside' leaves the canvas",
        "'one' overlaps 'other'",
    ]
