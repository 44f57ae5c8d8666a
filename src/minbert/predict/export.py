"""`minbert export`: a trained model as a Hugging Face folder, its heads and its card beside it.

The folder needs nothing of this package: `AutoModel` loads the encoder, and the code in its card
(`minbert.predict.usage`) applies the heads.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from minbert.base.errors import UserError
from minbert.base.files import write_json, write_text
from minbert.model.adapter import sublayers
from minbert.model.hugging_face import HEADER, state_of, write_hugging_face
from minbert.model.lora import merge_lora
from minbert.model.multitask import MultitaskModel
from minbert.model.weights import save_weights
from minbert.predict.card import card_facts
from minbert.predict.predictor import Predictor, source_of
from minbert.predict.resolve_run import Run, find, plans
from minbert.predict.usage import HEADS, POOLINGS, example
from minbert.spec.architecture import Architecture
from minbert.spec.parts import load_part
from minbert.spec.task import TASKS
from minbert.store.plans import read_description

CARD, HEAD_WEIGHTS, HEAD_FACTS = "README.md", "heads.safetensors", "heads.json"


def export(
    results: Path,
    variant: str,
    folder: Path,
    *,
    task: str | None = None,
    seed: int | None = None,
) -> str:
    """Write the model of a variant, or of its `task`, to the new `folder`; say which tasks it has.

    LoRA's changes are merged into the encoder. Raises `UserError` before anything is written if
    there is something in the folder, weights are missing, tasks have different encoders, or the
    model cannot be written as a standard encoder and a head of plain layers. After any other error
    the folder is empty.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder}: exists already; expected a new or an empty folder")
    found = find(results, variant)
    tasks = [found.choose_task(task)] if task else list(found.tasks)
    runs = found.runs(tasks, seed)
    if len({run.key for run in runs.values()}) > 1:
        raise _several(tasks)
    run = runs[tasks[0]]
    source = source_of(run)
    made, tokenizer = Predictor(source, "cpu"), source.backbone / "tokenizer.json"
    try:
        write_model(folder, made.model, tasks, made.arch, tokenizer, made.max_length)
        write_text(folder / CARD, _card(run, tasks))
    except BaseException:  # Half a model could be taken for a whole one.
        for path in folder.glob("*"):
            path.unlink()
        raise
    return f"{folder}: {', '.join(tasks)}"


def write_model(
    folder: Path,
    model: MultitaskModel,
    tasks: Sequence[str],
    arch: Architecture,
    tokenizer: Path,
    max_length: int,
) -> None:
    """Write the encoder that `tasks` share in `model`, its tokenizer, and their heads.

    Raises `UserError` if they share none, and for what has no plain form. Merges what LoRA changed
    in `model`.
    """
    if len(tasks) > 1 and any(True for _ in model.encoder.own.parameters()):
        raise _several(tasks)
    merge_lora(model.encoder)
    if any(sublayer.adapter is not None for _, sublayer in sublayers(model.encoder)):
        raise UserError(
            f"'trainable: {model.spec.trainable}' puts adapters with a nonlinearity into each "
            "layer, which cannot be merged into a standard encoder; export a variant that trains "
            "'all', 'heads' or 'lora', or use `minbert predict` (docs/predicting.md)"
        )
    state = state_of(model.encoder, tasks[0])
    heads: dict[str, Tensor] = {}
    facts: dict[str, Any] = {}
    for task in tasks:
        how, known = model.spec.tasks[task], TASKS[task]
        for what, name, plain in (
            ("head", how.head.name, HEADS),
            ("pooling", how.pooling, POOLINGS),
        ):
            if name not in plain:
                raise UserError(
                    f"task '{task}' has the {what} '{name}', which the exported code does not "
                    f"know; it knows {', '.join(plain)}"
                )
        heads |= {f"{task}.{name}": t for name, t in model.heads[task].state_dict().items()}
        if how.convolution:
            layer = model.convolutions[task].state_dict()
            heads |= {f"{task}.{name}": tensor for name, tensor in layer.items()}
        if how.pooling == "cls":
            heads |= {
                f"pooler.{name}": state[f"pooler.dense.{name}"] for name in ("weight", "bias")
            }
        reading = inspect.getdoc(load_part("loss", how.loss)) or ""
        facts[task] = {
            **how.model_dump(include={"pooling", "convolution", "pairing", "features", "loss"}),
            "head": {"name": how.head.name, "depth": how.head.depth},
            "title": known.title,
            "kind": known.kind,
            "range": [known.low, known.high],
            "classes": known.names,
            "reading": " ".join(reading.split()),
        }
    write_hugging_face(folder, state, arch, tokenizer, max_length)
    save_weights(folder / HEAD_WEIGHTS, heads, **HEADER)
    write_json(folder / HEAD_FACTS, {"tasks": facts, "max_length": max_length})


def _several(tasks: Sequence[str]) -> UserError:
    return UserError(
        f"{', '.join(tasks)} have no encoder in common; name one of them (--task), and export each "
        "to a folder of its own"
    )


def _card(run: Run, tasks: Sequence[str]) -> str:
    # What is published may be of a later training.
    papers = (p["papers"] for p in plans(run.root) if f"train-{run.key}" in p.get("jobs", ()))
    facts = next(known[run.paper] for known in papers if run.paper in known)
    label = facts["labels"].get(run.variant, run.variant)
    need = run.job.described["needs"]["backbone.config.json"]
    hub = read_description(run.root, need["kind"], need["key"])["spec"].get("hub")
    base = f"base_model: {hub}\n" if hub else ""
    wanted = {"paper": run.paper, "variant": run.variant, "seed": run.seed}
    about = "".join(f"- `{task}`: {TASKS[task].title}\n" for task in tasks)
    return f"""---
library_name: transformers
license: other
{base}tags:
- minbert
---

# {run.paper}: {run.variant}

{label} ({facts["title"]}), seed {run.seed}, training `{run.key}`. Its tasks:

{about}
## Use

`config.json`, `model.safetensors` and the tokenizer's files are the encoder, which `AutoModel` \
loads. `heads.safetensors` has the tasks' own layers; `heads.json` says how each is applied, and \
how its output is read.

```python
{example(tasks)}```

{card_facts(run.root, facts, wanted, dict.fromkeys(tasks, run.key))}"""
