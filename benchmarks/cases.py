"""The cases: what is timed, against what, and how long it takes to say something."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.ours import SIAMESE

UNIFIED: dict[str, dict[str, Any]] = {"sst": {}, "para": {}, "sts": {}}
FUSED = "transformers, sdpa, fused AdamW"
EAGER = "transformers, eager attention, AdamW"


@dataclass(frozen=True)
class Case:
    """One line of the table: a kind of work on some tasks.

    `kind`: `train` (optimiser steps), `predict` (a pass over a dev set, `rows` long), `cached`
    (steps of a frozen encoder's heads). `other` is the peer that it is measured against (`OTHERS`),
    or nothing. `quick` cases are those of `QUICK=1`.
    """

    name: str
    tasks: dict[str, dict[str, Any]]
    batch: int = 16
    kind: str = "train"
    other: str | None = "fused"
    settings: dict[str, Any] = field(default_factory=dict)
    rows: int = 512
    quick: bool = False


TRAINING = [
    Case("SST 16", {"sst": {}}, quick=True),
    Case("SST 16 (a student's loop)", {"sst": {}}, other="eager"),
    Case("Quora 64 pairs, siamese", {"para": SIAMESE}, batch=64, quick=True),
    Case("Quora 64 pairs (a student's loop)", {"para": SIAMESE}, batch=64, other="eager"),
    Case("STS 16, cross-encoded", {"sts": {}}),
    Case("CFIMDB 8", {"cfimdb": {}}, batch=8),
]
ARCHITECTURES = [
    Case("1-bert, unified step", UNIFIED, batch=8),
    Case("1-bert, unified step by one pass", UNIFIED, batch=8, other="passes"),
    Case("1-bert, PCGrad", UNIFIED, batch=8, other="torchjd", settings={"surgery": "pcgrad"}),
    Case("3-bert, unified step", UNIFIED, batch=8, settings={"shared_layers": "none"}),
    Case(
        "hybrid-bert, unified step", UNIFIED, batch=8, other=None, settings={"shared_layers": 0.5}
    ),
    Case(
        "hybrid-bert, PCGrad",
        UNIFIED,
        batch=8,
        other=None,
        settings={"shared_layers": 0.5, "surgery": "pcgrad"},
    ),
]
FROZEN = [
    Case(
        "adapters, SST 16",
        {"sst": {}},
        other="adapters",
        settings={"trainable": "adapters", "adapter": {"width": 48}},
    ),
    Case("heads, SST 16, cached features", {"sst": {}}, kind="cached", other="frozen"),
]
INFERENCE = [
    Case("Quora dev, siamese", {"para": SIAMESE}, kind="predict", rows=256, quick=True),
    Case(
        "Quora dev, siamese",
        {"para": SIAMESE},
        kind="predict",
        rows=256,
        other="sentence-transformers",
    ),
    Case("STS dev, cross-encoded", {"sts": {}}, kind="predict"),
    Case("SST dev", {"sst": {}}, kind="predict"),
]
CASES = {
    "minilm": TRAINING + ARCHITECTURES + FROZEN + INFERENCE,
    "tiny": TRAINING[:1] + TRAINING[2:3] + ARCHITECTURES[:3] + INFERENCE[:1],
    "bert-base": TRAINING[:1] + TRAINING[2:3] + ARCHITECTURES[:2] + INFERENCE[:1],
}
OTHERS = {
    "fused": FUSED,
    "eager": EAGER,
    "passes": "ours, a pass for each task",
    "torchjd": "transformers and torchjd",
    "adapters": "adapters",
    "frozen": "transformers, frozen, encoder run each step",
    "sentence-transformers": "sentence-transformers encode()",
}
