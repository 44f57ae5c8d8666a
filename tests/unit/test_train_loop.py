"""A training job on tiny data: its spec, the best epoch, its files, the same bits again."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from stepping import CPU, make_loop

from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.evaluate.scoring import overall, score_task
from minbert.model.weights import load_weights
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS
from minbert.train import loop as loop_module
from minbert.train.evaluation import PREDICTIONS
from minbert.train.finetune import Finetuned

FAST = {"lr": 3e-3}
FILES = ("model.safetensors", "predictions.parquet")

Rows = list[dict[str, Any]]
Run = Callable[..., Path]


def history(folder: Path) -> Rows:
    return pq.read_table(folder / "history.parquet").to_pylist()


def predictions(folder: Path, **fields: Any) -> Rows:
    """Return the predictions that have these fields."""
    rows = pq.read_table(folder / "predictions.parquet").to_pylist()
    return [row for row in rows if fields.items() <= row.items()]


def outcome(folder: Path) -> dict[str, Any]:
    return read_json(folder / "run.json")["outcome"]


def scores_of(rows: Rows, column: str = "prediction") -> dict[str, float]:
    tasks: dict[str, Rows] = {}
    for row in rows:
        tasks.setdefault(row["task"], []).append(row)
    return {t: score_task(t, [r[column] for r in of], [r["label"] for r in of])
            for t, of in tasks.items()}  # fmt: skip


@pytest.mark.parametrize(
    ("scores", "best"), [([0.1, 0.9, 0.5], 2), ([0.7, 0.7, 0.2], 1), ([0.1, 0.2, 0.3], 3)]
)
def test_the_best_epochs_weights_are_kept_not_the_lasts(
    scores: list[float], best: int, make_spec: Any, run: Run, scored: Callable[..., None]
) -> None:
    three = make_spec(("sst", "sts"), epochs=3, optimiser=FAST)
    scored(*scores)
    found = run(three)
    told = {name: outcome(found)[name] for name in ("best_epoch", "best_score", "last_score")}
    expected = {"best_epoch": best, "best_score": scores[best - 1], "last_score": scores[2]}
    assert told == expected
    # Without a schedule, a run of fewer epochs is the beginning of a longer one.
    scored(0.1, 0.2, 0.3)
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
    tasks, expected = ("sst", "para", "sts"), set()
    pairs = [f"{a}-{b}" for a, b in (("sst", "para"), ("sst", "sts"), ("para", "sts"))]
    groups = ("embeddings", "layer_1", "layer_2", "pooler")
    for step in range(1, 2 * steps + 1):
        at = (step, 1 + (step - 1) // steps, "train")
        expected |= {(*at, task, "loss") for task in (*tasks, "overall")}
        cosines = ["gradient_cosine", *(f"gradient_cosine/{group}" for group in groups)]
        expected |= {(*at, pair, metric) for pair in pairs for metric in cosines}
        expected |= {(*at, task, f"{of}_cosine") for task in tasks for of in ("sum", "update")}
    for epoch in (1, 2):
        at = (steps * epoch, epoch)
        expected |= {(*at, "dev", task, "loss") for task in tasks}
        for split in ("train", "dev"):
            expected |= {(*at, split, task, TASKS[task].metric) for task in tasks}
            expected |= {(*at, split, "overall", rule) for rule in ("normalised", "plain")}
    assert set(keys) == expected and len(keys) == len(expected)
    times = [r["time"] for r in rows]
    assert times == sorted(times)
    assert all(-1.001 <= r["value"] <= 1.001 for r in rows if "cosine" in r["metric"])


def test_predictions_are_those_of_the_best_and_of_the_last_epoch(
    make_spec: Any, run: Run, tokens: dict[str, Path]
) -> None:
    folder = run(make_spec(epochs=3, optimiser=FAST))
    assert pq.read_schema(folder / "predictions.parquet").equals(PREDICTIONS)
    dev = [r for r in history(folder) if r["split"] == "dev"]
    for epoch, column, told in (
        (outcome(folder)["best_epoch"], "prediction", outcome(folder)["best_score"]),
        (3, "last", outcome(folder)["last_score"]),
    ):
        rows = {(r["task"], r["metric"]): r["value"] for r in dev if r["epoch"] == epoch}
        scores = scores_of(predictions(folder, split="dev"), column)
        for task, score in scores.items():
            assert rows[task, TASKS[task].metric] == pytest.approx(score)
        for rule in ("normalised", "plain"):
            assert rows["overall", rule] == pytest.approx(overall(scores, rule))
        assert told == pytest.approx(rows["overall", "normalised"])
    for task, path in tokens.items():
        table = pq.read_table(path).to_pylist()
        for split in ("dev", "test"):
            given = [(row["id"], row["label"]) for row in table if row["split"] == split]
            ours = predictions(folder, task=task, split=split)
            assert [(p["id"], p["label"]) for p in ours] == given
            for p in ours:
                assert (split == "test") == (p["label"] is None) == (p["last"] is None)
                assert len(p["scores"]) == TASKS[task].classes
                value = {"sst": p["scores"].index(max(p["scores"])), "para": p["scores"][0] > 0.5}
                assert p["prediction"] == value.get(task, p["scores"][0])
                assert task != "sst" or sum(p["scores"]) == pytest.approx(1, abs=1e-5)
    assert len(predictions(folder)) == 6 + 5 + 8 + 4 + 7 + 5


def test_a_half_of_dev_chooses_and_the_other_is_reported(make_spec: Any, run: Run) -> None:
    spec = make_spec(epochs=3, optimiser=FAST)
    halves, whole = (
        run(spec.model_copy(update={"selection_split": "half"}), name="halves"),
        run(spec),
    )
    best = outcome(halves)["best_epoch"]
    ids = []
    for split in ("dev", "selection"):
        found = predictions(halves, split=split)
        ids.append({p["id"] for p in found})
        score = overall(scores_of(found), "normalised")
        (told,) = (
            r["value"]
            for r in history(halves)
            if (r["split"], r["metric"], r["epoch"]) == (split, "normalised", best)
        )
        assert told == pytest.approx(score)
        if split == "selection":
            assert outcome(halves)["best_score"] == pytest.approx(score)
    assert not ids[0] & ids[1]
    assert ids[0] | ids[1] == {p["id"] for p in predictions(whole, split="dev")}


@pytest.mark.parametrize("sampler", ["unified", "sequential"])
def test_one_seed_gives_the_same_bits_and_another_does_not_and_the_record_says_which(
    sampler: str, make_spec: Any, run: Run, sources: Any
) -> None:
    settings = {"surgery": "pcgrad" if sampler == "unified" else None, "shared_layers": 1}
    spec = make_spec(epochs=2, sampler={"name": sampler}, optimiser=FAST, **settings)
    first, again, other = (
        run(spec, seed, name) for name, seed in zip("abc", (4, 4, 5), strict=True)
    )
    for name in FILES:
        assert (first / name).read_bytes() == (again / name).read_bytes()
        assert (first / name).read_bytes() != (other / name).read_bytes()
    untimed = [[r | {"time": 0} for r in history(folder)] for folder in (first, again)]
    assert untimed[0] == untimed[1]
    record = read_json(other / "run.json")
    assert StageSpec.model_validate(record["spec"]) == spec
    assert record["seed"] == 5 and record["environment"]["device"] == "cpu"
    assert record["outcome"]["steps"] == max(row["step"] for row in untimed[0])
    assert record["outcome"]["tokens_per_second"] > 0
    assert record["outcome"]["seconds"] > record["outcome"]["training_seconds"] > 0
    assert record["peak_memory_bytes"] > 1e7
    module = Finetuned(spec, sources(), CPU).module
    assert record["parameters"] == sum(p.numel() for p in module.parameters())
    assert {p.name for p in other.iterdir()} == {*FILES, "history.parquet", "run.json"}


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
    tasks = {"sst": {}, "para": {}, "sts": {"trained": False}}
    spec = make_spec(tasks, shared_layers=1, optimiser={**FAST, "weight_decay": 0.1})
    folder = run(spec, seed=3)
    torch.manual_seed(3)
    initial = Finetuned(spec, sources(), CPU).weights()
    for name, tensor in load_file(folder / "model.safetensors").items():
        own = name.startswith(("heads.sts.", "encoder.own.sts."))
        assert torch.equal(tensor, initial[name]) == own, name
    assert not [r for r in history(folder) if r["split"] == "train" and "sts" in r["task"]]
    assert {p["task"] for p in predictions(folder)} == {"sst", "para", "sts"}


def test_a_carried_task_is_scored_once_and_has_no_say_in_the_best_epoch(
    make_spec: Any, run: Run, without: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = without("sts", "train", "dev")
    asked: list[tuple[str, str]] = []
    ordinary = Finetuned.outputs

    def outputs(model: Finetuned, task: str, split: str) -> torch.Tensor:
        asked.append((task, split))
        return ordinary(model, task, split)

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
    assert "overall" not in {r["task"] for r in rows}


def test_optimiser_and_generators_are_the_specs_and_the_seeds(make_spec: Any, sources: Any) -> None:
    chosen = {"lr": 2e-4, "betas": (0.8, 0.95), "eps": 1e-5, "weight_decay": 0.02}
    tasks = {"sst": {}, "para": {}, "sts": {"trained": False}}
    spec = make_spec(tasks, shared_layers=1, surgery="pcgrad", optimiser=chosen)
    seeds = []
    for seed in (0, 1, 2):
        loop = make_loop(spec, sources, seed=seed)
        seeds += [loop.sampler.generator.initial_seed(), loop.gradients.generator.initial_seed()]
    assert len(set(seeds)) == 6
    assert loop.optimiser.chosen == spec.optimiser and spec.optimiser.betas == (0.8, 0.95)
    ours = [id(p) for p in loop.optimiser.parameters]
    assert len(ours) == len(set(ours))
    for name, parameter in loop.model.module.named_parameters():
        assert (id(parameter) in ours) != (".sts." in name), name


def test_the_rate_follows_the_schedule_over_all_epochs(
    make_spec: Any, sources: Any, tmp_path: Path
) -> None:
    optimiser = {"lr": 0.006, "schedule": {"name": "linear"}}
    loop = make_loop(make_spec(epochs=2, optimiser=optimiser), sources, tmp_path)
    asked: list[int] = []
    schedule = loop.optimiser.schedule
    loop.optimiser.schedule = lambda step: (asked.append(step), schedule(step))[1]
    loop.run()
    rates = [0.006 * schedule(step).factor for step in asked]
    assert rates == pytest.approx([0.006, 0.005, 0.004, 0.003, 0.002, 0.001])


def test_dropout_is_on_in_steps_and_memory_is_released_around_dev(
    make_spec: Any, sources: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = make_loop(make_spec(("sst",), epochs=2), sources, tmp_path)
    told: list[str] = []

    def note(where: Any, name: str) -> None:
        function = getattr(where, name)

        def noted(*given: Any, **named: Any) -> Any:
            some = any(p.grad is not None for p in loop.model.module.parameters())
            mode = "training" if loop.model.module.training else "evaluation"
            told.append(f"{name}, {mode}, {'some' if some else 'no'} gradients")
            return function(*given, **named)

        monkeypatch.setattr(where, name, noted)

    note(loop.model, "forward")
    note(loop.optimiser, "flush")
    note(loop.model, "outputs")
    note(loop_module, "release_memory")
    note(loop_module, "load_weights")
    loop.run()
    epoch = [
        *["forward, training, no gradients"] * 3,
        "flush, training, some gradients",
        "release_memory, training, no gradients",
        "outputs, evaluation, no gradients",
    ]
    end = [f"{name}, evaluation, no gradients" for name in ("release_memory", "load_weights")]
    assert told == [*epoch, *epoch, *end]


def test_bf16_computes_layers_in_bf16_and_outputs_in_fp32(
    make_spec: Any, sources: Any, tmp_path: Path
) -> None:
    spec = make_spec(("sts",), optimiser={"lr": 1e-3})
    loop = make_loop(spec, sources, tmp_path, precision="bf16")
    kinds: dict[str, set[torch.dtype]] = {"encoder.shared.layers.0": set(), "heads.sts": set()}
    for path, of in kinds.items():
        part = loop.model.module.get_submodule(path)
        part.register_forward_hook(lambda _, __, out, of=of: of.add(out.dtype))
    loop.run()
    assert list(kinds.values()) == [{torch.bfloat16}, {torch.float32}]
    weights = load_weights(loop.settings.checkpoints.best)
    assert all(weight.dtype == torch.float32 for weight in weights.values())
    assert loop.evaluation.predictions().schema.equals(PREDICTIONS)


def test_heads_start_at_the_prior_only_where_asked(
    make_spec: Any, sources: Any, tmp_path: Path
) -> None:
    """A head's bias, or a cosine's threshold, which is then not trained."""
    cosine = {"loss": "cosine_embedding", "head": {"name": "cosine"}}
    cosine |= {"pairing": "siamese", "features": ["u", "v"]}
    asked = {"init_bias_to_prior": True}
    tasks = {"sst": {}, "para": {**cosine, **asked}, "sts": asked}
    loop = make_loop(make_spec(tasks), sources, tmp_path)
    plain = make_loop(make_spec({"sst": {}, "para": cosine, "sts": {}}), sources)
    ours, others = (each.model.weights() for each in (loop, plain))
    mean = loop.model.examples["sts"]["train"].labels.mean().item()
    assert ours["heads.sts.linears.0.bias"].item() == pytest.approx(mean)
    name, threshold = "heads.sst.linears.0.bias", "heads.para.threshold"
    assert torch.equal(ours[name], others[name])
    assert others[threshold].item() == 0 == loop.model.tokens_seen
    ones = loop.model.examples["para"]["train"].labels.mean().item()
    assert 0.1 < ones < 0.9
    shares = []
    for model in (loop.model, plain.model):
        model.module.eval()
        predicted = model.losses["para"].prediction(model.outputs("para", "train"))
        shares.append(predicted.mean().item())
    assert shares == [pytest.approx(ones, abs=0.1), 1.0]
    before = ours[threshold].clone()
    loop.run()
    assert torch.equal(loop.model.weights()[threshold], before)


def test_a_loss_that_is_not_finite_stops_with_step_task_and_ids(
    make_spec: Any, run: Run, tokens: dict[str, Path], write_tokens: Any, tmp_path: Path
) -> None:
    message = r"loss of task '\w+' is (nan|inf) at step 2; .*: s\w+-train-"
    with pytest.raises(UserError, match=message):
        run(make_spec(("sst", "sts"), optimiser={"lr": 1e30}))
    rows = pq.read_table(tokens["sts"]).to_pylist()
    rows[5]["label"] = float("nan")
    path = write_tokens(tmp_path / "tokens.parquet", rows)
    with pytest.raises(UserError, match=r"task 'sts' is nan at step [123]; .*\bsts-train-5\b"):
        run(make_spec(("sts",)), instead={"sts": path})
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_dev_predictions_that_are_not_finite_score_nothing(make_spec: Any, run: Run) -> None:
    # One step at such a rate leaves weights whose outputs are no numbers, after a finite loss.
    folder = run(make_spec(everywhere={"batch_size": 32}, optimiser={"lr": 1e30}))
    rows = [r for r in history(folder) if r["split"] == "dev"]
    assert [r["value"] for r in rows if r["metric"] == "pearson"] == [0.0]
    sts = [p["prediction"] for p in predictions(folder, task="sts")]
    assert sts and not any(map(math.isfinite, sts))
    assert math.isfinite(outcome(folder)["best_score"])


@pytest.mark.parametrize(("lacking", "said"), [("train", "training"), ("dev", "dev")])
def test_a_split_without_examples_is_refused_before_any_step(
    lacking: str, said: str, make_spec: Any, sources: Any, without: Callable[..., Path]
) -> None:
    instead = {"sst": without("sst", lacking)}
    with pytest.raises(UserError, match=f"task 'sst' has no {said} examples"):
        make_loop(make_spec(("sst",)), lambda *tasks: sources(*tasks, instead=instead))
