"""Backbones on disk: a Hugging Face BERT folder into ours, and safetensors files in and out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from minbert.common.errors import UserError
from minbert.common.files import whole, write_json
from minbert.grid.architecture import Architecture, from_hugging_face
from minbert.grid.spec import Dropout
from minbert.model.encoder import allocate, initialise, whole_encoder
from minbert.wordpiece import read_tokenizer, save_tokenizer

WEIGHTS = "model.safetensors"
CHECKSUM = "sha256"
"""The name under which a file's header holds the checksum of its tensors.

It is the header's only entry: safetensors writes several in an order that changes by the process.
"""
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.ckpt")
_EMBEDDINGS = {
    "embeddings.word.weight": "embeddings.word_embeddings.weight",
    "embeddings.position.weight": "embeddings.position_embeddings.weight",
    "embeddings.token_type.weight": "embeddings.token_type_embeddings.weight",
    "embeddings.norm": "embeddings.LayerNorm",
    "pooler.dense": "pooler.dense",
}
_LAYER = {
    "attention.output": "attention.output.dense",
    "attention.norm": "attention.output.LayerNorm",
    "feed_forward.inner": "intermediate.dense",
    "feed_forward.output": "output.dense",
    "feed_forward.norm": "output.LayerNorm",
}
_OLD_NAMES = {"gamma": "weight", "beta": "bias"}


def initial_backbone(arch: Architecture, seed: int) -> dict[str, Tensor]:
    """Return the state of a backbone at BERT's random initialisation, the same for a `seed`."""
    with torch.device("meta"):
        encoder = whole_encoder(arch, Dropout())
    allocate(encoder)
    initialise(encoder, torch.Generator().manual_seed(seed))
    return {name: tensor.detach() for name, tensor in encoder.state_dict().items()}


def save_weights(path: Path, state: Mapping[str, Tensor]) -> None:
    """Write `state` with its checksum to the safetensors file `path`, whole or not at all."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    with whole(path) as temporary:
        save_file(tensors, temporary, metadata={CHECKSUM: checksum(tensors)})


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of contiguous CPU tensors: names, types, shapes and bytes."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file on the CPU; `UserError` if it is missing or damaged.

    A file that we wrote holds the checksum of its tensors; one from elsewhere need not.
    """
    try:
        with safe_open(path, "pt") as file:
            written = (file.metadata() or {}).get(CHECKSUM)
        tensors = load_file(path)
    except FileNotFoundError:
        raise UserError(f"{path}: no such weights file") from None
    except SafetensorError as error:
        raise UserError(
            f"{path}: not a whole safetensors file ({error}); delete it and make or download it "
            "again"
        ) from error
    if written is not None and (found := checksum(tensors)) != written:
        raise UserError(
            f"{path}: is damaged: the SHA-256 of its tensors is {found}, expected {written}, "
            "which was noted when it was written; delete it and run snakemake again, which makes "
            "it anew"
        )
    return tensors


def convert_hugging_face(folder: Path, out: Path) -> Architecture:
    """Turn the Hugging Face BERT `folder` into a backbone folder `out`; return its architecture.

    Reads `config.json`, `model.safetensors`, and `tokenizer.json` or `vocab.txt`; writes
    `model.safetensors` (float32, names of `whole_encoder`), `config.json` (an `Architecture`) and
    `tokenizer.json`.
    Raises `UserError`, naming file and tensor, if something is missing, unfit, or a pickle.
    """
    arch = from_hugging_face(_read_config(folder / "config.json"), folder / "config.json")
    tokenizer = read_tokenizer(folder, arch.vocab_size)
    state = _convert(_read_weights(folder), arch, folder / WEIGHTS)
    out.mkdir(parents=True, exist_ok=True)
    save_weights(out / WEIGHTS, state)
    write_json(out / "config.json", arch.model_dump())
    save_tokenizer(tokenizer, out / "tokenizer.json")
    return arch


