"""The pipeline's steps: from a node's description to the function that makes its files.

Every rule's shell calls one of these by `minbert STEP KEY`; so each step also runs by hand.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from minbert.common.process import only_one, patience
from minbert.devices.choose import device_for, no_gpu
from minbert.grid.job import Job
from minbert.grid.node import finished

if TYPE_CHECKING:
    from minbert.train.resume import Checkpoints


def fetch(job: Job) -> None:
    """Download a raw file and verify its checksum."""
    from minbert.data.fetch import fetch as download

    name = job.spec["name"]
    download(job.extra["url"], job.out / name, job.spec["checksum"])


def data(job: Job) -> None:
    """Make a data set's example table and report."""
    from minbert.data.report import write_dataset

    task = job.spec["task"]
    examples, rejected = _examples(job, task)
    report = write_dataset(task, examples, rejected, job.out)
    rows = ", ".join(f"{split} {n}" for split, n in report["rows"].items())
    print(f"{task}: {rows} rows, {len(rejected)} set aside", file=sys.stderr)


def _examples(job: Job, task: str) -> tuple[list[Any], list[Any]]:
    source = job.spec["source"]
    if source == "builtin":
        from minbert.data.corpus import DEFAULT_SIZES, generate
        from minbert.data.examples import Example

        sizes = job.spec["sizes"] or DEFAULT_SIZES[task]
        return [Example(**row) for row in generate(task, job.spec["seed"], sizes)], []
    if source == "lmrd":
        from minbert.data.lmrd import read_lmrd

        path = job.need("archive") if job.described["needs"] else Path(job.extra["path"])
        return read_lmrd(path)
    from minbert.data.course import read_course

    paths = {split: job.need(split) for split in job.described["needs"]}
    return read_course(task, paths or job.extra["paths"])


def vocabulary(job: Job) -> None:
    """Train the built-in backbone's WordPiece vocabulary."""
    from minbert.data.corpus import pretraining_text
    from minbert.data.vocabulary import train_vocabulary

    items = pretraining_text(job.spec["seed"], job.spec["items"])
    texts = (text for item in items for text in ([item] if isinstance(item, str) else item))
    train_vocabulary(texts, job.spec["size"], job.out / "tokenizer.json")


def backbone(job: Job) -> None:
    """Make a backbone folder: pretrained here, converted from a folder, or from the hub."""
    if "pretraining" in job.spec:
        from minbert.grid.pretraining import Pretraining
        from minbert.train.pretrain import pretrain

        settings = Pretraining.model_validate(job.spec["pretraining"])
        tokenizer = job.need("tokenizer")
        with _device(job) as device:
            pretrain(settings, job.spec["seed"], tokenizer, job.out, device, job.threads)
        return
    from minbert.model.weights import convert_hugging_face

    if "hub" in job.spec:
        from minbert.data.hub import download

        folder = download(job.spec["hub"], job.spec["revision"])
    else:
        folder = Path(job.extra["folder"])
    convert_hugging_face(folder, job.out)


def tokens(job: Job) -> None:
    """Turn a data set's sentences into word pieces."""
    from minbert.data.tokenise import tokenise

    tokenise(job.need("examples"), job.need("tokenizer"), job.out / "tokens.parquet")


def features(job: Job) -> None:
    """Encode a task's sentences with the frozen backbone."""
    import torch

    from minbert.train.device import choose_device
    from minbert.train.features import cache_features

    torch.set_num_threads(job.threads)
    with _device(job) as device:
        cache_features(
            job.spec["task"],
            job.spec["pooling"],
            job.spec["pairing"],
            job.spec["max_length"],
            job.need("weights").parent,
            job.need("tokens"),
            job.out / "features.safetensors",
            choose_device(device),
        )


def train(job: Job) -> None:
    """Train one stage with one seed; what it measures is noted for MLflow as it goes."""
    from minbert.launch import launch, rank

    if rank() is not None:  # The process that started this one holds the lock and the GPUs.
        _train(job, job.extra["device"].partition(":")[0])
        return
    with ExitStack() as stack:
        work = _work(job)
        waited = stack.enter_context(only_one(work, f"training of {_name(job)}", patience()))
        if waited and finished("train", job.spec, job.out):
            print("the process that was waited for has finished it", file=sys.stderr)
            return
        device = stack.enter_context(_device(job))
        if job.processes > 1:
            launch(job)
        else:
            _train(job, device)


def _name(job: Job) -> str:
    return f"{job.described['title']} . s{job.seed}"


def _work(job: Job) -> Path:
    return job.root / "work" / job.described["key"] / f"seed{job.seed}"


