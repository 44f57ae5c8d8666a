"""Encoders of every kind equal those of `transformers`: states, poolers, tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import encoders
import pytest
import torch
from encoders import CONFIGS, FAMILIES, POSITIONS, Folders
from model_batches import one_by_one, pack, states_of
from pages.encoders import NUMBER, PAGE, encoders_page
from safetensors.torch import load_file, save_file
from torch import Tensor

from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.model.adapter import add_adapters, sublayers
from minbert.model.convert import convert_hugging_face
from minbert.model.encoder import Stack, compute_in
from minbert.model.lora import add_lora, merge_lora
from minbert.model.sharing import SharedEncoder
from minbert.model.weights import load_weights
from minbert.spec.architecture import WEIGHTS, Architecture, read_architecture, shared_parts
from minbert.spec.hugging_face import from_hugging_face
from minbert.spec.stage import Dropout

every_kind = pytest.mark.parametrize("name", CONFIGS)
every_family = pytest.mark.parametrize("name", FAMILIES)


def architecture(folders: Folders, name: str) -> Architecture:
    return read_architecture(folders[name].ours / "config.json")


def ours(folders: Folders, name: str) -> Stack:
    return encoders.our_encoder(folders[name].ours)[0]


def shared(folders: Folders, name: str, depth: int | str, end: str = "bottom") -> SharedEncoder:
    """Return our encoder of two tasks that share layers."""
    arch = architecture(folders, name)
    parts = shared_parts(depth, end, arch.layers)
    encoder = SharedEncoder(arch, ["sst", "sts"], parts, Dropout()).eval()
    encoder.load_backbone(load_weights(folders[name].ours / WEIGHTS))
    return encoder


def assert_close(found: Tensor, expected: Tensor, within: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, atol=within, rtol=0)


@torch.no_grad()
@every_kind
def test_hidden_states_equal_those_of_transformers(name: str, folders: Folders) -> None:
    encoder, arch = ours(folders, name), architecture(folders, name)
    batch = encoders.rows(arch.two_types)
    expected, expected_pooled = encoders.states(folders[name].reference, batch, arch.two_types)
    assert_close(encoder(batch), expected)
    first = encoder(batch, first_only=True)
    assert_close(first, expected[batch.first])
    if expected_pooled is None:  # a new one
        expected_pooled = torch.tanh(expected[batch.first])
    assert_close(encoder.pooler(first), expected_pooled)
    assert expected.std() > 0.3, "states that are all alike would be equal, too"


@torch.no_grad()
@every_family
@pytest.mark.parametrize(
    ("depth", "end"), [("none", "bottom"), (0, "bottom"), (1, "bottom"), (2, "top")]
)
def test_shared_layers_compute_what_the_whole_does(
    name: str, depth: int | str, end: str, folders: Folders
) -> None:
    batch = encoders.rows(architecture(folders, name).two_types)
    expected = ours(folders, name)(batch)
    encoder = shared(folders, name, depth, end)
    assert torch.equal(states_of(encoder, "sst", batch), expected)
    assert torch.equal(states_of(encoder, "sts", batch), expected)
    if encoder.can_run_jointly:
        of_sst, of_sts = encoder([("sst", batch), ("sts", batch)], [False, True])
        assert_close(of_sst, expected)
        assert_close(of_sts, expected[batch.first])


@torch.no_grad()
@every_family
def test_bf16_is_near_fp32_and_stays_bf16(name: str, folders: Folders) -> None:
    encoder = ours(folders, name)
    batch = encoders.rows(architecture(folders, name).two_types)
    expected = encoder(batch)
    compute_in(encoder, "bf16")
    found = encoder(batch)
    assert found.dtype == torch.bfloat16
    error = (found.float() - expected).abs()
    assert error.mean() < 0.03 * expected.std() and error.max() > 1e-4
    assert encoder(batch, first_only=True).dtype == torch.bfloat16


@torch.no_grad()
@every_family
def test_noise_reaches_the_first_layer(name: str, folders: Folders) -> None:
    encoder, arch = ours(folders, name), architecture(folders, name)
    batch = encoders.rows(arch.two_types)
    embeddings = encoder.embeddings
    noise = torch.randn(len(batch.tokens), arch.hidden)
    assert_close(embeddings(batch, noise), embeddings(batch) + noise)


@torch.no_grad()
@every_family
def test_adapters_sit_in_each_sublayer(name: str, folders: Folders) -> None:
    """With maps of nought they change nothing; each alone changes the states."""
    arch = architecture(folders, name)
    encoder = shared(folders, name, "all")
    batch = encoders.rows(arch.two_types)
    expected = states_of(encoder, "sst", batch)
    add_adapters(encoder, 4)
    adapters = [sublayer.adapter for _, sublayer in sublayers(encoder)]
    assert len(adapters) == 2 * arch.layers
    for adapter in adapters:
        adapter.up.weight.zero_()
    assert torch.equal(states_of(encoder, "sst", batch), expected)
    for adapter in adapters:
        adapter.up.weight.normal_()
        assert (states_of(encoder, "sst", batch) - expected).abs().max() > 1e-3
        adapter.up.weight.zero_()


@torch.no_grad()
@every_family
def test_lora_is_the_same_merged(name: str, folders: Folders) -> None:
    encoder = shared(folders, name, "all")
    names = encoder.state_dict().keys()
    batch = encoders.rows(architecture(folders, name).two_types)
    before = states_of(encoder, "sst", batch)
    torch.manual_seed(0)
    add_lora(encoder, 2, 4.0)
    for part, weight in encoder.named_parameters():
        if part.endswith("up.weight"):
            weight.normal_(std=0.1)
    beside = states_of(encoder, "sst", batch)
    assert (beside - before).abs().max() > 0.01
    merge_lora(encoder)
    assert encoder.state_dict().keys() == names
    assert_close(states_of(encoder, "sst", batch), beside)


@every_family
def test_gradients_of_packed_rows_equal_those_of_rows_alone(name: str, folders: Folders) -> None:
    encoder = ours(folders, name).double()
    batch = encoders.rows(architecture(folders, name).two_types)
    named = {n: p for n, p in encoder.named_parameters() if not n.startswith("pooler")}
    alone = torch.cat([encoder(row) for row in one_by_one(batch)])
    losses = (encoder(batch).pow(3).sum(), alone.pow(3).sum())
    found, expected = (torch.autograd.grad(loss, list(named.values())) for loss in losses)
    for part, ours_, theirs in zip(named, found, expected, strict=True):
        torch.testing.assert_close(ours_, theirs, atol=1e-8, rtol=1e-8, msg=part)


@pytest.mark.parametrize("name", FAMILIES)
def test_one_token_more_than_positions_is_refused(name: str, folders: Folders) -> None:
    arch = architecture(folders, name)
    assert arch.positions == POSITIONS
    row = pack([7] * (POSITIONS + 1), [0] * (POSITIONS + 1), [POSITIONS + 1])
    with pytest.raises(UserError, match=rf"{POSITIONS + 1} tokens.*{POSITIONS} positions"):
        ours(folders, name)(row)


def copy(folders: Folders, name: str, folder: Path) -> Path:
    """Copy a Hugging Face folder, to spoil the copy."""
    folder.mkdir()
    for path in folders[name].theirs.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "roberta",
            {"pad_token_id": "one"},
            "json: pad_token_id is 'one', expected a position: th",
        ),
        ("roberta", {"pad_token_id": 49}, "'max_position_embeddings' is 0; expected greater"),
        ("roberta", {"bos_token_id": 4}, r"token 0, but .*config.json: bos_token_id is 4; the tok"),
        ("roberta", {"type_vocab_size": 2}, r"has shape \[1, 24\], expected \[2, 24\] by config"),
        (
            "roberta",
            {"model_type": "xlm-roberta"},
            "xlm-roberta'; known: .* Did you mean 'roberta'",
        ),
        ("distilbert", {"activation": "relu"}, "json: activation is 'relu'; only GELU is known"),
        ("distilbert", {"sinusoidal_pos_embds": True}, "sinusoidal_pos_embds is True; only False"),
        ("distilbert", {"dim": 26}, "json: dim 26 is no multiple of n_heads 4"),
        (
            "distilbert",
            {"n_layers": 2},
            r"unexpected tensor 'transformer.layer.2.*distilbert with 2",
        ),
        ("distilbert", {"model_type": "bert"}, "json: has no hidden_size"),
        ("electra", {"embedding_size": 24}, r"'embeddings.word_embeddings.weight' has shape"),
        ("electra", {"model_type": "bert"}, "has shape"),
        ("bert", {"vocab_size": 200}, "has token id 299, but config.json's vocab_size is 200"),
    ],
)
def test_a_folder_that_contradicts_itself_names_the_setting(
    name: str, settings: dict[str, object], message: str, folders: Folders, tmp_path: Path
) -> None:
    folder = copy(folders, name, tmp_path / "hf")
    encoders.edit(folder, **settings)
    with pytest.raises(UserError, match=message):
        convert_hugging_face(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


NEW: dict[str, Any] = {
    "layer_types": [
        *("full_attention", "sliding_attention", "sliding_attention"),
        *("full_attention", "sliding_attention"),
    ],
    "rope_parameters": {
        "full_attention": {"rope_theta": 160_000.0, "rope_type": "default"},
        "sliding_attention": {"rope_theta": 10_000.0, "rope_type": "default"},
    },
}
"""What transformers 5.23 writes for the encoder `modernbert`."""


def bases(**changed: object) -> dict[str, dict[str, object]]:
    """Return `rope_parameters` with other values."""
    return {kind: {**values, **changed} for kind, values in NEW["rope_parameters"].items()}


OLD = ("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta")


@pytest.mark.parametrize("left_out", [OLD, OLD[1:], ()])
def test_both_layouts_of_modernbert_are_the_same_encoder(
    left_out: tuple[str, ...], folders: Folders, tmp_path: Path
) -> None:
    folder = copy(folders, "modernbert", tmp_path / "hf")
    path = folder / "config.json"
    config = {n: v for n, v in read_json(path).items() if n not in left_out} | NEW
    path.write_text(json.dumps(config), encoding="utf-8")
    assert from_hugging_face(path) == architecture(folders, "modernbert")
    if left_out == OLD:
        changed = {"layer_types": ["full_attention", *["sliding_attention"] * 4]}
        encoders.edit(folder, **changed, rope_parameters=bases(rope_theta=500.0))
        found = from_hugging_face(path)
        assert (found.every, found.global_base, found.local_base) == (5, 500.0, 500.0)
        encoders.edit(folder, rope_parameters=bases(rope_theta=0.5))
        with pytest.raises(
            UserError, match=r"'global_rope_theta' is 0\.5; expected greater than 1"
        ):
            from_hugging_face(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"local_attention": 17}, "local_attention is 17, expected an even number"),
        (
            {"layer_types": ["sliding_attention", *NEW["layer_types"][1:]]},
            r"layer_types is \['sliding_.* expected 5 entries: full_attention for the first",
        ),
        ({"layer_types": NEW["layer_types"][:4]}, "layer_types is .* expected 5 entries"),
        *(
            ({"layer_types": found}, f"layer_types is {found!r}, expected 5 entries")
            for found in ("all", 5)
        ),
        (
            {**NEW, "global_attn_every_n_layers": 2},
            "layer_types is .* expected 5 entries: full_attention for the first and each 2 after",
        ),
        (
            {"hidden_size": 24, "num_attention_heads": 8},
            "hidden_size 24 gives 8 heads an odd width, expected an even one",
        ),
        ({"rope_parameters": [500.0]}, "rope_parameters.full_attention is None, expected 'rope_"),
        (
            {"rope_parameters": bases(rope_theta=None)},
            "rope_parameters.full_attention is .*None.*, expected 'rope_type': 'default' and a",
        ),
        (
            {"rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}},
            "rope_parameters.full_attention is None, expected 'rope_type': 'default'",
        ),
        (
            {"rope_parameters": bases(factor=2.0)},
            "rope_parameters.full_attention is .*'factor'.*, expected 'rope_type': 'default' and",
        ),
        (
            {"rope_parameters": bases(rope_theta="x"), "global_rope_theta": "x"},
            "'global_rope_theta' is 'x'; expected a number",
        ),
        (
            {"rope_parameters": bases(rope_theta=500.0)},
            r"global_rope_theta is 160000\.0, but rope_parameters\.full_attention has 500\.0",
        ),
    ],
)
def test_layouts_of_modernbert_that_are_not_computed_here_are_refused(
    settings: dict[str, object], message: str, folders: Folders, tmp_path: Path
) -> None:
    folder = copy(folders, "modernbert", tmp_path / "hf")
    encoders.edit(folder, **settings)
    with pytest.raises(UserError, match=message):
        from_hugging_face(folder / "config.json")


def test_a_modernbert_in_neither_layout_is_refused(folders: Folders, tmp_path: Path) -> None:
    folder = copy(folders, "modernbert", tmp_path / "hf")
    path = folder / "config.json"
    path.write_text(json.dumps({n: v for n, v in read_json(path).items() if n not in OLD}), "utf-8")
    with pytest.raises(
        UserError, match=r"has no global_attn_every_n_layers, nor layer_types \(checked"
    ):
        from_hugging_face(path)
    encoders.edit(folder, layer_types=NEW["layer_types"])
    with pytest.raises(UserError, match=r"has no global_rope_theta and local_rope_theta, nor rope"):
        from_hugging_face(path)


def test_weights_of_another_family_are_called_that(folders: Folders, tmp_path: Path) -> None:
    folder = copy(folders, "bert", tmp_path / "hf")
    state = {f"roberta.{name}": t for name, t in load_file(folder / WEIGHTS).items()}
    save_file(state, folder / WEIGHTS)
    with pytest.raises(UserError, match=r"model_type 'roberta' has, but .*model_type is 'bert'"):
        convert_hugging_face(folder, tmp_path / "out")


@pytest.mark.parametrize("prefix", ["", "electra."])
def test_heads_are_left_behind(prefix: str, folders: Folders, tmp_path: Path) -> None:
    folder = copy(folders, "electra", tmp_path / "hf")
    state = {f"{prefix}{name}": t for name, t in load_file(folder / WEIGHTS).items()}
    state["discriminator_predictions.dense.weight"] = torch.zeros(24, 24)
    save_file(state, folder / WEIGHTS)
    convert_hugging_face(folder, tmp_path / "out")
    found, expected = (
        load_weights(p / WEIGHTS) for p in (tmp_path / "out", folders["electra"].ours)
    )
    assert all(torch.equal(found[part], tensor) for part, tensor in expected.items())


def test_the_page_says_what_is_measured(folders: Folders) -> None:
    """If not: `cd tests && python -m pages.encoders`. Last digits differ between machines."""
    written, found = PAGE.read_text("utf-8"), encoders_page(folders)
    assert NUMBER.sub("", found) == NUMBER.sub("", written)
    numbers = [[float(n) for n in NUMBER.findall(text)] for text in (written, found)]
    for each in numbers:
        assert len(each) == 2 * len(FAMILIES)
        assert max(each[::2]) <= 1e-5 and max(each[1::2]) < 0.02
