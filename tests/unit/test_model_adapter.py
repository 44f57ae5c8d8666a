"""Adapters and their fusion: equal to the `adapters` package; near the identity at the start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from model_batches import (
    MIXED,
    STILL,
    TINY,
    alone,
    bert_of_transformers,
    padded_inputs,
    random_batch,
    states_of,
)
from torch import Tensor

from minbert.base.errors import UserError
from minbert.model.adapter import Bottleneck, add_adapters, sublayers, without_backbone
from minbert.model.encoder import initialise
from minbert.model.fusion import Fusion, adapter_width, add_fusion, fused_widths, load_adapters
from minbert.model.multitask import MultitaskModel
from minbert.model.sharing import SharedEncoder
from minbert.model.weights import load_weights, save_weights
from minbert.predict.predictor import load_trained
from minbert.spec.architecture import WEIGHTS, read_architecture, shared_parts
from minbert.spec.stage import StageSpec

HIDDEN, LAYERS = 24, 3
WIDTHS = {"a": 4, "b": 8, "c": 2, "d": 12}
REFERENCE = ("attention.output", "output")
"""Where the package keeps what stands in a layer's two sublayers."""


@dataclass
class Package:
    """A BERT with four adapters and their fusion, of the package's making; our backbone of it."""

    model: Any
    fuse: Any
    backbone: Path

    def adapter(self, name: str) -> dict[str, Tensor]:
        """Return the package's adapter under our names, as a stage saves it."""
        found: dict[str, Tensor] = {}
        for ours, module in self._places():
            for part, theirs in (("down", "adapter_down.0"), ("up", "adapter_up")):
                linear = module.adapters[name].get_submodule(theirs)
                found |= {f"{ours}.{part}.{k}": v for k, v in linear.state_dict().items()}
        return found

    def fusion(self) -> dict[str, Tensor]:
        """Return query, key and value under our names; our keys need no bias."""
        found: dict[str, Tensor] = {}
        for ours, module in self._places():
            layer = module.adapter_fusion_layer[",".join(WIDTHS)]
            found |= {f"{ours}.{name}": tensor for name, tensor in layer.state_dict().items()}
        return {n: tensor.detach() for n, tensor in found.items() if not n.endswith("key.bias")}

    def _places(self) -> Iterator[tuple[str, Any]]:
        for number, layer in enumerate(self.model.encoder.layer):
            for ours, theirs in zip(("attention", "feed_forward"), REFERENCE, strict=True):
                name = f"encoder.shared.layers.{number}.{ours}.adapter"
                yield name, layer.get_submodule(theirs)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    folder = tmp_path_factory.mktemp("package")
    model = bert_of_transformers(folder, HIDDEN, LAYERS)
    import adapters

    adapters.init(model)
    for name, width in WIDTHS.items():
        shape = adapters.DoubleSeqBnConfig(non_linearity="gelu", reduction_factor=HIDDEN / width)
        model.add_adapter(name, config=shape)
    fuse = adapters.composition.Fuse(*WIDTHS)
    model.add_adapter_fusion(fuse)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "adapter" in name:
                # Scores of a few units: rounding, too, is a matter of exp(score).
                parameter.normal_(std=0.15 if "query" in name or "key" in name else 0.2)
    return Package(model.eval(), fuse, folder / "ours")


def make_spec(**stage: Any) -> StageSpec:
    return StageSpec.model_validate({"tasks": {"sst": {"loss": "cross_entropy"}}, **stage})


def ours_with(package: Package, spec: StageSpec) -> MultitaskModel:
    """Return our model on the package's backbone, with its adapter `b` or with its fusion."""
    model = MultitaskModel(read_architecture(package.backbone / "config.json"), spec)
    model.encoder.load_backbone(load_weights(package.backbone / WEIGHTS))
    if spec.adapter:
        add_adapters(model.encoder, spec.adapter.width)
        found = package.adapter("b")
    else:
        add_fusion(model.encoder, tuple(WIDTHS.values()))
        load_adapters(model.encoder, [package.adapter(name) for name in WIDTHS])
        found = package.fusion()
    assert not model.load_state_dict(found, strict=False).unexpected_keys
    return model.eval()


ADAPTER = make_spec(trainable="adapters", adapter={"width": WIDTHS["b"]})
FUSION = make_spec(trainable="fusion", fuse=("m/a", "m/b", "m/c", "m/d"))


@torch.no_grad()
@pytest.mark.parametrize("saved", [False, True], ids=["copied", "saved"])
@pytest.mark.parametrize("spec", [ADAPTER, FUSION], ids=["adapter", "fusion"])
def test_equals_the_package(package: Package, spec: StageSpec, saved: bool, tmp_path: Path) -> None:
    model = ours_with(package, spec)
    if saved:
        save_weights(tmp_path / "model.safetensors", without_backbone(model.state_dict()))
        model = load_trained(spec, package.backbone, tmp_path / "model.safetensors")
    package.model.set_active_adapters(package.fuse if spec.fuse else "b")
    batch = random_batch((*MIXED, 33), vocabulary=60, seed=1)
    inputs = padded_inputs(batch)
    reference = package.model(**inputs)
    expected = reference.last_hidden_state[inputs["attention_mask"].bool()]
    hidden = states_of(model.encoder, "sst", batch)
    torch.testing.assert_close(hidden, expected, atol=1e-5, rtol=0)
    pooled = alone(model.pooled, "sst", batch)
    torch.testing.assert_close(pooled, reference.pooler_output, atol=1e-5, rtol=0)
    # Adapters near the identity would be equal whatever they did.
    for _, sublayer in sublayers(model.encoder):
        sublayer.adapter = None
    assert (states_of(model.encoder, "sst", batch) - expected).abs().mean() > 0.1


