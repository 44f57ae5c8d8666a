"""The named parts that a spec can choose, and the module that each one lives in.

A spec names a part (`loss: mse`); training imports its module only then. So a stage's code
digest covers the parts that it uses and no others, and a new part is one file and one line here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from minbert.common.errors import UserError, nearest

PARTS: dict[str, dict[str, str]] = {
    "loss": {
        "cross_entropy": "minbert.train.losses.cross_entropy:CrossEntropy",
        "binary_cross_entropy": "minbert.train.losses.binary_cross_entropy:BinaryCrossEntropy",
        "mse": "minbert.train.losses.mse:MeanSquaredError",
    },
    "sampler": {
        "unified": "minbert.train.samplers.unified:Unified",
        "sequential": "minbert.train.samplers.sequential:Sequential",
    },
    "surgery": {"pcgrad": "minbert.train.surgery.pcgrad:pcgrad"},
    "schedule": {
        "constant": "minbert.train.schedules.constant:constant",
        "linear": "minbert.train.schedules.linear:linear",
        "cosine": "minbert.train.schedules.cosine:cosine",
        "onecycle": "minbert.train.schedules.onecycle:onecycle",
    },
    "pooling": {
        "cls": "minbert.model.pooling.cls:ClsPooling",
        "mean": "minbert.model.pooling.mean:MeanPooling",
    },
    "head": {"mlp": "minbert.model.heads.mlp:MLPHead"},
    "trainable": {
        "all": "minbert.train.finetune:Finetuned",
        "heads": "minbert.train.cached:Cached",
    },
    "figure": {"loss-curves": "minbert.figures.loss_curves:draw"},
}


def part_module(kind: str, name: str) -> str:
    """Return the dotted module of part `name` of `kind`; an unknown name raises `UserError`."""
    choices = PARTS[kind]
    if name not in choices:
        raise UserError(
            f"unknown {kind} '{name}'; known: {', '.join(sorted(choices))}.{nearest(name, choices)}"
        )
    return choices[name].partition(":")[0]


def load_part(kind: str, name: str) -> Any:
    """Import part `name` of `kind` and return its class or function."""
    return getattr(import_module(part_module(kind, name)), PARTS[kind][name].partition(":")[2])
