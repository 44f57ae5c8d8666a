"""Claims judged from predictions: the table that is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from claimed_paper import N, Paper, against

from minbert.base.errors import UserError
from minbert.evaluate.claims import cells, read_claims
from minbert.evaluate.text import markdown
from minbert.spec.protocol import OVERALL_TASKS
from minbert.train.evaluation import PREDICTIONS


@pytest.fixture
def paper(tmp_path: Path) -> Paper:
    return Paper(tmp_path)


def test_verdicts_from_predictions(paper: Paper) -> None:
    paper.run("good", sst=0.8)
    paper.run("bad", sst=0.6)
    paper.run("as-bad", sst=0.61)
    found = paper.judge(
        against("good", "bad", published=0.1),
        against("bad", "good"),
        against("bad", "as-bad"),
        against("good", "absent", "bad"),
        against("bad", "as-bad", direction="not higher", margin=0.2),
    )
    assert [line["verdict"] for line in found] == [
        *("holds", "does not hold", "within noise", "not run", "holds")
    ]
    first, _, _, absent, last = found
    assert float(first["published_difference"]) == 0.1
    assert float(first["low"]) < float(first["difference"]) < float(first["high"])
    assert first["method"] == "bootstrap over examples, paired"
    assert (first["examples"], first["seeds"], first["seeds_against"]) == ("400", "1", "1")
    assert (first["margin"], last["margin"]) == ("", "0.2")
    assert absent["reason"] == "no scores of absent" and absent["difference"] == ""
    # Five claims are made, if not judged: the smallest p counts five times, the next four times.
    assert float(last["p_holm"]) == pytest.approx(5 * float(last["p"]))
    assert float(first["p_holm"]) == pytest.approx(4 * float(first["p"]))
    said = "2 as claimed, 1 not as claimed, 1 within noise, 1 not run (one run of each variant)"
    assert markdown(f"5 comparisons: {said}.") in paper.text("md")
    assert "holds for these runs" in paper.text("md")


def test_an_interval_that_excludes_nothing_shows_no_numbers(paper: Paper) -> None:
    """Two seeds far apart, of a row that no other row makes steadier."""
    for name, shares in {"wild": (0.9, 0.5), "calm": (0.4, 0.41)}.items():
        for seed, share in enumerate(shares):
            paper.run(name, seed, sst=share)
    (line,) = paper.judge(against("wild", "calm"))
    assert float(line["high"]) - float(line["low"]) > 2 and float(line["detectable"]) > 1
    (shown,) = (row.split("|") for row in paper.text("md").splitlines() if "wild −" in row)  # noqa: RUF001
    assert [cell.strip() for cell in shown[8:10]] == ["any", "none"]
    assert "An interval of ±1 or more is 'any'" in paper.text("md")


def test_a_side_of_one_seed_speaks_for_its_run_alone(paper: Paper) -> None:
    """As where a training failed: what another one would have scored is not known."""
    for seed in range(3):
        paper.run("good", seed, sst=0.9)
        paper.run("fair", seed, sst=0.5)
    paper.run("bad", 0, sst=0.3)
    paper.judge(against("good", "bad"), against("good"), against("good", "fair"))
    cells = [line.split("|") for line in paper.text("md").splitlines() if line.startswith("|")]
    said = [[cell.strip() for cell in line[-3:-1]] for line in cells[2:]]
    assert said == [["3/1", "holds for these runs"], ["3", "holds"], ["3/3", "holds"]]
    assert markdown("3 as claimed (one run of some variants)") in paper.text("md")
    paper.judge(against("good", "fair"), against("good", "absent"))
    assert "one run" not in paper.text("md").split("##")[0]


def test_intervals_agree_with_verdicts(paper: Paper) -> None:
    for number in range(12):
        paper.run(f"v{number}", sst=0.5 + 0.012 * number)
    found = paper.judge(*(against(f"v{n}", "v0") for n in range(1, 12)))
    verdicts = {line["verdict"] for line in found}
    assert verdicts == {"holds", "within noise"}
    disagree = 0
    for line in found:
        low, high, low_95, high_95 = (float(line[n]) for n in ("low", "high", "low_95", "high_95"))
        assert low < low_95 < high_95 < high
        assert (line["verdict"] == "within noise") == (low <= 0 <= high)
        disagree += (low_95 > 0) != (low > 0)
        assert float(line["detectable"]) > high - float(line["difference"])
    assert disagree, "one of them would have been significant alone"


def test_the_difference_is_of_the_scores_in_the_tables(paper: Paper) -> None:
    skills = {"sst": 0.5, "para": 0.9, "sts": 0.7}
    for seed in (0, 1, 2):
        paper.run("one", seed, **skills)
        paper.run("two", seed, **{task: share - 0.1 for task, share in skills.items()})
    tasks = (*OVERALL_TASKS, "normalised", "plain")
    found = paper.judge(*(against("one", "two", task=task) for task in tasks))
    rows = pq.read_table(paper.folder / "scores.parquet").to_pylist()
    for task, line in zip(tasks, found, strict=True):
        means = [
            np.mean(
                [
                    row["value"]
                    for row in rows
                    if row["variant"] == variant
                    and (row["task"], row["metric"])
                    in {(task, "accuracy"), (task, "pearson"), ("overall", task)}
                ]
            )
            for variant in ("one", "two")
        ]
        assert float(line["difference"]) == pytest.approx(means[0] - means[1])
        assert line["examples"] == str(N if task in OVERALL_TASKS else 3 * N)
        assert (line["seeds"], line["seeds_against"]) == ("3", "3")
        assert line["method"] == "bootstrap over examples, paired; variance over seeds"
    errors = {line["task"]: float(line["error"]) for line in found}
    for rule, share in {"plain": 1, "normalised": 0.5}.items():
        parts = (errors["sst"], errors["para"], share * errors["sts"])
        assert errors[rule] == pytest.approx(np.linalg.norm(parts) / 3, rel=0.15)


def test_the_same_training_under_two_names_is_no_confirmation(paper: Paper) -> None:
    paper.run("r4", sst=0.6)
    paper.run("r7", key="r4", sst=0.6)
    (line,) = paper.judge(against("r7", "r4", direction="same"))
    assert (line["verdict"], line["p"]) == ("cannot be judged", "")
    assert line["reason"] == "r7 and r4 are the same training"
    assert "cannot be judged: r7 and r4 are the same training" in paper.text("md")


def test_a_side_that_has_not_learnt_cannot_be_judged(paper: Paper) -> None:
    paper.run("good", para=0.95, sst=0.6)
    paper.run("bad", para=0.6, sst=0.2)
    paper.run("worse", para=0.0, sst=0.2)
    found = paper.judge(
        against("bad", "worse", task="para"),
        against("bad", "worse", task="para", direction="same"),
        against("good", "bad", task="para"),
        against("bad", "good", task="para", direction="lower"),
        against("good", "bad", "good2", task="para"),
        against("bad", task="para"),
    )
    assert [(line["verdict"], line["reason"]) for line in found[:4]] == [
        *[("cannot be judged", "neither learned")] * 2,
        *[("cannot be judged", "bad did not learn")] * 2,
    ]
    assert (found[4]["verdict"], found[5]["verdict"]) == ("not run", "does not hold")
    # An overall score is judged where something was learnt.
    paper.run("half", sst=0.8, para=0.0, sts=0.9)
    paper.run("whole", sst=0.8, para=0.95, sts=0.9)
    (line,) = paper.judge(against("whole", "half", task="plain"))
    assert line["verdict"] == "holds"


def test_on_generated_data_no_verdict_is_a_finding(paper: Paper) -> None:
    paper.run("good", sst=0.8)
    paper.run("bad", sst=0.6)
    paper.judge(against("good", "bad"), data="builtin")
    text = paper.text("md")
    assert "no verdict here says anything about the papers" in text.split("##")[0]
    assert "1 comparison on generated data, so the verdicts are not findings" in text
    assert "as claimed" not in text.replace("what the paper claims", "")
    paper.judge(against("good", "bad"))
    assert "generated" not in paper.text("md")


def test_claims_within_noise_say_how_many_seeds_they_need(paper: Paper) -> None:
    for seed, (one, two) in enumerate([(0.60, 0.52), (0.66, 0.66), (0.72, 0.55)]):
        paper.run("one", seed, sst=one)
        paper.run("two", seed, sst=two)
    (line,) = paper.judge(against("one", "two"))
    assert line["verdict"] == "within noise" and int(line["seeds_needed"]) > 3
    paper.run("three", 0, sst=0.6)
    paper.run("four", 0, sst=0.61)
    (line,) = paper.judge(against("three", "four"))
    assert line["seeds_needed"] == ""


def test_majority_and_scores_that_the_paper_gives(paper: Paper) -> None:
    paper.run("one", sst=0.5, para=0.9, sts=0.7)
    majority, overall, given = paper.judge(
        against("one", task="para"),
        against("one", task="plain"),
        against("one", task="plain", score=0.3),
    )
    assert majority["against"] == "majority" and majority["seeds_against"] == ""
    assert float(majority["difference"]) == pytest.approx(0.9 - 0.75, abs=0.05)
    one = float(given["difference"]) + 0.3
    assert float(overall["difference"]) == pytest.approx(one - (0.2 + 0.75 + 0) / 3)
    assert given["against"] == "0.3"
    assert {line["verdict"] for line in (majority, overall, given)} == {"holds"}


def test_the_best_of_all_is_judged_by_the_strongest_other(paper: Paper) -> None:
    paper.run("best", sst=0.8)
    for name, share in {"weak": 0.4, "strong": 0.65, "medium": 0.5}.items():
        paper.run(name, sst=share)
    (line,) = paper.judge(against("best", "weak", "strong", "medium"))
    (alone,) = paper.judge(against("best", "strong"))
    assert line["strongest"] == "strong"
    assert [line[name] for name in ("difference", "error", "p")] == [
        alone[name] for name in ("difference", "error", "p")
    ]
    (other,) = paper.judge(against("strong", "weak", "best", "medium"))
    (single,) = paper.judge(against("strong", "best"))
    assert (other["strongest"], other["verdict"]) == ("best", "does not hold")
    assert float(other["p"]) == pytest.approx(3 * float(single["p"]))


def test_overall_needs_seeds_that_have_all_tasks(paper: Paper) -> None:
    paper.run("one", 0, sst=0.5, para=0.9, sts=0.7)
    paper.run("one", 1, sst=0.5)
    paper.run("two", 0, sst=0.4)
    sst, overall = paper.judge(
        against("one", score=0.1), against("one", score=0.1, task="normalised")
    )
    assert (sst["seeds"], overall["seeds"]) == ("2", "1")
    (line,) = paper.judge(against("one", "two", task="plain"))
    assert line["reason"] == "no scores of two"


def test_runs_of_other_examples_cannot_be_compared(paper: Paper) -> None:
    paper.run("one", sst=0.5)
    paper.labels["sst"] = paper.labels["sst"][::-1].copy()
    paper.run("two", sst=0.5)
    with pytest.raises(UserError, match=r"two.0.parquet: its dev examples of 'sst' are not"):
        paper.judge(against("one", "two"))


def test_rows_scored_on_a_half_of_dev_are_compared_on_it(paper: Paper) -> None:
    """As tuned rows with the papers' own, whose epochs all of dev chose."""
    paper.run("whole", sst=0.5)
    paper.run("half", sst=0.9)
    rows = pq.read_table(paper.files["half.0"]).to_pylist()
    for row in rows:
        if row["id"].endswith(("0", "2", "4", "6", "8")):
            row["split"] = "selection"
    pq.write_table(pa.Table.from_pylist(rows, schema=PREDICTIONS), paper.files["half.0"])
    (line,) = paper.judge(against("half", "whole"), selection_split="both")
    assert "Both kinds are compared on that other half." in paper.text("md")
    assert (line["verdict"], line["examples"]) == ("holds", str(N // 2))
    judged = {row["id"]: row for row in rows if row["split"] == "dev"}
    other = {row["id"]: row for row in pq.read_table(paper.files["whole.0"]).to_pylist()}
    one, two = (
        np.mean([of[name]["prediction"] == of[name]["label"] for name in judged])
        for of in (judged, other)
    )
    assert float(line["difference"]) == pytest.approx(one - two)


def test_the_same_predictions_give_the_same_table(paper: Paper) -> None:
    paper.run("one", sst=0.5)
    paper.run("two", sst=0.55)
    paper.judge(against("one", "two"))
    first = {ending: paper.text(ending) for ending in ("csv", "md", "tex")}
    paper.judge(against("one", "two"))
    assert {ending: paper.text(ending) for ending in first} == first


def test_text_is_harmless_and_tables_are_whole(paper: Paper) -> None:
    paper.run("one", sst=0.9)
    paper.run("two", sst=0.5)
    paper.judge(
        against("one", "two", text="100 % of a|b & <script> λ_1"),
        against("one", "two", "three"),
        extra=" #1",
    )
    text = paper.text("md")
    assert r"100 % of a\|b \& \<script\> λ\_1" in text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(line) for line in lines}) == 1
    assert all(cell.strip() for line in lines for cell in line[1:-1].split(" | "))
    assert "one − each of 2 others" in text  # noqa: RUF001 - the minus sign
    latex = paper.text("tex")
    assert r"100 \% of a\textbar{}b \& \textless{}script\textgreater{} $\lambda$\_1" in latex
    assert latex.isascii()
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {line.replace(r"\&", "").count("&") for line in rows} == {12}


def test_the_report_reads_a_claim_without_a_section(paper: Paper) -> None:
    paper.run("one", sst=0.9)
    paper.judge(against("one", section=""))
    (line,) = read_claims(paper.folder / "claims.csv")
    assert cells(line)[:3] == ("It is.", "—", "one − majority")  # noqa: RUF001 - the minus sign


def test_the_spread_of_few_seeds_is_that_of_all_rows_which_learned(paper: Paper) -> None:
    skills = {"good": (0.80, 0.86), "bad": (0.60, 0.66), "one": (0.70, 0.73), "other": (0.5, 0.53)}
    for name, shares in skills.items():
        for seed, share in enumerate(shares):
            paper.run(name, seed, sst=share)
    for seed in (0, 1):
        paper.run("good-again", seed, key="good", sst=0.8)
        paper.run("chance", seed, sst=0.2 + seed / 20)
    claim = against("good", "bad")

    def width(*others: dict[str, Any]) -> float:
        line = paper.judge(claim, *others)[0]
        return float(line["high_95"]) - float(line["low_95"])

    alone = width()
    assert width(against("good-again", "chance")) == alone
    assert width(against("one", "other")) < 0.8 * alone
