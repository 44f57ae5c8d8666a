"""A training job on tiny data: the best epoch, the history, its files, and the same bits again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from minbert.engine.device import choose_precision
from minbert.evaluate.scoring import overall, score_task
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.train.finetune import Finetuned
from minbert.train.evaluation import PREDICTIONS, train_stage

CPU = torch.device("cpu")
FAST = {"lr": 3e-3}

Run = Callable[..., Path]


def history(folder: Path) -> list[dict[str, Any]]:
    return pq.read_table(folder / "history.parquet").to_pylist()


def predictions(folder: Path) -> list[dict[str, Any]]:
    return pq.read_table(folder / "predictions.parquet").to_pylist()


def outcome(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())["outcome"]


def dev_scores(monkeypatch: pytest.MonkeyPatch, scores: list[float]) -> None:
    """Let the epochs' selection scores be `scores`."""
    waiting = iter(scores)
    monkeypatch.setattr("minbert.train.loop.selection_score", lambda *_: next(waiting))


@pytest.mark.parametrize(
    ("scores", "best"), [([0.1, 0.9, 0.5], 2), ([0.7, 0.7, 0.2], 1), ([0.1, 0.2, 0.3], 3)]
)
def test_the_best_epochs_weights_are_kept_not_the_lasts(
    scores: list[float], best: int, make_spec: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = make_spec(("sst", "sts"), epochs=3, optimiser=FAST)
    dev_scores(monkeypatch, scores)
    found = run(three)
    assert outcome(found)["best_epoch"] == best
    assert outcome(found)["best_score"] == scores[best - 1]
    assert outcome(found)["last_score"] == scores[2]
    # Without a schedule, a run of fewer epochs is the beginning of a longer one.
    dev_scores(monkeypatch, [0.1, 0.2, 0.3])
    shorter = run(three.model_copy(update={"epochs": best}), name="shorter")
    weights, expected = (load_file(f / "model.safetensors") for f in (found, shorter))
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    kept, only = (
        [{n: v for n, v in p.items() if n != "last"} for p in predictions(folder)]
        for folder in (found, shorter)
    )
    assert kept == only


def test_history_has_every_value_once(make_spec: Any, run: Run) -> None:
    spec = make_spec(epochs=2, surgery="pcgrad", optimiser=FAST)
    rows = history(run(spec))
    steps = 3  # ten STS examples in batches of four
    keys = [(r["step"], r["epoch"], r["split"], r["task"], r["metric"]) for r in rows]
    expected = set()
    for step in range(1, 2 * steps + 1):
        epoch = 1 + (step > steps)
        for name in (*spec.tasks, "overall"):
            expected.add((step, epoch, "train", name, "loss"))
        for pair in ("sst-para", "sst-sts", "para-sts"):
            for group in ("", "/embeddings", "/layer_1", "/layer_2", "/pooler"):
                expected.add((step, epoch, "train", pair, f"gradient_cosine{group}"))
        for name in spec.tasks:
            expected.add((step, epoch, "train", name, "sum_cosine"))
            expected.add((step, epoch, "train", name, "update_cosine"))
    for epoch in (1, 2):
        for task in spec.tasks:
            for metric in ("loss", TASKS[task].metric):
                expected.add((steps * epoch, epoch, "dev", task, metric))
            expected.add((steps * epoch, epoch, "train", task, TASKS[task].metric))
        for rule in ("normalised", "plain"):
            for split in ("train", "dev"):
                expected.add((steps * epoch, epoch, split, "overall", rule))
    assert set(keys) == expected and len(keys) == len(expected)
    times = [r["time"] for r in rows]
    assert times == sorted(times)
    assert all(-1.001 <= r["value"] <= 1.001 for r in rows if "cosine" in r["metric"])


def test_the_best_epochs_dev_scores_are_those_of_the_predictions(make_spec: Any, run: Run) -> None:
    folder = run(make_spec(epochs=3, optimiser=FAST))
    best = outcome(folder)["best_epoch"]
    rows = {
        (r["task"], r["metric"]): r["value"]
        for r in history(folder)
        if r["split"] == "dev" and r["epoch"] == best
    }
    scores = {}
    for task in ("sst", "para", "sts"):
        found = [p for p in predictions(folder) if (p["task"], p["split"]) == (task, "dev")]
        scores[task] = score_task(
            task, [p["prediction"] for p in found], [p["label"] for p in found]
        )
        assert rows[task, TASKS[task].metric] == pytest.approx(scores[task])
    assert rows["overall", "normalised"] == pytest.approx(overall(scores, "normalised"))
    assert rows["overall", "plain"] == pytest.approx(overall(scores, "plain"))
    assert outcome(folder)["best_score"] == pytest.approx(rows["overall", "normalised"])


def test_a_half_of_dev_chooses_and_the_other_judges(make_spec: Any, run: Run) -> None:
    spec = make_spec(epochs=3, optimiser=FAST)
    halves, whole = run(spec.model_copy(update={"select_on": "half"}), name="halves"), run(spec)
    rows = [r for r in history(halves) if r["split"] in ("dev", "selection")]
    for split in ("dev", "selection"):
        found = {
            task: [p for p in predictions(halves) if (p["task"], p["split"]) == (task, split)]
            for task in spec.tasks
        }
        assert all(found.values())
        scores = {
            task: score_task(task, [p["prediction"] for p in of], [p["label"] for p in of])
            for task, of in found.items()
        }
        best = {
            r["metric"]: r["value"]
            for r in rows
            if (r["split"], r["task"], r["epoch"])
            == (split, "overall", outcome(halves)["best_epoch"])
        }
        assert best["normalised"] == pytest.approx(overall(scores, "normalised"))
        if split == "selection":
            assert outcome(halves)["best_score"] == pytest.approx(best["normalised"])
    parts = [
        {p["id"] for p in predictions(halves) if p["split"] == s} for s in ("dev", "selection")
    ]
    assert not parts[0] & parts[1]
    assert parts[0] | parts[1] == {p["id"] for p in predictions(whole) if p["split"] == "dev"}


def test_the_last_epochs_predictions_are_kept(make_spec: Any, run: Run) -> None:
    folder = run(make_spec(("sst",), epochs=3, optimiser=FAST))
    dev = [p for p in predictions(folder) if p["split"] == "dev"]
    score = score_task("sst", [p["last"] for p in dev], [p["label"] for p in dev])
    assert score == pytest.approx(outcome(folder)["last_score"])
    assert all(p["last"] is None for p in predictions(folder) if p["split"] == "test")


def test_predictions_of_dev_and_test(make_spec: Any, run: Run, tokens: dict[str, Path]) -> None:
    folder = run(make_spec())
    assert pq.read_schema(folder / "predictions.parquet").equals(PREDICTIONS)
    found = predictions(folder)
    for task, path in tokens.items():
        table = pq.read_table(path).to_pylist()
        for split in ("dev", "test"):
            given = [row for row in table if row["split"] == split]
            ours = [p for p in found if (p["task"], p["split"]) == (task, split)]
            assert [p["id"] for p in ours] == [row["id"] for row in given]
            assert [p["label"] for p in ours] == [row["label"] for row in given]
            assert (split == "test") == all(p["label"] is None for p in ours)
            for p in ours:
                assert len(p["scores"]) == TASKS[task].classes
                if task == "sst":
                    assert sum(p["scores"]) == pytest.approx(1, abs=1e-5)
                    assert p["prediction"] == p["scores"].index(max(p["scores"]))
                elif task == "para":
                    assert p["prediction"] == float(p["scores"][0] > 0.5)
                else:
                    assert p["prediction"] == p["scores"][0]
    assert len(found) == 6 + 5 + 8 + 4 + 7 + 5


@pytest.mark.parametrize("sampler", ["unified", "sequential"])
def test_one_seed_gives_the_same_bits_and_another_does_not(
    sampler: str, make_spec: Any, run: Run
) -> None:
    surgery = "pcgrad" if sampler == "unified" else None
    spec = make_spec(
        epochs=2, surgery=surgery, shared_layers=1, sampler={"name": sampler}, optimiser=FAST
    )
    first, again, other = (
        run(spec, seed, name) for name, seed in zip("abc", (4, 4, 5), strict=True)
    )
    for name in ("model.safetensors", "predictions.parquet"):
        assert (first / name).read_bytes() == (again / name).read_bytes()
        assert (first / name).read_bytes() != (other / name).read_bytes()
    untimed = [[r | {"time": 0} for r in history(folder)] for folder in (first, again)]
    assert untimed[0] == untimed[1]


def test_training_lowers_every_tasks_loss(make_spec: Any, run: Run) -> None:
    # So few examples, seen again and again, can be learnt by heart.
    spec = make_spec(still=True, epochs=40, everywhere={"batch_size": 5}, optimiser=FAST)
    rows = [r for r in history(run(spec)) if r["split"] == "train"]
    for task in (*spec.tasks, "overall"):
        values = [r["value"] for r in rows if r["task"] == task and r["metric"] == "loss"]
        assert sum(values[-3:]) < 0.6 * sum(values[:3]), task


def test_a_task_that_is_not_trained_keeps_its_head_and_is_scored(
    make_spec: Any, run: Run, sources: Any
) -> None:
    spec = make_spec(
        {"sst": {}, "para": {}, "sts": {"trained": False}},
        shared_layers=1,
        optimiser={**FAST, "weight_decay": 0.1},
    )
    folder = run(spec, seed=3)
    torch.manual_seed(3)
    initial = Finetuned(spec, sources(), CPU).weights()
    for name, tensor in load_file(folder / "model.safetensors").items():
        own = name.startswith(("heads.sts.", "encoder.own.sts."))
        assert torch.equal(tensor, initial[name]) == own, name
    assert not [r for r in history(folder) if r["split"] == "train" and "sts" in r["task"]]
    assert {p["task"] for p in predictions(folder)} == {"sst", "para", "sts"}


def test_a_carried_task_is_scored_once_and_has_no_say_in_the_best_epoch(
    make_spec: Any,
    run: Run,
    without: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = without("sts", "train", "dev")
    asked: list[tuple[str, str]] = []
    ordinary = Finetuned.outputs

    def outputs(learner: Finetuned, task: str, split: str) -> torch.Tensor:
        asked.append((task, split))
        return ordinary(learner, task, split)

    monkeypatch.setattr(Finetuned, "outputs", outputs)
    carried = {"trained": False}
    spec = make_spec({"sst": {}, "para": carried, "sts": carried}, epochs=3, optimiser=FAST)
    folder = run(spec, instead={"sts": path})
    dev, test = ([task for task, split in asked if split == s] for s in ("dev", "test"))
    assert dev == ["sst"] * 3 + ["para"]  # the best epoch's are kept
    assert test == ["sst", "para", "sts"]
    rows = [r for r in history(folder) if r["split"] == "dev"]
    accuracies = [r["value"] for r in rows if r["metric"] == "accuracy"]
    assert outcome(folder)["best_score"] == max(accuracies)
    assert outcome(folder)["best_epoch"] == 1 + accuracies.index(max(accuracies))
    assert "overall" not in {r["task"] for r in history(folder) if r["split"] == "dev"}


def test_dev_predictions_that_are_not_finite_score_nothing(make_spec: Any, run: Run) -> None:
    # One step at such a rate leaves weights whose outputs are no numbers, after a finite loss.
    spec = make_spec(everywhere={"batch_size": 32}, optimiser={"lr": 1e30})
    folder = run(spec)
    rows = [r for r in history(folder) if r["split"] == "dev"]
    assert [r["value"] for r in rows if r["metric"] == "pearson"] == [0.0]
    sts = [p["prediction"] for p in predictions(folder) if p["task"] == "sts"]
    assert sts and not any(map(math.isfinite, sts))
    assert math.isfinite(outcome(folder)["best_score"])


@pytest.mark.parametrize("surgery", [None, "pcgrad"])
def test_weight_decay_leaves_unused_parameters_alone(
    surgery: str | None, make_spec: Any, run: Run, backbone: Path
) -> None:
    spec = make_spec(
        everywhere={"pooling": "mean"}, surgery=surgery, optimiser={"lr": 0.1, "weight_decay": 0.5}
    )
    found = load_file(run(spec) / "model.safetensors")
    before = load_file(backbone / "model.safetensors")
    for name in before:
        untouched = torch.equal(found[f"encoder.shared.{name}"], before[name])
        assert untouched == name.startswith("pooler."), name


def test_the_record(make_spec: Any, run: Run, sources: Any) -> None:
    spec = make_spec(("sst",), epochs=2)
    folder = run(spec, seed=7)
    record = json.loads((folder / "run.json").read_text())
    assert StageSpec.model_validate(record["spec"]) == spec
    assert record["seed"] == 7 and record["environment"]["device"] == "cpu"
    assert "weights" not in record["outcome"]
    assert record["outcome"]["steps"] == 2 * 3
    assert record["outcome"]["tokens_per_second"] > 0
    assert record["peak_memory_bytes"] > 1e7
    module = Finetuned(spec, sources("sst"), CPU).module
    assert record["parameters"] == sum(p.numel() for p in module.parameters())
    assert {p.name for p in folder.iterdir()} == {
        "model.safetensors",
        "history.parquet",
        "predictions.parquet",
        "run.json",
    }


@pytest.mark.skipif(torch.cuda.is_available(), reason="auto would be the GPU")
def test_a_device_and_precision_that_are_found_give_the_bits_of_those_that_are_named(
    make_spec: Any, sources: Any, tmp_path: Path
) -> None:
    spec = make_spec(("sst",), optimiser=FAST)
    named = {"device": "cpu", "precision": choose_precision("auto", CPU)}
    for name, how in (("found", {}), ("named", named)):
        train_stage(spec, 4, sources("sst"), tmp_path / name, title=name, **how)
    for name in ("model.safetensors", "predictions.parquet"):
        assert len({(tmp_path / how / name).read_bytes() for how in ("found", "named")}) == 1
