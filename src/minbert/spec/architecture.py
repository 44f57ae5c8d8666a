"""Shapes of an encoder, those of backbones known by name, and how many layers tasks share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.spec.model import Count, Positive, Spec
from minbert.spec.parts import PARTS, load_part, part_module
from minbert.spec.yaml import validated

NUMBER = 4  # bytes: weights, gradients and moments are fp32
PAIR = 3  # numbers that a layer keeps for the backward pass per head and pair of tokens
WEIGHTS = "model.safetensors"


class EncoderParameters(NamedTuple):
    """Parameters of an encoder's parts; `layers` are those of each layer."""

    embeddings: int
    layers: tuple[int, ...]
    pooler: int

    @property
    def total(self) -> int:
        return self.embeddings + sum(self.layers) + self.pooler


class Architecture(Spec):
    """An encoder's shapes and settings, and how its kind writes them: here BERT's.

    `layer_norm_eps` is added to variances. Embeddings are `embedding` wide if that is not None,
    and then mapped to `hidden`. A row has at most `positions` tokens, the first of which is number
    `first_position` in their table. A different kind of encoder is a subclass in its own module.
    """

    family: str = "bert"
    vocab_size: Count = 30522
    hidden: Count = 768
    layers: Count = 12
    heads: Count = 12
    intermediate: Count = 3072
    positions: Count = 512
    types: Count = 2
    layer_norm_eps: Positive = 1e-12
    embedding: Count | None = None
    first_position: int = 0
    activation: Literal["gelu", "gelu_tanh"] = "gelu"

    attention: ClassVar[str] = "bert"  # the part that computes it, of PARTS["attention"]
    bias: ClassVar[bool] = True
    norm_first: ClassVar[bool] = False
    gated: ClassVar[bool] = False
    """Whether maps and norms have biases, norms come before the sublayers and once more after the
    last, and inner units are multiplied by as many gates."""
    kept: ClassVar[tuple[int, int]] = (0, 5)
    """Numbers that a layer keeps for the backward pass per token and hidden unit, and per token and
    unit of the inner layer."""
    two_types: ClassVar[bool] = True  # whether a pair's second sentence has a different one
    tokenizer: ClassVar[str] = "BertTokenizer"  # of transformers, if no file names one

    settings: ClassVar[Mapping[str, str]] = {
        "vocab_size": "vocab_size",
        "hidden": "hidden_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "intermediate": "intermediate_size",
        "positions": "max_position_embeddings",
        "types": "type_vocab_size",
        "layer_norm_eps": "layer_norm_eps",
        "activation": "hidden_act",
    }
    """What Hugging Face's `config.json` calls ours."""
    only: ClassVar[Mapping[str, Any]] = {
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
    }
    """Settings there that have one value in every encoder that we know."""
    token_ids: ClassVar[Mapping[str, int]] = {}
    """Settings there that are ids of a sequence's first (0) or last (-1) token."""
    after_padding: ClassVar[bool] = False  # whether the first position is that of padding's id + 1

    prefix: ClassVar[str] = "bert."  # of its tensors' names in weights that have heads, too
    layer_prefix: ClassVar[str] = "encoder.layer."
    tensors: ClassVar[Mapping[str, str]] = {
        "embeddings.word": "embeddings.word_embeddings",
        "embeddings.position": "embeddings.position_embeddings",
        "embeddings.token_type": "embeddings.token_type_embeddings",
        "embeddings.norm": "embeddings.LayerNorm",
        "pooler.dense": "pooler.dense",
    }
    """Hugging Face's names of our tensors outside the layers, without `weight` and `bias`."""
    layer_tensors: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "attention.qkv": tuple(f"attention.self.{part}" for part in ("query", "key", "value")),
        "attention.output": ("attention.output.dense",),
        "attention.norm": ("attention.output.LayerNorm",),
        "feed_forward.inner": ("intermediate.dense",),
        "feed_forward.output": ("output.dense",),
        "feed_forward.norm": ("output.LayerNorm",),
    }
    """Those of a layer; the rows of several are stacked."""

    @property
    def position_rows(self) -> int:
        """Rows of the table of positions; 0 if there is none."""
        has = "embeddings.position" in self.tensors
        return self.first_position + self.positions if has else 0

    def hugging_face(self, name: str) -> list[str]:
        """Return the Hugging Face tensors whose rows, stacked, are our tensor `name`."""
        part, _, kind = name.rpartition(".")
        if part in self.tensors:
            return [f"{self.tensors[part]}.{kind}"]
        _, number, inside = part.split(".", 2)
        return [f"{self.layer_prefix}{number}.{i}.{kind}" for i in self.layer_tensors[inside]]

    def parameters(self) -> EncoderParameters:
        """Count the parameters of each part of one encoder."""
        width = self.embedding or self.hidden
        rows = self.vocab_size + self.position_rows + self.types
        a_norm = 1 + self.bias
        attention = 4 * (self.hidden + self.bias) * self.hidden
        inner = (1 + self.gated) * (self.hidden + self.bias) * self.intermediate
        outer = (self.intermediate + self.bias) * self.hidden
        layers = [attention + inner + outer + 2 * a_norm * self.hidden] * self.layers
        if self.norm_first:
            layers[-1] += a_norm * self.hidden
        embeddings = (rows + a_norm) * width
        if self.embedding:
            embeddings += linear(width, self.hidden)
        return EncoderParameters(embeddings, tuple(layers), linear(self.hidden, self.hidden))

    def activation_bytes(self, tokens: Any) -> Any:
        """Estimate the bytes that training keeps for sequences of `tokens` (number or array)."""
        a_token = self.kept[0] * self.hidden + self.kept[1] * self.intermediate
        return self.layers * NUMBER * tokens * (a_token + PAIR * self.heads * tokens)


