"""A Hugging Face folder of an encoder: converted to a backbone folder of ours, and written."""

import logging
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from minbert.base.errors import UserError
from minbert.base.files import write_json, write_text
from minbert.data.tokenizer import folder_tokenizer, framing, load_tokenizer
from minbert.model.encoder import whole_encoder
from minbert.model.weights import load_weights, save_weights
from minbert.spec.architecture import WEIGHTS, Architecture
from minbert.spec.hugging_face import ACTIVATIONS, backbone_files, from_hugging_face
from minbert.spec.stage import Dropout

log = logging.getLogger(__name__)
_OLD_NAMES = {"gamma": "weight", "beta": "bias"}  # TensorFlow's, of a norm
HEADER = {"format": "pt"}
"""What `transformers` asks for in the header of weights."""


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
            "code, and are refused: use a revision that has the file, or convert them where you "
            "trust them, by transformers' save_pretrained(..., safe_serialization=True)"
        )
    tensors = {name: tensor for path in paths for name, tensor in load_weights(path).items()}
    save_weights(out / WEIGHTS, _convert(tensors, arch, folder))
    write_json(out / "config.json", arch.model_dump())
    write_text(out / "tokenizer.json", tokenizer.to_str(pretty=True))
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
        log.warning("%s: has no pooler; 'pooling: cls' starts from tanh of a first token", folder)
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
        f"numbers of shape {shape}, not quantised; of a wrapper save the encoder alone"
    )


def write_hugging_face(
    out: Path, state: dict[str, Tensor], arch: Architecture, tokenizer_json: Path, max_length: int
) -> None:
    """Write what `AutoModel` and `AutoTokenizer` load of an encoder's `state` and a tokenizer.

    A pooler is left out if the kind of encoder has none. Sequences are cut to `max_length` tokens.
    """
    tokenizer = load_tokenizer(tokenizer_json)
    around = framing(tokenizer, tokenizer_json)
    # RoBERTa's positions are counted from this id; elsewhere padding is masked, whatever it is.
    padding = arch.first_position - 1 if arch.first_position else tokenizer.token_to_id("[PAD]")
    ends = {0: around.before[0], -1: around.after[-1]}
    names = arch.settings
    config = {
        **{"model_type": arch.family, "dtype": "float32", **arch.only},
        **{theirs: getattr(arch, ours) for ours, theirs in names.items()},
        **{name: ends[place] for name, place in arch.token_ids.items()},
        names["positions"]: arch.first_position + arch.positions,
        names["activation"]: next(n for n, ours in ACTIVATIONS.items() if ours == arch.activation),
        "pad_token_id": padding or 0,
    }
    if "embedding" in names:
        config[names["embedding"]] = arch.embedding or arch.hidden
    write_json(out / "config.json", config)
    types = ["token_type_ids"] if arch.two_types else []
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": ["input_ids", *types, "attention_mask"],
        "cls_token": tokenizer.id_to_token(ends[0]),
        "sep_token": tokenizer.id_to_token(ends[-1]),
        "pad_token": tokenizer.id_to_token(padding or 0),
    }
    write_json(out / "tokenizer_config.json", settings)
    write_text(out / "tokenizer.json", tokenizer.to_str(pretty=True))
    tensors: dict[str, Tensor] = {}
    for ours, tensor in state.items():
        if "pooler.dense" in arch.tensors or not ours.startswith("pooler."):
            theirs = arch.hugging_face(ours)
            # Copies: parts of one tensor share memory, which safetensors refuses.
            parts = (part.clone() for part in tensor.chunk(len(theirs)))
            tensors |= zip(theirs, parts, strict=True)
    save_weights(out / WEIGHTS, tensors, **HEADER)
