from __future__ import annotations

import errno
import gzip
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from model_batches import TINY, initial_backbone, minilm_folder
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.data.wordpiece import bert_tokenizer
from minbert.model.convert import convert_hugging_face
from minbert.model.weights import load_weights, save_weights
from minbert.spec.architecture import WEIGHTS, read_architecture
from minbert.spec.hugging_face import SHARDS

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "cafe", "Cafe", "café", "un", "##want", "##ed", "runn", "##ing", ",", "!", "中"]
NORM = "embeddings.LayerNorm.weight"
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


def test_a_new_pooler_in_place_of_none_and_said_once(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    convert_hugging_face(folder, tmp_path / "pooled")
    assert not caplog.messages
    change(folder, lambda state: {n: t for n, t in state.items() if "pooler" not in n})
    convert_hugging_face(folder, tmp_path / "out")
    (said,) = caplog.messages
    assert re.search(r"model.safetensors: has no pooler. 'pooling: cls' starts from a new", said)
    state = load_weights(tmp_path / "out" / WEIGHTS)
    assert torch.equal(state["pooler.dense.weight"], torch.eye(8))
    assert not state["pooler.dense.bias"].any()
    before = load_weights(tmp_path / "pooled" / WEIGHTS)
    others = [name for name in before if not name.startswith("pooler.")]
    assert state.keys() == before.keys()
    assert all(torch.equal(state[name], before[name]) for name in others)


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


@pytest.mark.parametrize("other", [NORM.replace("weight", "gamma"), f"bert.{NORM}"])
def test_a_tensor_under_two_names(folder: Path, other: str) -> None:
    change(folder, lambda state: state | {other: state[NORM].clone()})
    refuse(folder, rf"safetensors: has tensor '{NORM}' twice, as '.*' and as '.*'; take one")


def shard(folder: Path, parts: int = 2) -> dict[str, str]:
    """Split the weights of `folder` into files with an index; return its map."""
    whole = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = {t: f"model-{n % parts}-of-{parts}.safetensors" for n, t in enumerate(sorted(whole))}
    for name in set(names.values()):
        save_file({t: whole[t] for t, of in names.items() if of == name}, folder / name)
    (folder / SHARDS).write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return names


def test_sharded_weights_are_those_of_one_file(folder: Path, tmp_path: Path) -> None:
    convert_hugging_face(folder, tmp_path / "one")
    shard(folder)
    convert_hugging_face(folder, tmp_path / "parts")
    one, parts = (tmp_path / name / WEIGHTS for name in ("one", "parts"))
    assert one.read_bytes() == parts.read_bytes()


@pytest.mark.parametrize(
    ("index", "match"),
    [
        ({}, r"index\.json: has no weight_map; is it the index"),
        ({"weight_map": ["model-0-of-2.safetensors"]}, "has no weight_map"),
        ({"weight_map": {"a": "../x.safetensors"}}, r"tensor 'a' is in '\.\./x\.safetensors', exp"),
        ({"weight_map": {"a": "/etc/passwd"}}, "tensor 'a' is in '/etc/passwd'"),
        ({"weight_map": {"a": 3}}, "tensor 'a' is in '3'"),
        ({"weight_map": {"a": "gone.safetensors"}}, r"gone\.safetensors: no such weights file"),
        (
            {"weight_map": {"a": "model-0-of-2.safetensors"}},
            r"model-0-of.*: has no tensor 'a'",
        ),
    ],
)
def test_a_damaged_index_of_shards(folder: Path, index: object, match: str) -> None:
    shard(folder)
    (folder / SHARDS).write_text(json.dumps(index))
    refuse(folder, match)


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda t: t * float("nan"), "holds NaN or infinity, expected finite numbers"),
        (lambda t: t.double() * 1e300, "holds NaN or infinity"),
        (lambda t: t.to(torch.int8), "is int8, expected floating-point numbers; .*not quantised"),
        (lambda t: t.to(torch.complex64), "is complex64, expected floating-point"),
        (lambda t: t > 0, "is bool, expected floating-point"),
    ],
)
def test_weights_that_are_no_finite_numbers(
    folder: Path, edit: Callable[[Tensor], Tensor], match: str
) -> None:
    name = "encoder.layer.1.output.dense.weight"
    change(folder, lambda state: state | {name: edit(state[name])})
    refuse(folder, f"model.safetensors: tensor '{name}' {match}")


def test_pickled_weights_are_refused_with_the_way_out(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refuse(folder, r"pytorch_model.bin: .*pickle.*refused.*safe_serialization=True")


def test_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    refuse(folder, r"model.safetensors: no such file; the folder has config.json, vocab.txt")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_link_that_leads_nowhere(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to("blob")
    refuse(folder, f"{name}: is a link that leads nowhere; ")


@pytest.mark.parametrize(
    ("start", "kind"),
    [("version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"), ("<html>", "an HTML")],
)
def test_what_is_there_in_place_of_weights(folder: Path, start: str, kind: str) -> None:
    (folder / "model.safetensors").write_text(start)
    refuse(folder, f"model.safetensors: is {kind}.*, expected weights; (fetch|download) the file")


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


def test_a_size_that_is_none_is_refused_by_the_job_too(folder: Path) -> None:
    """The plan does not see the config.json of a hub's backbone."""
    (folder / "config.json").write_text(json.dumps(CONFIG | {"layer_norm_eps": -1}))
    refuse(folder, r"config.json: layer_norm_eps is -1; expected greater than 0")


def test_no_tokenizer(folder: Path) -> None:
    (folder / "vocab.txt").unlink()
    refuse(folder, r"has neither tokenizer.json nor vocab.txt nor vocab.json; copy one")


def test_vocabulary_without_special_tokens(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "a"]))
    refuse(folder, r"vocab.txt: the vocabulary has no \[SEP\], \[MASK\]")