def training_bytes(parameters: int, trained: int, gradients: int = 1) -> int:
    """Return the bytes of weights, and of gradients and AdamW's two moments of those trained."""
    return NUMBER * (parameters + (gradients + 2) * trained)


def linear(inputs: int, outputs: int) -> int:
    """Return the parameters of a linear layer with a bias."""
    return (inputs + 1) * outputs


BERT_BASE = Architecture()

KNOWN = dict.fromkeys(("bert-base-uncased", "google-bert/bert-base-uncased"), BERT_BASE)
"""By hub name, for plans made before anything is downloaded."""


def architecture_of(values: Mapping[str, Any]) -> Architecture:
    """Return the architecture that was dumped as `values`; `UserError` for what is wrong."""
    kind: type[Architecture] = load_part("architecture", values.get("family", "bert"))
    return validated(kind, values)


def read_architecture(path: Path) -> Architecture:
    """Read our own `config.json` of a backbone folder in the store."""
    return architecture_of(read_json(path))


def architecture_parts(arch: Architecture | None) -> tuple[str, ...]:
    """Return the modules of an encoder's kind; of every kind if `arch` is not known yet."""
    if arch is None:
        kinds = ("architecture", "attention")
        return tuple(part_module(kind, name) for kind in kinds for name in PARTS[kind])
    return part_module("architecture", arch.family), part_module("attention", arch.attention)


class Parts(NamedTuple):
    """Parts of an encoder, such as those that the tasks of a stage share."""

    layers: Sequence[int]
    embeddings: bool
    pooler: bool


def shared_parts(
    shared_layers: float | Literal["all", "none"], shared_end: str, layers: int
) -> Parts:
    """Return what is shared of an encoder of so many `layers`.

    From the bottom: the embeddings and the first of them. From the `top`: the last of them and the
    pooler, as in SerBERTus. With `all` layers, everything; with `none`, nothing. A fraction (float)
    of them is rounded to the nearest number, halves to even. Raises `UserError` for more layers
    than there are, and for none from the top.
    """
    if shared_layers == "none":
        return Parts(range(0), embeddings=False, pooler=False)
    share = 1.0 if shared_layers == "all" else shared_layers
    depth = round(share * layers) if isinstance(share, float) else share
    least = int(shared_end == "top")
    if not least <= depth <= layers:
        raise UserError(
            f"shared_layers is {shared_layers}, {depth} of the backbone's {layers} layers; from "
            f"the {shared_end} give {least} to {layers}, a fraction of them, 'all' or 'none'"
        )
    if shared_end == "bottom":
        return Parts(range(depth), embeddings=True, pooler=depth == layers)
    return Parts(range(layers - depth, layers), embeddings=depth == layers, pooler=True)
