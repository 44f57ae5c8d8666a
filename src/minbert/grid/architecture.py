"""Shapes of an encoder, and those of backbones known by name. Knows no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt

from minbert.common.errors import UserError, nearest
from minbert.common.files import read_json
from minbert.grid.task_spec import Spec

Size = Annotated[StrictInt, Field(ge=1)]

NUMBER = 4
"""Bytes of a number: weights, gradients and moments are fp32."""

TOKEN, PAIR = 20, 3
"""Numbers that a layer keeps for the backward pass: a token and hidden unit (where the inner layer
is four times as wide), and a pair of tokens and head (weights, what dropout left, factors)."""


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
        """Estimate what training keeps, bytes, for sequences of `tokens`: a number, or an array."""
        linear = TOKEN * self.intermediate / 4
        return self.layers * NUMBER * tokens * (linear + PAIR * self.heads * tokens)


BERT_BASE = Architecture()
BERT_LARGE = Architecture(hidden=1024, layers=24, heads=16, intermediate=4096)

KNOWN: dict[str, Architecture] = {
    "bert-base-uncased": BERT_BASE,
    "google-bert/bert-base-uncased": BERT_BASE,
    "bert-large-uncased": BERT_LARGE,
    "google-bert/bert-large-uncased": BERT_LARGE,
}
"""Hub names whose shapes a plan needs before anything is downloaded."""

FAMILIES = ("bert",)


def from_hugging_face(config: Mapping[str, Any], where: Path | str) -> Architecture:
    """Return the architecture of a Hugging Face `config.json`, already parsed.

    Raises `UserError` naming `where` for an unknown `model_type`, a missing size, or an
    activation other than the exact GELU (Hendrycks and Gimpel, 2016) that BERT has.
    """
    family = config.get("model_type")
    if family not in FAMILIES:
        raise UserError(
            f"{where}: model_type is {family!r}; known: {', '.join(FAMILIES)}."
            f"{nearest(str(family), FAMILIES)} Choose a BERT backbone."
        )
    activation = config.get("hidden_act", "gelu")
    if activation != "gelu":
        raise UserError(f"{where}: hidden_act is {activation!r}; only 'gelu' is known")
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
        raise UserError(f"{where}: has no {', '.join(missing)}; is it a Hugging Face config.json?")
    sizes = {ours: config[theirs] for ours, theirs in names.items()}
    return Architecture(**sizes, layer_norm_eps=config.get("layer_norm_eps", 1e-12))


def read_architecture(path: Path) -> Architecture:
    """Read our own `config.json` of a backbone folder in the store."""
    return Architecture.model_validate(read_json(path))
