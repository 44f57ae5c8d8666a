"""A training job on tiny data: its spec, the best epoch, its files, the same bits again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from stepping import make_loop

from minbert.base.files import read_json
from minbert.evaluate.scoring import overall, score_task
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.train import run as run_module
from minbert.train.history import PREDICTIONS

FAST = {"lr": 3e-3}
FILES = ("model.safetensors", "predictions.parquet")

Rows = list[dict[str, Any]]
Run = Callable[..., Path]


def rows_of(folder: Path, name: str, **fields: Any) -> Rows:
    """Return the rows of a file that have these fields."""
    rows = pq.read_table(folder / f"{name}.parquet").to_pylist()
    return [row for row in rows if fields.items() <= row.items()]


def outcome(folder: Path) -> dict[str, Any]:
    return read_json(folder / "run.json")["outcome"]


def scores_of(rows: Rows, column: str = "prediction") -> dict[str, float]:
    tasks: dict[str, Rows] = {}
    for row in rows:
        tasks.setdefault(row["task"], []).append(row)
    pairs = {t: ([r[column] for r in of], [r["label"] for r in of]) for t, of in tasks.items()}
    return {task: score_task(task, *pair) for task, pair in pairs.items()}


@pytest.mark.parametrize(("scores", "best"), [([0.1, 0.9, 0.5], 2), ([0.7, 0.7, 0.2], 1)])
def test_the_best_epochs_weights_are_kept_not_the_lasts(
    scores: list[float], best: int, make_spec: Any, run: Run, scored: Callable[..., None]
) -> None:
    three = make_spec(("sst", "sts"), epochs=3, optimiser=FAST)
    scored(*scores)
    found = run(three)
    assert [outcome(found)[n] for n in ("best_epoch", "best_score")] == [best, scores[best - 1]]
    # Without a schedule, a run of fewer epochs is the beginning of a longer one.
    scored(0.1, 0.2, 0.3)
    shorter = run(three.model_copy(update={"epochs": best}), name="shorter")
    assert (found / FILES[0]).read_bytes() == (shorter / FILES[0]).read_bytes()
    kept, only = ([r | {"last": 0} for r in rows_of(of, "predictions")] for of in (found, shorter))
    assert kept == only


def test_history_has_every_value_once(make_spec: Any, run: Run) -> None:
    rows = rows_of(run(make_spec(epochs=2, surgery="pcgrad", optimiser=FAST)), "history")
    tasks, expected = ("sst", "para", "sts"), set()
    pairs = ("sst-para", "sst-sts", "para-sts")
    groups = ("", "/embeddings", "/layer_1", "/layer_2", "/pooler")
    for step in range(1, 7):  # ten STS examples in batches of four
        at = (step, 1 + (step - 1) // 3, "train")
        expected |= {(*at, task, "loss") for task in (*tasks, "overall")}
        expected |= {(*at, pair, f"gradient_cosine{of}") for pair in pairs for of in groups}
        expected |= {(*at, task, f"{of}_cosine") for task in tasks for of in ("sum", "update")}
    for at in ((3, 1), (6, 2)):
        expected |= {(*at, "dev", task, "loss") for task in tasks}
        for split in ("train", "dev"):
            expected |= {(*at, split, task, TASKS[task].metric) for task in tasks}
            expected |= {(*at, split, "overall", rule) for rule in ("normalised", "plain")}
    found = [tuple(row.values())[:5] for row in rows]
    assert set(found) == expected and len(found) == len(expected)
    assert all(-1.001 <= r["value"] <= 1.001 for r in rows if "cosine" in r["metric"])


def test_predictions_are_those_of_the_best_and_of_the_last_epoch(
    make_spec: Any, run: Run, tokens: dict[str, Path]
) -> None:
    folder = run(make_spec(epochs=3, optimiser=FAST))
    assert pq.read_schema(folder / "predictions.parquet").equals(PREDICTIONS)
    for epoch, column in ((outcome(folder)["best_epoch"], "prediction"), (3, "last")):
        dev = rows_of(folder, "history", split="dev", epoch=epoch)
        rows = {(r["task"], r["metric"]): r["value"] for r in dev}
        scores = scores_of(rows_of(folder, "predictions", split="dev"), column)
        told = {(task, TASKS[task].metric): score for task, score in scores.items()}
        told |= {("overall", rule): overall(scores, rule) for rule in ("normalised", "plain")}
        assert {key: rows[key] for key in told} == pytest.approx(told)
    for task, path in tokens.items():
        for split in ("dev", "test"):
            given = [r for r in pq.read_table(path).to_pylist() if r["split"] == split]
            ours = rows_of(folder, "predictions", task=task, split=split)
            assert [(p["id"], p["label"]) for p in ours] == [(r["id"], r["label"]) for r in given]
            for p in ours:
                assert (split == "test") == (p["label"] is None) == (p["last"] is None)
                assert len(p["scores"]) == TASKS[task].classes
                value = {"sst": p["scores"].index(max(p["scores"])), "para": p["scores"][0] > 0.5}
                assert p["prediction"] == value.get(task, p["scores"][0])


def test_a_half_of_dev_chooses_and_the_other_is_reported(
    make_spec: Any, run: Run, tokens: dict[str, Path]
) -> None:
    halves = run(make_spec(epochs=3, optimiser=FAST, selection_split="half"))
    best, ids = outcome(halves)["best_epoch"], []
    for split in ("dev", "selection"):
        found = rows_of(halves, "predictions", split=split)
        ids += [p["id"] for p in found]
        score = overall(scores_of(found), "normalised")
        (told,) = rows_of(halves, "history", split=split, metric="normalised", epoch=best)
        assert told["value"] == pytest.approx(score)
    assert outcome(halves)["best_score"] == pytest.approx(score)
    tables = [pq.read_table(path).to_pylist() for path in tokens.values()]
    dev = [row["id"] for rows in tables for row in rows if row["split"] == "dev"]
    assert sorted(ids) == sorted(dev)


def test_one_seed_gives_the_same_bits_and_another_does_not_and_the_record_says_which(
    make_spec: Any, run: Run
) -> None:
    spec = make_spec(epochs=2, surgery="pcgrad", shared_layers=1, optimiser=FAST)
    first, again, other = (run(spec, seed, f"{n}") for n, seed in enumerate((4, 4, 5)))
    for name in FILES:
        assert (first / name).read_bytes() == (again / name).read_bytes()
        assert (first / name).read_bytes() != (other / name).read_bytes()
    untimed = [[r | {"time": 0} for r in rows_of(of, "history")] for of in (first, again)]
    assert untimed[0] == untimed[1]
    record = read_json(other / "run.json")
    assert StageSpec.model_validate(record["spec"]) == spec
    assert record["seed"] == 5 and record["environment"]["device"] == "cpu"
    assert record["environment"]["threads"] == 1
    assert record["outcome"]["steps"] == 6
    costs = (record["outcome"][name] for name in ("seconds", "tokens_per_second"))
    assert min(*costs, record["peak_memory_bytes"]) > 0
    saved = load_file(other / "model.safetensors")
    assert record["parameters"] == sum(tensor.numel() for tensor in saved.values())
    assert {p.name for p in other.iterdir()} == {*FILES, "history.parquet", "run.json"}


def test_a_task_that_is_not_trained_keeps_its_head_and_has_no_say_in_the_best_epoch(
    make_spec: Any, run: Run, sources: Any, without: Any
) -> None:
    instead = {"sts": without("sts", "train", "dev")}
    tasks = {"sst": {}, "para": {"trained": False}, "sts": {"trained": False}}
    spec = make_spec(tasks, epochs=3, shared_layers=1, optimiser=FAST | {"weight_decay": 0.1})
    folder = run(spec, seed=3, instead=instead)
    accuracies = [r["value"] for r in rows_of(folder, "history", split="dev", metric="accuracy")]
    assert outcome(folder)["best_score"] == max(accuracies)
    assert {row["task"] for row in rows_of(folder, "history", split="dev")} == {"sst"}
    assert {row["task"] for row in rows_of(folder, "predictions", split="test")} == {*tasks}
    initial = make_loop(spec, sources, seed=3).model.weights
    for name, tensor in load_file(folder / "model.safetensors").items():
        own = ".para." in name or ".sts." in name
        assert torch.equal(tensor, initial[name]) == own, name


def test_optimiser_and_generators_are_the_specs_and_the_seeds(make_spec: Any, sources: Any) -> None:
    chosen = {"betas": (0.8, 0.95), "schedule": {"name": "linear"}}
    spec = make_spec(epochs=2, surgery="pcgrad", optimiser=chosen)
    seeds = set()
    for seed in (0, 1, 2):
        loop = make_loop(spec, sources, seed=seed)
        seeds |= {of.generator.initial_seed() for of in (loop.sampler, loop.gradients)}
    assert len(seeds) == 6
    assert loop.optimiser.chosen == spec.optimiser
    assert {*loop.optimiser.parameters} == {*loop.model.module.parameters()}
    factors = [loop.optimiser.schedule(step).factor for step in range(6)]
    assert factors == pytest.approx([1 - step / 6 for step in range(6)])


def test_dropout_is_on_in_steps_and_rows_are_up_to_date_for_dev(
    make_spec: Any, sources: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = make_loop(make_spec(("sst",), epochs=2), sources, tmp_path)
    told: list[tuple[str, bool]] = []
    for where, name in (
        (loop.model, "forward"),
        (loop.optimiser, "flush"),
        (run_module, "release_memory"),
        (loop.model, "outputs"),
    ):
        of = getattr(where, name)

        def noted(*given: Any, of: Any = of, name: str = name) -> Any:
            told.append((name, loop.model.module.training))
            return of(*given)

        monkeypatch.setattr(where, name, noted)
    loop.run()
    steps = [("forward", True)] * 3
    epoch = [*steps, ("flush", True), ("release_memory", True), ("outputs", False)]
    assert told == [*epoch, *epoch, ("release_memory", False)]


def test_the_precision_is_that_of_layers_and_outputs_are_fp32(
    make_spec: Any, sources: Any, tmp_path: Path
) -> None:
    loop = make_loop(make_spec(("sts",)), sources, tmp_path, precision="bf16")
    found: list[torch.dtype] = []
    for path in ("encoder.shared.layers.0", "heads.sts"):
        part = loop.model.module.get_submodule(path)
        part.register_forward_hook(lambda _, __, out: found.append(out.dtype))
    loop.step([("sts", torch.arange(2))])
    assert found == [torch.bfloat16, torch.float32]


def test_heads_start_at_the_prior_only_where_asked(
    make_spec: Any, sources: Any, tmp_path: Path
) -> None:
    """A head's bias, or a cosine's threshold, which is then not trained."""
    cosine = {"pairing": "siamese", "features": ["u", "v"], "head": {"name": "cosine"}}
    tasks = {"sst": {}, "para": {"loss": "cosine_embedding", **cosine}, "sts": {}}
    for task in ("para", "sts"):
        tasks[task]["init_bias_to_prior"] = True
    loop = make_loop(make_spec(tasks), sources, tmp_path)
    means = {task: of["train"].labels.mean().item() for task, of in loop.model.examples.items()}
    weights = loop.model.weights
    assert weights["heads.sts.linears.0.bias"].item() == pytest.approx(means["sts"])
    assert weights["heads.sst.linears.0.bias"].std() > 0 == loop.model.tokens_seen
    before = weights["heads.para.threshold"].clone()
    loop.model.module.eval()
    predicted = loop.model.losses["para"].prediction(loop.model.outputs("para", "train"))
    assert predicted.mean().item() == pytest.approx(means["para"], abs=0.1)
    loop.run()
    assert torch.equal(loop.model.weights["heads.para.threshold"], before)
