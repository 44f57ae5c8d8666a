"""ModernBERT: rotary positions, gated layers, attention to neighbours (Warner et al., 2024)."""

from typing import Literal

from minbert.spec.architecture import Architecture, EncoderParameters
from minbert.spec.model import Count, Positive


class ModernBert(Architecture):
    """An encoder without position table, token types, biases and pooler.

    Each `every`th layer, from the first on, attends to all tokens, with the rotary base
    `global_base`; the others to a `window` around each, with `local_base` (None: `global_base`).
    """

    family: str = "modernbert"
    types: Literal[0] = 0
    layer_norm_eps: Positive = 1e-5
    window: Count = 128
    every: Count = 3
    global_base: Positive = 160_000.0
    local_base: Positive | None = 10_000.0

    attention = "modernbert"
    bias = False
    norm_first = True
    gated = True
    kept = (16, 4)
    two_types = False
    tokenizer = "PreTrainedTokenizer"
    settings = {
        **{ours: name for ours, name in Architecture.settings.items() if ours != "types"},
        "layer_norm_eps": "norm_eps",
        "activation": "hidden_activation",
        "window": "local_attention",
        "every": "global_attn_every_n_layers",
        "global_base": "global_rope_theta",
        "local_base": "local_rope_theta",
    }
    # The last three are what transformers 5 writes instead of the settings above.
    only = {
        **dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias"), False),
        **dict.fromkeys(("rope_scaling", "rope_parameters", "layer_types")),
    }
    token_ids = {"cls_token_id": 0, "sep_token_id": -1}

    prefix = "model."
    layer_prefix = "layers."
    tensors = {"embeddings.word": "embeddings.tok_embeddings", "embeddings.norm": "embeddings.norm"}
    layer_tensors = {
        "attention.norm": ("attn_norm",),
        "attention.qkv": ("attn.Wqkv",),
        "attention.output": ("attn.Wo",),
        "feed_forward.norm": ("mlp_norm",),
        "feed_forward.inner": ("mlp.Wi",),
        "feed_forward.output": ("mlp.Wo",),
    }

    def hugging_face(self, name: str) -> list[str]:
        # The last layer has the norm that all of them share there.
        return ["final_norm.weight"] if "final_norm" in name else super().hugging_face(name)

    def parameters(self) -> EncoderParameters:
        found = super().parameters()
        first, *others = found.layers
        # The embeddings' norm is that of the first layer's attention.
        return found._replace(layers=(first - self.hidden, *others))
