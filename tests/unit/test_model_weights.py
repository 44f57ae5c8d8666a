"""Conversion of Hugging Face folders, and files of weights."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import encoders
import pytest
import torch
from encoders import Folders
from model_batches import TINY, initial_backbone
from safetensors.torch import load_file, save_file
from torch import Tensor

from minbert.base.errors import UserError
from minbert.base.files import write_json, write_text
from minbert.model.hugging_face import convert_hugging_face
from minbert.model.weights import load_weights, save_weights
from minbert.spec.architecture import WEIGHTS
from minbert.spec.hugging_face import SHARDS

State = dict[str, Tensor]
Edit = Callable[[Path], object]


def settings(**values: Any) -> Edit:
    """Change settings of a folder's `config.json`."""
    return lambda folder: encoders.edit(folder, **values)


def weights(edit: Callable[[State], State]) -> Edit:
    """Edit the weights of a folder."""
    return lambda folder: save_file(edit(load_file(folder / WEIGHTS)), folder / WEIGHTS)


def put(name: str, text: str) -> Edit:
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


def copied(folders: Folders, name: str, edit: Edit, folder: Path) -> Path:
    """Copy a Hugging Face folder, and edit it."""
    shutil.copytree(folders[name].theirs, folder)
    edit(folder)
    return folder


def halved(state: State) -> State:
    return {name: each.half().double() for name, each in state.items()}


@pytest.mark.parametrize(
    ("edit", "within"),
    [(weights(old_names), 0.0), (shard, 0.0), (weights(halved), 1e-2)],
    ids=["old names", "shards", "other precision"],
)
def test_other_forms_of_the_same_weights(
    folders: Folders, tmp_path: Path, edit: Edit, within: float
) -> None:
    convert_hugging_face(copied(folders, "bert", edit, tmp_path / "hf"), tmp_path / "out")
    plain, other = (load_weights(f / WEIGHTS) for f in (folders["bert"].ours, tmp_path / "out"))
    assert {each.dtype for each in other.values()} == {torch.float32}
    torch.testing.assert_close(other, plain, atol=within, rtol=within)


OUTPUT = "encoder.layer.1.output.dense.weight"
REFUSED: list[tuple[str, Edit, str]] = [
    (
        "bert",
        settings(model_type="gpt2"),
        "json: model_type: unknown architecture 'gpt2'; known: bert",
    ),
    ("bert", settings(hidden_act="relu"), r"config\.json: 'activation' is 'relu'; expected 'gelu'"),
    ("bert", settings(is_decoder=True), r"config\.json: is_decoder is True; only False is known"),
    ("distilbert", settings(model_type="bert"), "json: has no hidden_size, .*; is it a Hugging"),
    ("modernbert", settings(layer_types=["full_attention"]), "layer_types is .*; only None is kn"),
    ("electra", settings(model_type="bert"), r"is torch.float32 of shape \[300, 16\], expected fi"),
    (
        "bert",
        weights(lambda s: {n: s[n] for n in s if n != "pooler.dense.bias"}),
        r"'pooler.dense.bias' of the weights is missing",
    ),
    (
        "bert",
        weights(lambda s: {f"module.bert.{n}": s[n] for n in s}),
        "called 'module.bert.embeddings.*in a wrapper, .*save the encoder alone",
    ),
    (
        "bert",
        weights(lambda s: s | {OUTPUT: s[OUTPUT] * torch.nan}),
        "expected finite floating-point numbers",
    ),
    (
        "bert",
        weights(lambda s: s | {OUTPUT: s[OUTPUT].to(torch.int8)}),
        "is torch.int8 of .*not quantised",
    ),
    ("bert", remove(WEIGHTS), "has no model.safetensors. Weights in a pickle, .*are refused"),
    (
        "bert",
        put(WEIGHTS, "version https://git-lfs.github.com/s"),
        "not a whole .*`git lfs pull`",
    ),
    ("bert", lambda f: os.truncate(f / WEIGHTS, 999), "not a whole safetensors file"),
    ("bert", remove("config.json"), "config.json: no such file"),
    ("bert", remove("tokenizer.json"), "has neither tokenizer.json nor vocab.txt"),
]


@pytest.mark.parametrize(("name", "edit", "match"), REFUSED)
def test_a_folder_that_is_refused(
    name: str, edit: Edit, match: str, folders: Folders, tmp_path: Path
) -> None:
    folder = copied(folders, name, edit, tmp_path / "hf")
    with pytest.raises(UserError, match=match) as told:
        convert_hugging_face(folder, tmp_path / "out")
    assert str(folder) in str(told.value) and not (tmp_path / "out").exists()


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
