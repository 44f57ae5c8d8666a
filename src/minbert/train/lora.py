"""LoRA tuning: low-rank changes of a frozen encoder, and heads (Hu et al., 2022)."""

from minbert.model.encoder import SharedEncoder
from minbert.model.lora import add_lora
from minbert.spec.stage import StageSpec
from minbert.train.adapters import AdapterTuned


class LoRATuned(AdapterTuned):
    """One set of changes to queries and values, trained by all tasks of the stage, and heads."""

    @staticmethod
    def insert(encoder: SharedEncoder, spec: StageSpec, state: object) -> None:
        assert spec.lora is not None
        add_lora(encoder, spec.lora.rank, spec.lora.alpha)
