"""The loop does what its spec's settings say: optimiser, schedule, dropout, generators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from minbert.base.progress import Progress
from minbert.engine.checkpoints import Best
from minbert.model.weights import load_weights
from minbert.spec.stage import StageSpec
from minbert.train.finetune import Finetuned
from minbert.train.history import History
from minbert.train.loop import Loop, Settings
from minbert.train.schedules import Setting

CPU = torch.device("cpu")
Make = Callable[..., Loop]


@pytest.fixture
def make_loop(sources: Any, tmp_path: Path) -> Make:
    """Return a function that makes the loop of a spec."""

    def make(spec: StageSpec, seed: int = 0, precision: str = "fp32") -> Loop:
        torch.manual_seed(seed)
        learner = Finetuned(spec, sources(*spec.tasks), CPU)
        settings = Settings(CPU, precision, Progress("test"), Best(tmp_path))
        return Loop(spec, learner, seed, settings, History())

    return make


def rates(loop: Loop) -> list[float]:
    """Run `loop`; return the rate of each step."""
    found: list[float] = []
    schedule, base = loop.optimiser.schedule, loop.optimiser.chosen.lr

    def noted(step: int) -> Setting:
        setting = schedule(step)
        found.append(base * setting.factor)
        return setting

    loop.optimiser.schedule = noted
    loop.run()
    return found


def test_the_optimiser_is_the_specs(make_loop: Make, make_spec: Any) -> None:
    chosen = {"lr": 2e-4, "betas": (0.8, 0.95), "eps": 1e-5, "weight_decay": 0.02}
    spec = make_spec(shared_layers=1, surgery="pcgrad", optimiser=chosen)
    loop = make_loop(spec)
    assert loop.optimiser.chosen == spec.optimiser
    assert spec.optimiser.betas == (0.8, 0.95)
    optimised = [id(p) for p in loop.optimiser.parameters]
    assert sorted(optimised) == sorted(id(p) for p in loop.learner.module.parameters())


def test_the_optimiser_leaves_out_what_is_not_trained(make_loop: Make, make_spec: Any) -> None:
    loop = make_loop(make_spec({"sst": {}, "sts": {"trained": False}}, shared_layers=1))
    ours = {id(p) for p in loop.optimiser.parameters}
    for name, parameter in loop.learner.module.named_parameters():
        assert (id(parameter) in ours) != (".sts." in name), name


def test_the_rate_follows_the_schedule_over_all_epochs(make_loop: Make, make_spec: Any) -> None:
    optimiser = {"lr": 0.006, "schedule": {"name": "linear"}}
    found = rates(make_loop(make_spec(epochs=2, optimiser=optimiser)))
    assert found == pytest.approx([0.006, 0.005, 0.004, 0.003, 0.002, 0.001])


def test_dropout_is_on_in_every_epochs_steps_and_off_for_dev(
    make_loop: Make, make_spec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = make_loop(make_spec(("sst",), epochs=2))
    modes: list[tuple[str, bool]] = []
    output, outputs = loop.learner.output, loop.learner.outputs

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            modes.append((name, loop.learner.module.training))
            return function(*arguments)

        return call

    monkeypatch.setattr(loop.learner, "output", noted("step", output))
    monkeypatch.setattr(loop.learner, "outputs", noted("dev", outputs))
    loop.run()
    assert modes == ([("step", True)] * 3 + [("dev", False)]) * 2


def test_samplers_and_surgery_draw_from_generators_that_the_seed_made(
    make_loop: Make, make_spec: Any
) -> None:
    spec = make_spec(surgery="pcgrad")
    seeds = []
    for seed in (0, 1, 2):
        loop = make_loop(spec, seed)
        sampler: Any = loop.sampler
        assert sampler.generator is not loop.gradients.generator
        seeds += [sampler.generator.initial_seed(), loop.gradients.generator.initial_seed()]
    assert len(set(seeds)) == 6


def test_bf16_computes_layers_in_bf16_and_outputs_in_fp32(make_loop: Make, make_spec: Any) -> None:
    loop = make_loop(make_spec(("sts",), optimiser={"lr": 1e-3}), precision="bf16")
    kinds: dict[str, set[torch.dtype]] = {"layers": set(), "heads": set()}
    parts = {"layers": "encoder.shared.layers.0", "heads": "heads.sts"}
    for name, path in parts.items():
        part = loop.learner.module.get_submodule(path)
        part.register_forward_hook(lambda _, __, out, name=name: kinds[name].add(out.dtype))
    loop.run()
    weights = load_weights(loop.settings.best.path)
    assert kinds == {"layers": {torch.bfloat16}, "heads": {torch.float32}}
    assert all(weight.dtype == torch.float32 for weight in weights.values())
    found = loop.predictions("dev")["sts"]
    assert found["prediction"].dtype == found["label"].dtype == "float32"


def test_heads_start_at_the_prior_only_where_asked(make_loop: Make, make_spec: Any) -> None:
    spec = make_spec({"sst": {}, "sts": {"start_at_prior": True}})
    loop = make_loop(spec)
    plain = make_loop(make_spec({"sst": {}, "sts": {}}))
    mean = loop.learner.examples["sts"]["train"].labels.mean()
    bias = loop.learner.module.heads["sts"].linears[-1].bias
    assert bias.item() == pytest.approx(mean.item())
    name = "heads.sst.linears.0.bias"
    assert torch.equal(loop.learner.weights()[name], plain.learner.weights()[name])


def test_a_cosines_threshold_starts_at_the_share_of_ones(make_loop: Make, make_spec: Any) -> None:
    cosine = {"loss": "cosine_embedding", "head": {"name": "cosine"}}
    cosine |= {"pairing": "siamese", "features": ["u", "v"]}
    plain = make_loop(make_spec({"para": cosine}))
    assert plain.learner.weights()["heads.para.threshold"].item() == 0
    loop = make_loop(make_spec({"para": {**cosine, "start_at_prior": True}}))
    assert loop.learner.tokens_seen == 0
    ones = loop.learner.examples["para"]["train"].labels.mean().item()
    assert 0.1 < ones < 0.9
    loop.learner.module.eval()
    shares = [
        each.losses["para"].prediction(each.learner.outputs("para", "train")).mean().item()
        for each in (loop, plain)
    ]
    assert shares == [pytest.approx(ones, abs=0.1), 1.0]
    before = loop.learner.weights()["heads.para.threshold"].clone()
    loop.run()
    assert torch.equal(loop.learner.weights()["heads.para.threshold"], before)
