"""AdapterFusion tuning: attention over frozen adapters, and heads (Pfeiffer et al., 2021)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import Module

from minbert.grid.architecture import Architecture
from minbert.grid.spec import StageSpec
from minbert.model.adapter import sublayers
from minbert.model.fusion import Fusion, adapter_width, add_fusion, load_adapters
from minbert.model.weights import load_weights
from minbert.train.adapters import AdapterTuned
from minbert.train.learner import Sources


class FusionTuned(AdapterTuned):
    """A fusion of the adapters of earlier stages, with new heads.

    Backbone and adapters are frozen; the backbone's dropout stays on in training. The saved file
    holds adapters, fusion and heads, so that it scores the same wherever it is loaded.
    """

    def _prepare(self, spec: StageSpec, sources: Sources, architecture: Architecture) -> None:
        states = [load_weights(path) for path in sources.adapters]
        widths = [
            adapter_width(state, architecture.hidden, architecture.layers, path)
            for state, path in zip(states, sources.adapters, strict=True)
        ]
        add_fusion(self.module.encoder, widths)
        load_adapters(self.module.encoder, states)

    def details(self, task: str) -> dict[str, float]:
        """Return the mean attention over the adapters on dev, by `fusion_attention/LAYER/PLACE/N`.

        LAYER counts from 1, PLACE is `attention` or `feed_forward`, N the adapter's place in
        `fuse` from 0. The mean is over the tokens that the sublayer sees of the distinct
        sequences of dev; over N it sums to 1.
        """
        sums: dict[str, Tensor] = {}

        def note(name: str) -> Callable[[Module, tuple[Tensor, ...], Tensor], None]:
            def hook(fusion: Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
                assert isinstance(fusion, Fusion)
                found = fusion.weights(inputs[0], fusion.changes(inputs[0])).double().sum(1)
                sums[name] = sums[name] + found if name in sums else found

            return hook

        hooks = [
            sublayer.adapter.register_forward_hook(note(name))
            for name, sublayer in sublayers(self.module.encoder)
            if sublayer.adapter is not None
        ]
        self.outputs(task, "dev")
        for hook in hooks:
            hook.remove()
        found = {}
        for name, total in sums.items():
            layer, place = name.split(".")[-2:]
            for number, weight in enumerate((total / total.sum()).tolist()):
                found[f"fusion_attention/{int(layer) + 1}/{place}/{number}"] = weight
        return found
