"""Tuning of what is inserted into a frozen encoder, and of heads: adapters, their fusion, LoRA."""

import re
from typing import Any

from minbert.model.adapter import Bottleneck, Fusion, LoRALinear, sublayers
from minbert.model.encoder import Attention, SharedEncoder
from minbert.model.weights import load_weights
from minbert.spec.stage import StageSpec
from minbert.train.trainable import Finetuned, Sources


class AdapterTuned(Finetuned):
    """Adapters, trained by all tasks of the stage, and heads (Houlsby et al., 2019).

    The backbone is frozen, and not saved.
    """

    frozen = True

    @staticmethod
    def insert(encoder: SharedEncoder, spec: StageSpec, state: Any) -> None:
        assert spec.adapter is not None
        for _, sublayer in sublayers(encoder):
            sublayer.adapter = Bottleneck(encoder.hidden, spec.adapter.width)


class FusionTuned(AdapterTuned):
    """A fusion of the frozen adapters of earlier stages, with new heads; all of it is saved.

    It is AdapterFusion (Pfeiffer et al., 2021).
    """

    @staticmethod
    def insert(encoder: SharedEncoder, spec: StageSpec, state: Any) -> None:
        first = re.compile(r"layers\.0\.attention\.adapter\.adapters\..*down\.weight$")
        names = sorted(filter(first.search, state), key=lambda name: (len(name), name))
        widths = [len(state[name]) for name in names]
        for _, sublayer in sublayers(encoder):
            sublayer.adapter = Fusion(encoder.hidden, widths)

    def start(self, sources: Sources) -> None:
        adapters = {
            name.replace(".adapter.", f".adapter.adapters.{number}."): tensor
            for number, path in enumerate(sources.adapters)
            for name, tensor in load_weights(path).items()
            if ".adapter." in name
        }
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
        scale = spec.lora.alpha / spec.lora.rank
        for _, sublayer in sublayers(encoder):
            if isinstance(sublayer, Attention):
                sublayer.qkv = LoRALinear(sublayer.qkv, spec.lora.rank, scale)
