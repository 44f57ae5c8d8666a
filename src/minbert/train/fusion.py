"""AdapterFusion tuning: attention over frozen adapters, and heads (Pfeiffer et al., 2021)."""

from __future__ import annotations

from minbert.grid.architecture import Architecture
from minbert.grid.spec import StageSpec
from minbert.model.fusion import adapter_width, add_fusion, load_adapters
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
