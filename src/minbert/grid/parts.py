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
        "cosine_embedding": "minbert.train.losses.cosine_embedding:CosineEmbedding",
        "mse": "minbert.train.losses.mse:MeanSquaredError",
        "cosine_mse": "minbert.train.losses.cosine_mse:CosineSquaredError",
    },
    "sampler": {
        "unified": "minbert.train.samplers.unified:Unified",
        "recycled": "minbert.train.samplers.recycled:Recycled",
        "sequential": "minbert.train.samplers.sequential:Sequential",
    },
    "surgery": {"pcgrad": "minbert.train.surgery.pcgrad:pcgrad"},
    "penalty": {"smart": "minbert.train.penalties.smart:SmartPenalty"},
    "divergence": {
        "symmetric_kl": "minbert.train.divergences.symmetric_kl:symmetric_kl",
        "squared_error": "minbert.train.divergences.squared_error:squared_error",
    },
    "schedule": {
        "constant": "minbert.train.schedules.constant:constant",
        "linear": "minbert.train.schedules.linear:linear",
        "cosine": "minbert.train.schedules.cosine:cosine",
        "onecycle": "minbert.train.schedules.onecycle:onecycle",
    },
    "pooling": {
        "cls": "minbert.model.pooling.cls:ClsPooling",
        "mean": "minbert.model.pooling.mean:MeanPooling",
        "max": "minbert.model.pooling.max:MaxPooling",
    },
    "token_layer": {"convolution": "minbert.model.convolution:TokenConvolution"},
    "head": {
        "mlp": "minbert.model.heads.mlp:MLPHead",
        "cosine": "minbert.model.heads.cosine:CosineHead",
    },
    "trainable": {
        "all": "minbert.train.finetune:Finetuned",
        "heads": "minbert.train.cached:Cached",
        "adapters": "minbert.train.adapters:AdapterTuned",
        "fusion": "minbert.train.fusion:FusionTuned",
    },
    "figure": {
        "loss-curves": "minbert.figures.loss_curves:draw",
        "ranking": "minbert.figures.ranking:draw",
        "published-reproduced": "minbert.figures.published:draw",
        "dev-test": "minbert.figures.dev_test:draw",
        "confusion-matrix": "minbert.figures.confusion:draw",
        "calibration": "minbert.figures.calibration:draw",
        "sts-scatter": "minbert.figures.sts_scatter:draw",
        "worst-examples": "minbert.figures.worst:draw",
        "leakage": "minbert.figures.leakage:draw",
        "gradient-cosines": "minbert.figures.gradient_cosines:draw",
        "architectures": "minbert.figures.architectures:draw",
        "dev-curves": "minbert.figures.dev_curves:draw",
        "score-parameters": "minbert.figures.pareto:draw",
        "stability": "minbert.figures.stability:draw",
        "epoch-tables": "minbert.figures.epoch_tables:draw",
        "transfer": "minbert.figures.transfer:draw",
        "fusion-attention": "minbert.figures.fusion_attention:draw",
        "run-curves": "minbert.figures.run_curves:draw",
        "run-pairs": "minbert.figures.run_pairs:draw",
        "ladder": "minbert.figures.ladder:draw",
    },
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
