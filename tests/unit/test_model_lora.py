"""LoRA: equal to the `adapters` package, nothing at the start, merged without a difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from model_batches import MIXED, alone, bert_of_transformers, padded_inputs, random_batch, states_of
from torch import Tensor

from minbert.model.lora import add_lora, merge_lora
from minbert.model.multitask import MultitaskModel
from minbert.model.weights import load_weights
from minbert.spec.architecture import WEIGHTS, read_architecture
from minbert.spec.stage import StageSpec

HIDDEN, LAYERS, RANK, ALPHA = 24, 2, 3, 12.0
MARK = ".qkv.lora_"


def make(**stage: Any) -> StageSpec:
    return StageSpec.model_validate({"tasks": {"sst": {"loss": "cross_entropy"}}, **stage})


TUNED = make(trainable="lora", lora={"rank": RANK, "alpha": ALPHA})


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """Return a BERT with a random LoRA of the `adapters` package, and our backbone of it."""
    folder = tmp_path_factory.mktemp("package")
    model = bert_of_transformers(folder, HIDDEN, LAYERS)
    import adapters

    adapters.init(model)
    model.add_adapter(
        "l", config=adapters.LoRAConfig(r=RANK, alpha=ALPHA, attn_matrices=["q", "v"])
    )
    model.set_active_adapters("l")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora" in name:
                parameter.normal_(std=0.2)
    return model.eval(), folder / "ours"


def plain_model(folder: Path) -> MultitaskModel:
    model = MultitaskModel(read_architecture(folder / "config.json"), make())
    model.encoder.load_backbone(load_weights(folder / WEIGHTS))
    return model.eval()


def tuned_model(package: tuple[Any, Path]) -> MultitaskModel:
    """Return our model with the package's changes."""
    theirs, folder = package
    model = plain_model(folder)
    add_lora(model.encoder, RANK, ALPHA)
    found: dict[str, Tensor] = {}
    for number, layer in enumerate(theirs.encoder.layer):
        for kind in ("query", "value"):
            lora = getattr(layer.attention.self, kind).loras["l"]
            place = f"encoder.shared.layers.{number}.attention{MARK}{kind}"
            found[f"{place}.down.weight"] = lora.lora_A
            found[f"{place}.up.weight"] = lora.lora_B
    assert found.keys() == {name for name in model.state_dict() if MARK in name}
    model.load_state_dict(found, strict=False)
    return model


@torch.no_grad()
@pytest.mark.parametrize("merged", [False, True], ids=["beside", "merged"])
def test_equals_the_package(package: tuple[Any, Path], merged: bool) -> None:
    theirs, folder = package
    model = tuned_model(package)
    if merged:
        merge_lora(model.encoder)
        assert model.state_dict().keys() == plain_model(folder).state_dict().keys()
    batch = random_batch((*MIXED, 33), vocabulary=60, seed=1)
    inputs = padded_inputs(batch)
    reference = theirs(**inputs)
    expected = reference.last_hidden_state[inputs["attention_mask"].bool()]
    torch.testing.assert_close(states_of(model.encoder, "sst", batch), expected, atol=1e-5, rtol=0)
    pooled = alone(model.pooled, "sst", batch)
    torch.testing.assert_close(pooled, reference.pooler_output, atol=1e-5, rtol=0)
    unchanged = alone(plain_model(folder).pooled, "sst", batch)
    assert (pooled - unchanged).abs().max() > 0.1, "changes that do nothing would be equal, too"


@torch.no_grad()
def test_at_the_start_nothing_is_changed(package: tuple[Any, Path]) -> None:
    plain, model = plain_model(package[1]), plain_model(package[1])
    add_lora(model.encoder, RANK, ALPHA)
    batch = random_batch(MIXED, vocabulary=60, seed=2)
    assert torch.equal(alone(model.pooled, "sst", batch), alone(plain.pooled, "sst", batch))
