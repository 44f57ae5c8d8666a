"""Adapters, their fusion and LoRA: equal to the `adapters` package; near the identity at first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import encoders
import pytest
import torch
from model_batches import alone, states_of
from torch import Tensor, nn

from minbert.model.adapter import Bottleneck, Fusion, LowRank
from minbert.model.hugging_face import convert_hugging_face
from minbert.model.multitask import MultitaskModel
from minbert.model.weights import load_weights, save_weights
from minbert.predict.predictor import load_trained
from minbert.spec.architecture import WEIGHTS, read_architecture
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec

HIDDEN, RANK, ALPHA = 24, 3, 12.0
WIDTHS = {"a": 4, "b": 8, "c": 2, "d": 12}


def made(**stage: Any) -> StageSpec:
    return StageSpec.model_validate({"tasks": {"sst": {"loss": "cross_entropy"}}, **stage})


SPECS = {
    "adapter": made(trainable="adapters", adapter={"width": WIDTHS["b"]}),
    "fusion": made(trainable="fusion", fuse=("m/a", "m/b", "m/c", "m/d")),
    "lora": made(trainable="lora", lora={"rank": RANK, "alpha": ALPHA}),
}


@dataclass
class Package:
    """A BERT of the package's making with one of these; our backbone of it."""

    model: Any
    backbone: Path

    def ours(self, how: str | None = None) -> MultitaskModel:
        """Return our model on the package's backbone, with what the package inserted, if any."""
        spec = SPECS[how] if how else made()
        model = MultitaskModel(read_architecture(self.backbone / "config.json"), spec)
        model.encoder.load_backbone(load_weights(self.backbone / WEIGHTS))
        found = dict(self._inserted(how)) if how else {}
        load_part("trainable", spec.trainable).insert(model.encoder, spec, found)
        assert not model.load_state_dict(found, strict=False).unexpected_keys
        return model.eval()

    def _inserted(self, how: str) -> Iterator[tuple[str, Tensor]]:
        """Yield the package's tensors under our names; our fusion's keys need no bias."""
        if how == "adapter":
            yield from self.adapter("b")
        for number, name in enumerate(WIDTHS if how == "fusion" else ()):
            yield from self.adapter(name, f".adapters.{number}")
        for ours, module in self._places() if how == "fusion" else ():
            layer = module.adapter_fusion_layer[",".join(WIDTHS)]
            for name, tensor in layer.state_dict().items():
                if name != "key.bias":
                    yield f"{ours}.{name}", tensor
        for number, layer in enumerate(self.model.encoder.layer) if how == "lora" else ():
            for kind in ("query", "value"):
                lora = getattr(layer.attention.self, kind).loras["l"]
                place = f"encoder.shared.layers.{number}.attention.qkv.lora_{kind}"
                yield f"{place}.down.weight", lora.lora_A
                yield f"{place}.up.weight", lora.lora_B

    def adapter(self, name: str, place: str = "") -> Iterator[tuple[str, Tensor]]:
        """Yield the package's adapter as a stage saves it, or in its `place` in a fusion."""
        for ours, module in self._places():
            for part, theirs in (("down", "adapter_down.0"), ("up", "adapter_up")):
                for kind, tensor in module.adapters[name].get_submodule(theirs).named_parameters():
                    yield f"{ours}{place}.{part}.{kind}", tensor

    def _places(self) -> Iterator[tuple[str, Any]]:
        for number, layer in enumerate(self.model.encoder.layer):
            name = f"encoder.shared.layers.{number}"
            yield f"{name}.attention.adapter", layer.attention.output
            yield f"{name}.feed_forward.adapter", layer.output


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Package]:
    """Return a model with random adapters, their fusion, and a random LoRA."""
    import adapters  # takes seconds

    found = {}
    for how in SPECS:
        folder = tmp_path_factory.mktemp("package")
        model = encoders.make(encoders.CONFIGS["bert"], folder / "hf")
        convert_hugging_face(folder / "hf", folder / "ours")
        adapters.init(model)
        if how == "lora":
            changes = adapters.LoRAConfig(r=RANK, alpha=ALPHA, attn_matrices=["q", "v"])
            model.add_adapter("l", config=changes)
            model.set_active_adapters("l")
        else:
            for name, width in WIDTHS.items():
                shape = adapters.DoubleSeqBnConfig(
                    non_linearity="gelu", reduction_factor=HIDDEN / width
                )
                model.add_adapter(name, config=shape)
            fuse = adapters.composition.Fuse(*WIDTHS)
            model.add_adapter_fusion(fuse)
            model.set_active_adapters("b" if how == "adapter" else fuse)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "adapter" in name or "lora" in name:
                    # Scores of a few units: rounding, too, is a matter of exp(score).
                    parameter.normal_(std=0.15 if "query" in name or "key" in name else 0.2)
        found[how] = Package(model.eval(), folder / "ours")
    return found


@torch.no_grad()
@pytest.mark.parametrize("how", [*SPECS, "saved"])
def test_equals_the_package(how: str, packages: dict[str, Package], tmp_path: Path) -> None:
    kind = "fusion" if how == "saved" else how
    package, plain = packages[kind], packages[kind].ours()
    model = package.ours(kind)
    if how == "saved":
        saved = load_part("trainable", kind).trained(model.state_dict())
        save_weights(tmp_path / WEIGHTS, saved)
        model = load_trained(SPECS[kind], package.backbone, tmp_path / WEIGHTS)
    batch = encoders.rows(two_types=True)
    expected, expected_pooled = encoders.states(package.model, batch, two_types=True)
    hidden = states_of(model.encoder, "sst", batch)
    torch.testing.assert_close(hidden, expected, atol=1e-5, rtol=0)
    pooled = alone(model.pooled, "sst", batch)
    torch.testing.assert_close(pooled, expected_pooled, atol=1e-5, rtol=0)
    unchanged = states_of(plain.encoder, "sst", batch)
    assert (hidden - unchanged).abs().max() > 0.1, "what does nothing would be equal, too"


def test_first_weights_are_those_of_the_papers() -> None:
    torch.manual_seed(0)
    bottleneck, fusion, change = Bottleneck(96, 64), Fusion(24, (4, 6)), LowRank(24, 4, 1.0)
    assert not change.up.weight.any() and change.down.weight.any()
    for linear in (bottleneck.down, bottleneck.up):
        assert linear.weight.std().item() == pytest.approx(0.01, rel=0.05)
        assert abs(linear.weight.mean().item()) < 0.001 and not linear.bias.any()
    assert fusion.value.bias is None
    nearly_one = torch.full((24, 24), 1e-6).fill_diagonal_(1.0)
    assert torch.equal(fusion.value.weight.detach(), nn.Parameter(nearly_one).detach())
