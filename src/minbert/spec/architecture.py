"""Shapes of an encoder, those of backbones known by name, and how many layers tasks share."""

from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, StrictInt

from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.spec.task import Spec

Size = Annotated[StrictInt, Field(ge=1)]

NUMBER = 4
"""Bytes of a number: weights, gradients and moments are fp32."""

TOKEN, PAIR = 20, 3
"""Numbers that a layer keeps for the backward pass: per token and hidden unit (if the inner layer
is four times as wide), and per head and pair of tokens."""


class Architecture(Spec):
    """An encoder's shapes. Sizes are counts; `layer_norm_eps` is the variance's floor."""

    family: Literal["bert"] = "bert"
    vocab_size: Size = 30522
    hidden: Size = 768
    layers: Size = 12
    heads: Size = 12
    intermediate: Size = 3072
    positions: Size = 512
    types: Size = 2
    layer_norm_eps: float = 1e-12

    def activation_bytes(self, tokens: Any) -> Any:
        """Estimate the bytes that training keeps for sequences of `tokens` (number or array)."""
        linear = TOKEN * self.intermediate / 4
        return self.layers * NUMBER * tokens * (linear + PAIR * self.heads * tokens)


BERT_BASE = Architecture()
BERT_LARGE = Architecture(hidden=1024, layers=24, heads=16, intermediate=4096)

FILES = ("config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "tokenizer_config.json")
"""The files of a Hugging Face folder that a backbone is made from, as far as present."""

KNOWN: dict[str, Architecture] = {
    "bert-base-uncased": BERT_BASE,
    "google-bert/bert-base-uncased": BERT_BASE,
    "bert-large-uncased": BERT_LARGE,
    "google-bert/bert-large-uncased": BERT_LARGE,
}
"""By hub name, for plans made before anything is downloaded."""

FAMILIES = ("bert",)


def from_hugging_face(path: Path) -> Architecture:
    """Read the architecture in a Hugging Face `config.json`.

    Raises `UserError` naming `path` for an unknown `model_type`, a missing or unfit size, or an
    activation other than BERT's exact GELU (Hendrycks and Gimpel, 2016).
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; a backbone is a folder in Hugging Face's layout")
    config = read_json(path)
    family = config.get("model_type")
    if family not in FAMILIES:
        raise UserError(
            f"{path}: model_type is {family!r}; known: {', '.join(FAMILIES)}. "
            "Choose a BERT backbone."
        )
    activation = config.get("hidden_act", "gelu")
    if activation != "gelu":
        raise UserError(f"{path}: hidden_act is {activation!r}; only 'gelu' is known")
    names = {
        "vocab_size": "vocab_size",
        "hidden": "hidden_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "intermediate": "intermediate_size",
        "positions": "max_position_embeddings",
        "types": "type_vocab_size",
    }
    missing = [theirs for theirs in names.values() if theirs not in config]
    if missing:
        raise UserError(f"{path}: has no {', '.join(missing)}; is it a Hugging Face config.json?")
    sizes = {ours: config[theirs] for ours, theirs in names.items()}
    shapes = Architecture(**sizes, layer_norm_eps=config.get("layer_norm_eps", 1e-12))
    if shapes.hidden % shapes.heads:
        raise UserError(
            f"{path}: hidden_size {shapes.hidden} is no multiple of num_attention_heads "
            f"{shapes.heads}"
        )
    return shapes


def read_architecture(path: Path) -> Architecture:
    """Read our own `config.json` of a backbone folder in the store."""
    return Architecture.model_validate(read_json(path))


class EncoderParameters(NamedTuple):
    """Parameters of an encoder's parts; `layer` is those of one layer."""

    embeddings: int
    layer: int
    pooler: int


def encoder_parameters(arch: Architecture) -> EncoderParameters:
    """Count the parts of one encoder of the given shapes."""
    norm = 2 * arch.hidden
    rows = arch.vocab_size + arch.positions + arch.types
    attention = 4 * linear(arch.hidden, arch.hidden)
    inner = linear(arch.hidden, arch.intermediate) + linear(arch.intermediate, arch.hidden)
    return EncoderParameters(
        embeddings=rows * arch.hidden + norm,
        layer=attention + inner + 2 * norm,
        pooler=linear(arch.hidden, arch.hidden),
    )


def linear(inputs: int, outputs: int) -> int:
    """Return the parameters of a linear layer with a bias."""
    return (inputs + 1) * outputs


def shared_depth(shared_layers: float | str, layers: int) -> int | None:
    """Return how many of `layers` are shared; None if nothing is, not even the embeddings.

    A fraction (float) is rounded to the nearest number, halves to even. Raises `UserError` for
    more layers than there are.
    """
    if isinstance(shared_layers, str):
        return layers if shared_layers == "all" else None
    depth = round(shared_layers * layers) if isinstance(shared_layers, float) else shared_layers
    if depth > layers:
        raise UserError(
            f"shared_layers is {shared_layers}, but the backbone has {layers} layers; give a "
            f"number from 0 to {layers}, a fraction, 'all' or 'none'"
        )
    return depth
