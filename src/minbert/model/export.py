"""From an encoder of ours to a Hugging Face folder: the reverse of `convert`."""

from collections.abc import Mapping
from pathlib import Path

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
    write_json(folder / "config.json", config)
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
    tensors: dict[str, Tensor] = {}
    for ours, tensor in state.items():
        if "pooler.dense" in arch.tensors or not ours.startswith("pooler."):
            theirs = arch.hugging_face(ours)
            # Copies: parts of one tensor share memory, which safetensors refuses.
            parts = (part.clone() for part in tensor.chunk(len(theirs)))
            tensors |= zip(theirs, parts, strict=True)
    save_weights(folder / WEIGHTS, tensors, **HEADER)
