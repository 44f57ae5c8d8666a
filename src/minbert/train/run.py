"""A training job: one stage, one seed; its weights, history, predictions and record."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from minbert.base.environment import environment, peak_memory
from minbert.base.files import whole, write_json
from minbert.base.progress import Progress
from minbert.spec.parts import load_part
from minbert.spec.stage import StageSpec
from minbert.store.job import Job
from minbert.train.activation_budget import activation_budget
from minbert.train.checkpoints import Checkpoints
from minbert.train.device import device_name, peak_device_memory, set_up
from minbert.train.history import History, Listener
from minbert.train.loop import Loop, Settings
from minbert.train.trainable import Sources, TrainableModel


def make(job: Job, **surroundings: Any) -> dict[str, Any]:
    """Train the job's stage with its seed; return the record that is in `run.json`.

    `surroundings` are `listener`, `checkpoints` and `provenance`, as `train_stage` takes them.
    """
    adapters = sorted(job.needs("adapter").items(), key=lambda named: int(named[0]))
    sources = Sources(
        job.need("backbone.config.json").parent,
        job.needs("tokens"),
        job.needs("features"),
        job.need("start") if "start" in job.described["needs"] else None,
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
        **surroundings,
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
    place, chosen = set_up(device, precision, threads)
    checkpoints = checkpoints or Checkpoints(out)
    torch.manual_seed(seed)
    model: TrainableModel = load_part("trainable", spec.trainable)(spec, sources, place)
    history, progress = History(listener), Progress(title)
    budget = activation_budget(place, threads, model.module)
    settings = Settings(place, chosen, progress, checkpoints, budget)
    loop = Loop(spec, model, seed, settings, history)
    progress.say(f"{loop.total} steps on {device_name(place)}, {chosen}, {threads} threads")
    outcome = loop.run()
    with whole(out / "predictions.parquet") as temporary:
        pq.write_table(loop.evaluation.predictions(), temporary, write_page_checksum=True)
    loop.log_details()
    history.write(out / "history.parquet")
    checkpoints.copy_best(out / "model.safetensors")
    record = {
        **(provenance or {}),
        "spec": spec.model_dump(mode="json"),
        "seed": seed,
        "outcome": outcome,
        "environment": environment(device_name(place), threads, chosen),
        "peak_memory_bytes": peak_memory(),
        "peak_device_memory_bytes": peak_device_memory(place),
        "parts_of_a_batch": loop.gradients.most_parts,
        "parameters": sum(p.numel() for p in model.module.parameters()),
    }
    write_json(out / "run.json", record)
    checkpoints.clear()
    progress.say(
        f"best epoch {outcome['best_epoch']} ({spec.select} {outcome['best_score']:.4f}), "
        f"{outcome['seconds']:.0f} s, {outcome['tokens_per_second']:.0f} tokens/s"
    )
    return record