def _read_config(path: Path) -> Mapping[str, object]:
    if not path.is_file():
        raise UserError(f"{path}: no such file; a backbone is a folder in Hugging Face's layout")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(config, dict):
        raise UserError(f"{path}: expected a JSON object, found {type(config).__name__}")
    return config


def _read_weights(folder: Path) -> dict[str, Tensor]:
    path = folder / WEIGHTS
    if path.is_file():
        return load_weights(path)
    for name in _PICKLES:
        if (folder / name).is_file():
            raise UserError(
                f"{folder / name}: weights in a pickle, which can run code when read, are "
                f"refused. Use a revision of the model that has {WEIGHTS}, or convert it where "
                "you trust it: transformers' from_pretrained, then "
                "save_pretrained(..., safe_serialization=True)"
            )
    raise UserError(
        f"{path}: no such file; the folder has "
        f"{', '.join(sorted(p.name for p in folder.iterdir())) or 'nothing'}"
    )


def _sources(name: str) -> list[str]:
    """Return the Hugging Face tensors whose rows, stacked, are our tensor `name`."""
    if name in _EMBEDDINGS:
        return [_EMBEDDINGS[name]]
    part, _, kind = name.rpartition(".")
    if part in _EMBEDDINGS:
        return [f"{_EMBEDDINGS[part]}.{kind}"]
    _, number, inside = part.split(".", 2)
    if inside == "attention.qkv":
        inner = [f"attention.self.{p}" for p in ("query", "key", "value")]
    else:
        inner = [_LAYER[inside]]
    return [f"encoder.layer.{number}.{i}.{kind}" for i in inner]


def _convert(tensors: Mapping[str, Tensor], arch: Architecture, path: Path) -> dict[str, Tensor]:
    found = _plain_names(tensors)
    with torch.device("meta"):
        expected = whole_encoder(arch, Dropout()).state_dict()
    if "pooler.dense.weight" not in found and "pooler.dense.bias" not in found:
        raise UserError(
            f"{path}: has no pooler (pooler.dense.weight), which 'pooling: cls' needs; choose "
            "weights that have one"
        )
    state = {}
    for name, shape in ((n, tuple(t.shape)) for n, t in expected.items()):
        sources = _sources(name)
        pieces = [_take(found, s, (shape[0] // len(sources), *shape[1:]), path) for s in sources]
        state[name] = torch.cat(pieces).to(torch.float32)
    if found:
        raise UserError(
            f"{path}: unexpected tensor '{min(found)}' of shape {list(found[min(found)].shape)}; "
            f"config.json says BERT with {arch.layers} layers. Does it belong to the weights?"
        )
    return state


def _plain_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Keep the encoder's tensors, under today's names.

    Other roots are the heads of pretraining or of some task. `gamma` and `beta` are TensorFlow's
    names for a norm's weight and bias, `position_ids` a constant of older versions.
    """
    prefix = "bert." if any(name.startswith("bert.") for name in tensors) else ""
    found = {}
    for name, tensor in tensors.items():
        plain = name.removeprefix(prefix)
        if not name.startswith(prefix) or plain.endswith("position_ids"):
            continue
        if plain.partition(".")[0] in ("embeddings", "encoder", "pooler"):
            stem, _, last = plain.rpartition(".")
            found[f"{stem}.{_OLD_NAMES.get(last, last)}"] = tensor
    return found


def _take(found: dict[str, Tensor], name: str, shape: tuple[int, ...], path: Path) -> Tensor:
    if name not in found:
        raise UserError(
            f"{path}: has no tensor '{name}', expected of shape {list(shape)} by config.json"
        )
    if tuple(found[name].shape) != shape:
        raise UserError(
            f"{path}: tensor '{name}' has shape {list(found[name].shape)}, expected {list(shape)} "
            "by config.json"
        )
    return found.pop(name)
