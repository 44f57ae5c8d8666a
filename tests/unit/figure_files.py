"""Result files as training and scoring leave them, made up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from factories import history, put_rows, score

from minbert.data.examples import Example, write_examples
from minbert.data.labels import SCHEMA as LABELS
from minbert.evaluate.scoring import overall
from minbert.figures.read import Inputs
from minbert.spec.task import TASKS
from minbert.train.history import PREDICTIONS

GROUPS = ("embeddings", "layers_1-3", "layers_4-6", "layers_7-9", "layers_10-12", "pooler")
OVERALL = ("sst", "para", "sts")
SIZES = {"sst": 110, "para": 200, "sts": 86, "cfimdb": 24, "lmrd": 24}


def many(count: int) -> dict[str, str]:
    """Return {name: label} of `count` variants, some of them with long labels."""
    long = "RSS + MP + GS + CNN + Res + MLP[2], cosine annealing, weight decay 1e-3"
    return {f"v{n}": long if n % 7 == 3 else f"variant {n}" for n in range(count)}


def labels_of(task: str, split: str) -> np.ndarray:
    """Return the true labels of a task's split; the same ones for every run."""
    draw = np.random.default_rng([list(TASKS).index(task), ("train", "dev", "test").index(split)])
    known = TASKS[task]
    values = draw.uniform(known.low, known.high, SIZES[task])
    return np.round(values, 1) if known.kind == "regression" else np.round(values)


def predicted(task: str, label: np.ndarray, quality: float, seed: int) -> tuple[Any, Any]:
    """Return predictions [n] and scores [n, outputs] that are right as often as `quality`."""
    draw = np.random.default_rng([seed, int(1000 * quality)])
    known = TASKS[task]
    if known.kind == "regression":
        noise = draw.normal(0, 3 * (1 - quality), len(label))
        values = np.clip(label + noise, known.low, known.high)
        return values, values[:, None]
    logits = draw.normal(0, 1, (len(label), max(2, known.classes)))
    logits[np.arange(len(label)), label.astype(int)] += 4 * quality - 1
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    if known.kind == "binary":
        return (shares[:, 1] > 0.5).astype(float), shares[:, 1:]
    return shares.argmax(1).astype(float), shares


def write_predictions(path: Path, tasks: Iterable[str], quality: float, seed: int) -> Path:
    """Write predictions of dev, and of test with no labels, as a run of this quality has them."""
    rows: list[dict[str, Any]] = []
    for task, split in product(tasks, ("dev", "test")):
        labels = labels_of(task, split)
        values, scores = predicted(task, labels, quality, seed)
        for n, label in enumerate(labels.tolist()):
            about = {"id": f"{task}-{split}-{n}", "task": task, "split": split}
            about["label"] = label if split == "dev" else None
            rows.append({**about, "prediction": values[n], "scores": scores[n]})
    return put_rows(path, rows, PREDICTIONS)


Row = tuple[int, str, str, str, float]


def write_history(
    path: Path,
    tasks: Sequence[str] = OVERALL,
    quality: float = 0.5,
    seed: int = 0,
    epochs: int = 10,
    steps: int = 60,
    adapters: int = 0,
) -> Path:
    """Write a history of `epochs` with losses, scores and cosines between gradients.

    With `adapters` it is that of a fusion of so many, in three layers.
    """
    draw = np.random.default_rng([seed, int(1000 * quality)])
    rows: list[Row] = []
    for step in range(1, epochs * steps + 1):
        epoch = (step - 1) // steps + 1
        level = (1.5 - quality) * np.exp(-step / (3 * steps)) + 0.2
        losses = {task: level * draw.lognormal(0, 0.2) for task in tasks}
        for task, loss in {**losses, "overall": sum(losses.values())}.items():
            rows.append((step, "train", task, "loss", loss))
        if step % 10 == 0:
            for a, b in combinations(tasks, 2):
                cosine = float(draw.normal(0.05, 0.1))
                rows.append((step, "train", f"{a}-{b}", "gradient_cosine", cosine))
                for number, group in enumerate(GROUPS):
                    metric = f"gradient_cosine/{group}"
                    rows.append((step, "train", f"{a}-{b}", metric, cosine + number / 20))
            for task in tasks:
                before = float(draw.normal(0.5, 0.1))
                rows.append((step, "train", task, "sum_cosine", before))
                rows.append((step, "train", task, "update_cosine", before + 0.1))
        if step % steps == 0:
            scores = {t: quality * (1 - np.exp(-epoch / 2)) + draw.normal(0, 0.01) for t in tasks}
            for task, score in scores.items():
                rows.append((step, "dev", task, TASKS[task].metric, score))
                rows.append((step, "dev", task, "loss", 1.5 - score))
                rows.append((step, "train", task, TASKS[task].metric, score + 0.05))
            if set(OVERALL) <= set(tasks):
                for rule in ("normalised", "plain"):
                    whole = overall(scores, rule) or 0
                    rows.append((step, "dev", "overall", rule, whole))
                    rows.append((step, "train", "overall", rule, whole + 0.05))
    for task, layer, place in product(tasks, range(1, 4), ("attention", "feed_forward")):
        for number, share in enumerate(draw.dirichlet(np.ones(adapters)) if adapters else ()):
            metric = f"fusion_attention/{layer}/{place}/{number}"
            rows.append((epochs * steps, "dev", task, metric, share))
    return history(path, *rows, length=steps)


