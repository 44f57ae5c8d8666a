"""Shapes of an encoder, those of backbones known by name, and how many layers tasks share."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, StrictInt, ValidationError
from pydantic_core import ErrorDetails

from minbert.base.errors import UserError, no_file
from minbert.base.files import read_json
from minbert.spec.task import Spec

Size = Annotated[StrictInt, Field(ge=1, le=2**24)]

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
    layers: Annotated[Size, Field(le=256)] = 12
    heads: Size = 12
    intermediate: Size = 3072
    positions: Annotated[Size, Field(ge=8)] = 512
    types: Size = 2
    layer_norm_eps: Annotated[float, Field(gt=0, le=1, strict=True)] = 1e-12

    def activation_bytes(self, tokens: Any) -> Any:
        """Estimate the bytes that training keeps for sequences of `tokens` (number or array)."""
        linear = TOKEN * self.intermediate / 4
        return self.layers * NUMBER * tokens * (linear + PAIR * self.heads * tokens)


BERT_BASE = Architecture()
BERT_LARGE = Architecture(hidden=1024, layers=24, heads=16, intermediate=4096)

WEIGHTS = "model.safetensors"
SHARDS = "model.safetensors.index.json"
"""Says which of several files has which tensor; counts if there is no `WEIGHTS`."""
FILES = ("config.json", WEIGHTS, "tokenizer.json", "vocab.txt", "tokenizer_config.json")
"""The files of a Hugging Face folder that a backbone is made from, as far as present."""

KNOWN: dict[str, Architecture] = {
    "bert-base-uncased": BERT_BASE,
    "google-bert/bert-base-uncased": BERT_BASE,
    "bert-large-uncased": BERT_LARGE,
    "google-bert/bert-large-uncased": BERT_LARGE,
}
"""By hub name, for plans made before anything is downloaded."""

FAMILIES = ("bert",)
_MOST_PARAMETERS = 20_000_000_000

_ONLY = {
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
"""Settings of Hugging Face that have one value in every encoder we know."""


def from_hugging_face(path: Path) -> Architecture:
    """Read the architecture in a Hugging Face `config.json`.

    Raises `UserError` naming `path` for an unknown `model_type`, a missing or unfit size, an
    activation other than BERT's exact GELU (Hendrycks and Gimpel, 2016), or another kind of model.
    """
    if not path.is_file():
        wrong = no_file(path) or "no such file"
        raise UserError(f"{path}: {wrong}; a backbone is a folder in Hugging Face's layout")
    config = read_json(path)
    family = config.get("model_type")
    if family not in FAMILIES:
        raise UserError(
            f"{path}: model_type is {family!r}; known: {', '.join(FAMILIES)}. "
            "Choose a BERT backbone."
        )
    for name, only in _ONLY.items():
        if (found := config.get(name)) not in (None, only):
            raise UserError(f"{path}: {name} is {repr(found)[:80]}; only {only!r} is known")
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
    try:
        shapes = Architecture(**sizes, layer_norm_eps=config.get("layer_norm_eps", 1e-12))
    except ValidationError as error:
        raise UserError("\n".join(_problem(path, names, e) for e in error.errors())) from None
    if shapes.hidden % shapes.heads:
        raise UserError(
            f"{path}: hidden_size {shapes.hidden} is no multiple of num_attention_heads "
            f"{shapes.heads}"
        )
    parts = encoder_parameters(shapes)
    if (total := parts.embeddings + shapes.layers * parts.layer) > _MOST_PARAMETERS:
        raise UserError(
            f"{path}: describes {total:,} parameters, expected at most {_MOST_PARAMETERS:,}; "
            "does it belong to the weights?"
        )
    return shapes


def _problem(path: Path, names: Mapping[str, str], error: ErrorDetails) -> str:
    name = str(error["loc"][0])
    wanted = error["msg"].replace("Input should be", "expected")
    return f"{path}: {names.get(name, name)} is {repr(error['input'])[:80]}; {wanted}"


def backbone_files(folder: Path) -> list[Path]:
    """Return the files of a Hugging Face folder that a backbone is made from: `FILES`, shards."""
    found = [folder / name for name in FILES]
    if not (folder / WEIGHTS).is_file() and (folder / SHARDS).is_file():
        found += [folder / SHARDS, *sorted({folder / name for name in shards(folder).values()})]
    return [path for path in found if path.is_file()]


def shards(folder: Path) -> dict[str, str]:
    """Return {tensor: file name} of sharded weights; `UserError` for a damaged index."""
    path = folder / SHARDS
    files = read_json(path).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise UserError(f"{path}: has no weight_map; is it the index of safetensors files?")
    for tensor, name in files.items():
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+\.safetensors", name, re.ASCII):
            raise UserError(
                f"{path}: tensor '{tensor}' is in {str(name)[:80]!r}, expected the name of a "
                "safetensors file beside it"
            )
    return files


def read_architecture(path: Path) -> Architecture:
    """Read our own `config.json` of a backbone folder in the store; `UserError` if damaged."""
    try:
        return Architecture.model_validate(read_json(path))
    except ValidationError as error:
        wrong = _problem(path, {}, error.errors()[0])
    except UserError as error:
        wrong = str(error)
    raise UserError(f"{wrong}; delete {path.parent}: `snakemake all --cores 2` makes it again")


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


def check_pairing(where: str, pairing: str | None, arch: Architecture) -> None:
    """Raise `UserError` for cross pairs and an encoder that has one token type for both."""
    if pairing == "cross" and arch.types < 2:
        raise UserError(
            f"{where} has 'pairing: cross', whose second sentence has a token type of its own, but "
            f"the backbone's type_vocab_size is {arch.types}; choose 'pairing: siamese' with "
            "'features', or another backbone"
        )


class Shared(NamedTuple):
    """What the tasks of a stage share of an encoder; each has a copy of the rest."""

    layers: range
    embeddings: bool
    pooler: bool


def shared_parts(shared_layers: float | str, shared_end: str, layers: int) -> Shared:
    """Return what is shared of an encoder of so many `layers`.

    From the bottom: the embeddings and the first of them. From the `top`: the last of them and the
    pooler, as in SerBERTus. With all layers, everything. Raises `UserError` for more layers than
    there are, and for none from the top.
    """
    depth = shared_depth(shared_layers, layers)
    if depth is None:
        return Shared(range(0), embeddings=False, pooler=False)
    if shared_end == "bottom":
        return Shared(range(depth), embeddings=True, pooler=depth == layers)
    if depth == 0:
        raise UserError(
            f"shared_layers is {shared_layers}, none of {layers} layers, with 'shared_end: top'; "
            "share one or more, or give 'none'"
        )
    return Shared(range(layers - depth, layers), embeddings=depth == layers, pooler=True)


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
