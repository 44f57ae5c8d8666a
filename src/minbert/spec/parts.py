"""The named parts that a spec can choose, and the module that each one is in.

A spec names a part (`loss: mse`), and training imports its module only then. So a stage's code
digest covers the parts that it uses and no others, and a new part is one file and one line here.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from minbert.base.errors import UserError, did_you_mean


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure: its `module` in `minbert.figures`, with a class `Spec`, and what it reads.

    It is drawn again when any of that changes; `Spec.plot` receives it as an `Inputs`
    (`minbert.figures.inputs`).

    `runs`: files of its variants' runs, for each seed: `histories` (history.parquet of a variant's
    last stage), `stage_histories` (of all its stages), `predictions` (the predictions.parquet that
    each task is scored by).
    `papers`: `scores` (scores.parquet), `rows` (the rows.parquet of each task).
    `facts`: counted `parameters`, `stages` (resolved specs), the backbone's `architecture`, the
    papers' `published` figures, and `rules` for the overall score.
    `tasks`: those whose predictions and rows it reads (default: all that its variants have).
    `of`: it shows one task of this kind: the one that its option `task` names, else that of
    `tasks`, else the only one of its kind that the paper has.
    `least` and `most`: how many variants it shows as a paper's figure.
    `options`: the fields of its `Spec` beside those of every figure; those that are `required`.
    `over_all`: it can also be a figure over all papers.
    """

    module: str
    runs: tuple[Literal["histories", "stage_histories", "predictions"], ...] = ()
    papers: tuple[Literal["scores", "rows"], ...] = ()
    facts: tuple[Literal["parameters", "stages", "architecture", "published", "rules"], ...] = ()
    tasks: tuple[str, ...] = ()
    of: Literal["", "classification", "binary", "regression"] = ""
    least: int = 1
    most: int | None = None
    options: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    over_all: bool = False

    @property
    def of_stages(self) -> bool:
        """Whether it shows what the best of others does not have: runs, or stages."""
        return bool(self.runs) or "stages" in self.facts


FIGURE_KINDS: dict[str, FigureKind] = {
    "loss-curves": FigureKind(
        "loss_curves", runs=("histories",), options=("task", "metric", "split", "ylabel", "smooth")
    ),
    "ranking": FigureKind(
        "ranking", papers=("scores", "rows"), facts=("rules",), options=("split",)
    ),
    "published-reproduced": FigureKind(
        "published", papers=("scores",), facts=("published", "rules"), over_all=True
    ),
    "dev-test": FigureKind("dev_test", papers=("scores",), facts=("rules",), over_all=True),
    "confusion-matrix": FigureKind(
        "confusion", runs=("predictions",), tasks=("sst",), of="classification", options=("task",)
    ),
    "calibration": FigureKind(
        "calibration", runs=("predictions",), tasks=("para",), of="binary", options=("task", "bins")
    ),
    "sts-scatter": FigureKind(
        "sts_scatter", runs=("predictions",), tasks=("sts",), of="regression", options=("task",)
    ),
    "leakage": FigureKind("leakage", runs=("predictions",), papers=("rows",)),
    "gradient-cosines": FigureKind("gradient_cosines", runs=("histories",), options=("smooth",)),
    "architectures": FigureKind("architectures", facts=("architecture", "stages"), most=6),
    "dev-curves": FigureKind(
        "dev_curves", runs=("histories",), papers=("scores",), facts=("rules",)
    ),
    "score-parameters": FigureKind(
        "pareto",
        papers=("scores",),
        facts=("parameters", "rules"),
        options=("split",),
        over_all=True,
    ),
    "sweep": FigureKind(
        "sweep",
        papers=("scores",),
        facts=("rules",),
        options=("x", "lines", "split"),
        required=("x", "lines"),
    ),
    "stability": FigureKind(
        "stability", runs=("histories",), papers=("scores",), facts=("rules",), options=("last",)
    ),
    "epoch-tables": FigureKind(
        "epoch_tables",
        runs=("stage_histories",),
        papers=("scores",),
        options=("tables",),
        required=("tables",),
    ),
    "transfer": FigureKind(
        "transfer", runs=("predictions",), papers=("scores",), facts=("published", "stages")
    ),
    "fusion-attention": FigureKind(
        "fusion_attention", runs=("stage_histories",), facts=("stages",)
    ),
    "run-curves": FigureKind(
        "run_curves", runs=("histories",), papers=("scores",), facts=("stages", "rules")
    ),
    "run-pairs": FigureKind(
        "run_pairs",
        runs=("histories",),
        papers=("scores",),
        facts=("stages", "rules"),
        options=("pairs",),
        required=("pairs",),
    ),
    "ladder": FigureKind(
        "ladder",
        runs=("predictions",),
        papers=("scores",),
        facts=("published", "rules"),
        least=2,
        options=("over", "names"),
    ),
}

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
        "pcgrad": "minbert.train.surgery.pcgrad:pcgrad",
        "pytorch_pcgrad": "minbert.train.surgery.pytorch_pcgrad:PytorchPCGrad",
        **{
            name: f"minbert.train.surgery.torchjd:{name}"
            for name in (
                *("aligned_mtl", "cagrad", "dualproj", "fairgrad", "gradvac", "imtl_g", "krum"),
                *("mean", "mgda", "nash_mtl", "pcd", "random", "upgrad"),
            )
        },
        "sum": "minbert.train.surgery.torchjd:sum_of_all",
    },
    "weighting": {
        "uncertainty": "minbert.train.weightings.uncertainty:Uncertainty",
        "dynamic_average": "minbert.train.weightings.dynamic_average:DynamicAverage",
        "random": "minbert.train.weightings.random:Random",
        "geometric_mean": "minbert.train.weightings.geometric_mean:GeometricMean",
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
        "distilbert": "minbert.spec.encoders.distilbert:DistilBert",
        "roberta": "minbert.spec.encoders.roberta:Roberta",
        "electra": "minbert.spec.encoders.electra:Electra",
        "modernbert": "minbert.spec.encoders.modernbert:ModernBert",
    },
    "encoder": {
        "bert": "minbert.model.encoder:Stack",
        "modernbert": "minbert.model.modernbert:ModernStack",
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
        "heads": "minbert.train.frozen_probe:FrozenProbe",
        "adapters": "minbert.train.adapters:AdapterTuned",
        "fusion": "minbert.train.fusion:FusionTuned",
        "lora": "minbert.train.lora:LoRATuned",
    },
    "figure": {name: f"minbert.figures.{kind.module}:Spec" for name, kind in FIGURE_KINDS.items()},
}


def part_module(kind: str, name: str) -> str:
    """Return the dotted module of part `name` of `kind`; an unknown name raises `UserError`."""
    choices = PARTS[kind]
    if name not in choices:
        raise UserError(
            f"unknown {kind} '{name}'; known: {', '.join(sorted(choices))}."
            f"{did_you_mean(name, choices)}"
            f" All are in docs/{'figures' if kind == 'figure' else 'adding'}.md"
        )
    return choices[name].partition(":")[0]


def load_part(kind: str, name: str) -> Any:
    """Import part `name` of `kind` and return its class or function."""
    return getattr(import_module(part_module(kind, name)), PARTS[kind][name].partition(":")[2])