def write_texts(path: Path, task: str) -> Path:
    """Write an example table; the first three dev texts are in train too."""
    examples = []
    for split, n in product(("train", "dev", "test"), range(SIZES[task])):
        text = f"{'train' if split == 'dev' and n < 3 else split} sentence number {n} of {task}"
        text += " which goes on for a while" * (n % 5)
        second, label = f"another {text}" if TASKS[task].pair else None, labels_of(task, split)[n]
        examples.append(Example(f"{task}-{split}-{n}", split, text, second, float(label)))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_examples(examples, path)
    return path


def write_scores(
    path: Path,
    paper: str,
    found: Mapping[str, float],
    seeds: Sequence[int],
    tasks: Sequence[str] = OVERALL,
    tested: Iterable[str] = (),
) -> Path:
    """Score the runs beside `path` of variants of these qualities, which are made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for (variant, quality), seed in product(found.items(), seeds):
        at = path.parent / variant / f"seed{seed}"
        if not at.exists():
            history(at / "history.parquet")
            write_predictions(at / "predictions.parquet", tasks, quality, seed)
    labels = {}
    for task in tasks:
        values = enumerate(labels_of(task, "test").tolist())
        rows = ({"id": f"{task}-test-{n}", "label": label} for n, label in values)
        labels[task] = put_rows(path.with_name(f"{task}.labels"), rows, LABELS)
    variants = [
        {"name": name, "key": name, "tasks": dict.fromkeys(tasks, name), "tested": name in tested}
        for name in found
    ]
    score(path, *variants, seeds=seeds, at="{}/seed{}", labels=labels, paper=paper)
    return path


def qualities(variants: Iterable[str]) -> dict[str, float]:
    """Return a quality for each variant, in no order."""
    names = list(variants)
    return {name: round(0.35 + 0.5 * ((n * 7) % 11) / 11, 3) for n, name in enumerate(names)}


def make_inputs(
    folder: Path,
    variants: Iterable[str],
    seeds: Sequence[int] = (0,),
    tasks: Sequence[str] = OVERALL,
    absent: Collection[str] = (),
    paper: str = "hybrid-bert",
    about: Mapping[str, Any] | None = None,
    epochs: int = 10,
    adapters: int = 0,
) -> Inputs:
    """Return inputs of every sort, with their files in `folder`.

    Each variant, of which there may be labels, has one stage, `main`, whose key is its name. The
    files of those `absent` are named but not there; `seeds` are the same for all.
    """
    names, found = list(variants), qualities(variants)
    there = {name: quality for name, quality in found.items() if name not in absent}
    for (name, quality), seed in product(there.items(), seeds):
        at = folder / name / f"seed{seed}"
        write_history(at / "history.parquet", tasks, quality, seed, epochs, adapters=adapters)
        write_predictions(at / "predictions.parquet", tasks, quality, seed)

    return Inputs(
        variants=variants if isinstance(variants, Mapping) else {n: n.upper() for n in names},
        runs={f"{n}.{s}": folder / n / f"seed{s}" / "run.json" for n, s in product(names, seeds)},
        scores={paper: write_scores(folder / "scores.parquet", paper, there, seeds, tasks)},
        papers=[
            {
                **{"paper": paper, "rule": "normalised", "overall_tasks": OVERALL, "rows": []},
                "selection_split": "dev",
                "seeds": seeds,
                "variants": [{"name": n, "tasks": dict.fromkeys(tasks, n)} for n in names],
                "stages": {n: [{"name": "main", "key": n}] for n in names},
                **(about or {}),
            }
        ],
    )
