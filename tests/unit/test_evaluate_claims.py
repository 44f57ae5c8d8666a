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

from minbert.base.errors import UserError
from minbert.evaluate.claims import build_claims
from minbert.evaluate.score import score_runs
from minbert.spec.protocol import OVERALL_TASKS
from minbert.train.run import PREDICTIONS

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

    def judge(self, *claims: dict[str, Any], extra: str = "") -> list[dict[str, str]]:
        """Build the table and return its lines."""
        scores = self.folder / "scores.parquet"
        score_runs(self.runs, scores)
        default = {"paper": "p", "section": "5", "text": "It is.", "others": [], "score": None}
        default |= {"task": "sst", "direction": "higher", "margin": 0.01, "published": None}
        spec = {"claims": [default | claim for claim in claims], "titles": {"p": "Title" + extra}}
        spec |= {"seeds": 1, "backbone": "tiny", "data": "built-in"}
        build_claims(spec, {"p": scores}, self.files, self.folder)
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
    # Four claims were judged: the smallest p counts four times, the next three times.
    assert float(last["p_holm"]) == pytest.approx(4 * float(last["p"]))
    assert float(first["p_holm"]) == pytest.approx(3 * float(first["p"]))
    assert "5 comparisons: 2 as claimed, 1 not as claimed, 1 within noise, 1 not run" in paper.text(
        "md"
    )


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
        assert line["method"] == "bootstrap over seeds and examples, paired"
    errors = {line["task"]: float(line["error"]) for line in found}
    for rule, share in {"plain": 1, "normalised": 0.5}.items():
        parts = (errors["sst"], errors["para"], share * errors["sts"])
        assert errors[rule] == pytest.approx(np.linalg.norm(parts) / 3, rel=0.15)


def test_the_same_training_under_two_names_differs_by_nothing(paper: Paper) -> None:
    paper.run("r4", sst=0.6)
    paper.run("r7", key="r4", sst=0.6)
    found = paper.judge(
        against("r7", "r4", direction="same"), against("r7", "r4", direction="lower")
    )
    assert [line["verdict"] for line in found] == ["holds", "does not hold"]
    assert [float(line["error"]) for line in found] == [0, 0]


def test_two_runs_that_collapsed_alike_are_no_proof(paper: Paper) -> None:
    paper.run("one", para=0.0)
    paper.run("two", para=0.0)
    higher, same = paper.judge(
        against("one", "two", task="para"),
        against("one", "two", task="para", direction="same"),
    )
    assert (float(higher["difference"]), float(higher["error"])) == (0, 1 / N)
    assert (higher["verdict"], same["verdict"]) == ("within noise", "holds")


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
    markdown = paper.text("md")
    assert r"100 % of a\|b \& \<script\> λ\_1" in markdown
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len({len(line) for line in lines}) == 1
    assert all(cell.strip() for line in lines for cell in line[1:-1].split(" | "))
    assert "one − each of 2 others" in markdown  # noqa: RUF001 - the minus sign
    latex = paper.text("tex")
    assert r"100 \% of a\textbar{}b \& \textless{}script\textgreater{} $\lambda$\_1" in latex
    assert latex.isascii()
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {line.replace(r"\&", "").count("&") for line in rows} == {11}