def test_a_fusion_has_the_packages_weights_over_adapters(package: Package) -> None:
    fusion = ours_with(package, FUSION).encoder.shared.layers["1"].attention.adapter
    hidden = torch.randn(1, 40, HIDDEN, generator=torch.Generator().manual_seed(4))
    theirs = package.model.encoder.layer[1].attention.output.adapter_fusion_layer["a,b,c,d"]
    with torch.no_grad():
        changes = fusion.changes(hidden[0])
        each = changes.transpose(0, 1)[None]
        _, expected = theirs(hidden, each, each, hidden, output_attentions=True)
        weights = fusion.weights(hidden[0], changes)
    torch.testing.assert_close(weights.T, torch.tensor(expected[0]), atol=1e-5, rtol=0)
    assert weights.std() > 0.15


def tiny_encoder() -> SharedEncoder:
    torch.manual_seed(0)
    encoder = SharedEncoder(TINY, ["sst"], shared_parts("all", "bottom", TINY.layers), STILL)
    initialise(encoder, torch.Generator().manual_seed(0))
    for name, parameter in encoder.named_parameters():
        if "norm" not in name:
            parameter.data *= 10
    return encoder.eval()


@torch.no_grad()
@pytest.mark.parametrize("how", ["adapters", "fusion"])
def test_a_fresh_insertion_is_near_the_identity(how: str) -> None:
    encoder, batch = tiny_encoder(), random_batch()
    before = states_of(encoder, "sst", batch)
    if how == "adapters":
        add_adapters(encoder, 16)
    else:
        add_fusion(encoder, (16, 8))
    after = states_of(encoder, "sst", batch)
    assert 0 < (after - before).abs().max() < 0.01
    assert len([p for p, s in sublayers(encoder) if s.adapter is not None]) == 2 * TINY.layers


def test_a_fresh_bottleneck_is_houlsbys() -> None:
    torch.manual_seed(0)
    bottleneck = Bottleneck(96, 64)
    for linear in (bottleneck.down, bottleneck.up):
        assert linear.weight.std().item() == pytest.approx(0.01, rel=0.05)
        assert abs(linear.weight.mean().item()) < 0.001 and not linear.bias.any()
    hidden = torch.randn(7, 96)
    inside = torch.nn.functional.gelu(hidden @ bottleneck.down.weight.T)
    expected = hidden + inside @ bottleneck.up.weight.T
    torch.testing.assert_close(bottleneck(hidden), expected)


def test_a_fresh_fusions_value_map_is_near_the_identity() -> None:
    torch.manual_seed(0)
    fusion = Fusion(24, (4, 6))
    off = fusion.value.weight - torch.eye(24)
    assert torch.equal(off.diagonal(), torch.zeros(24)) and fusion.value.bias is None
    assert torch.equal(off + 1e-6 * torch.eye(24), torch.full((24, 24), 1e-6))
    for bottleneck in fusion.adapters.parameters():
        bottleneck.data.normal_(std=0.5)
    hidden = torch.randn(9, 24)
    changes = fusion.changes(hidden)
    mixed = (fusion.weights(hidden, changes)[..., None] * changes).sum(0)
    torch.testing.assert_close(fusion(hidden), hidden + mixed, atol=1e-3, rtol=0)


def stage_weights(hidden: int = 24, layers: int = 3, width: int = 4) -> dict[str, Tensor]:
    """Return what a stage with adapters saves, a head among it."""
    arch = TINY.model_copy(update={"hidden": hidden, "layers": layers})
    model = MultitaskModel(arch, make_spec(trainable="adapters", adapter={"width": width}))
    add_adapters(model.encoder, width)
    return without_backbone(model.state_dict())


def test_adapters_are_fused_in_their_order() -> None:
    torch.manual_seed(0)
    states = [stage_weights(12, width=width) for width in (5, 3)]
    encoder = tiny_encoder()
    add_fusion(encoder, [adapter_width(state, 12, 3, Path("w")) for state in states])
    load_adapters(encoder, states)
    fused = {f"encoder.{name}": tensor for name, tensor in encoder.state_dict().items()}
    assert fused_widths(fused) == (5, 3)
    assert fused_widths(states[0]) == ()
    for number, state in enumerate(states):
        adapters = {name: t for name, t in state.items() if ".adapter." in name}
        assert len(adapters) == 2 * 3 * 4
        for name, tensor in adapters.items():
            there = name.replace(".adapter.", f".adapter.adapters.{number}.")
            assert torch.equal(fused[there], tensor), there


def test_weights_that_cannot_be_fused_are_named(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_weights(path, stage_weights(hidden=16, layers=2))
    state = load_weights(path)
    assert adapter_width(state, 16, 2, path) == 4
    for hidden, layers in ((24, 2), (16, 3)):
        message = (
            rf"model\.safetensors: its adapters are for 2 layers of 16 units, but the backbone "
            rf"has {layers} of {hidden}; train them on the same backbone"
        )
        with pytest.raises(UserError, match=message):
            adapter_width(state, hidden, layers, path)
    heads = {name: tensor for name, tensor in state.items() if name.startswith("heads.")}
    with pytest.raises(UserError, match=r"model\.safetensors: holds no adapters to fuse; fuse"):
        adapter_width(heads, 16, 2, path)
