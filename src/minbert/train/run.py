"""A training job: one stage, one seed; its weights, history, predictions and record."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from minbert.common.environment import environment, peak_memory
from minbert.common.files import whole, write_json
from minbert.common.progress import Progress
from minbert.grid.parts import load_part
from minbert.grid.spec import StageSpec
from minbert.train.best import Best
from minbert.train.device import choose_precision, device_name, peak_device_memory
from minbert.train.distributed import join
from minbert.train.graphs import record_graphs
from minbert.train.history import History, Listener
from minbert.train.learner import Learner, Sources
from minbert.train.loop import Loop, Outcome
from minbert.train.memory import budget, state_bytes
from minbert.train.resume import Checkpoints

PREDICTIONS = pa.schema(
    [
        ("id", pa.string()),
        ("task", pa.string()),
        ("split", pa.string()),
        ("prediction", pa.float64()),
        ("scores", pa.list_(pa.float32())),
        ("label", pa.float64()),
    ]
)


def train_stage(
    spec: StageSpec,
    seed: int,
    sources: Sources,
    out: Path,
    *,
    title: str,
    device: str = "auto",
    precision: str = "auto",
    cuda_graphs: bool = False,
    threads: int = 1,
    processes: int = 1,
    listener: Listener | None = None,
    checkpoints: Checkpoints | None = None,
) -> dict[str, Any]:
    """Train one stage and write its files to `out`; return the record that is in `run.json`.

    Writes `model.safetensors` (the best epoch's weights), `history.parquet`,
    `predictions.parquet` (dev and test, by the best epoch) and `run.json` (spec, seed, outcome,
    environment, peak memory in bytes, tokens a second). With `checkpoints` an interrupted run goes
    on from its last state, which goes when the run has ended. With `cuda_graphs` steps on a GPU are
    recorded where they can be. Of several `processes`, which share the run, each calls this; the
    first one writes and tells, memory is its own.
    """
    torch.set_num_threads(threads)
    peers, place = join(processes, device)
    chosen = choose_precision(precision, place)
    torch.manual_seed(seed)
    learner: Learner = load_part("trainable", spec.trainable)(spec, sources, place)
    history = History(listener if peers.first else None)
    progress = Progress(title, silent=not peers.first)
    room = budget(place, threads, state_bytes(learner.module))
    best = Best(checkpoints.file.folder if checkpoints else out)
    loop = Loop(
        spec, learner, seed, place, chosen, history, progress, best, checkpoints, room, peers
    )
    if not peers.first:
        _draw_apart(loop, seed)
    graphs = cuda_graphs and record_graphs(loop.gradients, place, progress.say)
    how = ", CUDA graphs" if graphs else ""
    how += f", {peers.count} processes" if peers.count > 1 else ""
    progress.say(f"{loop.total} steps on {device_name(place)}, {chosen}, {threads} threads{how}")
    outcome = loop.run()
    loop.restore()
    predictions = _predictions(loop)
    peers.leave()
    record = _record(spec, seed, outcome, environment(device_name(place), threads, chosen))
    if not peers.first:
        return record
    with whole(out / "predictions.parquet") as temporary:
        pq.write_table(predictions, temporary, write_page_checksum=True)
    _log_details(loop, outcome.best_epoch)
    history.write(out / "history.parquet")
    best.copy(outcome.best_epoch, out / "model.safetensors")
    record["processes"] = peers.count
    record["peak_memory_bytes"] = peak_memory()
    record["parts_of_a_batch"] = loop.gradients.parts
    record["cuda_graphs"] = loop.gradients.graphs.count if loop.gradients.graphs else 0
    record["peak_device_memory_bytes"] = peak_device_memory(place)
    record["parameters"] = sum(p.numel() for p in learner.module.parameters())
    write_json(out / "run.json", record)
    if checkpoints:
        checkpoints.file.clear()
    best.clear()
    progress.say(
        f"best epoch {outcome.best_epoch} ({spec.select} {outcome.best_score:.4f}), "
        f"{outcome.seconds:.0f} s, {outcome.tokens_per_second:.0f} tokens/s"
    )
    return record


def _draw_apart(loop: Loop, seed: int) -> None:
    """Let dropout and SMART draw for this process's rows what no other process draws."""
    apart = seed + 2**32 * loop.peers.rank
    torch.manual_seed(apart)
    if loop.gradients.penalty is not None:
        loop.gradients.penalty.generator.manual_seed(apart)


def _record(
    spec: StageSpec, seed: int, outcome: Outcome, surroundings: dict[str, Any]
) -> dict[str, Any]:
    return {
        "spec": spec.model_dump(mode="json"),
        "seed": seed,
        "outcome": asdict(outcome),
        "environment": surroundings,
    }


def _log_details(loop: Loop, epoch: int) -> None:
    """Note what the learner, with the weights of `epoch`, has to tell besides scores."""
    for task in loop.spec.trained_tasks:
        with loop.autocast():
            details = loop.learner.details(task)
        for metric, value in details.items():
            loop.history.log(loop.sampler.steps * epoch, epoch, "dev", task, metric, value)


def _predictions(loop: Loop) -> pa.Table:
    """Return the predictions on dev and test."""
    parts = []
    for split in ("dev", "test"):
        for task, found in loop.predictions(split).items():
            n = len(found["ids"])
            label = found["label"].astype(np.float64)
            columns = [
                pa.array(found["ids"]),
                pa.array([task] * n),
                pa.array([split] * n),
                pa.array(found["prediction"].astype(np.float64)),
                pa.array(list(found["scores"]), pa.list_(pa.float32())),
                pa.array(label, mask=np.isnan(label)),
            ]
            parts.append(pa.table(columns, schema=PREDICTIONS))
    return pa.concat_tables(parts)
