"""What both sides work on: a backbone of some size, and sentences like those of the real sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertModel

from minbert.model.hugging_face import convert_hugging_face
from minbert.spec.architecture import Architecture
from minbert.spec.task import TASKS
from minbert.train.trainable import Sources

ARCHITECTURES = {
    "tiny": Architecture(vocab_size=1500, hidden=128, layers=4, heads=4, intermediate=512),
    "minilm": Architecture(hidden=384, layers=6, heads=12, intermediate=1536),
    "bert-base": Architecture(),
}
"""`tiny` is the built-in backbone's shape."""

# fmt: off
SHARES_BELOW = (
    0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1
)
QUANTILES = {
    "sst": (2, 7, 9, 13, 16, 19, 22, 25, 28, 33, 39, 44, 50, 53, 56, 61, 78),
    "para": (1, 6, 7, 9, 10, 11, 12, 13, 15, 18, 23, 28, 34, 39, 45, 64, 89),
    "sts": (3, 6, 6, 7, 8, 9, 10, 11, 14, 17, 24, 29, 34, 36, 39, 44, 68),
    "cfimdb": (
        19, 84, 117, 152, 170, 191, 213, 243, 274, 317, 374, 419, 471, 509, 509, 509, 509
    ),
}
# fmt: on
"""Word pieces of a sentence of the real training sets (BERT's vocabulary) below which these
shares of them lie; reviews are cut at 512, special tokens included."""

ALIKE = {"para": 0.48, "sts": 0.87}
"""Correlation of the two lengths of a pair."""

REPEATED = {"para": 0.01, "sts": 0.02}
"""Share of a dev set's sentences that stand in it twice."""

RANKS = np.array([1, 10, 100, 1000, 5000, 13000])
SHARES = np.array([0.06, 0.275, 0.53, 0.765, 0.94, 1.0])
"""Share of all word pieces that the most frequent ones are, as in SST, Quora and STS."""

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SPLITS = {"train": 512, "dev": 512, "test": 0}


class Workload(NamedTuple):
    """A backbone in both forms, and the tokens of some tasks."""

    size: str
    architecture: Architecture
    hugging_face: Path
    sources: Sources
    dev_rows: int


def make_workload(folder: Path, size: str, splits: dict[str, int] | None = None) -> Workload:
    """Write a random backbone and random tokens of the real sets' lengths; seeded."""
    architecture = ARCHITECTURES[size]
    theirs, ours = folder / "hugging-face", folder / "backbone"
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=architecture.vocab_size,
        hidden_size=architecture.hidden,
        num_hidden_layers=architecture.layers,
        num_attention_heads=architecture.heads,
        intermediate_size=architecture.intermediate,
    )
    BertModel(config).save_pretrained(theirs)
    words = {word: n for n, word in enumerate(_vocabulary(architecture.vocab_size))}
    BertWordPieceTokenizer(words).save(str(theirs / "tokenizer.json"))
    ours.mkdir()
    convert_hugging_face(theirs, ours)
    rows = splits or SPLITS
    draw = np.random.default_rng(0)
    tokens = {}
    for task in QUANTILES:
        tokens[task] = folder / f"{task}.parquet"
        _write(tokens[task], task, rows, architecture.vocab_size, draw)
    return Workload(size, architecture, theirs, Sources(ours, tokens, {}), rows["dev"])


def _vocabulary(size: int) -> list[str]:
    return [*SPECIAL_TOKENS, *(f"w{n}" for n in range(size - len(SPECIAL_TOKENS)))]


def _write(
    path: Path, task: str, rows: dict[str, int], words: int, draw: np.random.Generator
) -> None:
    known = TASKS[task]
    table: dict[str, list[Any]] = {n: [] for n in ("id", "split", "label", "tokens1", "tokens2")}
    for split, count in rows.items():
        first, second = _lengths(task, count, draw)
        one = [_sentence(n, words, draw) for n in first]
        two = [_sentence(n, words, draw) for n in second] if known.pair else [None] * count
        for n in range(int(REPEATED.get(task, 0) * count)):
            one[n + 1] = one[n]
        labels = draw.uniform(known.low, known.high, count)
        table["id"] += [f"{task}-{split}-{n}" for n in range(count)]
        table["split"] += [split] * count
        table["label"] += list(labels if known.kind == "regression" else labels.round())
        table["tokens1"] += one
        table["tokens2"] += two
    ids = pa.list_(pa.int32())
    types = {"id": pa.string(), "split": pa.string(), "label": pa.float32()}
    schema = pa.schema([*types.items(), ("tokens1", ids), ("tokens2", ids)])
    pq.write_table(pa.table(table, schema=schema), path)


def _lengths(task: str, count: int, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw lengths from the quantiles; those of a pair correlate by a Gaussian copula."""
    from scipy.stats import norm

    alike = ALIKE.get(task, 0.0)
    normal = draw.multivariate_normal([0, 0], [[1, alike], [alike, 1]], count)
    drawn = np.interp(norm.cdf(normal), SHARES_BELOW, QUANTILES[task])
    one, two = drawn.round().astype(int).clip(min=1).T
    return one, two


def _sentence(length: int, words: int, draw: np.random.Generator) -> list[int]:
    shares = draw.uniform(0, 1, length)
    logs = np.interp(shares, np.r_[0, SHARES], np.r_[0, np.log(RANKS)])
    ranks = np.exp(logs).astype(int) % (words - len(SPECIAL_TOKENS))
    return [int(rank) + len(SPECIAL_TOKENS) for rank in ranks]
