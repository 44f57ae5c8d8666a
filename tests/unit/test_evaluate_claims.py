"""Claims judged from predictions and curves: verdicts, Holm's procedure, the tables of them."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from factories import edit_rows, history, predictions, score
from scipy.stats import ttest_1samp, ttest_rel

from minbert.base.errors import UserError
from minbert.evaluate.bootstrap import Estimate, measured
from minbert.evaluate.claims import cells, decision, holm, make, tail
from minbert.evaluate.text import markdown, read_csv
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS

N = 400
SKILLS = {"sst": 0.5, "para": 0.9, "sts": 0.7}
RISING = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
MINUS = "\N{MINUS SIGN}"


class Paper:
    """A paper's runs: what each predicts, the scores of that, and claims about it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.draw = folder, np.random.default_rng(0)
        self.labels = {
            "sst": np.repeat([0.0, 1.0, 2.0, 3.0, 4.0], N // 5),
            "para": np.repeat([0.0, 1.0], [N // 4, 3 * N // 4]),
            "sts": np.linspace(0, 5, N),
        }
        self.files: dict[str, Path] = {}
        self.variants: dict[str, dict[str, Any]] = {}

    def run(self, variant: str, seed: int = 0, key: str = "", **skill: float) -> None:
        """Add a run: `skill` is the share that is right of sst and para, and about sts's r."""
        key = key or variant
        path = self.folder / f"{key}.{seed}" / "predictions.parquet"
        if not path.exists():
            predictions(path, *(row for of in skill.items() for row in self._rows(*of)))
        self.files[f"{key}.{seed}"] = path
        about = {"name": variant, "key": key, "tasks": dict.fromkeys(skill, key)}
        self.variants.setdefault(variant, about)

    def _rows(self, task: str, share: float) -> list[tuple[str, str, str, float, float | None]]:
        labels = self.labels[task]
        noise = np.sqrt(1 - share**2) * self.draw.normal(size=N) * labels.std()
        predicted = share * labels + noise
        if task != "sts":
            wrong = self.draw.random(N) >= share
            predicted = np.where(wrong, (labels + 1) % (5 if task == "sst" else 2), labels)
        pairs = list(zip(predicted.tolist(), labels.tolist(), strict=True))
        rows = [(f"{task}{n}", task, "dev", *pairs[n]) for n in self.draw.permutation(N)]
        return [("t", task, "test", 0.0, None), *rows]

    def curve(self, variant: str, seed: int, **curves: Any) -> None:
        """Write a run's history: the values by epoch of `split_task` and `loss_task`."""
        rows = []
        for name, values in curves.items():
            split, task = name.split("_")
            metric = "loss" if split == "loss" else TASKS[task].metric
            split = split.replace("loss", "train")
            rows += [(epoch, split, task, metric, value) for epoch, value in enumerate(values, 1)]
        history(self.folder / f"{variant}.{seed}" / "history.parquet", *rows)

    def judge(self, *claims: dict[str, Any], **about: Any) -> list[dict[str, str]]:
        """Build the table, with what is said `about` it, and return its lines."""
        scores = self.folder / "scores.parquet"
        seeds = sorted({int(run.rpartition(".")[2]) for run in self.files})
        score(scores, *self.variants.values(), seeds=seeds)
        default = {"paper": "p", "section": "5", "claim": "It is.", "score": None, "task": "sst"}
        default |= {"direction": "higher", "margin": None, "published_difference": None}
        spec = {"claims": [default | claim for claim in claims], "titles": {"p": "Title"}}
        spec |= {"seeds": 1, "backbone": "tiny", "data": "real", "selection_split": "dev"}
        spec |= {"overall_tasks": {"p": OVERALL_TASKS}} | about
        job = {"spec": spec, "out": self.folder, "needs": lambda _: self.files}
        make(SimpleNamespace(**job, need=lambda _: scores))  # type: ignore[arg-type]
        return read_csv(self.folder / "claims.csv")

    def text(self, ending: str) -> str:
        return (self.folder / f"claims.{ending}").read_text(encoding="utf-8")


def against(variant: str, *others: str, **more: Any) -> dict[str, Any]:
    guess = f"{more['score']:g}" if "score" in more else "majority"
    return {"variant": variant, "against": others or (guess,)} | more


@pytest.fixture
def paper(tmp_path: Path) -> Paper:
    return Paper(tmp_path)


@pytest.mark.parametrize(
    ("direction", "margin", "clearly", "contrary", "unclear"),
    [
        ("higher", None, 0.05, -0.05, 0.01),
        ("lower", None, -0.05, 0.05, -0.01),
        ("same", 0.03, 0.0, 0.05, 0.01),
        ("same", 0.03, 0.0, -0.05, -0.01),
        ("not higher", 0.0, -0.02, 0.05, 0.01),
        ("not lower", 0.0, 0.02, -0.05, -0.01),
    ],
)
def test_each_direction(
    direction: str, margin: float | None, clearly: float, contrary: float, unclear: float
) -> None:
    for value, error, expected in (
        (clearly, 0.007, "holds"),
        (contrary, 0.007, "does not hold"),
        (unclear, 0.02, "within noise"),
    ):
        p, holds = decision([tail(Estimate(value, error, np.inf), direction, margin)])
        assert expected == ("within noise" if p > 0.05 else "holds" if holds else "does not hold")


def test_holm_is_the_closed_test_with_bonferronis_bound() -> None:
    """A hypothesis falls when every intersection that it is part of falls (Marcus et al. 1976)."""
    draw = np.random.default_rng(0)
    for _ in range(20):
        p = [float(value) for value in draw.beta(0.3, 2, size=5)]
        closed = [0.0] * 5
        for among in (of for size in range(1, 6) for of in combinations(range(5), size)):
            bound = min(1.0, len(among) * min(p[i] for i in among))
            for i in among:
                closed[i] = max(closed[i], bound)
        adjusted, levels = zip(*holm(p, 5), strict=True)
        assert adjusted == pytest.approx(closed)
        assert [a <= b for a, b in zip(p, levels, strict=True)] == [of <= 0.05 for of in closed]
    # Tests without a p-value count too.
    assert [of[0] for of in holm([0.01, 0.04], 5)] == pytest.approx([0.05, 0.16])


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
    # Five claims are made, if not judged: of two p-values alike and a third, none counts once.
    factors = sorted(float(line["p_holm"]) / float(line["p"]) for line in (first, last))
    assert factors == pytest.approx([3, 5])
    texts = {ending: paper.text(ending) for ending in ("csv", "md", "tex")}
    text, latex = texts["md"], texts["tex"]
    said = "1 not as claimed, 1 as claimed (one run of each variant)"
    assert markdown(f"2 claims (5 comparisons): {said}.") in text
    assert "holds for these runs" in text
    assert r"100 % of a\|b \& \<script\> λ\_1" in text
    assert f"good {MINUS} each of 2 others" in text
    assert r"100 \% of a\textbar{}b \& \textless{}script\textgreater{} $\lambda$\_1" in latex
    paper.judge(*asked)
    assert {ending: paper.text(ending) for ending in texts} == texts, "the same to the byte"
    paper.judge(*asked[:1], data="builtin")
    opening, _, verdict = paper.text("md").partition("##")
    assert "no verdict here says anything about the papers" in opening
    assert "1 claim (1 comparison) on generated data, so the verdicts are not findings" in verdict


def test_sides_of_several_seeds_and_of_one(paper: Paper) -> None:
    """One seed speaks for its run alone, as where a training failed."""
    for seed, (one, two) in enumerate([(0.60, 0.52), (0.66, 0.66), (0.72, 0.55)]):
        paper.run("good", seed, sst=0.9)
        paper.run("one", seed, sst=one)
        paper.run("two", seed, sst=two)
    paper.run("bad", 0, sst=0.3)
    pairs = against("good", "bad"), against("good", section=""), against("good", "two")
    *_, noise = paper.judge(*pairs, against("one", "two"))
    assert noise["verdict"] == "within noise" and int(noise["seeds_needed"]) > 3
    found = [cells(line) for line in read_csv(paper.folder / "claims.csv")]
    shown = [["3/1", "holds for these runs"], ["3", "holds"], ["3/3", "holds"]]
    assert [[*line[-2:]] for line in found[:3]] == shown
    assert found[1][:3] == ("It is.", "—", f"good {MINUS} majority")
    assert markdown("1 as claimed in part (one run of some variants)") in paper.text("md")


def test_a_seed_that_failed_is_counted_and_what_no_difference_could_confirm_is_said(
    paper: Paper,
) -> None:
    for seed, share in enumerate((0.62, 0.61, 0.2, 0.63, 0.62)):
        paper.run("one", seed, sst=share)
        paper.run("two", seed, sst=0.63)
    claims = [against("one", "two", direction="same", margin=margin) for margin in (0.02, 0.2)]
    small, large = paper.judge(*claims, against("two", "one", direction="lower"))[:2]
    assert (small["verdict"], small["seeds_needed"]) == ("not testable at this size", "")
    assert large["verdict"] == "holds" and abs(float(large["difference"])) < 0.1
    assert (small["seeds"], small["failed"], small["failed_against"]) == ("4", "1", "0")
    assert cells(small)[-2:] == ("4 of 5/5", "not testable at this size")
    claim = "1 claim (3 comparisons): 1 as claimed in part."
    assert markdown(claim) in paper.text("md")


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
    for seed in (0, 1, 2):
        paper.run("one", seed, **SKILLS)
        paper.run("two", seed, **SKILLS | {"sst": 0.4, "sts": 0.6})
    paper.run("only", 3, sst=0.5)  # without all tasks, it has no overall score
    tasks = (*OVERALL_TASKS, "normalised", "plain")
    *found, partly, none = paper.judge(
        *(against("one", "two", task=task) for task in tasks),
        against("one", "only", task="plain"),
        against("one", task="cfimdb"),
    )
    assert partly["reason"] == "no scores of only" and none["reason"] == "no scores of one"
    scores = pq.read_table(paper.folder / "scores.parquet").to_pandas()
    for task, line in zip(tasks, found, strict=True):
        own = {"normalised": "normalised", "plain": "plain", "sts": "pearson"}.get(task, "accuracy")
        of_task = scores[scores["task"].isin([task, "overall"]) & (scores["metric"] == own)]
        means = of_task.groupby("variant")["value"].mean()
        assert float(line["difference"]) == pytest.approx(means["one"] - means["two"])
        assert line["examples"] == str(N if task in OVERALL_TASKS else 3 * N)
        assert line["seeds"] == line["seeds_against"] == "3"
        assert line["method"] == "bootstrap over examples, paired; variance over seeds"


def test_what_cannot_be_judged(paper: Paper) -> None:
    """A side that has not learned; the same training under two names."""
    paper.run("good", para=0.95, sst=0.6)
    paper.run("bad", para=0.6, sst=0.2)
    paper.run("worse", para=0.0, sst=0.2)
    paper.run("again", key="good", para=0.95, sst=0.6)
    # An overall score is judged where something was learned.
    paper.run("half", sst=0.8, para=0.0, sts=0.9)
    paper.run("whole", sst=0.8, para=0.95, sts=0.9)
    found = paper.judge(
        against("bad", "worse", task="para", direction="same", margin=0.01),
        against("good", "bad", task="para"),
        against("bad", "good", task="para", direction="lower"),
        against("again", "good", direction="same", margin=0.01),
        against("bad", task="para"),
        against("whole", "half", task="plain"),
    )
    same = "again and good are the same training"
    reasons = ["neither learned", *["bad did not learn"] * 2, same, "", ""]
    assert [line["reason"] for line in found] == reasons
    verdicts = [*["cannot be judged"] * 4, "does not hold", "holds"]
    assert [line["verdict"] for line in found] == verdicts
    assert f"cannot be judged: {same}" in paper.text("md")


def test_the_majority_a_score_and_the_strongest_of_several_others(paper: Paper) -> None:
    for name, share in {"best": 0.8, "weak": 0.4, "strong": 0.65, "medium": 0.5}.items():
        paper.run(name, **SKILLS | {"sst": share})
    majority, overall, given, line, alone, other = paper.judge(
        against("weak", task="para"),
        against("weak", task="plain"),
        against("weak", task="plain", score=0.3),
        against("best", "weak", "strong", "medium"),
        against("best", "strong"),
        against("strong", "weak", "best", "medium"),
    )
    assert (majority["against"], majority["seeds_against"]) == ("majority", "")
    assert float(majority["difference"]) == pytest.approx(0.9 - 0.75, abs=0.05)
    weak = float(given["difference"]) + 0.3
    assert float(overall["difference"]) == pytest.approx(weak - (0.2 + 0.75 + 0) / 3)
    assert given["against"] == given["strongest"] == "0.3"
    assert {of["verdict"] for of in (majority, overall, given)} == {"holds"}
    assert line["strongest"] == "strong"
    assert [line[n] for n in ("difference", "p")] == [alone[n] for n in ("difference", "p")]
    assert (other["strongest"], other["verdict"]) == ("best", "does not hold")


def test_runs_of_other_examples_cannot_be_compared_but_those_of_a_half_of_dev(paper: Paper) -> None:
    """As tuned rows with the papers' own, whose epochs all of dev chose."""
    paper.run("whole", sst=0.5)
    paper.run("half", sst=0.9)
    even = ("0", "2", "4", "6", "8")
    edit_rows(
        paper.files["half.0"],
        lambda row: row.update(split="selection") if row["id"].endswith(even) else None,
    )
    (line,) = paper.judge(against("half", "whole"), selection_split="both")
    assert "Both kinds are compared on that other half." in paper.text("md")
    assert (line["verdict"], line["examples"]) == ("holds", str(N // 2))
    paper.labels["sst"] = paper.labels["sst"][::-1].copy()
    paper.run("two", sst=0.5)
    with pytest.raises(UserError, match=r"two.0/.*parquet: its dev examples of 'sst' are not"):
        paper.judge(against("whole", "two"))


@pytest.mark.parametrize(
    ("measure", "train", "dev", "expected"),
    [
        ("gap", [0.9, 0.5], [0.4, 0.6], -0.1),
        ("spread", [], [0.0, 0.5, 0.52, 0.51, 0.49, 0.5], 0.03),
        ("epoch", [], RISING, 1.0),
        ("epoch", [], [0.3, 0.496, 0.4, 0.5, 0.5], 0.4),
        ("epoch", [], [0.3, 0.494, 0.4, 0.5, 0.5], 0.8),
        ("epoch", [], [-0.5, -0.4, -0.2, -0.3], 0.75),
        ("loss", [2.0, 0.5, 0.5], [], 1.0),
    ],
)
def test_measures(measure: str, train: list[float], dev: list[float], expected: float) -> None:
    assert measured(measure, np.array(train), np.array(dev)) == pytest.approx(expected)


def test_claims_on_curves_are_judged_by_their_seeds(paper: Paper) -> None:
    """Seed by seed, so that the test of two rows is Student's paired one."""
    losses = (2.0, 3.0, 4.0)

    def train(name: str, *gaps: float) -> None:
        for seed, (gap, loss) in enumerate(zip(gaps, losses, strict=True)):
            paper.run(name, seed, sst=0.7)
            curves = {"train_sst": [0.5, 0.5 + gap], "dev_sst": [0.6, 0.5]}
            paper.curve(name, seed, **curves, loss_sst=[loss + 1, loss - 1])

    gaps = (0.5, 0.53125, 0.5625), (0.125, 0.1875, 0.15625)
    train("one", *gaps[0])
    number = {"score": 0.0, "measure": "loss", "direction": "not higher", "margin": 0.1}
    (line,) = paper.judge(against("one", **number))
    assert float(line["difference"]) == pytest.approx(3.0)
    assert float(line["p"]) == pytest.approx(ttest_1samp(losses, 0.1).pvalue)
    assert line["verdict"] == "does not hold"
    train("two", *gaps[1])
    for seed in range(2):  # it has no curves
        paper.run("scored", seed, sst=0.3)
    claim = against("one", "two", measure="gap")
    on_curves, on_scores = paper.judge(claim, against("one", "scored"))
    assert float(on_curves["difference"]) == 0.375
    assert float(on_curves["p"]) == pytest.approx(ttest_rel(*gaps).pvalue)
    assert (on_curves["measure"], on_scores["measure"]) == ("gap", "")
    assert (on_curves["method"], on_curves["seeds"]) == ("variance over seeds", "3")
    assert "SST: gap" in paper.text("md") and "Spread: the largest less" in paper.text("md")
    # With a third row, in no claim, there are more degrees of freedom.
    train("three", 0.30, 0.31, 0.32)
    (beside,) = paper.judge(claim)
    assert float(beside["p"]) < float(on_curves["p"])


def test_curves_of_an_overall_score_are_those_of_its_tasks_together(paper: Paper) -> None:
    for name, last in {"one": 0.8, "two": 0.6, "uneven": 0.6, "single": 0.6}.items():
        for seed in range(1 if name == "single" else 2):
            paper.run(name, seed, **SKILLS)
            dev = {f"dev_{task}": [0.5, 0.5, 0.5, 0.5, last + seed / 100] for task in SKILLS}
            train = {f"train_{task}": [1.0] * 5 for task in SKILLS}
            train |= {"train_sst": [1.0] * 4} if name == "uneven" else {}
            loss = {f"loss_{task}": [2.0, 2.0, 2.0, 2.0, last + seed / 100] for task in SKILLS}
            paper.curve(name, seed, **dev, **train, **loss)
    *found, short, uneven, single = paper.judge(
        *(against("one", "two", task="normalised", measure=name) for name in ("gap", "loss")),
        *(against("one", "two", task=of, measure="spread") for of in ("plain", "normalised")),
        against("one", "uneven", measure="spread"),
        against("one", "uneven", task="plain", measure="gap"),
        against("one", "single", measure="gap"),
    )
    reasons = ["fewer than 5 scored epochs", "fewer than 1 scored epochs"]
    assert [of["reason"] for of in (short, uneven, single)] == [*reasons, "one seed"]
    assert {of["verdict"] for of in (short, uneven, single)} == {"cannot be judged"}
    # Half of a difference in r counts as much as one of an accuracy.
    expected = (-0.2 * 2.5 / 3, 0.2 * 3 / 5, 0.2, 0.2 * 2.5 / 3)
    assert [float(line["difference"]) for line in found] == pytest.approx(expected)
