"""Conversion of Hugging Face folders, and files of weights."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from encoders import Made, difference
from model_batches import TINY, initial_backbone, minilm_folder
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import BertModel

from minbert.base.errors import UserError
from minbert.base.files import write_json, write_text
from minbert.data.wordpiece import SPECIAL_TOKENS, bert_tokenizer
from minbert.model.convert import convert_hugging_face
from minbert.model.weights import load_weights, save_weights
from minbert.spec.architecture import WEIGHTS, read_architecture
from minbert.spec.hugging_face import SHARDS

WORDS = ["the", "cafe", "Cafe", "café", "un", "##want", "##ed", "runn", "##ing", ",", "!", "中"]
CONFIG = {
    **{"model_type": "bert", "vocab_size": 17, "hidden_size": 8, "num_hidden_layers": 2},
    **{"num_attention_heads": 2, "intermediate_size": 12, "max_position_embeddings": 16},
    "type_vocab_size": 2,
}
State = dict[str, Tensor]
Edit = Callable[[Path], object]


def hugging_face_state() -> State:
    """Return random weights of a 2-layer BERT under the names of Hugging Face."""
    shapes = {
        "embeddings.word_embeddings": (17, 8),
        "embeddings.position_embeddings": (16, 8),
        "embeddings.token_type_embeddings": (2, 8),
        "embeddings.LayerNorm": (8,),
        "pooler.dense": (8, 8),
    }
    for n in range(2):
        shapes |= {
            f"encoder.layer.{n}.{part}": shape
            for part, shape in {
                **{f"attention.self.{part}": (8, 8) for part in ("query", "key", "value")},
                **{"attention.output.dense": (8, 8), "intermediate.dense": (12, 8)},
                **{"output.dense": (8, 12), "output.LayerNorm": (8,)},
                "attention.output.LayerNorm": (8,),
            }.items()
        }
    generator = torch.Generator().manual_seed(0)
    state = {f"{n}.weight": torch.randn(shape, generator=generator) for n, shape in shapes.items()}
    for name, (rows, *_) in shapes.items():
        if not name.endswith("_embeddings"):
            state[f"{name}.bias"] = torch.randn(rows, generator=generator)
    return state


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "hf"
    write_json(made / "config.json", CONFIG)
    write_text(made / "vocab.txt", "\n".join([*SPECIAL_TOKENS, *WORDS]) + "\n")
    save_file(hugging_face_state(), made / WEIGHTS)
    return made


def weights(edit: Callable[[State], State]) -> Edit:
    """Edit the weights of a folder."""
    return lambda folder: save_file(edit(load_file(folder / WEIGHTS)), folder / WEIGHTS)


def tensor(name: str, edit: Callable[[Tensor], Tensor]) -> Edit:
    return weights(lambda state: state | {name: edit(state[name])})


def without(*names: str) -> Edit:
    return weights(lambda state: {n: t for n, t in state.items() if not n.startswith(names)})


def write(name: str, content: str | bytes | object) -> Edit:
    """Write a file of a folder: text, bytes, or JSON."""
    if isinstance(content, bytes):
        return lambda folder: (folder / name).write_bytes(content)
    text = content if isinstance(content, str) else json.dumps(content)
    return lambda folder: write_text(folder / name, text)


def remove(name: str) -> Edit:
    return lambda folder: (folder / name).unlink()


def shard(folder: Path) -> None:
    """Split the weights of a folder into two files with an index."""
    state = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = {t: f"model-{n % 2}-of-2.safetensors" for n, t in enumerate(sorted(state))}
    for name in set(names.values()):
        save_file({t: state[t] for t, of in names.items() if of == name}, folder / name)
    write_json(folder / SHARDS, {"metadata": {}, "weight_map": names})


def old_names(state: State) -> State:
    """Return a state as older files have it: a prefix, TensorFlow's norms, a buffer and a head."""
    old = {"weight": "gamma", "bias": "beta"}
    named = {}
    for name, each in state.items():
        stem, _, last = name.rpartition(".")
        named[f"bert.{stem}.{old[last] if 'LayerNorm' in stem else last}"] = each
    buffer = {"bert.embeddings.position_ids": torch.arange(16)[None]}
    return named | buffer | {"cls.predictions.bias": torch.zeros(17)}


