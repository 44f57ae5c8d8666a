"""Claims judged from predictions: the table that is made of them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from run_files import history
from scipy.stats import ttest_1samp, ttest_ind

from minbert.base.errors import UserError
from minbert.evaluate.claims import build_claims, cells, read_claims
from minbert.evaluate.score import score_runs
from minbert.evaluate.text import markdown
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS
from minbert.train.evaluation import PREDICTIONS
from minbert.train.history import SCHEMA

N = 400


class Paper:
    """A paper's runs: what each predicts, the scores of that, and claims about it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.draw = np.random.default_rng(0)
        self.labels = {
            "sst": np.repeat([0.0, 1.0, 2.0, 3.0, 4.0], N // 5),
            "para": np.repeat([0.0, 1.0], [N // 4, 3 * N // 4]),
            "sts": np.linspace(0, 5, N),
        }
        self.files: dict[str, Path] = {}
        self.runs: list[dict[str, Any]] = []

    def run(self, variant: str, seed: int = 0, key: str = "", **skill: float) -> None:
        """Add a run: `skill` is the share that is right of sst and para, and about sts's r."""
        key = key or variant
        path = self.folder / f"{key}.{seed}.parquet"
        if not path.exists():
            rows = [row for task, share in skill.items() for row in self._rows(task, share)]
            pq.write_table(pa.Table.from_pylist(rows, schema=PREDICTIONS), path)
            history(path.with_suffix(".history"))
        self.files[f"{key}.{seed}"] = path
        entry = {"key": key, "predictions": path, "history": path.with_suffix(".history")}
        about = {"paper": "p", "variant": variant, "seed": seed, "key": key, "tested": False}
        self.runs.append(about | {"tasks": dict.fromkeys(skill, entry)})

    def curve(self, variant: str, seed: int, **curves: Any) -> None:
        """Write a run's history: the values by epoch of `split_task` and `loss_task`."""
        rows = []
        for name, values in curves.items():
            split, task = name.split("_")
            metric = "loss" if split == "loss" else TASKS[task].metric
            about = {"split": split.replace("loss", "train"), "task": task, "metric": metric}
            for epoch, value in enumerate(values, 1):
                rows.append(about | {"step": epoch, "epoch": epoch, "value": value, "time": 0.0})
        path = self.folder / f"{variant}.{seed}.history"
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path)

    def _rows(self, task: str, share: float) -> list[dict[str, Any]]:
        labels = self.labels[task]
        if task == "sts":
            noise = self.draw.normal(size=N) * labels.std()
            predicted = share * labels + np.sqrt(1 - share**2) * noise
        else:
            wrong = self.draw.random(N) >= share
            predicted = np.where(wrong, (labels + 1) % (5 if task == "sst" else 2), labels)
        order = self.draw.permutation(N)
        hidden = {"id": "t", "task": task, "split": "test", "prediction": 0.0, "scores": [0.0]}
        return [hidden] + [
            {"id": f"{task}{i}", "task": task, "split": "dev", "prediction": float(predicted[i])}
            | {"scores": [0.0], "label": float(labels[i])}
            for i in order
        ]

    def judge(
        self,
        *claims: dict[str, Any],
        extra: str = "",
        data: str = "real",
        select_on: str = "dev",
    ) -> list[dict[str, str]]:
        """Build the table and return its lines."""
        scores = self.folder / "scores.parquet"
        score_runs(self.runs, scores)
        default = {"paper": "p", "section": "5", "text": "It is.", "others": [], "score": None}
        default |= {"task": "sst", "direction": "higher", "margin": 0.01, "published": None}
        spec = {"claims": [default | claim for claim in claims], "titles": {"p": "Title" + extra}}
        spec |= {"seeds": 1, "backbone": "tiny", "data": data, "select_on": select_on}
        of_curves = [claim for claim in claims if "measure" in claim]
        read = {name for claim in of_curves for name in (claim["variant"], *claim["others"])}
        files = {
            f"{run['key']}.{run['seed']}": next(iter(run["tasks"].values()))["history"]
            for run in self.runs
            if run["variant"] in read
        }
        build_claims(spec, {"p": scores}, self.files, self.folder, files)
        with (self.folder / "claims.csv").open(encoding="utf-8", newline="") as handle:
            return list(csv.DictReader(handle))

    def text(self, ending: str) -> str:
        return (self.folder / f"claims.{ending}").read_text(encoding="utf-8")


def against(variant: str, *others: str, **more: Any) -> dict[str, Any]:
    return {"variant": variant, "others": list(others)} | more


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
    with pytest.raises(UserError, match=r"two.0.parquet: task 'sst': its dev examples are not"):
        paper.judge(against("one", "two"))


def test_rows_scored_on_a_half_of_dev_are_compared_on_it(paper: Paper) -> None:
    """As tuned rows with the papers' own, whose epochs all of dev chose (`select_on: half`)."""
    paper.run("whole", sst=0.5)
    paper.run("half", sst=0.9)
    rows = pq.read_table(paper.files["half.0"]).to_pylist()
    for row in rows:
        if row["id"].endswith(("0", "2", "4", "6", "8")):
            row["split"] = "selection"
    pq.write_table(pa.Table.from_pylist(rows, schema=PREDICTIONS), paper.files["half.0"])
    (line,) = paper.judge(against("half", "whole"), select_on="both")
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


GAPS = {"one": (0.5, 0.53125, 0.5625), "two": (0.125, 0.15625, 0.1875)}


def test_claims_on_curves_are_judged_by_their_seeds(paper: Paper) -> None:
    """Both variances are equal, to the bit, so that the pooled test is Student's."""
    for name, gaps in GAPS.items():
        for seed, gap in enumerate(gaps):
            paper.run(name, seed, sst=0.7)
            paper.curve(name, seed, train_sst=[0.5, 0.5 + gap], dev_sst=[0.6, 0.5])
    for seed in range(2):  # its curves are not read
        paper.run("scored", seed, sst=0.3)
    on_curves, on_scores = paper.judge(
        against("one", "two", measure="gap"), against("one", "scored")
    )
    assert float(on_curves["difference"]) == 0.375
    assert float(on_curves["p"]) == pytest.approx(ttest_ind(*GAPS.values()).pvalue)
    assert float(on_curves["p_holm"]) == pytest.approx(float(on_curves["p"]))
    assert float(on_scores["p_holm"]) == pytest.approx(2 * float(on_scores["p"]))
    assert (on_curves["measure"], on_scores["measure"]) == ("gap", "")
    assert (on_curves["method"], on_curves["seeds"]) == ("variance over seeds", "3")
    assert "SST: gap" in paper.text("md") and "Spread: the largest less" in paper.text("md")
    (alone,) = paper.judge(against("one", "scored"))
    assert "measure" not in alone and "Spread" not in paper.text("md")


def test_the_variance_of_curves_is_that_of_all_rows_whose_curves_are_compared(paper: Paper) -> None:
    for name, gaps in (GAPS | {"three": (0.30, 0.31, 0.32)}).items():
        for seed, gap in enumerate(gaps):
            paper.run(name, seed, sst=0.7)
            paper.curve(name, seed, train_sst=[gap], dev_sst=[0.0])
    claim = against("one", "two", measure="gap")
    (alone,) = paper.judge(claim)
    beside, _ = paper.judge(claim, against("one", "three", measure="gap"))
    # Two variances of each side's own size, with the degrees of freedom of three.
    assert beside["error"] == alone["error"]
    assert float(beside["p"]) < float(alone["p"])


def test_curves_of_an_overall_score_are_those_of_its_tasks_together(paper: Paper) -> None:
    skills = {"sst": 0.7, "para": 0.9, "sts": 0.8}
    for name, last in {"one": 0.8, "two": 0.6}.items():
        for seed in range(2):
            paper.run(name, seed, **skills)
            shift = seed / 100
            dev = {f"dev_{task}": [0.5, 0.5, 0.5, 0.5, last + shift] for task in skills}
            train = {f"train_{task}": [1.0] * 5 for task in skills}
            loss = {f"loss_{task}": [2.0, 2.0, 2.0, 2.0, last + shift] for task in skills}
            paper.curve(name, seed, **dev, **train, **loss)
    for seed in range(2):
        paper.run("uneven", seed, **skills)
        paper.curve("uneven", seed, **dev, **train | {"train_sst": [1.0] * 4})
    *found, uneven = paper.judge(
        *(against("one", "two", task="normalised", measure=name) for name in ("gap", "loss")),
        against("one", "two", task="plain", measure="spread"),
        against("one", "two", task="normalised", measure="spread"),
        against("one", "uneven", task="plain", measure="gap"),
    )
    assert uneven["reason"] == "fewer than 1 scored epochs: uneven 0"
    # Half of a difference in r counts as much as one of an accuracy.
    expected = (-0.2 * 2.5 / 3, 0.2 * 3 / 5, 0.2, 0.2 * 2.5 / 3)
    assert [float(line["difference"]) for line in found] == pytest.approx(expected)


def test_curves_that_are_too_short_or_of_one_seed_cannot_be_judged(paper: Paper) -> None:
    paper.run("single", sst=0.7)
    paper.curve("single", 0, train_sst=[0.5] * 5, dev_sst=[0.5] * 5)
    for name, epochs in {"long": 5, "short": 4, "carried": 0}.items():
        for seed in range(2):
            paper.run(name, seed, sst=0.7)
            paper.curve(name, seed, train_sst=[0.5] * epochs, dev_sst=[0.5] * epochs)
    found = paper.judge(
        against("long", "single", measure="gap"),
        against("long", "short", measure="spread"),
        against("long", "short", measure="epoch"),
        against("carried", "long", measure="gap"),
        against("long", "short", measure="gap"),
    )
    assert [line["reason"] for line in found] == [
        "one seed",
        *["fewer than 5 scored epochs: short 4"] * 2,
        "fewer than 1 scored epochs: carried 0",
        "",
    ]
    assert {line["verdict"] for line in found[:4]} == {"cannot be judged"}


def test_a_loss_is_compared_with_a_number(paper: Paper) -> None:
    losses = (2.0, 3.0, 4.0)
    for seed, loss in enumerate(losses):
        paper.run("one", seed, sst=0.7)
        paper.curve("one", seed, loss_sst=[loss + 1, loss - 1], dev_sst=[0.5, 0.6])
    claim = against("one", score=0.0, measure="loss", direction="not higher", margin=0.1)
    (line,) = paper.judge(claim)
    assert float(line["difference"]) == pytest.approx(3.0)
    assert float(line["p"]) == pytest.approx(ttest_1samp(losses, 0.1).pvalue)
    assert line["verdict"] == "does not hold"
    assert f"+{float(line['low']):.3f} to +{float(line['high']):.3f}" in paper.text("md")


def test_an_epoch_is_known_to_one_that_was_scored(paper: Paper) -> None:
    """All seeds of a row may reach their best at the same epoch, which is no certainty."""
    for name, first in {"one": 2, "two": 4}.items():
        for seed in range(2):
            paper.run(name, seed, sst=0.7)
            dev = [0.3] * (first - 1) + [0.5] * (11 - first)
            paper.curve(name, seed, train_sst=dev, dev_sst=dev)
    (line,) = paper.judge(against("one", "two", measure="epoch", direction="lower"))
    assert float(line["difference"]) == pytest.approx(-0.2)
    assert float(line["error"]) == pytest.approx(0.1)
