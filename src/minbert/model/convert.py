"""From a Hugging Face folder to a backbone folder of ours."""

import logging
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from minbert.base.errors import UserError
from minbert.base.files import write_json
from minbert.data.tokenizer import folder_tokenizer, save_tokenizer
from minbert.model.encoder import whole_encoder
from minbert.model.weights import load_weights, save_weights
from minbert.spec.architecture import WEIGHTS, Architecture
from minbert.spec.hugging_face import SHARDS, from_hugging_face, shards
from minbert.spec.parts import PARTS, load_part
from minbert.spec.stage import Dropout

log = logging.getLogger(__name__)

_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.ckpt")
_OLD_NAMES = {"gamma": "weight", "beta": "bias"}  # TensorFlow's, of a norm


def convert_hugging_face(folder: Path, out: Path) -> Architecture:
    """Convert a Hugging Face `folder` to a backbone folder `out`; return its architecture.

    Reads `config.json`, `model.safetensors` or its shards, and the tokenizer's files; writes
    `model.safetensors` (float32, names of `whole_encoder`), `config.json` and `tokenizer.json`. An
    encoder without a pooler gets a new one. Raises `UserError`, naming file and tensor, if
    something is missing, unfit, or a pickle.
    """
    arch = from_hugging_face(folder / "config.json")
    tokenizer = folder_tokenizer(folder, arch)
    tensors, path = _read_weights(folder)
    save_weights(out / WEIGHTS, _convert(tensors, arch, path))
    write_json(out / "config.json", arch.model_dump())
    save_tokenizer(tokenizer, out / "tokenizer.json")
    return arch


def _read_weights(folder: Path) -> tuple[dict[str, Tensor], Path]:
    """Return the tensors of one file or of all shards, and the file to name in errors."""
    path, index = folder / WEIGHTS, folder / SHARDS
    if path.is_file():
        return load_weights(path), path
    if index.is_file():
        state: dict[str, Tensor] = {}
        for name in sorted(set(shards(folder).values())):
            state |= load_weights(folder / name)
        return state, index
    for name in _PICKLES:
        if (folder / name).is_file():
            raise UserError(
                f"{folder / name}: weights in a pickle, which can run code when read, are "
                f"refused. Use a revision of the model that has {WEIGHTS}, or convert it where "
                "you trust it: transformers' from_pretrained, then "
                "save_pretrained(..., safe_serialization=True)"
            )
    there = ", ".join(sorted(p.name for p in folder.iterdir()))
    raise UserError(f"{path}: no such file; the folder has {there or 'nothing'}")


def _convert(tensors: Mapping[str, Tensor], arch: Architecture, path: Path) -> dict[str, Tensor]:
    with torch.device("meta"):
        encoder = whole_encoder(arch, Dropout()).state_dict()
    pooler = arch.tensors.get("pooler.dense")
    sources = {
        ours: arch.hugging_face(ours)
        for ours in encoder
        if pooler or not ours.startswith("pooler.")
    }
    found = _plain_names(tensors, arch, {n for theirs in sources.values() for n in theirs}, path)
    state = {}
    if pooler is None or not any(name.startswith(f"{pooler}.") for name in found):
        log.warning(
            "%s: has no pooler. 'pooling: cls' starts from a new one, which gives tanh of the "
            "first token's state; 'mean' and 'max' need none",
            path,
        )
        # Not drawn: a frozen one would be a random map, and cached features know no seed.
        state["pooler.dense.weight"] = torch.eye(arch.hidden)
        state["pooler.dense.bias"] = torch.zeros(arch.hidden)
    for ours, theirs in sources.items():
        if ours not in state:
            rows, *columns = encoder[ours].shape
            shape = [rows // len(theirs), *columns]
            state[ours] = torch.cat([_take(found, name, shape, path) for name in theirs])
    if found:
        raise UserError(
            f"{path}: unexpected tensor '{min(found)}' of shape {list(found[min(found)].shape)}; "
            f"config.json says {arch.family} with {arch.layers} layers. Does it belong to the "
            "weights?"
        )
    return state


def _plain_names(
    tensors: Mapping[str, Tensor], arch: Architecture, names: set[str], path: Path
) -> dict[str, Tensor]:
    """Return the encoder's tensors under today's names: no heads, no constant `position_ids`.

    They begin with the same words as its `names`.
    """
    prefix = arch.prefix if any(name.startswith(arch.prefix) for name in tensors) else ""
    if not prefix:
        _check_prefix(tensors, arch, path)
    first_words = {name.partition(".")[0] for name in names}
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        stem, _, last = name.removeprefix(prefix).rpartition(".")
        is_ours = name.startswith(prefix) and stem.partition(".")[0] in first_words
        if is_ours and last != "position_ids":
            found[f"{stem}.{_OLD_NAMES.get(last, last)}"] = tensor
    return found


def _check_prefix(tensors: Mapping[str, Tensor], arch: Architecture, path: Path) -> None:
    """Refuse names that begin as those in a wrapper do, or of another kind of encoder."""
    families = {load_part("architecture", name).prefix: name for name in PARTS["architecture"]}
    word = "." + arch.hugging_face("embeddings.word.weight")[0]
    for name in tensors:
        wrapper = name.removesuffix(word) + "."
        if name.endswith(word) and wrapper not in families:
            raise UserError(
                f"{path}: the names of its tensors begin with '{wrapper}', which a wrapper gave "
                f"them, expected '{arch.prefix}' or nothing; save the encoder that is in the "
                "wrapper, or take the rest off the names"
            )
    for prefix, family in families.items():
        if theirs := [name for name in tensors if name.startswith(prefix)]:
            raise UserError(
                f"{path}: has tensor '{theirs[0]}', as a model of model_type '{family}' has, but "
                f"config.json's model_type is '{arch.family}'; take both files from one model"
            )


def _take(found: dict[str, Tensor], name: str, shape: list[int], path: Path) -> Tensor:
    """Take a tensor out of `found`, float32; `UserError` if it is missing or unfit."""
    if name not in found:
        raise UserError(f"{path}: has no tensor '{name}', expected of shape {shape} by config.json")
    tensor = found.pop(name)
    if list(tensor.shape) != shape:
        wrong = f"has shape {list(tensor.shape)}, expected {shape} by config.json"
    elif not tensor.is_floating_point():
        dtype = str(tensor.dtype).removeprefix("torch.")
        wrong = (
            f"is {dtype}, expected floating-point numbers; choose weights that are not quantised"
        )
    elif not (full := tensor.to(torch.float32)).isfinite().all():
        wrong = (
            "holds NaN or infinity, expected finite numbers (float32); download the weights "
            "again, or choose others"
        )
    else:
        return full
    raise UserError(f"{path}: tensor '{name}' {wrong}")
