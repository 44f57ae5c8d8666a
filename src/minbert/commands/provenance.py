"""What a run's record says of what it was made from, so that it can be told from any other run.

It decides no result, so it is in no key.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from minbert.data.digests import task_digests
from minbert.model.weights import CHECKSUM
from minbert.spec.architecture import WEIGHTS
from minbert.store.job import Job
from minbert.store.node import digest

FORMAT = 1
"""Of the record; it changes with the meaning of a field."""


def provenance(job: Job) -> dict[str, Any]:
    """Return the fields of a training job's record that name its code, its data and its backbone.

    Data are digested here, so that no other file need be kept: a quarter of a second for Quora.
    """
    return {
        "format": FORMAT,
        "code": digest(job.described["code"]),
        "data": {task: task_digests(path) for task, path in job.needs("tokens").items()},
        "backbone": backbone_digest(job.need(f"backbone.{WEIGHTS}")),
    }


def backbone_digest(weights: Path) -> str | None:
    """Return the SHA-256 of a backbone's tensors (`model.weights.checksum`), as its file has it.

    None if the file is damaged (training then fails and says so) or was not written by minbert.
    """
    with suppress(SafetensorError), safe_open(weights, "np") as file:
        return (file.metadata() or {}).get(CHECKSUM)
    return None
