"""workflow/backbone: the built-in backbone, pretrained once, as a Hugging Face folder.

`cd tests && python -m pages.backbone` makes it anew: some five minutes on one core, the same bytes
on the same kind of machine. `recipe.json` says what it was made from; a test holds that to the
settings, the text and the vocabulary of today.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from minbert.base.files import read_json, write_json
from minbert.data.corpus.pretraining import pretraining_text
from minbert.data.vocabulary import train_vocabulary
from minbert.plan.experiment import PRETRAINING_ITEMS
from minbert.spec.architecture import BERT_BASE
from minbert.spec.pretraining import PACKAGED, Pretraining
from minbert.train.pretrain import pretrain

FOLDER = Path(__file__).parents[2] / PACKAGED
SEED = 0


def text_digest() -> str:
    """Return a hash of the text that it is pretrained on."""
    items = pretraining_text(SEED, PRETRAINING_ITEMS)
    return hashlib.sha256(repr(items).encode()).hexdigest()[:16]


def recipe() -> dict[str, Any]:
    """Return what the backbone is made from."""
    return {"seed": SEED, "pretraining": Pretraining().model_dump(), "text": text_digest()}


def write_vocabulary(path: Path) -> None:
    """Write the tokenizer."""
    items = pretraining_text(SEED, PRETRAINING_ITEMS)
    texts = (text for item in items for text in ([item] if isinstance(item, str) else item))
    train_vocabulary(texts, Pretraining().vocabulary, path)


def write_backbone(folder: Path) -> None:
    """Pretrain and write `folder`, weights in float16."""
    folder.mkdir(exist_ok=True)
    write_vocabulary(folder / "tokenizer.json")
    with tempfile.TemporaryDirectory() as made:
        pretrain(Pretraining(), SEED, folder / "tokenizer.json", Path(made), "cpu", 1)
        state = load_file(Path(made) / "model.safetensors")
        shapes = read_json(Path(made) / "config.json")
    weights = {}
    for name, tensor in state.items():
        names = BERT_BASE.hugging_face(name)
        for each, part in zip(names, tensor.chunk(len(names)), strict=True):
            weights[each] = part.to(torch.float16).contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": shapes["vocab_size"],
        "hidden_size": shapes["hidden"],
        "num_hidden_layers": shapes["layers"],
        "num_attention_heads": shapes["heads"],
        "intermediate_size": shapes["intermediate"],
        "max_position_embeddings": shapes["positions"],
        "type_vocab_size": shapes["types"],
        "layer_norm_eps": shapes["layer_norm_eps"],
        "hidden_act": "gelu",
        "pad_token_id": 0,
        "torch_dtype": "float16",
    }
    write_json(folder / "config.json", config)
    write_json(folder / "recipe.json", recipe())


if __name__ == "__main__":
    write_backbone(FOLDER)
