"""Every kind of figure: what is drawn of five variants, in texts that do not overlap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from figure_files import OVERALL, make_inputs, many, qualities, write_scores
from figure_texts import described, drawn, text_faults, texts_of
from matplotlib.image import imread

from minbert.base.errors import UserError
from minbert.figures import style
from minbert.figures.make import draw
from minbert.figures.read import Inputs
from minbert.spec.architecture import BERT_BASE

GOLDEN = Path(__file__).parents[1] / "golden" / "figures"
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
PAIRS = [["v1", "v2"], ["v3", "v4"], ["v4", "v0"]]
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ("ranking", "score-parameters", "stability", "transfer")},
    **{name: (name, {}) for name in ("fusion-attention", "architectures")},
    "confusion-matrix": ("confusion-matrix", {"task": "sst"}),
    "calibration": ("calibration", {"task": "para"}),
    "sts-scatter": ("sts-scatter", {"task": "sts"}),
    "ladder": ("ladder", {"over": {"v3": "v1"}, "names": {"RSS": "random subset"}}),
    "sweep": ("sweep", {"x": "Shared layers", "lines": LINES}),
    "loss": ("curves", {"smooth": 0.2}),
    "scores": ("curves", {"show": "scores"}),
    "runs": ("curves", {"show": "runs"}),
    "pairs": ("curves", {"show": "runs", "pairs": PAIRS}),
    "tables": ("curves", {"show": "tables", "tables": TABLES}),
    "cosines": ("curves", {"show": "cosines"}),
    "published": ("published-reproduced", {}),
    "dev-test": ("published-reproduced", {"against": "dev"}),
}
"""What is drawn: the kind and its options."""
OVER_ALL = ("published", "dev-test")
MOVES = [("sst", "para"), ("sst", "sts"), ("para", "sst"), ("para", "sts")]
"""From the model of v4."""


def task(trained: bool = True) -> dict[str, Any]:
    head = {"name": "mlp", "depth": 3}
    return {"trained": trained, "weight": 1.0, "head": head, "convolution": None}


def stage(tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    spec = {"tasks": tasks, "reduction": "mean"}
    spec["shared_layers"] = depth = more.pop("shared_layers", 0.5)
    spec["shared_end"] = "top" if depth == 1 else "bottom"
    about = {"name": "main", "start": None, "fused": [], "spec": spec}
    return about | {"parameters": {"total": 195_000_000, "heads": 1_800_000}} | more


def said(names: list[str]) -> dict[str, Any]:
    """Return what a plan knows of variants of three tasks each."""
    depths = ("all", "none", 0.5, 1, 0.5)
    figures = {"sst": 0.5, "para": 0.8, "sts": None, "overall": 0.7}
    tasks = {t: task() for t in OVERALL}
    tasks["sst"] |= {"convolution": {"residual": True}}
    return {
        "architecture": BERT_BASE.model_dump(),
        "rows": [
            {"variant": name, "split": "dev", "published": figures, "other_task": None}
            | {"parameters": 10**8 + 10**7 * (n % 4)}
            for n, name in enumerate(names)
        ],
        "stages": {
            name: [stage(tasks, key=name, shared_layers=depth, fused=["a/lmrd", "b/own"] * (n < 3))]
            for n, (name, depth) in enumerate(zip(names, depths * 8, strict=False))
        },
    }


def make(folder: Path, seeds: int, variants: dict[str, str] = VARIANTS, **more: Any) -> Inputs:
    about = {"about": said(list(variants)), "epochs": 4, "adapters": 2}
    return make_inputs(folder, variants, range(seeds), **{**about, **more})


def over_all(folder: Path, seeds: int) -> Inputs:
    """Return the scores of four papers, each with five published rows, one of them tested."""
    rows = [
        {
            **{"variant": f"v{n}", "split": "dev" if n else "test", "table": "1"},
            "other_task": None,
            "published": {"sst": 0.5, "para": 0.8, "sts": 0.02 * n, "overall": 0.7},
        }
        for n in range(5)
    ]
    scores = {
        paper: write_scores(folder / paper, paper, qualities(many(4)), range(seeds), tested=["v0"])
        for paper in PAPERS
    }
    about = {"rule": "normalised", "overall_tasks": OVERALL, "rows": rows, "seeds": range(seeds)}
    return Inputs({}, [{"paper": paper, **about} for paper in PAPERS], {}, scores)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Inputs]:
    """Return what one seed of five variants leaves, three of which two were not run, and none.

    Also the same number of seeds of four papers.
    """
    base = tmp_path_factory.mktemp("figures")
    return {
        "1": make(base / "one", 1),
        "3": make(base / "three", 3, absent=["v0", "v2"]),
        "none": make(base / "none", 1, absent=VARIANTS),
        "all 1": over_all(base / "all-one", 1),
        "all 3": over_all(base / "all-three", 3),
    }


def of_case(case: str, inputs: Inputs) -> Inputs:
    """Return the inputs of a case: transfers start from others."""
    stages = {
        f"v{n}": [
            stage({second: task(), first: task(trained=False)}, key=f"v{n}", start=f"v4/{first}")
        ]
        for n, (first, second) in enumerate(MOVES)
    }
    if case != "transfer":
        return inputs
    return replace(inputs, papers=[{**inputs.about, "stages": inputs.about["stages"] | stages}])


@pytest.mark.parametrize("case", CASES)
def test_what_is_drawn(case: str, results: dict[str, Inputs]) -> None:
    """Without its file in `tests/golden/figures`, a case writes it: look at it, and commit it."""
    kind, options = CASES[case]
    inputs = of_case(case, results["all 3" if case in OVER_ALL else "3"])
    figure, notes = drawn(kind, inputs, **options)
    found = "\n".join([described(figure), *notes, ""])
    with style.style():
        assert text_faults(figure, notes, title="What is shown") == []
    if not (path := GOLDEN / f"{case}.txt").exists():
        path.write_text(found, encoding="utf-8")
        pytest.fail(f"{path} is new")
    assert found == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", ["ranking", "ladder", "transfer", "calibration", "published"])
def test_one_seed(case: str, results: dict[str, Inputs]) -> None:
    kind, options = CASES[case]
    inputs = of_case(case, results["all 1" if case in OVER_ALL else "1"])
    texts = texts_of(kind, inputs, **options)
    assert "1 seed" in texts and "interval over seeds (" not in texts


def test_nothing_run(results: dict[str, Inputs]) -> None:
    for case in CASES.keys() - {"tables", "architectures", *OVER_ALL}:
        kind, options = CASES[case]
        figure, notes = drawn(kind, of_case(case, results["none"]), **options)
        assert "nothing to show yet" in described(figure), case
        assert notes[0].startswith("Failed or not run: variant 0"), case


@pytest.mark.parametrize("case", ["ranking", "score-parameters", "loss"])
def test_forty_variants(case: str, tmp_path: Path) -> None:
    kind, options = CASES[case]
    texts = texts_of(kind, make(tmp_path, 1, many(40), tasks=("sst",), epochs=2), **options)
    assert case != "ranking" or all(
        label in texts for label in many(40).values() if len(label) < 20
    )


def save(stem: Path, inputs: Inputs, kind: str, options: dict[str, Any], **more: Any) -> None:
    about = {"labels": inputs.variants, "backbone": "tiny", "data": "builtin", **inputs.about}
    shown = {"title": "T", "caption": "C", "options": options, "variants": [*inputs.variants]}
    spec = {"kind": kind, "paper": "one", "papers": [about], "draw": shown}
    files: Any = {"run": inputs.runs, "scores": inputs.scores}
    draw(SimpleNamespace(spec=spec, needs=files.get), stem, **more)  # type: ignore[arg-type]


def test_files_have_the_same_bytes_twice(results: dict[str, Inputs], tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(tmp_path / name, results["1"], "calibration", {"task": "para"})
    for ending in ("pdf", "png"):
        first, second = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("a", "b"))
        assert first == second and len(first) > 5000
    pdf = (tmp_path / "a.pdf").read_bytes()
    assert b"/Title (one: T)" in pdf and b"/Subject (C)" in pdf
    assert b"/Type3" not in pdf, "text can be edited"
    assert imread(tmp_path / "a.png").shape[1] == style.WIDE * 300
    none = replace(results["1"], variants={}, scores={"hybrid-bert": tmp_path / "no"})
    save(tmp_path / "s", none, "ranking", {}, size=(5, 4), bare=True, formats=("png",))
    assert imread(tmp_path / "s.png").shape[:2] == (1200, 1500)


def test_a_task_that_runs_do_not_have_is_named(results: dict[str, Inputs]) -> None:
    with pytest.raises(UserError, match="no training loss of task 'stt'"):
        drawn("curves", results["1"], task="stt")


def test_the_check_of_texts_finds_faults() -> None:
    with style.style():
        figure, (axes,) = style.panels(1, 2)
        axes.text(0.5, 0.5, "one")
        axes.text(0.5, 0.52, "other")
        figure.text(0.99, 0.5, "outside")
        faults = text_faults(figure, ["a note"])
    assert [fault.partition(":")[0] for fault in faults] == [
        "'outside' leaves the canvas",
        "'one' overlaps 'other'",
    ]
