"""From an encoder of ours to a Hugging Face folder: the reverse of `convert`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from minbert.base.files import write_json
from minbert.data.tokenizer import framing, load_tokenizer, save_tokenizer
from minbert.model.sharing import SharedEncoder
from minbert.model.weights import save_weights
from minbert.spec.architecture import WEIGHTS, Architecture
from minbert.spec.hugging_face import ACTIVATIONS

HEADER = {"format": "pt"}
"""What `transformers` asks for in the header of weights."""


def state_of(encoder: SharedEncoder, task: str) -> dict[str, Tensor]:
    """Return the encoder of `task`, what it shares and its own, by the names of `whole_encoder`."""
    return {**encoder.shared.state_dict(), **encoder.own[task].state_dict()}


def write_hugging_face(
    folder: Path,
    state: Mapping[str, Tensor],
    arch: Architecture,
    tokenizer_json: Path,
    max_length: int,
) -> None:
    """Write what `AutoModel` and `AutoTokenizer` load: an encoder's `state`, and its tokenizer.

    `state` has the names of `whole_encoder`; a pooler is left out if the kind of encoder has none.
    Sequences are truncated to `max_length` tokens by default.
    """
    tokenizer = load_tokenizer(tokenizer_json)
    around = framing(tokenizer, tokenizer_json)
    # RoBERTa's positions are counted from this id; elsewhere padding is masked, whatever it is.
    padding = arch.first_position - 1 if arch.first_position else tokenizer.token_to_id("[PAD]")
    ends = {0: around.before[0], -1: around.after[-1]}
    config = _config(arch) | {name: ends[place] for name, place in arch.token_ids.items()}
    write_json(folder / "config.json", {**config, "pad_token_id": padding or 0})
    types = ["token_type_ids"] if arch.two_types else []
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": ["input_ids", *types, "attention_mask"],
        "cls_token": tokenizer.id_to_token(ends[0]),
        "sep_token": tokenizer.id_to_token(ends[-1]),
        "pad_token": tokenizer.id_to_token(padding or 0),
    }
    write_json(folder / "tokenizer_config.json", settings)
    save_tokenizer(tokenizer, folder / "tokenizer.json")
    save_weights(folder / WEIGHTS, _tensors(state, arch), **HEADER)


def _config(arch: Architecture) -> dict[str, Any]:
    names = arch.settings
    config = {theirs: getattr(arch, ours) for ours, theirs in names.items()}
    config[names["positions"]] = arch.first_position + arch.positions
    usual = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
    config[names["activation"]] = usual[arch.activation]
    if "embedding" in names:
        config[names["embedding"]] = arch.embedding or arch.hidden
    return {"model_type": arch.family, "dtype": "float32", **arch.only, **config}


def _tensors(state: Mapping[str, Tensor], arch: Architecture) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for ours, tensor in state.items():
        if ours.startswith("pooler.") and "pooler.dense" not in arch.tensors:
            continue
        names = arch.hugging_face(ours)
        # Copies: parts of one tensor share memory, which safetensors refuses.
        parts = (part.clone() for part in tensor.chunk(len(names)))
        found |= zip(names, parts, strict=True)
    return found
