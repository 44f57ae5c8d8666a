"""From a Hugging Face BERT folder to a backbone folder of ours."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from minbert.base.errors import UserError, no_file
from minbert.base.files import write_json
from minbert.data.wordpiece import read_tokenizer, save_tokenizer
from minbert.model.encoder import whole_encoder
from minbert.model.weights import load_weights, save_weights
from minbert.spec.architecture import SHARDS, WEIGHTS, Architecture, from_hugging_face, shards
from minbert.spec.stage import Dropout

_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.ckpt")
_EMBEDDINGS = {
    "embeddings.word": "embeddings.word_embeddings",
    "embeddings.position": "embeddings.position_embeddings",
    "embeddings.token_type": "embeddings.token_type_embeddings",
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
_PARTS = ("embeddings", "encoder", "pooler")
_OLD_NAMES = {"gamma": "weight", "beta": "bias"}  # TensorFlow's, of a norm


def convert_hugging_face(folder: Path, out: Path) -> Architecture:
    """Convert the Hugging Face BERT `folder` to a backbone folder `out`; return its architecture.

    Reads `config.json`, `model.safetensors` or its shards, and `tokenizer.json` or `vocab.txt`;
    writes `model.safetensors` (float32, names of `whole_encoder`), `config.json` and
    `tokenizer.json`. Raises `UserError`, naming file and tensor, if something is missing, unfit, or
    a pickle.
    """
    arch = from_hugging_face(folder / "config.json")
    tokenizer = read_tokenizer(folder, arch.vocab_size)
    tensors, path = _read_weights(folder)
    state = _convert(tensors, arch, path)
    save_weights(out / WEIGHTS, state)
    write_json(out / "config.json", arch.model_dump())
    save_tokenizer(tokenizer, out / "tokenizer.json")
    return arch


def _read_weights(folder: Path) -> tuple[dict[str, Tensor], Path]:
    """Return the tensors of one file or of all shards, and the file to name in errors."""
    path = folder / WEIGHTS
    if wrong := no_file(path):
        raise UserError(f"{path}: {wrong}; put the weights themselves there")
    if path.is_file():
        return load_weights(path), path
    if (folder / SHARDS).is_file():
        return _read_shards(folder), folder / SHARDS
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


def _read_shards(folder: Path) -> dict[str, Tensor]:
    files = shards(folder)
    state: dict[str, Tensor] = {}
    for name in sorted(set(files.values())):
        tensors = load_weights(folder / name)
        wanted = [tensor for tensor, file in files.items() if file == name]
        if absent := [tensor for tensor in wanted if tensor not in tensors]:
            raise UserError(
                f"{folder / name}: has no tensor '{absent[0]}', which {SHARDS} says is there"
            )
        state |= {tensor: tensors[tensor] for tensor in wanted}
    return state


def hugging_face_names(name: str) -> list[str]:
    """Return the Hugging Face tensors whose rows, stacked, are our tensor `name`."""
    part, _, kind = name.rpartition(".")
    if part in _EMBEDDINGS:
        return [f"{_EMBEDDINGS[part]}.{kind}"]
    _, number, inside = part.split(".", 2)
    projections = [f"attention.self.{p}" for p in ("query", "key", "value")]
    inner = projections if inside == "attention.qkv" else [_LAYER[inside]]
    return [f"encoder.layer.{number}.{i}.{kind}" for i in inner]


def _convert(tensors: Mapping[str, Tensor], arch: Architecture, path: Path) -> dict[str, Tensor]:
    found = _plain_names(tensors, path)
    with torch.device("meta"):
        expected = whole_encoder(arch, Dropout()).state_dict()
    if "pooler.dense.weight" not in found and "pooler.dense.bias" not in found:
        raise UserError(
            f"{path}: has no pooler (pooler.dense.weight), which 'pooling: cls' needs; choose "
            "weights that have one"
        )
    state = {}
    for name, shape in ((n, tuple(t.shape)) for n, t in expected.items()):
        sources = hugging_face_names(name)
        pieces = [_take(found, s, (shape[0] // len(sources), *shape[1:]), path) for s in sources]
        state[name] = torch.cat(pieces)
    if found:
        raise UserError(
            f"{path}: unexpected tensor '{min(found)}' of shape {list(found[min(found)].shape)}; "
            f"config.json says BERT with {arch.layers} layers. Does it belong to the weights?"
        )
    return state


def _plain_names(tensors: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Keep the encoder's tensors, under today's names: no heads, no constant `position_ids`."""
    prefix = "bert." if any(name.startswith("bert.") for name in tensors) else ""
    sources: dict[str, str] = {}
    for name in tensors:
        stem, _, last = name.removeprefix(prefix).rpartition(".")
        if last == "position_ids" or stem.partition(".")[0] not in _PARTS:
            continue
        plain = f"{stem}.{_OLD_NAMES.get(last, last)}"
        if plain in sources:
            raise UserError(
                f"{path}: has tensor '{plain}' twice, as '{sources[plain]}' and as '{name}'; "
                "take one of them out"
            )
        sources[plain] = name
    return {plain: tensors[name] for plain, name in sources.items() if name.startswith(prefix)}


def _take(found: dict[str, Tensor], name: str, shape: tuple[int, ...], path: Path) -> Tensor:
    if name not in found:
        expected = f"expected of shape {list(shape)} by config.json"
        raise UserError(f"{path}: has no tensor '{name}', {expected}")
    if (has := tuple(found[name].shape)) != shape:
        expected = f"expected {list(shape)} by config.json"
        raise UserError(f"{path}: tensor '{name}' has shape {list(has)}, {expected}")
    if not found[name].is_floating_point():
        raise UserError(
            f"{path}: tensor '{name}' is {str(found[name].dtype).removeprefix('torch.')}, expected "
            "floating-point numbers; choose weights that are not quantised"
        )
    tensor = found.pop(name).to(torch.float32)
    if not tensor.isfinite().all():
        raise UserError(
            f"{path}: tensor '{name}' holds NaN or infinity, expected finite numbers (float32); "
            "download the weights again, or choose others"
        )
    return tensor
