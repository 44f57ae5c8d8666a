"""The report's first screen and its warnings: findings, floors, the best variants."""

from __future__ import annotations

from statistics import fmean, median

import pytest
from reporting import CONSTANT, PAPER, SEEDS

from minbert.evaluate.marks import GUESS
from minbert.evaluate.reading import Of
from minbert.evaluate.text import read_csv
from minbert.report.floors import judge
from minbert.report.material import Material
from minbert.report.opening import banner, best_variants, findings
from minbert.report.runs import read_runs
from minbert.report.warnings import find_warnings


@pytest.fixture
def index(material: Material) -> list[dict[str, str]]:
    return read_csv(material.job.need("index"))


def test_the_first_warning_names_the_runs_that_predict_one_class(material: Material) -> None:
    verdicts = judge(material)
    found = list(find_warnings(material, read_runs(material), verdicts, [], []))
    assert (
        "predict the same class" in found[0][0]
        and f"not above their floor, {GUESS}," in found[1][0]
    )
    label = material.labels[PAPER, CONSTANT]
    (case,) = [case for case in found[0][1] if case.startswith(f"{PAPER} / {label}: SST")]
    floor = material.scores[PAPER][Of("1-bert", "dev", "sst")][0].floor
    assert case.endswith("(seeds 0, 1, 2)") and f"floor {floor:.3f}" in case
    assert verdicts.single == 3 < verdicts.tested - verdicts.above
    assert f"{PAPER} / {material.labels[PAPER, 'baseline']}: " in " ".join(verdicts.low)


def test_findings_say_how_many_scores_are_above_the_floor(
    material: Material, index: list[dict[str, str]]
) -> None:
    verdicts = judge(material)
    said = list(findings(material, index, verdicts, None))
    assert f"with {len(SEEDS)} seeds each" in said[0]
    assert f"{verdicts.above} of {verdicts.tested} dev scores" in said[1] and GUESS in said[1]
    assert "3 of the others are from runs that predict one class or number" in said[1]
    assert len(said) == 2, "on generated data nothing is held against the papers"
    assert "nothing here is about the papers" in banner(material)


def test_on_real_data_there_is_no_banner_and_our_scores_are_held_against_the_papers(
    material: Material, index: list[dict[str, str]]
) -> None:
    material.job.spec["data"] = "real"
    assert banner(material) == ""
    lines = [line for line in index if line["split"] == "dev" and line["sst_ours"]]
    lines[0] |= {"other_published": "0.776", "other_ours": "0.85"}
    gaps = [
        float(line["sst_ours"]) - float(line["sst_published"])
        for line in lines
        if line["sst_published"]
    ]
    said = list(findings(material, index, judge(material), None))[-1]
    assert f"SST {median(gaps):+.3f} ({len(gaps)} rows)".replace("-", "\u2212") in said
    assert ", Other tasks +0.074 (1 row)," in said


def test_the_best_variant_stands_beside_its_floor_and_the_papers_best(
    material: Material, index: list[dict[str, str]]
) -> None:
    (best,) = best_variants(material, index)
    found = {
        material.labels[PAPER, of.variant]: fmean(score.value for score in by_seed.values())
        for of, by_seed in material.scores[PAPER].items()
        if (of.split, of.measure) == ("dev", "normalised")
    }
    assert best.label == max(found, key=lambda label: found[label])
    assert best.ours and best.ours.mean == pytest.approx(found[best.label])
    assert best.ours.n == len(SEEDS) and best.ours.floor and 0 < best.ours.floor < best.ours.mean
    assert best.published == 0.772
