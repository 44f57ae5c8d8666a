"""Adapter tuning: bottlenecks in a frozen encoder, and heads (Houlsby et al., 2019)."""

from typing import Any

from minbert.model.adapter import add_adapters, without_backbone
from minbert.model.sharing import SharedEncoder
from minbert.spec.stage import StageSpec
from minbert.train.finetune import Finetuned


class AdapterTuned(Finetuned):
    """One set of adapters, trained by all tasks of the stage, and one head per task.

    The backbone is frozen and not saved; its dropout stays on in training.
    """

    trained = staticmethod(without_backbone)

    @staticmethod
    def insert(encoder: SharedEncoder, spec: StageSpec, state: Any) -> None:
        assert spec.adapter is not None
        add_adapters(encoder, spec.adapter.width)
