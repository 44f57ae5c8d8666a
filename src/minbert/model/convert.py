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
from minbert.spec.hugging_face import backbone_files, from_hugging_face
from minbert.spec.stage import Dropout

log = logging.getLogger(__name__)

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
    save_weights(out / WEIGHTS, _convert(_read_weights(folder), arch, folder))
    write_json(out / "config.json", arch.model_dump())
    save_tokenizer(tokenizer, out / "tokenizer.json")
    return arch


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """Return the tensors of one file or of all shards."""
    paths = [path for path in backbone_files(folder) if path.suffix == ".safetensors"]
    if not paths:
        raise UserError(
            f"{folder}: has no {WEIGHTS}. Weights in a pickle, such as pytorch_model.bin, can run "
            "code when read, and are refused: use a revision of the model that has the file, or "
            "convert them where you trust them: transformers' from_pretrained, then "
            "save_pretrained(..., safe_serialization=True)"
        )
    return {name: tensor for path in paths for name, tensor in load_weights(path).items()}


def _convert(tensors: Mapping[str, Tensor], arch: Architecture, folder: Path) -> dict[str, Tensor]:
    with torch.device("meta"):
        encoder = whole_encoder(arch, Dropout()).state_dict()
    pooler = arch.tensors.get("pooler.dense")
    sources = {
        ours: arch.hugging_face(ours)
        for ours in encoder
        if pooler or not ours.startswith("pooler.")
    }
    first_words = {name.partition(".")[0] for names in sources.values() for name in names}
    found, state = _plain_names(tensors, arch.prefix, first_words), dict[str, Tensor]()
    if pooler is None or f"{pooler}.weight" not in found:
        log.warning(
            "%s: has no pooler. 'pooling: cls' starts from a new one, which gives tanh of the "
            "first token's state; 'mean' and 'max' need none",
            folder,
        )
        # Not drawn: a frozen one would be a random map, and cached features know no seed.
        state["pooler.dense.weight"] = torch.eye(arch.hidden)
        state["pooler.dense.bias"] = torch.zeros(arch.hidden)
    for ours, names in sources.items():
        if ours not in state:
            rows, *columns = encoder[ours].shape
            shape = [rows // len(names), *columns]
            state[ours] = torch.cat([_take(found, name, shape, folder) for name in names])
    if found:
        raise UserError(
            f"{folder}: unexpected tensor '{min(found)}'; config.json says {arch.family} with "
            f"{arch.layers} layers. Does it belong to the weights?"
        )
    return state


def _plain_names(
    tensors: Mapping[str, Tensor], prefix: str, first_words: set[str]
) -> dict[str, Tensor]:
    """Return the encoder's tensors under today's names: no heads, no constant `position_ids`."""
    prefix = prefix if any(name.startswith(prefix) for name in tensors) else ""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        stem, _, last = name.removeprefix(prefix).rpartition(".")
        is_ours = name.startswith(prefix) and stem.partition(".")[0] in first_words
        if is_ours and last != "position_ids":
            found[f"{stem}.{_OLD_NAMES.get(last, last)}"] = tensor
    return found


def _take(found: dict[str, Tensor], name: str, shape: list[int], folder: Path) -> Tensor:
    """Take a tensor out of `found`, float32; `UserError` if it is missing or unfit."""
    wrong = "missing"
    if name in found:
        tensor = found.pop(name)
        wrong, full = f"{tensor.dtype} of shape {list(tensor.shape)}", tensor.float()
        if list(full.shape) == shape and tensor.is_floating_point() and full.isfinite().all():
            return full
    raise UserError(
        f"{folder}: tensor '{name}' of the weights is {wrong}, expected finite floating-point "
        f"numbers of shape {shape} by config.json; take both files from one model, which is not "
        "quantised and not in a wrapper"
    )
