"""ModernBERT: rotary positions, gated layers, attention to neighbours (Warner et al., 2024)."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, StrictInt

from minbert.base.errors import UserError
from minbert.spec.architecture import Architecture, EncoderParameters, Size, linear

Base = Annotated[float, Field(gt=1)]

_WHOLE, _LOCAL = "full_attention", "sliding_attention"
_CHECKED = "transformers 4.57 and 5.23"
"""The versions whose files and states were compared with ours."""


class ModernBert(Architecture):
    """An encoder without position table, token types, biases and pooler.

    Each `every`th layer, from the first on, attends to all tokens, with the rotary base
    `global_base`; the others to a `window` around each, with `local_base` (None: `global_base`).
    """

    family: str = "modernbert"
    types: Annotated[StrictInt, Field(ge=0, le=0)] = 0
    window: Size = 128
    every: Size = 3
    global_base: Base = 160_000.0
    local_base: Base | None = 10_000.0

    encoder: ClassVar[str] = "modernbert"
    kept: ClassVar[tuple[int, int]] = (16, 4)
    two_types: ClassVar[bool] = False
    tokenizer: ClassVar[str] = "PreTrainedTokenizer"
    settings: ClassVar[Mapping[str, str]] = {
        **{ours: name for ours, name in Architecture.settings.items() if ours != "types"},
        "layer_norm_eps": "norm_eps",
        "activation": "hidden_activation",
        "window": "local_attention",
        "every": "global_attn_every_n_layers",
        "global_base": "global_rope_theta",
        "local_base": "local_rope_theta",
    }
    # The last three are in one of two layouts: see `finalize`.
    defaults: ClassVar[Mapping[str, Any]] = {
        **{"layer_norm_eps": 1e-5, "activation": "gelu"},
        **{"every": 3, "global_base": 160_000.0, "local_base": 10_000.0},
    }
    only: ClassVar[Mapping[str, Any]] = {
        **dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias"), False),
        "rope_scaling": None,
    }
    token_ids: ClassVar[Mapping[str, int]] = {"cls_token_id": 0, "sep_token_id": -1}

    prefix: ClassVar[str] = "model."
    layer_prefix: ClassVar[str] = "layers."
    tensors: ClassVar[Mapping[str, str]] = {
        "embeddings.word": "embeddings.tok_embeddings",
        "embeddings.norm": "embeddings.norm",
    }
    layer_tensors: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "attention.norm": ("attn_norm",),
        "attention.qkv": ("attn.Wqkv",),
        "attention.output": ("attn.Wo",),
        "feed_forward.norm": ("mlp_norm",),
        "feed_forward.inner": ("mlp.Wi",),
        "feed_forward.output": ("mlp.Wo",),
    }

    @property
    def position_rows(self) -> int:
        return 0

    def finalize(self, config: Mapping[str, Any]) -> Self:
        """Read `layer_types` and `rope_parameters`, which transformers writes from version 5 on.

        Until then it wrote `global_attn_every_n_layers`, `global_rope_theta`, `local_rope_theta`.
        Raises `UserError` for layers or positions that are not computed here.
        """
        if self.hidden // self.heads % 2:
            raise UserError(
                f"hidden_size {self.hidden} gives {self.heads} heads an odd width, expected an "
                "even one, whose halves are rotated"
            )
        if self.window % 2:
            raise UserError(
                f"local_attention is {self.window}, expected an even number, half of it each way"
            )
        found: dict[str, Any] = {}
        if (types := config.get("layer_types")) is not None:
            rest = types[1:] if isinstance(types, list) else []
            every = self.every  # as the older layout says; if it does not, as the next whole layer
            if self.settings["every"] not in config:
                every = rest.index(_WHOLE) + 1 if _WHOLE in rest else self.layers
            if types != [_LOCAL if n % every else _WHOLE for n in range(self.layers)]:
                raise UserError(
                    f"layer_types is {repr(types)[:80]}, expected {self.layers} entries: {_WHOLE} "
                    f"for the first and each {every} after it, {_LOCAL} for the others"
                )
            found["every"] = every
        if (ropes := config.get("rope_parameters")) is not None:
            for ours, kind in (("global_base", _WHOLE), ("local_base", _LOCAL)):
                of = ropes.get(kind) if isinstance(ropes, dict) else None
                theta = of.get("rope_theta") if isinstance(of, dict) else None
                if theta is None or of != {"rope_type": "default", "rope_theta": theta}:
                    raise UserError(
                        f"rope_parameters.{kind} is {repr(of)[:80]}, expected 'rope_type': "
                        "'default' and a 'rope_theta' alone"
                    )
                old = self.settings[ours]
                if old in config and (getattr(self, ours) or self.global_base) != theta:
                    raise UserError(
                        f"{old} is {config[old]!r}, but rope_parameters.{kind} has {theta!r}: "
                        "which of them do the weights belong to?"
                    )
                found[ours] = theta
        for new, given in {
            "layer_types": ("every",),
            "rope_parameters": ("global_base", "local_base"),
        }.items():
            missing = [self.settings[n] for n in given if self.settings[n] not in config]
            if missing and config.get(new) is None:
                raise UserError(
                    f"has no {' and '.join(missing)}, nor {new} (checked: {_CHECKED}); is it a "
                    "Hugging Face config.json?"
                )
        return self.model_copy(update=found)

    def hugging_face(self, name: str) -> list[str]:
        # The last layer has the norm that all of them share there.
        return ["final_norm.weight"] if "final_norm" in name else super().hugging_face(name)

    def parameters(self) -> EncoderParameters:
        layer = self.hidden * (4 * self.hidden + 3 * self.intermediate + 2)
        layers = [layer] * self.layers
        layers[0] -= self.hidden  # the embeddings' norm is that of its attention
        layers[-1] += self.hidden
        return EncoderParameters(
            embeddings=(self.vocab_size + 1) * self.hidden,
            layers=tuple(layers),
            pooler=linear(self.hidden, self.hidden),
        )