def test_names_and_fused_projections(folder: Path, tmp_path: Path) -> None:
    arch = convert_hugging_face(folder, tmp_path / "out")
    assert arch == read_architecture(tmp_path / "out" / "config.json")
    assert (arch.layers, arch.hidden, arch.positions) == (2, 8, 16)
    ours, theirs = load_weights(tmp_path / "out" / WEIGHTS), hugging_face_state()
    initial = initial_backbone(arch, 0)
    assert {n: t.shape for n, t in ours.items()} == {n: t.shape for n, t in initial.items()}
    attention = "encoder.layer.1.attention.self."
    parts = [theirs[f"{attention}{part}.weight"] for part in ("query", "key", "value")]
    assert torch.equal(ours["layers.1.attention.qkv.weight"], torch.cat(parts))
    for our, their in {
        "embeddings.token_type.weight": "embeddings.token_type_embeddings.weight",
        "layers.0.attention.norm.weight": "encoder.layer.0.attention.output.LayerNorm.weight",
        "layers.0.feed_forward.inner.bias": "encoder.layer.0.intermediate.dense.bias",
        "layers.1.feed_forward.norm.weight": "encoder.layer.1.output.LayerNorm.weight",
        "pooler.dense.weight": "pooler.dense.weight",
    }.items():
        assert torch.equal(ours[our], theirs[their]), our


@pytest.mark.parametrize("edit", [weights(old_names), shard], ids=["old names", "shards"])
def test_other_forms_of_the_same_weights(folder: Path, tmp_path: Path, edit: Edit) -> None:
    convert_hugging_face(folder, tmp_path / "plain")
    edit(folder)
    convert_hugging_face(folder, tmp_path / "other")
    plain, other = (tmp_path / name / WEIGHTS for name in ("plain", "other"))
    assert plain.read_bytes() == other.read_bytes()


def test_half_precision_becomes_float32(folder: Path, tmp_path: Path) -> None:
    weights(lambda state: {name: each.half() for name, each in state.items()})(folder)
    convert_hugging_face(folder, tmp_path / "out")
    assert {t.dtype for t in load_weights(tmp_path / "out" / WEIGHTS).values()} == {torch.float32}


