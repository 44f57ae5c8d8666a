"""Encoders with BERT's layers.

DistilBERT (Sanh et al., 2019) has half of them, no token types and no pooler; RoBERTa (Liu et al.,
2019) has byte-level pieces; ELECTRA (Clark et al., 2020) has narrower embeddings.
"""

from typing import Literal

from minbert.spec.architecture import Architecture


class DistilBert(Architecture):
    """BERT's layers under other names; `layer_norm_eps` is BERT's, and in no `config.json`."""

    family: str = "distilbert"
    types: Literal[0] = 0

    two_types = False
    settings = {
        "vocab_size": "vocab_size",
        "hidden": "dim",
        "layers": "n_layers",
        "heads": "n_heads",
        "intermediate": "hidden_dim",
        "positions": "max_position_embeddings",
        "activation": "activation",
    }
    # Such positions are not trained, and those here are.
    only = {"sinusoidal_pos_embds": False}

    prefix = "distilbert."
    layer_prefix = "transformer.layer."
    tensors = {
        "embeddings.word": "embeddings.word_embeddings",
        "embeddings.position": "embeddings.position_embeddings",
        "embeddings.norm": "embeddings.LayerNorm",
    }
    layer_tensors = {
        "attention.qkv": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        "attention.output": ("attention.out_lin",),
        "attention.norm": ("sa_layer_norm",),
        "feed_forward.inner": ("ffn.lin1",),
        "feed_forward.output": ("ffn.lin2",),
        "feed_forward.norm": ("output_layer_norm",),
    }


class Roberta(Architecture):
    """BERT's encoder; positions begin after that of padding's id, and pairs have one token type."""

    family: str = "roberta"

    two_types = False
    tokenizer = "RobertaTokenizer"
    after_padding = True
    token_ids = {"bos_token_id": 0, "eos_token_id": -1}
    prefix = "roberta."


class Electra(Architecture):
    """BERT's encoder without a pooler; embeddings as wide as it is are not mapped."""

    family: str = "electra"

    settings = {**Architecture.settings, "embedding": "embedding_size"}
    prefix = "electra."
    tensors = {
        **{ours: name for ours, name in Architecture.tensors.items() if ours != "pooler.dense"},
        "embeddings.project": "embeddings_project",
    }
