"""The named parts that a spec can choose, and the module that each one is in.

A spec names a part (`loss: mse`), and training imports its module only then. So a stage's code
digest covers the files of the parts that it uses, and a new part is one file and one line here.
"""

from importlib import import_module
from typing import Any

from minbert.base.errors import UserError, did_you_mean
from minbert.spec.figures import FIGURE_KINDS

# Figures that share a module.
_ROWS = ("ladder", "published-reproduced", "ranking", "score-parameters", "stability", "transfer")
_DRAWN_IN = dict.fromkeys((*_ROWS, "sweep"), "scores") | {"fusion-attention": "curves"}
_DRAWN_IN |= dict.fromkeys(("calibration", "confusion-matrix", "sts-scatter"), "predictions")

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
        "alternating": "minbert.train.samplers.alternating:Alternating",
        "sequential": "minbert.train.samplers.sequential:Sequential",
        "temperature": "minbert.train.samplers.temperature:Temperature",
        "annealed": "minbert.train.samplers.annealed:Annealed",
    },
    "surgery": {
        "pcgrad": "minbert.train.surgery.pcgrad:PCGrad",
        "pytorch_pcgrad": "minbert.train.surgery.pytorch_pcgrad:PytorchPCGrad",
        "cagrad": "minbert.train.surgery.cagrad:cagrad",
        "nash_mtl": "minbert.train.surgery.nash_mtl:NashMTL",
        "upgrad": "minbert.train.surgery.upgrad:upgrad",
    },
    "weighting": {
        "uncertainty": "minbert.train.weightings.uncertainty:Uncertainty",
        "random": "minbert.train.weightings.random:Random",
    },
    "penalty": {"smart": "minbert.train.smart:SmartPenalty"},
    "divergence": {
        "symmetric_kl": "minbert.train.divergences.symmetric_kl:symmetric_kl",
        "squared_error": "minbert.train.divergences.squared_error:squared_error",
        "detached_kl": "minbert.train.divergences.detached_kl:detached_kl",
    },
    "schedule": {
        "constant": "minbert.train.schedules.constant:constant",
        "linear": "minbert.train.schedules.linear:linear",
        "cosine": "minbert.train.schedules.cosine:cosine",
        "onecycle": "minbert.train.schedules.onecycle:onecycle",
    },
    "architecture": {
        "bert": "minbert.spec.architecture:Architecture",
        "distilbert": "minbert.spec.encoders.bert_like:DistilBert",
        "roberta": "minbert.spec.encoders.bert_like:Roberta",
        "electra": "minbert.spec.encoders.bert_like:Electra",
        "modernbert": "minbert.spec.encoders.modernbert:ModernBert",
    },
    "attention": {
        "bert": "minbert.model.encoder:Attention",
        "modernbert": "minbert.model.modernbert:ModernAttention",
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
        "all": "minbert.train.trainable:Finetuned",
        "heads": "minbert.train.frozen_probe:FrozenProbe",
        "adapters": "minbert.train.adapters:AdapterTuned",
        "fusion": "minbert.train.adapters:FusionTuned",
        "lora": "minbert.train.adapters:LoRATuned",
    },
    "figure": {
        kind: f"minbert.figures.{_DRAWN_IN.get(kind, kind)}:{kind}".replace("-", "_")
        for kind in FIGURE_KINDS
    },
}


def part_module(kind: str, name: str) -> str:
    """Return the dotted module of part `name` of `kind`; an unknown name raises `UserError`."""
    if name not in PARTS[kind]:
        known = f"{', '.join(PARTS[kind])}.{did_you_mean(name, PARTS[kind])}"
        raise UserError(f"unknown {kind} '{name}'; known: {known}")
    return PARTS[kind][name].partition(":")[0]


def load_part(kind: str, name: str) -> Any:
    """Import part `name` of `kind` and return its class or function."""
    return getattr(import_module(part_module(kind, name)), PARTS[kind][name].partition(":")[2])
