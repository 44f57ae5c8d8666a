"""Adapter tuning: bottlenecks in a frozen encoder, and heads (Houlsby et al., 2019)."""

from __future__ import annotations

from torch import Tensor

from minbert.grid.architecture import Architecture
from minbert.grid.spec import StageSpec
from minbert.model.adapter import add_adapters, without_backbone
from minbert.train.finetune import Finetuned
from minbert.train.learner import Sources


class AdapterTuned(Finetuned):
    """One set of adapters, trained by all tasks of the stage, with a head a task.

    The backbone is frozen; its dropout stays on in training. What is saved is adapters and heads,
    in one file: the backbone is where it was.
    """

    def _prepare(self, spec: StageSpec, sources: Sources, architecture: Architecture) -> None:
        assert spec.adapter is not None
        add_adapters(self.module.encoder, spec.adapter.width)

    def weights(self) -> dict[str, Tensor]:
        """Return the tensors of adapters and heads by name."""
        return without_backbone(self.module.state_dict())

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Put saved tensors back; the backbone has not moved."""
        frozen = self.module.state_dict().keys() - self.weights().keys()
        missing, unexpected = self.module.load_state_dict(weights, strict=False)
        if unexpected or set(missing) != frozen:
            raise ValueError(f"not this model's weights: {[*unexpected, *missing][:3]}")