def test_vocabulary_wider_than_the_embeddings(folder: Path) -> None:
    (folder / "vocab.txt").write_text("\n".join([*SPECIAL, *WORDS, "more"]))
    refuse(folder, r"vocab.txt: has token id 17, .*vocab_size is 17")


def test_tokenizer_of_another_kind(folder: Path) -> None:
    model = {"type": "BPE", "vocab": {"a": 0}, "merges": []}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": model}))
    refuse(folder, r"tokenizer.json: the special tokens around a sentence are .*expected some")


def test_a_tokenizer_that_lacks_its_own_unknown_token(folder: Path) -> None:
    tokenizer = bert_tokenizer({word: n for n, word in enumerate(SPECIAL + WORDS)})
    written = json.loads(tokenizer.to_str())
    written["model"]["unk_token"] = "<unk>"
    (folder / "tokenizer.json").write_text(json.dumps(written))
    refuse(folder, r"tokenizer.json: the vocabulary has no '<unk>', its token for unknown words")


@pytest.mark.parametrize("name", ["do_lower_case", "strip_accents", "tokenize_chinese_chars"])
def test_settings_of_a_tokenizer_of_wrong_types(folder: Path, name: str) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({name: "yes"}))
    refuse(folder, f"tokenizer_config.json: {name} is 'yes', expected true or false")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "vocab.txt: the vocabulary has no .PAD."),
        (gzip.compress(b"[PAD]", mtime=0), r"vocab.txt: not UTF-8 text"),
        ("\n".join([*SPECIAL, "a", "a"]).encode(), "line 7: token 'a' is already on line 6"),
        ("\n".join(SPECIAL).encode("utf-16"), "vocab.txt: not UTF-8 text"),
        (b"\0" * 1000, "vocab.txt: the vocabulary has no .PAD."),
    ],
)
def test_a_vocabulary_that_is_none(folder: Path, content: bytes, match: str) -> None:
    (folder / "vocab.txt").write_bytes(content)
    refuse(folder, match)


def written_tokenizer() -> dict[str, Any]:
    tokenizer = bert_tokenizer({word: n for n, word in enumerate(SPECIAL + WORDS)})
    return dict(json.loads(tokenizer.to_str()))


def test_broken_tokenizer(folder: Path) -> None:
    """The second one makes the library panic, which is no `Exception`."""
    charsmap = {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}
    for written in ({}, written_tokenizer() | charsmap):
        (folder / "tokenizer.json").write_text(json.dumps(written))
        refuse(folder, r"tokenizer.json: not a tokenizer.json of `tokenizers`")


def test_a_tokenizer_with_two_tokens_of_one_id(folder: Path) -> None:
    written = written_tokenizer()
    written["model"]["vocab"]["un"] = written["model"]["vocab"]["the"]
    (folder / "tokenizer.json").write_text(json.dumps(written))
    refuse(folder, r"tokenizer.json: tokens '(the|un)' and '(the|un)' have one id, 5")


@pytest.mark.parametrize("name", ["config.json", "vocab.txt", "tokenizer.json"])
def test_a_file_of_gigabytes_is_not_read(folder: Path, name: str) -> None:
    with (folder / name).open("wb") as sparse:
        sparse.truncate(9 << 30)
    refuse(folder, rf"{name}: has more than 64 MiB, which are expected at most")


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


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("{", "not valid JSON"), ('{"hidden": "wide"}', "hidden is 'wide'; expected")],
)
def test_damaged_shapes_of_a_backbone_in_the_store(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "key" / "config.json"
    write_text(path, text)
    with pytest.raises(UserError, match=rf"{path}: {wrong}.*; delete {path.parent}: `snakemake"):
        read_architecture(path)


def test_weights_may_be_read_by_whom_the_umask_lets(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        save_weights(tmp_path / "a.safetensors", {"a": torch.zeros(1)})
    finally:
        os.umask(before)
    assert (tmp_path / "a.safetensors").stat().st_mode & 0o777 == 0o640


def test_weights_that_may_not_be_read_are_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(path: Path, mode: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    save_weights(path := tmp_path / "a.safetensors", {"a": torch.zeros(1)})
    monkeypatch.setattr("pathlib.Path.open", closed)  # root may read all
    with pytest.raises(PermissionError, match=r"Permission denied: '.*a.safetensors'"):
        load_weights(path)


def test_a_checksum_of_somebody_elses_names_both_ways_out(tmp_path: Path) -> None:
    path = tmp_path / "theirs.safetensors"
    save_file({"a": torch.zeros(1)}, path, metadata={"sha256": "another sum"})
    with pytest.raises(UserError, match=r"if snakemake made it, .*; if not, take the entry 'sha"):
        load_weights(path)
