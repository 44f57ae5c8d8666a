"""The convolution over tokens: torch's own on each sequence alone, and whose parameters it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from model_batches import MIXED, STILL, TINY, random_batch
from torch import Tensor, nn

from minbert.model.convolution import TokenConvolution
from minbert.model.multitask import MultitaskModel
from minbert.model.weights import save_weights
from minbert.plan.parameters import count
from minbert.spec.stage import StageSpec
from minbert.spec.task import Convolution, Head, TaskSpec

WIDTH = TINY.hidden


def layer(kernel: int = 3, residual: bool = False) -> TokenConvolution:
    torch.manual_seed(5)
    return TokenConvolution(WIDTH, Convolution(kernel=kernel, residual=residual))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("kernel", [1, 3, 5, 15])
def test_it_is_torchs_convolution_of_each_sequence_alone(kernel: int, residual: bool) -> None:
    ours = layer(kernel, residual)
    theirs = nn.Conv1d(WIDTH, WIDTH, kernel, padding=kernel // 2)
    theirs.load_state_dict(ours.convolution.state_dict())
    hidden = torch.randn(sum(MIXED), WIDTH, requires_grad=True)
    found = ours(hidden, random_batch())
    alone = [theirs(part.T).T.relu() for part in hidden.split(list(MIXED))]
    expected = torch.cat(alone) + (hidden if residual else 0)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)
    upstream = torch.randn(found.shape)
    gradients = torch.autograd.grad(found, [hidden, *ours.parameters()], upstream)
    wanted = torch.autograd.grad(expected, [hidden, *theirs.parameters()], upstream)
    torch.testing.assert_close(gradients, wanted, atol=1e-5, rtol=1e-5)


def test_it_starts_as_torchs_convolution() -> None:
    torch.manual_seed(5)
    theirs = nn.Conv1d(WIDTH, WIDTH, 3)
    assert torch.equal(layer().convolution.weight, theirs.weight)


CONVOLVED = {
    "sst": TaskSpec(loss="cross_entropy", convolution=Convolution(), head=Head(dropout=0.0)),
    "sts": TaskSpec(
        loss="mse",
        pairing="siamese",
        features=("u", "v"),
        pooling="max",
        convolution=Convolution(kernel=5, residual=True),
        head=Head(dropout=0.0),
    ),
    "para": TaskSpec(loss="binary_cross_entropy", pairing="cross", head=Head(dropout=0.0)),
}


@pytest.fixture(scope="module")
def model() -> MultitaskModel:
    """SST with `cls`, STS with `max` after a convolution; para without one."""
    torch.manual_seed(0)
    return MultitaskModel(TINY, StageSpec(tasks=CONVOLVED, dropout=STILL)).eval()


def test_a_task_pools_its_convolved_tokens(model: MultitaskModel) -> None:
    batch = random_batch((3, 4, 2, 5))
    hidden = model.encoder("sst", batch)
    assert set(model.convolutions) == {"sst", "sts"}
    first = model.convolutions["sst"](hidden, batch)[batch.first]
    assert torch.equal(model.pooled("sst", batch), model.encoder.pooler("sst")(first))
    tokens = model.convolutions["sts"](hidden, batch)
    largest = torch.stack([part.amax(0) for part in tokens.split([3, 4, 2, 5])])
    assert torch.equal(model.pooled("sts", batch), largest)
    without = model.encoder.pooler("para")(hidden[batch.first])
    assert torch.equal(model.pooled("para", batch), without)


def test_its_parameters_are_the_tasks_own_and_counted(model: MultitaskModel) -> None:
    ours = {id(p) for p in model.convolutions["sts"].parameters()}
    assert ours and ours <= {id(p) for p in model.own_parameters("sts")}
    for others in (model.shared_parameters(), model.own_parameters("sst")):
        assert not ours & {id(p) for p in others}
    counted = count(model.spec, TINY)
    assert counted["total"] == counted["trainable"] == sum(p.numel() for p in model.parameters())
    plain = {task: t.model_copy(update={"convolution": None}) for task, t in CONVOLVED.items()}
    without = count(StageSpec(tasks=plain), TINY)["total"]
    assert counted["total"] - without == (3 + 5) * WIDTH * WIDTH + 2 * WIDTH


def test_a_stage_takes_over_a_fitting_convolution_or_none(
    make_spec: Any, sources: Any, tmp_path: Path
) -> None:
    from minbert.train.finetune import Finetuned

    def weights(kernel: int, seed: int, start: Path | None = None) -> dict[str, Tensor]:
        torch.manual_seed(seed)
        spec = make_spec({"sst": {"convolution": {"kernel": kernel}}})
        made = Finetuned(spec, sources("sst", start=start), torch.device("cpu"))
        return {n: t for n, t in made.weights().items() if n.startswith("convolutions.sst.")}

    torch.manual_seed(1)
    first = Finetuned(
        make_spec({"sst": {"convolution": {"kernel": 3}}}), sources("sst"), torch.device("cpu")
    ).weights()
    save_weights(tmp_path / "three.safetensors", first)
    taken = weights(3, seed=2, start=tmp_path / "three.safetensors")
    assert len(taken) == 2 and all(torch.equal(t, first[n]) for n, t in taken.items())
    # A bias fits whatever the kernel; half of a convolution is none.
    fresh = weights(5, seed=2)
    wider = weights(5, seed=2, start=tmp_path / "three.safetensors")
    assert all(torch.equal(t, fresh[n]) for n, t in wider.items())
