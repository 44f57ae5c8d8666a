"""The papers' own figures: texts that fit, what is absent, specs that are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from figure_files import OVERALL, make_inputs, many
from figure_texts import spec_of, texts_of

from minbert.base.errors import UserError
from minbert.figures.inputs import Inputs
from minbert.figures.make import draw_kind
from minbert.spec.architecture import BERT_BASE

VARIANTS = many(5)
TABLES = [
    {"title": f"Table {n}: {label}", "variant": name, "stage": "main", "task": task}
    | {"loss": [0.9, 0.5, 0.3], "train": [0.6, 0.7, 0.8], "dev": [0.5, 0.6, 0.55]}
    for n, ((name, label), task) in enumerate(zip(VARIANTS.items(), OVERALL * 2, strict=False))
]
KINDS: dict[str, dict[str, Any]] = {
    "gradient-cosines": {},
    "architectures": {},
    "dev-curves": {},
    "score-parameters": {},
    "stability": {},
    "epoch-tables": {"tables": TABLES},
    "transfer": {},
    "fusion-attention": {},
    "run-curves": {},
    "run-pairs": {"pairs": [["v1", "v2"], ["v3", "v4"], ["v4", "v0"]]},
    "ladder": {"over": {"v3": "v1"}},
    "sweep": {
        "x": "Shared layers",
        "lines": {
            "with surgery": {name: n for n, name in enumerate(VARIANTS)},
            "without": {"v0": 0, "v4": 2.5},
        },
    },
}
UNRUN = sorted(set(KINDS) - {"architectures", "epoch-tables"})
"""Those that show nothing before anything has run."""
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


def inputs_for(kind: str, inputs: Inputs) -> Inputs:
    """Return inputs with the facts that `kind` is about."""
    if kind != "transfer":
        return inputs
    stages = {
        f"v{n}": [stage({second: task(), first: task(trained=False)}, start=f"v4/{first}")]
        for n, (first, second) in enumerate(MOVES)
    }
    return replace(inputs, facts={**inputs.facts, "stages": inputs.facts["stages"] | stages})


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


@pytest.mark.parametrize("kind", KINDS)
def test_one_seed(kind: str, one: Inputs) -> None:
    texts = texts_of(kind, spec_of(VARIANTS, **KINDS[kind]), inputs_for(kind, one))
    assert kind == "architectures" or "1 seed" in texts
    assert "Not run" not in texts and "interval over seeds (" not in texts


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "architectures"])
def test_five_seeds_without_what_failed(kind: str, several: Inputs) -> None:
    texts = texts_of(kind, spec_of(VARIANTS, **KINDS[kind]), inputs_for(kind, several))
    failed = {"epoch-tables": "Table 0: variant 0", "fusion-attention": "variant 0, SST"}
    absent = {"epoch-tables": "Table 2: variant 2", "fusion-attention": "variant 2, SST"}
    assert f"Failed: {failed.get(kind, 'variant 0')}" in texts
    assert f"Not run: {absent.get(kind, 'variant 2')}" in texts
    assert "5 seeds" in texts


@pytest.mark.parametrize("kind", UNRUN)
def test_nothing_run(kind: str, tmp_path: Path) -> None:
    inputs = make(tmp_path, 1, absent=VARIANTS)
    texts = texts_of(kind, spec_of(VARIANTS, **KINDS[kind]), inputs_for(kind, inputs))
    said = "no attention yet" if kind == "fusion-attention" else "no run yet"
    assert said in texts and "Not run: variant 0" in texts


@pytest.mark.parametrize("kind", ["score-parameters", "stability", "ladder", "dev-curves"])
def test_forty_variants(kind: str, tmp_path: Path) -> None:
    labels = many(40)
    inputs = make_inputs(tmp_path, labels, facts=facts(list(labels)), tasks=("sst",), epochs=2)
    texts_of(kind, spec_of(labels), inputs)


@pytest.mark.parametrize("kind", ["transfer", "run-pairs"])
def test_the_same_bytes_twice(kind: str, one: Inputs, tmp_path: Path) -> None:
    for name in ("a", "b"):
        spec = spec_of(VARIANTS, **KINDS[kind])
        draw_kind(kind, spec, inputs_for(kind, one), tmp_path / name)
    for ending in ("pdf", "png"):
        first, second = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("a", "b"))
        assert first == second and len(first) > 5000


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_keys_are_refused(kind: str, one: Inputs, tmp_path: Path) -> None:
    spec = spec_of(VARIANTS, **KINDS[kind], titel="T")
    with pytest.raises(UserError, match=f"figure '{kind}': unknown key 'titel'. Did you mean 'ti"):
        draw_kind(kind, spec, one, tmp_path / "no")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("gradient-cosines", {"smooth": 1}, "key 'smooth'"),
        ("stability", {"last": 1}, "key 'last'"),
        ("epoch-tables", {"tables": []}, "key 'tables'"),
        ("epoch-tables", {"tables": [TABLES[0] | {"los": [1]}]}, "unknown key 'tables.0.los'"),
        ("epoch-tables", {"tables": [TABLES[0] | {"variant": "v9"}]}, "variant 'v9' is not among"),
        ("epoch-tables", {"tables": [TABLES[0] | {"stage": "mian"}]}, "only main. Did you mean"),
        ("epoch-tables", {"tables": [TABLES[0] | {"task": "stt"}]}, "task 'stt'. Did you mean"),
        ("run-pairs", {"pairs": [["v1", "w2"]]}, "variant 'w2' is not among the figure's"),
        ("run-pairs", {"pairs": [["v1"]]}, "key 'pairs.0"),
        ("ladder", {"over": {"v3": "w1"}}, "key 'over': variant 'w1' is not among"),
        (
            "sweep",
            {"x": "X", "lines": {"a": {"w1": 1}}},
            r"options\.lines\.a: variant 'w1' is not among",
        ),
        ("sweep", {"x": "X", "lines": {"a": {}}}, "key 'lines.a'.*at least 1 item"),
    ],
)
def test_wrong_options_are_named(
    kind: str, change: dict[str, Any], message: str, one: Inputs, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        draw_kind(kind, spec_of(VARIANTS, **KINDS[kind]) | change, one, tmp_path / "no")
