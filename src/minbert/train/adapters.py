"""Few weights of a frozen encoder, and heads: by adapters (Houlsby et al., 2019) or LoRA."""

from typing import Any

from minbert.model.adapter import add_adapters, without_backbone
from minbert.model.encoder import SharedEncoder
from minbert.model.lora import add_lora
from minbert.spec.stage import StageSpec
from minbert.train.finetune import Finetuned


class AdapterTuned(Finetuned):
    """Adapters, trained by all tasks of the stage, and heads; the backbone is frozen, not saved."""

    trained = staticmethod(without_backbone)

    @staticmethod
    def insert(encoder: SharedEncoder, spec: StageSpec, state: Any) -> None:
        assert spec.adapter is not None
        add_adapters(encoder, spec.adapter.width)


class LoRATuned(AdapterTuned):
    """Low-rank changes to queries and values, trained by all tasks of the stage, and heads."""

    @staticmethod
    def insert(encoder: SharedEncoder, spec: StageSpec, state: Any) -> None:
        assert spec.lora is not None
        add_lora(encoder, spec.lora.rank, spec.lora.alpha)
