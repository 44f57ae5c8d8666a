"""ELECTRA: BERT trained to tell replaced tokens, with narrower embeddings (Clark et al., 2020)."""

from minbert.spec.architecture import Architecture


class Electra(Architecture):
    """BERT's encoder without a pooler; embeddings as wide as it is are not mapped."""

    family: str = "electra"

    settings = {**Architecture.settings, "embedding": "embedding_size"}
    prefix = "electra."
    tensors = {
        **{ours: name for ours, name in Architecture.tensors.items() if ours != "pooler.dense"},
        "embeddings.project": "embeddings_project",
    }
