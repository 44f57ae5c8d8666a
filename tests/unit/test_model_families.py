"""Encoders of every kind equal those of `transformers`: states, poolers, what methods add."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import encoders
import pytest
import torch
from encoders import CONFIGS, FAMILIES, Folders
from model_batches import one_by_one, states_of
from pages.encoders import NUMBER, PAGE, encoders_page
from torch import Tensor

from minbert.model.adapter import sublayers
from minbert.model.encoder import Attention, SharedEncoder, Stack
from minbert.model.packed import Packed
from minbert.model.weights import load_weights
from minbert.spec.architecture import WEIGHTS, Architecture, read_architecture, shared_parts
from minbert.spec.stage import Adapter, Dropout, Lora
from minbert.train.adapters import AdapterTuned, LoRATuned

INSERTED: Any = SimpleNamespace(adapter=Adapter(width=4), lora=Lora(rank=2, alpha=4.0))
every_family = pytest.mark.parametrize("name", FAMILIES)


def ours(folders: Folders, name: str) -> tuple[Stack, Architecture, Packed]:
    """Return our encoder, and rows for it."""
    encoder, arch = encoders.our_encoder(folders[name].ours)
    return encoder, arch, encoders.rows(arch.two_types)


def shared(folders: Folders, name: str, depth: int | str, end: str = "bottom") -> SharedEncoder:
    """Return our encoder of two tasks that share layers."""
    arch = read_architecture(folders[name].ours / "config.json")
    parts = shared_parts(depth, end, arch.layers)
    encoder = SharedEncoder(arch, ["sst", "sts"], parts, Dropout()).eval()
    encoder.load_backbone(load_weights(folders[name].ours / WEIGHTS))
    return encoder


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("name", CONFIGS)
def test_hidden_states_equal_those_of_transformers(name: str, folders: Folders) -> None:
    encoder, arch, batch = ours(folders, name)
    expected, expected_pooled = encoders.states(folders[name].reference, batch, arch.two_types)
    assert_close(encoder(batch), expected)
    first = encoder(batch, first_only=True)
    assert_close(first, expected[batch.first])
    if expected_pooled is None:  # a new one
        expected_pooled = torch.tanh(expected[batch.first])
    assert_close(encoder.pooler(first), expected_pooled)
    assert expected.std() > 0.3, "states that are all alike would be equal, too"
    assert arch.parameters().total == sum(p.numel() for p in encoder.parameters())
    noise = torch.randn(len(batch.tokens), arch.hidden)
    assert_close(encoder.embeddings(batch, noise), encoder.embeddings(batch) + noise)


@torch.no_grad()
@every_family
@pytest.mark.parametrize(("depth", "end"), [("none", "bottom"), (1, "bottom"), (2, "top")])
def test_shared_layers_compute_what_the_whole_does(
    name: str, depth: int | str, end: str, folders: Folders
) -> None:
    whole, _, batch = ours(folders, name)
    expected, encoder = whole(batch), shared(folders, name, depth, end)
    for task in ("sst", "sts"):
        assert torch.equal(states_of(encoder, task, batch), expected)
    if encoder.shared.embeddings is not None:
        of_sst, of_sts = encoder([("sst", batch), ("sts", batch)], [False, True])
        assert_close(of_sst, expected)
        assert_close(of_sts, expected[batch.first])


@torch.no_grad()
@every_family
def test_adapters_change_each_sublayer_and_lora_two_maps(name: str, folders: Folders) -> None:
    torch.manual_seed(0)
    encoder, adapted, merged = (shared(folders, name, "all") for _ in range(3))
    batch = ours(folders, name)[2]
    AdapterTuned.insert(adapted, INSERTED, {})
    assert all(sublayer.adapter is not None for _, sublayer in sublayers(adapted))
    expected = states_of(encoder, "sst", batch)
    change = (states_of(adapted, "sst", batch) - expected).abs().max()
    assert 0 < change < 0.05, "it starts near the identity"
    LoRATuned.insert(encoder, INSERTED, {})
    assert torch.equal(states_of(encoder, "sst", batch), expected)
    for part, weight in encoder.named_parameters():
        if part.endswith("up.weight"):
            weight.normal_(std=0.1)
    beside = states_of(encoder, "sst", batch)
    assert (beside - expected).abs().max() > 0.01
    for (_, changed), (_, plain) in zip(sublayers(encoder), sublayers(merged), strict=True):
        if isinstance(changed, Attention):
            query, _, value = plain.qkv.weight.chunk(3)
            for weight, of in ((query, changed.qkv.lora_query), (value, changed.qkv.lora_value)):
                weight.add_(of.up.weight @ of.down.weight, alpha=of.scale)
    assert_close(states_of(merged, "sst", batch), beside)


@every_family
def test_gradients_of_packed_rows_equal_those_of_rows_alone(name: str, folders: Folders) -> None:
    encoder, _, batch = ours(folders, name)
    encoder = encoder.double()
    named = {n: p for n, p in encoder.named_parameters() if not n.startswith("pooler")}
    alone = torch.cat([encoder(row) for row in one_by_one(batch)])
    losses = (encoder(batch).pow(3).sum(), alone.pow(3).sum())
    found, expected = (torch.autograd.grad(loss, list(named.values())) for loss in losses)
    torch.testing.assert_close(found, expected, atol=1e-8, rtol=1e-8)


def test_the_page_says_what_is_measured(folders: Folders) -> None:
    """If not: `cd tests && python -m pages.encoders`. Last digits differ between machines."""
    written, found = PAGE.read_text("utf-8"), encoders_page(folders)
    assert NUMBER.sub("", found) == NUMBER.sub("", written)
    for text in (written, found):
        numbers = [float(n) for n in NUMBER.findall(text)]
        assert len(numbers) == 2 * len(FAMILIES)
        assert max(numbers[::2]) <= 1e-5 and max(numbers[1::2]) < 0.02
