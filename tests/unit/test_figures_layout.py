"""Every kind of figure: texts that fit, what is absent, the same bytes, specs that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from figure_files import make_inputs, many, qualities, write_scores
from figure_texts import spec_of, text_faults, texts_of

from minbert.base.errors import UserError
from minbert.figures import style
from minbert.figures.inputs import Inputs
from minbert.figures.make import draw_kind

KINDS = ("ranking", "confusion-matrix", "calibration", "sts-scatter", "leakage")
OVER_ALL = ("published-reproduced", "dev-test")
PAPERS = ("hybrid-bert", "adapter-fusion", "minbert-downstream", "minibert-unleashed")
SEVERAL = many(5)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """Return what one variant and seed leave."""
    return make_inputs(tmp_path_factory.mktemp("one"), many(1))


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """Return what five seeds of five variants leave, of which one failed and one was not run."""
    folder = tmp_path_factory.mktemp("several")
    return make_inputs(folder, SEVERAL, range(5), absent=["v2"], failed=["v0"])


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


@pytest.mark.parametrize("kind", KINDS)
def test_one_seed(kind: str, one: Inputs) -> None:
    texts = texts_of(kind, spec_of(many(1)), one)
    assert "1 seed" in texts or "1 run " in texts


@pytest.mark.parametrize("kind", KINDS)
def test_five_seeds_without_what_failed(kind: str, several: Inputs) -> None:
    texts = texts_of(kind, spec_of(SEVERAL), several)
    assert "Failed: variant 0." in texts and "Not run: variant 2." in texts
    assert "95 % interval" in texts or "[smallest, largest] of the seeds" in texts


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_run(kind: str, tmp_path: Path) -> None:
    inputs = make_inputs(tmp_path, many(2), absent=many(2))
    assert "no run yet" in texts_of(kind, spec_of(many(2)), inputs)


@pytest.mark.parametrize("kind", OVER_ALL)
@pytest.mark.parametrize("seeds", [1, 3])
def test_over_all_papers(kind: str, seeds: int, tmp_path: Path) -> None:
    texts = texts_of(kind, spec_of({}), over_all(tmp_path, seeds))
    assert ("1 seed" in texts) == (seeds == 1)
    over = {1: "over examples, not over seeds", 3: "over seeds (Student t)"}[seeds]
    if kind == "published-reproduced":
        over = {1: "so no intervals", 3: "95 % interval for a single run"}[seeds]
    assert over in texts and "minibert-unleashed" in texts and "n = " in texts
    facts = {"rules": {"p": "plain"}, "published": []}
    nowhere = Inputs(scores={"p": tmp_path / "no"}, facts=facts)
    assert "no " in texts_of(kind, spec_of({}), nowhere)


@pytest.mark.parametrize("kind", ["ranking", "leakage"])
def test_forty_variants(kind: str, tmp_path: Path) -> None:
    labels = many(40)
    texts = texts_of(kind, spec_of(labels), make_inputs(tmp_path, labels, tasks=("sst",), epochs=1))
    assert all(label in texts for label in labels.values() if len(label) < 20)


@pytest.mark.parametrize("kind", ["confusion-matrix", "sts-scatter"])
def test_more_panels_than_a_page_holds(
    kind: str, several: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minbert.figures.predicted.MOST_PANELS", 2)
    texts = texts_of(kind, spec_of(SEVERAL), several)
    assert "variant 1" in texts and "variant 4" not in texts
    assert "Not shown, for lack of space: 1 more variants." in texts


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bytes_twice(kind: str, one: Inputs, tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw_kind(kind, spec_of(many(1)), one, tmp_path / name)
    for ending in ("pdf", "png"):
        first, second = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("a", "b"))
        assert first == second and len(first) > 5000


@pytest.mark.parametrize("kind", [*KINDS, *OVER_ALL])
def test_unknown_keys_are_refused(kind: str, one: Inputs, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"figure '{kind}': unknown key 'titel'. Did you mean 'ti"):
        draw_kind(kind, spec_of(many(1), titel="T"), one, tmp_path / "no")
    with pytest.raises(UserError, match=f"figure '{kind}', key 'title'"):
        draw_kind(kind, spec_of(many(1), title=7), one, tmp_path / "no")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("calibration", {"bins": 1}, "key 'bins'.*greater than or equal to 2, found 1"),
        ("ranking", {"split": "train"}, "key 'split'.*'dev' or 'test'"),
        ("leakage", {"variants": {}}, "key 'variants'"),
    ],
)
def test_wrong_options_are_named(
    kind: str, change: dict[str, Any], message: str, one: Inputs, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        draw_kind(kind, spec_of(many(1)) | change, one, tmp_path / "no")


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
