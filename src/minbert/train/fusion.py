"""AdapterFusion tuning: attention over frozen adapters, and heads (Pfeiffer et al., 2021)."""

from collections.abc import Mapping

from torch import Tensor

from minbert.model.adapter import sublayers
from minbert.model.encoder import SharedEncoder
from minbert.model.fusion import adapter_widths, add_fusion, load_adapters
from minbert.model.weights import load_weights
from minbert.spec.stage import StageSpec
from minbert.train.adapters import AdapterTuned
from minbert.train.trainable import Sources


class FusionTuned(AdapterTuned):
    """A fusion of the frozen adapters of earlier stages, with new heads; all of it is saved."""

    @staticmethod
    def insert(encoder: SharedEncoder, spec: StageSpec, state: Mapping[str, Tensor]) -> None:
        add_fusion(encoder, adapter_widths(state))

    def start(self, sources: Sources) -> None:
        encoder = self.module.encoder
        states = [load_weights(path) for path in sources.adapters]
        add_fusion(encoder, [width for state in states for width in adapter_widths(state)])
        load_adapters(encoder, states)

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
