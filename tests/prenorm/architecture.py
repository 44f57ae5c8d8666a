"""RoBERTa with norms before its sublayers, and one after the last layer (Ott et al., 2019)."""

from collections.abc import Mapping
from typing import ClassVar

from minbert.spec.encoders.bert_like import Roberta


class PreNormRoberta(Roberta):
    family: str = "roberta-prelayernorm"

    norm_first: ClassVar[bool] = True
    prefix: ClassVar[str] = "roberta_prelayernorm."
    layer_tensors: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **Roberta.layer_tensors,
        "attention.norm": ("attention.LayerNorm",),
        "feed_forward.norm": ("intermediate.LayerNorm",),
    }

    def hugging_face(self, name: str) -> list[str]:
        if "final_norm" not in name:
            return super().hugging_face(name)
        return [f"LayerNorm.{name.rpartition('.')[2]}"]
