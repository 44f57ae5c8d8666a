"""A training job: one stage, one seed; its weights, history, predictions and record."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from minbert.base.environment import environment, peak_memory
from minbert.base.files import whole, write_json
from minbert.base.progress import Progress
from minbert.engine.checkpoints import Best, Checkpoints
from minbert.engine.device import (
    choose_device,
    choose_precision,
    device_name,
    peak_device_memory,
    set_up_memory,
)
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.store.job import Job
from minbert.train.history import History, Listener
from minbert.train.learner import Learner, Sources
from minbert.train.loop import Loop, Settings
from minbert.train.room import budget, state_bytes

PREDICTIONS = pa.schema(
    [
        ("id", pa.string()),
        ("task", pa.string()),
        ("split", pa.string()),
        ("prediction", pa.float64()),
        ("scores", pa.list_(pa.float32())),
        ("label", pa.float64()),
        ("last", pa.float64()),
    ]
)


def make(
    job: Job,
    listener: Listener | None = None,
    checkpoints: Checkpoints | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Train the job's stage with its seed; return the record that is in `run.json`."""
    starts = "start" in job.described["needs"]
    adapters = sorted(job.needs("adapter").items(), key=lambda named: int(named[0]))
    sources = Sources(
        job.need("backbone.config.json").parent,
        job.needs("tokens"),
        job.needs("features"),
        job.need("start") if starts else None,
        tuple(path for _, path in adapters),
    )
    assert job.seed is not None
    return train_stage(
        StageSpec.model_validate(job.spec["stage"]),
        job.seed,
        sources,
        job.out,
        title=job.title,
        device=job.device,
        precision=job.extra["precision"],
        threads=job.threads,
        listener=listener,
        checkpoints=checkpoints,
        provenance=provenance,
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
    threads: int = 1,
    listener: Listener | None = None,
    checkpoints: Checkpoints | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Train one stage and write its files to `out`; return the record that is in `run.json`.

    Writes `model.safetensors` and `predictions.parquet` (dev and test), both of the best epoch,
    `history.parquet` and `run.json`. With `checkpoints` an interrupted run resumes from its last
    state, which is removed when the run has ended. The record has `provenance`, too: what the run
    was made from.
    """
    torch.set_num_threads(threads)
    set_up_memory()
    place = choose_device(device)
    chosen = choose_precision(precision, place)
    torch.manual_seed(seed)
    learner: Learner = load_part("trainable", spec.trainable)(spec, sources, place)
    history = History(listener)
    progress = Progress(title)
    best = checkpoints.best if checkpoints else Best(out)
    room = budget(place, threads, state_bytes(learner.module))
    settings = Settings(place, chosen, progress, best, checkpoints, room)
    loop = Loop(spec, learner, seed, settings, history)
    progress.say(f"{loop.total} steps on {device_name(place)}, {chosen}, {threads} threads")
    outcome = loop.run()
    loop.restore()
    with whole(out / "predictions.parquet") as temporary:
        pq.write_table(_predictions(loop), temporary, write_page_checksum=True)
    _log_details(loop)
    history.write(out / "history.parquet")
    best.copy(out / "model.safetensors")
    record = {
        **(provenance or {}),
        "spec": spec.model_dump(mode="json"),
        "seed": seed,
        "outcome": asdict(outcome),
        "environment": environment(device_name(place), threads, chosen),
        "peak_memory_bytes": peak_memory(),
        "peak_device_memory_bytes": peak_device_memory(place),
        "parts_of_a_batch": loop.passes.parts,
        "parameters": sum(p.numel() for p in learner.module.parameters()),
    }
    write_json(out / "run.json", record)
    if checkpoints:
        checkpoints.clear()
    best.clear()
    progress.say(
        f"best epoch {outcome.best_epoch} ({spec.select} {outcome.best_score:.4f}), "
        f"{outcome.seconds:.0f} s, {outcome.tokens_per_second:.0f} tokens/s"
    )
    return record


def _log_details(loop: Loop) -> None:
    epoch = loop.position.best_epoch
    for task in loop.spec.trained_tasks:
        for metric, value in loop.learner.details(task).items():
            loop.history.log(loop.sampler.steps * epoch, epoch, "dev", task, metric, value)


def _predictions(loop: Loop) -> pa.Table:
    parts = []
    for split in ("dev", "test"):
        for task, found in loop.predictions(split).items():
            n = len(found["ids"])
            columns = [
                pa.array(found["ids"]),
                pa.array([task] * n),
                pa.array(found["splits"], pa.string()),
                pa.array(found["prediction"].astype(np.float64)),
                pa.array(list(found["scores"]), pa.list_(pa.float32())),
                pa.array(found["label"].astype(np.float64), from_pandas=True),
                pa.array(found["last"].astype(np.float64), from_pandas=True),
            ]
            parts.append(pa.table(columns, schema=PREDICTIONS))
    return pa.concat_tables(parts)
