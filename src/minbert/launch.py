"""Starting the processes that share one training run, as torchrun does."""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import TYPE_CHECKING

from minbert.common.errors import UserError
from minbert.grid.job import Job

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

LOOK_EVERY = 0.2
"""Seconds between two looks at whether all processes are alive."""


def rank() -> int | None:
    """Return which process of its run this one is, from 0; None if torchrun did not start it."""
    said = os.environ.get("RANK") if "TORCHELASTIC_RUN_ID" in os.environ else None
    return None if said is None else int(said)


def launch(job: Job) -> None:
    """Run a training job by its `processes` on this machine; return when all have ended well.

    It is torchrun's own launcher (`torch.distributed.run`), in this process, so that signals and
    errors are told as those of any job: SIGTERM goes on to all of them; when one ends with an
    error or is killed, so are the others, and `UserError` says which was the first.
    """
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # Its own words on a lost process are a screenful; ours are below.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=job.processes,
        run_id=f"{job.described['key']}-{job.seed}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=0,
        monitor_interval=LOOK_EVERY,
    )
    words = ["-m", "minbert", "train", str(job.described["key"]), "--seed", str(job.seed)]
    words += ["--results", str(job.root), "--threads", str(max(1, job.threads // job.processes))]
    try:
        elastic_launch(config, sys.executable)(*words)
    except SignalException as error:
        raise SystemExit(f"stopped by signal {int(error.sigval)}") from None
    except ChildFailedError as error:
        raise UserError(_first_failure(error, job.processes)) from None


def _first_failure(error: ChildFailedError, processes: int) -> str:
    which, failure = error.get_first_failure()
    code = failure.exitcode
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
    return (
        f"process {which} of {processes} (from 0; pid {failure.pid}) {how}, and the others were "
        "ended. What they said is above. The next run goes on from the last saved state."
    )
