"""Adapter tuning: bottlenecks in a frozen encoder, and heads (Houlsby et al., 2019)."""

from typing import Any

from minbert.model.adapter import add_adapters, without_backbone
from minbert.model.encoder import SharedEncoder
from minbert.spec.stage import StageSpec
from minbert.train.finetune import Finetuned


class AdapterTuned(Finetuned):
    """Adapters, trained by all tasks of the stage, and heads; the backbone is frozen, not saved."""

    trained = staticmethod(without_backbone)

    @staticmethod
    def insert(encoder: SharedEncoder, spec: StageSpec, state: Any) -> None:
        assert spec.adapter is not None
        add_adapters(encoder, spec.adapter.width)