def test_a_new_pooler_in_place_of_none_and_said_once(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    convert_hugging_face(folder, tmp_path / "pooled")
    assert not caplog.messages
    without("pooler.")(folder)
    convert_hugging_face(folder, tmp_path / "out")
    (said,) = caplog.messages
    assert re.search(r"model.safetensors: has no pooler. 'pooling: cls' starts from a new", said)
    state, before = (load_weights(tmp_path / name / WEIGHTS) for name in ("out", "pooled"))
    before |= {"pooler.dense.weight": torch.eye(8), "pooler.dense.bias": torch.zeros(8)}
    assert state.keys() == before.keys()
    assert all(torch.equal(state[name], each) for name, each in before.items())


OUTPUT = "encoder.layer.1.output.dense.weight"
REFUSED: list[tuple[Edit, str]] = [
    (without("pooler.dense.bias"), r"no tensor 'pooler.dense.bias', expected of shape \[8\]"),
    (
        without("encoder.layer.1.attention.self.key.bias"),
        r"model.safetensors: has no tensor 'encoder.*key.bias', expected of shape \[8\]",
    ),
    (
        tensor(OUTPUT, lambda t: t[:, :9].clone()),
        rf"'{OUTPUT}' has shape \[8, 9\], expected \[8, 12\] by config.json",
    ),
    (
        weights(lambda s: s | {"encoder.layer.2.output.dense.bias": torch.zeros(8)}),
        r"unexpected tensor 'encoder.layer.2.output.dense.bias' of shape \[8\].*2 layers",
    ),
    (tensor(OUTPUT, lambda t: t * float("nan")), "holds NaN or infinity, expected finite"),
    (tensor(OUTPUT, lambda t: t.double() * 1e300), "holds NaN or infinity"),
    (tensor(OUTPUT, lambda t: t.to(torch.int8)), "is int8, expected floating-.*not quantised"),
    (
        lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model.bin"),
        r"pytorch_model.bin: .*pickle.*refused.*safe_serialization=True",
    ),
    (remove(WEIGHTS), "model.safetensors: no such file; the folder has config.json, vocab.txt"),
    (write(WEIGHTS, "version https://git-lfs.github.com/spec/v1\n"), "is a Git LFS pointer.*fetch"),
    (write(WEIGHTS, "<html>"), "model.safetensors: is an HTML.*, expected weights; download the"),
    (
        lambda folder: os.truncate(folder / WEIGHTS, 1000),
        "model.safetensors: not a whole safetensors file.*download it again",
    ),
    (lambda f: [shard(f), write(SHARDS, {})(f)], r"index\.json: has no weight_map; is it the ind"),
    (lambda f: [shard(f), remove("model-0-of-2.safetensors")(f)], "model-0-of-2.*: no such weigh"),
    (remove("config.json"), "config.json: no such file"),
    (write("config.json", "{"), "config.json: not valid JSON"),
    (write("config.json", "[1]"), "config.json: expected a JSON object, found list"),
    (
        write("config.json", CONFIG | {"layer_norm_eps": -1}),
        "config.json: 'layer_norm_eps' is -1; expected greater than 0",
    ),
    (remove("vocab.txt"), "has neither tokenizer.json nor vocab.txt nor vocab.json; copy one"),
    (write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\na"), r"vocab.txt: .* no \[SEP\], \[MASK\]; is it B"),
    (write("vocab.txt", b"\xff\xfe[PAD]"), "vocab.txt: not UTF-8 text"),
    (
        write("vocab.txt", "\n".join([*SPECIAL_TOKENS, *WORDS, "more"])),
        "vocab.txt: has token id 17, .*vocab_size is 17",
    ),
    (
        write("tokenizer_config.json", {"do_lower_case": "yes"}),
        "do_lower_case is 'yes', but True in",
    ),
    (write("tokenizer.json", "{}"), "tokenizer.json: not a tokenizer.json of `tokenizers`"),
]


@pytest.mark.parametrize(("edit", "match"), REFUSED)
def test_a_folder_that_is_refused(folder: Path, tmp_path: Path, edit: Edit, match: str) -> None:
    edit(folder)
    with pytest.raises(UserError, match=match) as told:
        convert_hugging_face(folder, tmp_path / "out")
    assert str(folder) in str(told.value) and not (tmp_path / "out").exists()


def test_a_tokenizer_that_frames_nothing(folder: Path, tmp_path: Path) -> None:
    ids = {word: n for n, word in enumerate([*SPECIAL_TOKENS, *WORDS])}
    made = json.loads(bert_tokenizer(ids).to_str()) | {"post_processor": None}
    write("tokenizer.json", made)(folder)
    with pytest.raises(UserError, match=r"json: the special tokens around a sentence are .*expec"):
        convert_hugging_face(folder, tmp_path / "out")


def test_minilm(tmp_path: Path) -> None:
    """Its states are those of transformers; its tokenizer neither truncates nor pads."""
    made = tmp_path / "hf"
    made.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(minilm_folder() / name, made / name)
    arch = convert_hugging_face(made, tmp_path / "out")
    assert (arch.layers, arch.hidden) == (6, 384)
    reference = BertModel.from_pretrained(made).eval()
    assert difference(Made(reference, made, tmp_path / "out")).max() < 1e-5
    tokenizer = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    lengths = [len(tokenizer.encode("word " * n, add_special_tokens=False).ids) for n in (1, 600)]
    assert lengths == [1, 600]


def test_weights_survive_to_the_bit(tmp_path: Path) -> None:
    state = initial_backbone(TINY, seed=3)
    state["embeddings.norm.bias"][0] = 1e-42
    state["pooler.dense.weight"] = state["pooler.dense.weight"].T
    before = os.umask(0o027)
    try:
        save_weights(tmp_path / "a" / WEIGHTS, state)
    finally:
        os.umask(before)
    (path,) = (tmp_path / "a").iterdir()
    assert path.name == WEIGHTS and path.stat().st_mode & 0o777 == 0o640
    loaded = load_weights(path)
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[name], state[name]) for name in state)


def test_a_checksum_that_is_wrong_names_both_ways_out(tmp_path: Path) -> None:
    path = tmp_path / "theirs.safetensors"
    save_file({"a": torch.zeros(1)}, path, metadata={"sha256": "another sum"})
    with pytest.raises(UserError, match=r"if snakemake made it, .*; if not, take the entry 'sha"):
        load_weights(path)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("{", "not valid JSON"), ('{"hidden": "wide"}', "'hidden' is 'wide'; expected")],
)
def test_damaged_shapes_of_a_backbone_in_the_store(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "key" / "config.json"
    write_text(path, text)
    with pytest.raises(UserError, match=rf"{path}: {wrong}.*; delete {path.parent}: `snakemake"):
        read_architecture(path)
