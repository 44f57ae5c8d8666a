"""What a task's ids, tokens and labels are by their content, however their file holds them."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from minbert.data.parquet import read_splits


def task_digests(tokens: Path) -> dict[str, dict[str, str]]:
    """Return {split: {`ids`, `tokens`, `labels`: SHA-256}} of the token table at `tokens`.

    Each is of the split's rows in their order, and says nothing of how parquet encodes them.
    `tokens` is of int32, little-endian: how many tokens each first sentence has, these tokens end
    to end, then the same of second sentences, where -1 stands for none.
    """
    found = {}
    for split, rows in read_splits(tokens).items():
        hashed = hashlib.sha256()
        for name in ("tokens1", "tokens2"):
            hashed.update(pc.list_value_length(rows[name]).fill_null(-1).to_numpy().astype("<i4"))
            hashed.update(pc.list_flatten(rows[name]).to_numpy().astype("<i4"))
        ids, labels = rows["id"].to_pylist(), labels_digest(rows["label"].to_numpy())
        found[split] = {"ids": ids_digest(ids), "tokens": hashed.hexdigest(), "labels": labels}
    return found


def ids_digest(ids: Sequence[str]) -> str:
    """Return the SHA-256 of `ids` in UTF-8, each with a line feed."""
    return hashlib.sha256("\n".join([*ids, ""]).encode()).hexdigest()


def labels_digest(labels: NDArray[np.floating]) -> str:
    """Return the SHA-256 of `labels` as float32, little-endian; those not public are 0x7fc00000."""
    found = np.where(np.isnan(labels), np.float32("nan"), labels)
    return hashlib.sha256(found.astype("<f4").tobytes()).hexdigest()
