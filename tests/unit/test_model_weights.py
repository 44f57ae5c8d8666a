from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from model_batches import TINY, initial_backbone, minilm_folder
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from minbert.base.errors import UserError
from minbert.model.convert import convert_hugging_face
from minbert.model.weights import WEIGHTS, load_weights, save_weights
from minbert.spec.architecture import read_architecture

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "cafe", "Cafe", "café", "un", "##want", "##ed", "runn", "##ing", ",", "!", "中"]
State = dict[str, Tensor]


def hugging_face_state() -> State:
    """Return random weights of a 2-layer BERT under the names of Hugging Face."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    state = {
        "embeddings.word_embeddings.weight": draw(17, 8),
        "embeddings.position_embeddings.weight": draw(16, 8),
        "embeddings.token_type_embeddings.weight": draw(2, 8),
        "embeddings.LayerNorm.weight": draw(8),
        "embeddings.LayerNorm.bias": draw(8),
        "pooler.dense.weight": draw(8, 8),
        "pooler.dense.bias": draw(8),
    }
    for n in range(2):
        for part, out, into in (
            ("attention.self.query", 8, 8),
            ("attention.self.key", 8, 8),
            ("attention.self.value", 8, 8),
            ("attention.output.dense", 8, 8),
            ("intermediate.dense", 12, 8),
            ("output.dense", 8, 12),
        ):
            state[f"encoder.layer.{n}.{part}.weight"] = draw(out, into)
            state[f"encoder.layer.{n}.{part}.bias"] = draw(out)
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            state[f"encoder.layer.{n}.{part}.weight"] = draw(8)
            state[f"encoder.layer.{n}.{part}.bias"] = draw(8)
    return state


CONFIG = {
    "model_type": "bert",
    "vocab_size": 17,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "hf"
    made.mkdir()
    (made / "config.json").write_text(json.dumps(CONFIG))
    (made / "vocab.txt").write_text("\n".join(SPECIAL + WORDS) + "\n", encoding="utf-8")
    save_file(hugging_face_state(), made / "model.safetensors")
    return made


def change(folder: Path, edit: Callable[[State], State]) -> None:
    """Rewrite the weights of `folder`."""
    save_file(edit(load_file(folder / "model.safetensors")), folder / "model.safetensors")


def refuse(folder: Path, match: str) -> None:
    """Expect an error, and that nothing was written."""
    out = folder.parent / "out"
    with pytest.raises(UserError, match=match):
        convert_hugging_face(folder, out)
    assert not out.exists()


def test_names_and_fused_projections(folder: Path, tmp_path: Path) -> None:
    arch = convert_hugging_face(folder, tmp_path / "out")
    assert arch == read_architecture(tmp_path / "out" / "config.json")
    assert (arch.layers, arch.hidden, arch.positions) == (2, 8, 16)
    ours, theirs = load_weights(tmp_path / "out" / WEIGHTS), hugging_face_state()
    assert {n: t.shape for n, t in ours.items()} == {
        n: t.shape for n, t in initial_backbone(arch, 0).items()
    }
    parts = [
        theirs[f"encoder.layer.1.attention.self.{p}.weight"] for p in ("query", "key", "value")
    ]
    assert torch.equal(ours["layers.1.attention.qkv.weight"], torch.cat(parts))
    for our, their in {
        "embeddings.token_type.weight": "embeddings.token_type_embeddings.weight",
        "embeddings.norm.bias": "embeddings.LayerNorm.bias",
        "layers.0.attention.norm.weight": "encoder.layer.0.attention.output.LayerNorm.weight",
        "layers.0.feed_forward.inner.bias": "encoder.layer.0.intermediate.dense.bias",
        "layers.1.feed_forward.norm.weight": "encoder.layer.1.output.LayerNorm.weight",
        "pooler.dense.weight": "pooler.dense.weight",
    }.items():
        assert torch.equal(ours[our], theirs[their]), our


def test_prefix_old_norm_names_buffers_and_other_heads(folder: Path, tmp_path: Path) -> None:
    def edit(state: State) -> State:
        old = {
            f"bert.{n}".replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            ): t
            for n, t in state.items()
        }
        return old | {
            "bert.embeddings.position_ids": torch.arange(16)[None],
            "cls.predictions.bias": torch.zeros(17),
        }

    convert_hugging_face(folder, tmp_path / "plain")
    change(folder, edit)
    convert_hugging_face(folder, tmp_path / "old")
    plain, old = (load_weights(tmp_path / name / WEIGHTS) for name in ("plain", "old"))
    assert plain.keys() == old.keys()
    assert all(torch.equal(plain[name], old[name]) for name in plain)


def test_half_precision_becomes_float32(folder: Path, tmp_path: Path) -> None:
    change(folder, lambda state: {name: tensor.half() for name, tensor in state.items()})
    convert_hugging_face(folder, tmp_path / "out")
    assert {t.dtype for t in load_weights(tmp_path / "out" / WEIGHTS).values()} == {torch.float32}


def test_missing_pooler(folder: Path, tmp_path: Path) -> None:
    change(folder, lambda state: {n: t for n, t in state.items() if "pooler" not in n})
    refuse(folder, r"has no pooler \(pooler.dense.weight\).*'pooling: cls'.*choose")


def test_half_a_pooler_is_an_error(folder: Path) -> None:
    change(folder, lambda state: {n: t for n, t in state.items() if n != "pooler.dense.bias"})
    refuse(folder, r"no tensor 'pooler.dense.bias', expected of shape \[8\]")


def test_missing_tensor(folder: Path) -> None:
    gone = "encoder.layer.1.attention.self.key.bias"
    change(folder, lambda state: {n: t for n, t in state.items() if n != gone})
    refuse(folder, rf"model.safetensors: has no tensor '{gone}', expected of shape \[8\]")


def test_wrong_shape(folder: Path) -> None:
    name = "encoder.layer.0.attention.self.query.weight"
    change(folder, lambda state: state | {name: torch.zeros(8, 9)})
    refuse(folder, rf"'{name}' has shape \[8, 9\], expected \[8, 8\] by config.json")


def test_unexpected_tensor(folder: Path) -> None:
    name = "encoder.layer.2.output.dense.bias"
    change(folder, lambda state: state | {name: torch.zeros(8)})
    refuse(folder, rf"unexpected tensor '{name}' of shape \[8\].*2 layers")


def test_pickled_weights_are_refused_with_the_way_out(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refuse(folder, r"pytorch_model.bin: .*pickle.*refused.*safe_serialization=True")


def test_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    refuse(folder, r"model.safetensors: no such file; the folder has config.json, vocab.txt")


def test_damaged_weights(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-100])
    refuse(folder, r"model.safetensors: not a whole safetensors file.*download it again")


def test_no_config(folder: Path) -> None:
    (folder / "config.json").unlink()
    refuse(folder, r"config.json: no such file")


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_broken_config(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    refuse(folder, r"config.json: (not valid JSON|expected a JSON object, found list)")


def test_no_tokenizer(folder: Path) -> None:
    (folder / "vocab.txt").unlink()
    refuse(folder, r"has neither tokenizer.json nor vocab.txt; copy one")


def test_vocabulary_without_special_tokens(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "a"]))
    refuse(folder, r"vocab.txt: the vocabulary has no \[SEP\], \[MASK\]")


def test_vocabulary_wider_than_the_embeddings(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *WORDS, "more"]))
    refuse(folder, r"vocab.txt: has token id 17, .*vocab_size is 17")


def test_tokenizer_of_another_kind(folder: Path) -> None:
    model = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": model}))
    refuse(folder, r"tokenizer.json: a BPE tokenizer; expected WordPiece")


def test_broken_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    refuse(folder, r"tokenizer.json: not a tokenizer.json of `tokenizers`")


@pytest.mark.parametrize("settings", [None, {"do_lower_case": False}, {"strip_accents": False}])
def test_vocabulary_tokenises_as_transformers_does(
    folder: Path, tmp_path: Path, settings: dict[str, bool] | None
) -> None:
    transformers = pytest.importorskip("transformers")
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    convert_hugging_face(folder, tmp_path / "out")
    tokenizer = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    reference = transformers.BertTokenizer(folder / "vocab.txt", **(settings or {}))
    text = "The Café, unwanted running the中the cafe! xyz [MASK] the"
    for special in (False, True):
        ids = tokenizer.encode(text, add_special_tokens=special).ids
        assert ids == reference.encode(text, add_special_tokens=special)


def test_minilms_tokenizer_neither_truncates_nor_pads(tmp_path: Path) -> None:
    source = minilm_folder()
    made = tmp_path / "hf"
    made.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(source / name, made / name)
    arch = convert_hugging_face(made, tmp_path / "out")
    assert (arch.layers, arch.hidden) == (6, 384)
    tokenizer = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    assert len(tokenizer.encode("word " * 600, add_special_tokens=False).ids) == 600
    assert len(tokenizer.encode("word", add_special_tokens=False).ids) == 1


def test_weights_survive_to_the_bit(tmp_path: Path) -> None:
    state = initial_backbone(TINY, seed=3)
    state["embeddings.norm.bias"][0] = 1e-42
    state["pooler.dense.weight"] = state["pooler.dense.weight"].T
    save_weights(tmp_path / "a" / WEIGHTS, state)
    assert [p.name for p in (tmp_path / "a").iterdir()] == [WEIGHTS]
    loaded = load_weights(tmp_path / "a" / WEIGHTS)
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[name], state[name]) for name in state)


def test_missing_weights_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x.safetensors: no such weights file"):
        load_weights(tmp_path / "x.safetensors")


def test_initial_backbone_follows_its_seed_alone() -> None:
    torch.manual_seed(1)
    first = initial_backbone(TINY, seed=5)
    before = torch.get_rng_state()
    second = initial_backbone(TINY, seed=5)
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = initial_backbone(TINY, seed=6)["embeddings.word.weight"]
    assert not torch.equal(first["embeddings.word.weight"], other)
    assert not any(tensor.requires_grad for tensor in first.values())
