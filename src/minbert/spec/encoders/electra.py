"""ELECTRA: BERT trained to tell replaced tokens, with narrower embeddings (Clark et al., 2020)."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from minbert.spec.architecture import Architecture


class Electra(Architecture):
    """BERT's encoder without a pooler; embeddings as wide as it is are not mapped."""

    family: str = "electra"

    settings: ClassVar[Mapping[str, str]] = {
        **Architecture.settings,
        "embedding": "embedding_size",
    }
    prefix: ClassVar[str] = "electra."
    tensors: ClassVar[Mapping[str, str]] = {
        **{ours: name for ours, name in Architecture.tensors.items() if ours != "pooler.dense"},
        "embeddings.project": "embeddings_project",
    }

    def finalize(self, config: Mapping[str, Any]) -> Self:
        if self.embedding != self.hidden:
            return self
        return self.model_copy(update={"embedding": None})
