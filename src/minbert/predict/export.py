"""`minbert export`: a trained model as a Hugging Face folder, its heads and its card beside it.

The folder needs nothing of this package: `AutoModel` loads the encoder, and the code in its card
(`card.md.j2`) applies the heads.
"""

import inspect
from collections.abc import Sequence
from pathlib import Path

import jinja2

from minbert.base.errors import UserError
from minbert.base.files import write_json, write_text
from minbert.model.hugging_face import HEADER, write_hugging_face
from minbert.model.weights import save_weights
from minbert.predict.predictor import Predictor
from minbert.predict.resolve_run import TrainedTask, find, scores_of
from minbert.spec.architecture import read_architecture
from minbert.spec.parts import load_part
from minbert.spec.task import TASKS

CARD = Path(__file__).with_name("card.md.j2")
KNOWN = {"all", "heads", "mlp", "cosine", "cls", "mean", "max"}
"""What may be trained, so that the encoder is a standard one, and what the card's code knows."""


def export(
    results: Path,
    variant: str,
    folder: Path,
    *,
    task: str | None = None,
    seed: int | None = None,
) -> str:
    """Write the model of a variant, or of its `task`, to the new `folder`; say which tasks it has.

    Raises `UserError` before anything is written if there is something in the folder, weights are
    missing, tasks have different encoders, or the model cannot be written as a standard encoder and
    a head of plain layers.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder}: has files already; expected a new or empty folder")
    runs = find(results, variant).runs([task] if task else (), seed)
    tasks, (run, *_) = [*runs], runs.values()
    made = Predictor.of(run, "cpu")
    own = any(made.module.encoder.own.state_dict())
    if len(tasks) > 1 and (own or len({each.key for each in runs.values()}) > 1):
        raise UserError(
            f"{', '.join(tasks)} have no encoder in common; name one of them (--task), and export "
            "each to a separate folder"
        )
    write_model(folder, made, tasks)
    write_text(folder / "README.md", card(run, tasks))
    return f"{folder}: {', '.join(tasks)}"


def write_model(folder: Path, made: Predictor, tasks: Sequence[str]) -> None:
    """Write the encoder that `tasks` share in a model, its tokenizer, and their heads.

    Raises `UserError` for what has no plain form.
    """
    spec, encoder = made.module.spec, made.module.encoder
    state = {**encoder.shared.state_dict(), **encoder.own[tasks[0]].state_dict()}
    parts = [part for of in tasks for part in (spec.tasks[of].head.name, spec.tasks[of].pooling)]
    if strange := {spec.trainable, *parts} - KNOWN:
        raise UserError(
            f"'{min(strange)}' cannot be exported as a standard encoder and layers that the code "
            f"of the card knows ({', '.join(sorted(KNOWN))}); use `minbert predict`"
        )
    heads = {f"pooler.{of}": state[f"pooler.dense.{of}"] for of in ("weight", "bias")}
    for name, tensor in made.module.state_dict().items():
        part, _, rest = name.partition(".")
        if part in ("heads", "convolutions") and rest.partition(".")[0] in tasks:
            heads[rest] = tensor
    facts = {
        task: {
            **TASKS[task].model_dump(),
            **spec.tasks[task].model_dump(),
            "reading": inspect.getdoc(load_part("loss", spec.tasks[task].loss)),
        }
        for task in tasks
    }
    arch = read_architecture(made.backbone / "config.json")
    length = min(spec.max_length, arch.positions)
    write_hugging_face(folder, state, arch, made.backbone / "tokenizer.json", length)
    save_weights(folder / "heads.safetensors", heads, **HEADER)
    write_json(folder / "heads.json", {"tasks": facts, "max_length": length})


def card(run: TrainedTask, tasks: Sequence[str]) -> str:
    """Return the model card, Markdown: how to use the model, its scores, data and terms."""
    template = jinja2.Template(CARD.read_text(encoding="utf-8"), trim_blocks=True)
    of = run.variant
    facts = of.record["papers"][of.paper]
    scored = {*tasks, "overall"} if {*facts["overall_tasks"]} <= {*tasks} else {*tasks}
    scores = [row for row in scores_of(of.root, of.record) if row["task"] in scored]
    trained = {task for stage in of.settings.values() for task in stage["tasks"]}
    datasets = {task: key for task, key in facts["datasets"].items() if task in trained}
    shown = {"run": run, "of": of, "facts": facts, "scores": scores, "datasets": datasets}
    return template.render(tasks=[*map(TASKS.get, tasks)], **shown)
