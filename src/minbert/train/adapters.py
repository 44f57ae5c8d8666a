"""Tuning of what is inserted into a frozen encoder, and of heads: adapters, their fusion, LoRA."""

from typing import Any

from minbert.model.adapter import (
    adapter_widths,
    add_adapters,
    add_fusion,
    fused,
    sublayers,
    without_backbone,
)
from minbert.model.encoder import SharedEncoder
from minbert.model.lora import add_lora
from minbert.model.weights import load_weights
from minbert.spec.stage import StageSpec
from minbert.train.trainable import Finetuned, Sources


class AdapterTuned(Finetuned):
    """Adapters, trained by all tasks of the stage, and heads (Houlsby et al., 2019).

    The backbone is frozen, and not saved.
    """

    trained = staticmethod(without_backbone)

    @staticmethod
    def insert(encoder: SharedEncoder, spec: StageSpec, state: Any) -> None:
        assert spec.adapter is not None
        add_adapters(encoder, spec.adapter.width)


class FusionTuned(AdapterTuned):
    """A fusion of the frozen adapters of earlier stages, with new heads; all of it is saved.

    It is AdapterFusion (Pfeiffer et al., 2021).
    """

    @staticmethod
    def insert(encoder: SharedEncoder, spec: StageSpec, state: Any) -> None:
        add_fusion(encoder, adapter_widths(state))

    def start(self, sources: Sources) -> None:
        adapters = fused([load_weights(path) for path in sources.adapters])
        self.insert(self.module.encoder, self.module.spec, adapters)
        self.module.load_state_dict(adapters, strict=False)

    def details(self, task: str) -> dict[str, float]:
        """Return the mean attention over the adapters on dev, by `fusion_attention/LAYER/PLACE/N`.

        LAYER counts from 1, PLACE is `attention` or `feed_forward`, N counts the adapters in `fuse`
        from 0. The mean is over the tokens of dev's distinct sequences; it sums to 1 over N.
        """
        fusions = {}
        for name, sublayer in sublayers(self.module.encoder):
            layer, place = name.split(".")[-2:]
            fusions[f"{int(layer) + 1}/{place}"] = sublayer.adapter
            sublayer.adapter.attention = 0.0
        self.outputs(task, "dev")
        return {
            f"fusion_attention/{place}/{number}": weight
            for place, fusion in fusions.items()
            for number, weight in enumerate((fusion.attention / fusion.attention.sum()).tolist())
        }


class LoRATuned(AdapterTuned):
    """Low-rank changes to queries and values, by all tasks, and heads (Hu et al., 2022)."""

    @staticmethod
    def insert(encoder: SharedEncoder, spec: StageSpec, state: Any) -> None:
        assert spec.lora is not None
        add_lora(encoder, spec.lora.rank, spec.lora.alpha)
