"""The report's first screen and its warnings: findings, floors, the chart, the best variants."""

from __future__ import annotations

from statistics import fmean, median

import pytest
from reporting import CONSTANT, FAILED, PAPER, SEEDS, job_of, plan_results

from minbert.evaluate.marks import GUESS
from minbert.evaluate.reading import Of
from minbert.evaluate.text import read_csv
from minbert.plan.plan import Plan
from minbert.report.chart import MARGIN, WIDTH, panels, place, ticks_over
from minbert.report.floors import judge
from minbert.report.material import Material
from minbert.report.opening import banner, best_variants, findings
from minbert.report.runs import read_runs
from minbert.report.warnings import find_warnings


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan_results(tmp_path_factory.mktemp("opening"))


@pytest.fixture
def material(plan: Plan) -> Material:
    return Material(job_of(plan, plan.shown["report"]))


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
    assert case.endswith("(seeds 0, 1, 2)") and f"floor {_floor(material):.3f}" in case
    assert verdicts.single == 3 < verdicts.tested - verdicts.above
    assert f"{PAPER} / {material.labels[PAPER, 'baseline']}: " in " ".join(verdicts.low)


def _floor(material: Material) -> float:
    floor = material.scores[PAPER][Of("1-bert", "dev", "sst")][0].floor
    assert floor is not None
    return floor


def test_a_score_of_a_task_that_is_not_trained_is_said_to_be_one(material: Material) -> None:
    for stage in material.job.spec["stages"]:
        if stage["variant"] == CONSTANT:
            stage["tasks"] = ["para"]
    (case,) = judge(material).constant
    assert case.endswith("; not trained on this task")


def test_findings_say_how_many_scores_are_above_the_floor(
    material: Material, index: list[dict[str, str]]
) -> None:
    verdicts = judge(material)
    said = list(findings(material, index, verdicts, None))
    assert f"with {len(SEEDS)} seeds each" in said[0]
    assert f"{verdicts.above} of {verdicts.tested} dev scores" in said[1] and GUESS in said[1]
    assert "3 of the others are from runs that predict one class or number" in said[1]
    assert len(said) == 2, "on generated data nothing is held against the papers"
    next(line for line in index if line["status"] == "scored")["seeds"] = "1"
    assert f"with 1 or {len(SEEDS)} seeds each" in next(findings(material, index, verdicts, None))
    none = [line for line in index if line["status"] != "scored"]
    assert none and "each" not in next(findings(material, none, verdicts, None))
    assert "nothing here is about the papers" in banner(material)


def test_on_real_data_there_is_no_banner_and_our_scores_are_held_against_the_papers(
    material: Material, index: list[dict[str, str]]
) -> None:
    material.job.spec["data"] = "real"
    assert banner(material) == ""
    gaps = [
        float(line["sst_ours"]) - float(line["sst_published"])
        for line in index
        if line["split"] == "dev" and line["sst_ours"] and line["sst_published"]
    ]
    said = f"SST {median(gaps):+.3f} ({len(gaps)} rows)".replace("-", "\u2212")
    assert said in list(findings(material, index, judge(material), None))[-1]


def test_the_chart_has_every_published_row_on_dev_ours_and_the_floor(
    material: Material, index: list[dict[str, str]]
) -> None:
    drawn = {panel.title: panel for panel in panels(material, index)}
    assert list(drawn) == ["SST", "Paraphrase", "STS", "Overall"]
    (strip,) = drawn["SST"].strips
    lines = [line for line in index if line["split"] == "dev" and line["paper"] == PAPER]
    assert len(strip.published) == sum(line["sst_published"] != "" for line in lines)
    assert 0 < len(strip.ours) < len(strip.published), f"{FAILED} has none"
    assert strip.floor and strip.floor.said == f"{PAPER}, floor: {_floor(material):.3f}"
    assert any(mark.said.startswith("1-bert, ours: ") for mark in strip.ours)
    places = [mark.x for mark in (*strip.published, *strip.ours, strip.floor)]
    assert all(MARGIN <= x <= WIDTH - MARGIN for x in places)


def test_rows_of_other_examples_have_no_floor_in_common(
    material: Material, index: list[dict[str, str]]
) -> None:
    """As a tuned row, scored on half of dev, beside others."""
    best = next(one for one in best_variants(material, index) if one.paper == PAPER)
    label = {label: name for (paper, name), label in material.labels.items() if paper == PAPER}
    means = material.means[PAPER]
    for of, one in means.items():
        if of.variant != label[best.label or ""]:
            means[of] = one._replace(floor=0.1)
    again = next(one for one in best_variants(material, index) if one.paper == PAPER)
    assert again.floor == best.floor != 0.1
    drawn = {panel.title: panel for panel in panels(material, index)}
    assert all(strip.floor is None for panel in drawn.values() for strip in panel.strips)
    only = [line for line in index if line["variant"] != label[best.label or ""]]
    (strip,) = next(panel for panel in panels(material, only) if panel.title == "SST").strips
    assert strip.floor and strip.floor.said == f"{PAPER}, floor: 0.100"


def test_tasks_besides_the_three_are_in_the_chart_and_among_the_medians(
    material: Material, index: list[dict[str, str]]
) -> None:
    line = next(line for line in index if line["split"] == "dev" and line["status"] == "scored")
    line |= {"other_published": "0.776", "other_ours": "0.85"}
    drawn = {panel.title: panel for panel in panels(material, index)}
    assert list(drawn) == ["SST", "Paraphrase", "STS", "Other tasks", "Overall"]
    assert drawn["Other tasks"].metric == drawn["SST"].metric
    (strip,) = drawn["Other tasks"].strips
    assert [mark.said for mark in strip.ours] == [f"{line['row']}, ours: 0.850"]
    material.job.spec["data"] = "real"
    said = list(findings(material, index, judge(material), None))[-1]
    assert ", Other tasks +0.074 (1 row)," in said


def test_a_place_on_the_scale_is_in_proportion() -> None:
    ticks = ticks_over([-0.05, 0.62])
    assert ticks == [-0.2, 0.0, 0.2, 0.4, 0.6, 0.8]
    assert [place(at, ticks) for at in (-0.2, 0.3, 0.8)] == [MARGIN, WIDTH / 2, WIDTH - MARGIN]
    assert ticks_over([0.3]) == [0.3, 0.4], "of a single value"


def test_without_published_rows_the_chart_has_all_variants(material: Material) -> None:
    drawn = {panel.title: panel for panel in panels(material, [])}
    assert list(drawn) == ["SST", "Paraphrase", "STS", "Overall"]
    (strip,) = drawn["SST"].strips
    scored = [of for of, _ in material.trained(PAPER) if of.measure == "sst"]
    assert len(strip.ours) == len(scored) > 3 and not strip.published and strip.floor


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
    assert best.ours.n == len(SEEDS) and best.floor and 0 < best.floor < best.ours.mean
    assert best.published == 0.772
