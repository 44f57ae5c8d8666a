"""Claims judged from predictions: verdicts, Holm's procedure, the table that is made of them."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from claimed_paper import N, Paper, against

from minbert.base.errors import UserError
from minbert.evaluate.bootstrap import Estimate
from minbert.evaluate.claims import cells, decision, holm, read_claims, tail
from minbert.evaluate.text import markdown
from minbert.spec.protocol import OVERALL_TASKS
from minbert.train.evaluation import PREDICTIONS


def judged(direction: str, value: float, error: float, margin: float = 0.0) -> str:
    p, supports = decision([tail(Estimate(value, error, np.inf), direction, margin)])
    return "within noise" if p > 0.05 else "holds" if supports else "does not hold"


@pytest.mark.parametrize(
    ("direction", "margin", "clearly", "contrary", "unclear"),
    [
        ("higher", 0.0, 0.05, -0.05, 0.01),
        ("lower", 0.0, -0.05, 0.05, -0.01),
        ("same", 0.03, 0.0, 0.05, 0.01),
        ("same", 0.03, 0.0, -0.05, -0.01),
        ("not higher", 0.0, -0.02, 0.05, 0.01),
        ("not lower", 0.0, 0.02, -0.05, -0.01),
    ],
)
def test_each_direction(
    direction: str, margin: float, clearly: float, contrary: float, unclear: float
) -> None:
    assert judged(direction, clearly, 0.007, margin) == "holds"
    assert judged(direction, contrary, 0.007, margin) == "does not hold"
    assert judged(direction, unclear, 0.02, margin) == "within noise"


def test_holm_is_the_closed_test_with_bonferronis_bound() -> None:
    """A hypothesis falls when every intersection that it is part of falls (Marcus et al. 1976)."""
    draw = np.random.default_rng(0)
    for _ in range(20):
        p = [float(value) for value in draw.beta(0.3, 2, size=5)]
        closed = [0.0] * 5
        for size in range(1, 6):
            for among in combinations(range(5), size):
                bound = min(1.0, size * min(p[i] for i in among))
                for i in among:
                    closed[i] = max(closed[i], bound)
        found = holm(p, 5)
        assert [of[0] for of in found] == pytest.approx(closed)
        assert [one <= of[1] for one, of in zip(p, found, strict=True)] == [
            of <= 0.05 for of in closed
        ]
    # Tests without a p-value count too.
    assert [of[0] for of in holm([0.01, 0.04], 5)] == pytest.approx([0.05, 0.16])


@pytest.fixture
def paper(tmp_path: Path) -> Paper:
    return Paper(tmp_path)


def test_verdicts_from_predictions(paper: Paper) -> None:
    for name, share in {"good": 0.8, "bad": 0.6, "as-bad": 0.61}.items():
        paper.run(name, sst=share)
    asked = (
        against("good", "bad", published_difference=0.1, claim="100 % of a|b & <script> λ_1"),
        against("bad", "good"),
        against("bad", "as-bad"),
        against("good", "absent", "bad"),
        against("bad", "as-bad", direction="not higher", margin=0.2),
    )
    found = paper.judge(*asked)
    verdicts = ["holds", "does not hold", "within noise", "not run", "holds"]
    assert [line["verdict"] for line in found] == verdicts
    first, _, noise, absent, last = found
    assert float(first["published_difference"]) == 0.1
    assert float(first["low"]) < float(first["difference"]) < float(first["high"])
    assert first["method"] == "bootstrap over examples, paired"
    assert (first["examples"], first["seeds"], first["seeds_against"]) == ("400", "1", "1")
    assert absent["reason"] == "no scores of absent" and absent["difference"] == ""
    assert noise["seeds_needed"] == "", "of one seed, nothing is known of others"
    # Five claims are made, if not judged: the smallest p counts five times, the next four times.
    assert float(last["p_holm"]) == pytest.approx(5 * float(last["p"]))
    assert float(first["p_holm"]) == pytest.approx(4 * float(first["p"]))
    texts = {ending: paper.text(ending) for ending in ("csv", "md", "tex")}
    text, latex = texts["md"], texts["tex"]
    said = "2 as claimed, 1 not as claimed, 1 within noise, 1 not run (one run of each variant)"
    assert markdown(f"5 comparisons: {said}.") in text and "holds for these runs" in text
    assert r"100 % of a\|b \& \<script\> λ\_1" in text
    assert "good − each of 2 others" in text  # noqa: RUF001 - the minus sign
    assert r"100 \% of a\textbar{}b \& \textless{}script\textgreater{} $\lambda$\_1" in latex
    paper.judge(*asked)
    assert {ending: paper.text(ending) for ending in texts} == texts, "the same to the byte"


def test_on_generated_data_no_verdict_is_a_finding(paper: Paper) -> None:
    paper.run("good", sst=0.8)
    paper.run("bad", sst=0.6)
    paper.judge(against("good", "bad"), data="builtin")
    opening, _, verdicts = paper.text("md").partition("##")
    assert "no verdict here says anything about the papers" in opening
    assert "1 comparison on generated data, so the verdicts are not findings" in verdicts


def test_a_side_of_one_seed_speaks_for_its_run_alone(paper: Paper) -> None:
    """As where a training failed: what another one would have scored is not known."""
    for seed in range(3):
        paper.run("good", seed, sst=0.9)
        paper.run("fair", seed, sst=0.5)
    paper.run("bad", 0, sst=0.3)
    paper.judge(against("good", "bad"), against("good", section=""), against("good", "fair"))
    found = [cells(line) for line in read_claims(paper.folder / "claims.csv")]
    shown = [["3/1", "holds for these runs"], ["3", "holds"], ["3/3", "holds"]]
    assert [[*line[-2:]] for line in found] == shown
    assert found[1][:3] == ("It is.", "—", "good − majority")  # noqa: RUF001 - the minus sign
    assert markdown("3 as claimed (one run of some variants)") in paper.text("md")


def test_intervals_agree_with_verdicts(paper: Paper) -> None:
    for number in range(12):
        paper.run(f"v{number}", sst=0.5 + 0.012 * number)
    found = paper.judge(*(against(f"v{n}", "v0") for n in range(1, 12)))
    assert {line["verdict"] for line in found} == {"holds", "within noise"}
    disagree = 0
    for line in found:
        low, high, low_95, high_95 = (float(line[n]) for n in ("low", "high", "low_95", "high_95"))
        assert low < low_95 < high_95 < high
        assert (line["verdict"] == "within noise") == (low <= 0 <= high)
        disagree += (low_95 > 0) != (low > 0)
    assert disagree, "one of them would have been significant alone"


def test_the_difference_is_of_the_scores_in_the_tables(paper: Paper) -> None:
    skills = {"sst": 0.5, "para": 0.9, "sts": 0.7}
    for seed in (0, 1, 2):
        paper.run("one", seed, **skills)
        paper.run("two", seed, **{task: share - 0.1 for task, share in skills.items()})
    tasks = (*OVERALL_TASKS, "normalised", "plain")
    found = paper.judge(*(against("one", "two", task=task) for task in tasks))
    scores = pq.read_table(paper.folder / "scores.parquet").to_pandas()
    for task, line in zip(tasks, found, strict=True):
        own = {"normalised": "normalised", "plain": "plain", "sts": "pearson"}.get(task, "accuracy")
        of_task = scores[scores["task"].isin([task, "overall"]) & (scores["metric"] == own)]
        means = of_task.groupby("variant")["value"].mean()
        assert float(line["difference"]) == pytest.approx(means["one"] - means["two"])
        assert line["examples"] == str(N if task in OVERALL_TASKS else 3 * N)
        assert (line["seeds"], line["seeds_against"]) == ("3", "3")
        assert line["method"] == "bootstrap over examples, paired; variance over seeds"


def test_what_cannot_be_judged(paper: Paper) -> None:
    """A side that has not learnt; the same training under two names."""
    paper.run("good", para=0.95, sst=0.6)
    paper.run("bad", para=0.6, sst=0.2)
    paper.run("worse", para=0.0, sst=0.2)
    paper.run("again", key="good", para=0.95, sst=0.6)
    found = paper.judge(
        against("bad", "worse", task="para", direction="same"),
        against("good", "bad", task="para"),
        against("bad", "good", task="para", direction="lower"),
        against("again", "good", direction="same"),
        against("bad", task="para"),
    )
    same = "again and good are the same training"
    reasons = ["neither learned", *["bad did not learn"] * 2, same, ""]
    assert [line["reason"] for line in found] == reasons
    assert [line["verdict"] for line in found] == [*["cannot be judged"] * 4, "does not hold"]
    assert f"cannot be judged: {same}" in paper.text("md")
    # An overall score is judged where something was learnt.
    paper.run("half", sst=0.8, para=0.0, sts=0.9)
    paper.run("whole", sst=0.8, para=0.95, sts=0.9)
    (line,) = paper.judge(against("whole", "half", task="plain"))
    assert line["verdict"] == "holds"


def test_few_seeds_that_differ_much_decide_nothing(paper: Paper) -> None:
    for seed, (one, two) in enumerate([(0.60, 0.52), (0.66, 0.66), (0.72, 0.55)]):
        paper.run("one", seed, sst=one)
        paper.run("two", seed, sst=two)
    (line,) = paper.judge(against("one", "two"))
    assert line["verdict"] == "within noise" and int(line["seeds_needed"]) > 3


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
    for name, share in {"best": 0.8, "weak": 0.4, "strong": 0.65, "medium": 0.5}.items():
        paper.run(name, sst=share)
    (line,) = paper.judge(against("best", "weak", "strong", "medium"))
    (alone,) = paper.judge(against("best", "strong"))
    assert line["strongest"] == "strong"
    numbers = ("difference", "error", "p")
    assert [line[name] for name in numbers] == [alone[name] for name in numbers]
    (other,) = paper.judge(against("strong", "weak", "best", "medium"))
    assert (other["strongest"], other["verdict"]) == ("best", "does not hold")


def test_runs_of_other_examples_cannot_be_compared(paper: Paper) -> None:
    paper.run("one", sst=0.5)
    paper.labels["sst"] = paper.labels["sst"][::-1].copy()
    paper.run("two", sst=0.5)
    with pytest.raises(UserError, match=r"two.0/.*parquet: its dev examples of 'sst' are not"):
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
