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
    paths = [path for path in backbone_files(folder) if path.suffix == ".safetensors"]
    if not paths:
        raise UserError(
            f"{folder}: has no {WEIGHTS}. Weights in a pickle, such as pytorch_model.bin, can run "
            "code when read, and are refused: use a revision of the model that has the file, or "
            "convert them where you trust them: transformers' from_pretrained, then "
            "save_pretrained(..., safe_serialization=True)"
        )
    tensors = {name: tensor for path in paths for name, tensor in load_weights(path).items()}
    save_weights(out / WEIGHTS, _convert(tensors, arch, folder))
    write_json(out / "config.json", arch.model_dump())
    save_tokenizer(tokenizer, out / "tokenizer.json")
    return arch


def _convert(tensors: Mapping[str, Tensor], arch: Architecture, folder: Path) -> dict[str, Tensor]:
    with torch.device("meta"):
        encoder = whole_encoder(arch, Dropout()).state_dict()
    found, state = {}, dict[str, Tensor]()
    for name, tensor in tensors.items():
        stem, _, last = name.removeprefix(arch.prefix).rpartition(".")
        found[f"{stem}.{_OLD_NAMES.get(last, last)}"] = tensor
    new_pooler = f"{arch.tensors.get('pooler.dense')}.weight" not in found
    if new_pooler:
        log.warning(
            "%s: has no pooler. 'pooling: cls' starts from a new one, which gives tanh of the "
            "first token's state; 'mean' and 'max' need none",
            folder,
        )
    for ours, like in encoder.items():
        if new_pooler and ours.startswith("pooler."):
            # Not drawn: a frozen one would be a random map, and cached features know no seed.
            state[ours] = torch.eye(arch.hidden) if like.ndim == 2 else torch.zeros(arch.hidden)
        else:
            names = arch.hugging_face(ours)
            shape = [len(like) // len(names), *like.shape[1:]]
            state[ours] = torch.cat([_take(found, name, shape, folder) for name in names])
    return state


def _take(found: Mapping[str, Tensor], name: str, shape: list[int], folder: Path) -> Tensor:
    """Return a tensor of `found`, float32; `UserError` if it is missing or unfit."""
    wrapped = [given for given in found if given.endswith(f".{name}")]
    wrong = f"called '{wrapped[0]}', as in a wrapper" if wrapped else "missing"
    if name in found:
        tensor = found[name]
        wrong, full = f"{tensor.dtype} of shape {list(tensor.shape)}", tensor.float()
        if list(full.shape) == shape and tensor.is_floating_point() and full.isfinite().all():
            return full
    raise UserError(
        f"{folder}: tensor '{name}' of the weights is {wrong}, expected finite floating-point "
        f"numbers of shape {shape} by config.json; take both files from one model, which is not "
        "quantised; of a model in a wrapper save the encoder alone"
    )