def _train(job: Job, device: str) -> None:
    """Train in this process, which is the only one of the run or one of several."""
    from minbert.grid.spec import StageSpec
    from minbert.launch import rank
    from minbert.track.journal import Journal
    from minbert.track.told import describe_run
    from minbert.train.learner import Sources
    from minbert.train.resume import Checkpoints
    from minbert.train.run import train_stage
    from minbert.train.state import StateFile

    spec = StageSpec.model_validate(job.spec["stage"])
    starts = "start" in job.described["needs"]
    sources = Sources(
        job.need("backbone.config.json").parent,
        job.needs("tokens"),
        job.needs("features"),
        job.need("start") if starts else None,
        tuple(path for _, path in sorted(job.needs("adapter").items(), key=lambda n: int(n[0]))),
    )
    state = StateFile(_work(job), f"{job.described['key']} seed {job.seed}")
    checkpoints = Checkpoints(state, job.extra["checkpoint_seconds"])
    _save_before_stopping(checkpoints)
    start = partial(
        train_stage,
        spec,
        job.seed or 0,
        sources,
        job.out,
        title=_name(job),
        device=device,
        precision=job.extra["precision"],
        cuda_graphs=job.extra["cuda_graphs"],
        threads=job.threads,
        processes=job.processes,
        checkpoints=checkpoints,
    )
    if rank():
        start()
        return
    journal = Journal.start(job.root, describe_run(job, spec, _name(job)))
    try:
        record = start(listener=journal.log)
    except BaseException as error:
        with suppress(OSError):  # Where the disk is full, that is the error to tell.
            journal.end("FAILED", f"{type(error).__name__}: {error}")
        raise
    how = record["outcome"]
    journal.end(
        "FINISHED",
        artifacts=[job.out / file for file in sorted(p.name for p in job.out.iterdir())],
        params={"best_epoch": str(how["best_epoch"]), "steps": str(how["steps"])},
        tags={
            "seconds": f"{how['seconds']:.1f}",
            "tokens_per_second": f"{how['tokens_per_second']:.0f}",
            "peak_memory_bytes": str(record["peak_memory_bytes"]),
            "device": record["environment"]["device"],
        },
    )


def scores(job: Job) -> None:
    """Score every run of a paper."""
    from minbert.evaluate.partial import score_entries
    from minbert.evaluate.score import score_runs

    score_runs(list(score_entries(job)), job.out / "scores.parquet")


def table(job: Job) -> None:
    """Set a paper's table: published beside reproduced."""
    from minbert.evaluate.table import build_table

    build_table(job.spec, job.need("scores"), job.out, "table")


def index(job: Job) -> None:
    """List every published row with its status and scores."""
    from minbert.evaluate.index import build_index

    build_index(job.spec["published"], job.needs("table").values(), job.out)


def claims(job: Job) -> None:
    """Judge what the papers claim."""
    from minbert.evaluate.claims import build_claims

    build_claims(job.spec, job.needs("scores"), job.needs("predictions"), job.out)


def figure(job: Job) -> None:
    """Draw one figure."""
    from minbert.figures.make import draw_figure

    draw_figure(job, job.out / "figure")


def report(job: Job) -> None:
    """Write the report of all that is published."""
    from minbert.report.make import write_report

    write_report(job, job.out / "report.html")


GRACE = 8
"""Seconds that a training job has from SIGTERM to the end of its step and the saved state."""

_ALL = (
    *(fetch, data, vocabulary, backbone, tokens, features),
    *(train, scores, table, index, claims, figure, report),
)
STEPS: dict[str, Callable[[Job], None]] = {step.__name__: step for step in _ALL}


def run_step(
    root: Path, kind: str, key: str, seed: int | None, threads: int, memory: int | None = None
) -> None:
    """Run one step; SIGTERM ends it as an error does, so that what it holds is closed.

    `memory` is what it needs of a GPU, in bytes; where it is not known it has a GPU alone.
    """
    signal.signal(signal.SIGTERM, _stop)
    job = Job.load(root, kind, key, seed, threads, memory)
    with nullcontext() if "device" in job.extra else no_gpu():
        STEPS[kind](job)


def _device(job: Job) -> AbstractContextManager[str]:
    """Return the device that the job computes on; waits until there is one."""
    say = partial(print, file=sys.stderr, flush=True)
    return device_for(job.extra["device"], job.memory, say, job.processes)


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(f"stopped by signal {number}")


def _save_before_stopping(checkpoints: Checkpoints) -> None:
    """Let SIGTERM save the state after the step at hand; end in any case within seconds."""

    def ask(number: int, frame: FrameType | None) -> None:
        checkpoints.stop = number
        signal.signal(signal.SIGALRM, lambda *_: _stop(number, frame))
        signal.alarm(GRACE)

    signal.signal(signal.SIGTERM, ask)
