"""Edits of a folder in Hugging Face's layout: what people find, or leave, beside a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZéüÉç0123456789"
WORDS = "東 京 東京 ##京 😀 the film co ##vid un ##want ##ed café cafe , . ' ! ? [ ]"
PIECES = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS), *WORDS.split()]
AT = len(PIECES)
"""The id of the first token after them."""

CONFIG, SETTINGS = "config.json", "tokenizer_config.json"
ADDED, MAP = "added_tokens.json", "special_tokens_map.json"

Edit = Callable[[Path], object]


def put(name: str, **values: Any) -> Edit:
    """Merge values into a JSON file of the folder."""

    def edit(folder: Path) -> None:
        path = folder / name
        found = json.loads(path.read_text("utf-8")) if path.exists() else {}
        path.write_text(json.dumps(found | values), encoding="utf-8")

    return edit


def only(*names: str) -> Edit:
    """Leave no other file of a tokenizer in the folder."""

    def edit(folder: Path) -> None:
        for path in list(folder.iterdir()):
            if path.name not in (CONFIG, "model.safetensors", *names):
                path.unlink()

    return edit


def vocabulary(*more: str) -> Edit:
    """Write a `vocab.txt`, with more pieces at its end."""

    def edit(folder: Path) -> None:
        (folder / "vocab.txt").write_text("\n".join([*PIECES, *more]) + "\n", encoding="utf-8")

    return edit


def saved(*added: str, **settings: Any) -> Edit:
    """Write all that `save_pretrained` writes of the folder's tokenizer, with tokens added."""

    def edit(folder: Path) -> None:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder, **settings)
        tokenizer.add_tokens(list(added))
        tokenizer.save_pretrained(folder)

    return edit


def rows(size: int) -> Edit:
    """Give the encoder so many rows of embeddings."""

    def edit(folder: Path) -> None:
        before = json.loads((folder / CONFIG).read_text("utf-8"))["vocab_size"]
        put(CONFIG, vocab_size=size)(folder)
        tensors = load_file(folder / "model.safetensors")
        for name, tensor in tensors.items():
            if len(tensor) == before:
                tensors[name] = tensor[torch.arange(size) % len(tensor)].clone()
        save_file(tensors, folder / "model.safetensors")

    return edit


def decoder(*tokens: str) -> dict[str, Any]:
    """Return tokens as `added_tokens_decoder` has them, from the id `AT` on."""
    entry = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized"), False)
    entry["special"] = True
    return {str(AT + n): {"content": token, **entry} for n, token in enumerate(tokens)}
