"""The pipeline's steps: from a node's description to the function that makes its files.

Every rule's shell calls one of these by `minbert STEP KEY`; so each step also runs by hand.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from minbert.common.process import only_one
from minbert.grid.job import Job

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
        pretrain(settings, job.spec["seed"], tokenizer, job.out, job.extra["device"], job.threads)
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
    cache_features(
        job.spec["task"],
        job.spec["pooling"],
        job.spec["pairing"],
        job.spec["max_length"],
        job.need("weights").parent,
        job.need("tokens"),
        job.out / "features.safetensors",
        choose_device(job.extra["device"]),
    )


def train(job: Job) -> None:
    """Train one stage with one seed; what it measures is noted for MLflow as it goes."""
    from minbert.grid.spec import StageSpec
    from minbert.track.journal import Journal
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
    name = f"{job.described['title']} . s{job.seed}"
    with ExitStack() as stack:
        work = job.root / "work" / job.described["key"] / f"seed{job.seed}"
        stack.enter_context(only_one(work, f"training of {name}"))
        state = StateFile(work, f"{job.described['key']} seed {job.seed}")
        checkpoints = Checkpoints(state, job.extra["checkpoint_seconds"])
        _save_before_stopping(checkpoints)
        journal = Journal.start(job.root, _run(job, spec, name))
        try:
            record = train_stage(
                spec,
                job.seed or 0,
                sources,
                job.out,
                title=name,
                device=job.extra["device"],
                precision=job.extra["precision"],
                threads=job.threads,
                listener=journal.log,
                checkpoints=checkpoints,
            )
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
                "commit": record["environment"]["commit"],
                "device": record["environment"]["device"],
            },
        )


def _run(job: Job, spec: Any, name: str) -> dict[str, Any]:
    owner = job.described["owner"]
    flat = _flatten(spec.model_dump(mode="json"))
    return {
        "experiment": owner["paper"],
        "key": job.described["key"],
        "seed": job.seed,
        "name": name,
        "params": {
            "variant": owner["variant"],
            "stage": owner["stage"],
            "tasks": "+".join(spec.trained_tasks),
            "seed": str(job.seed),
            **flat,
        },
        "tags": {"minbert.select": spec.select, "minbert.key": job.described["key"]},
        "datasets": [_dataset(task, path) for task, path in job.needs("tokens").items()],
    }


def _dataset(task: str, tokens: Path) -> dict[str, Any]:
    from pyarrow.parquet import read_metadata

    from minbert.data.identity import sha256

    rows = read_metadata(tokens).num_rows
    return {"name": task, "digest": sha256(tokens), "source": str(tokens), "rows": rows}


def _flatten(value: Any, prefix: str = "") -> dict[str, str]:
    if not isinstance(value, dict):
        return {prefix: str(value)}
    found: dict[str, str] = {}
    for name, inner in value.items():
        found |= _flatten(inner, f"{prefix}.{name}" if prefix else name)
    return found


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


PATIENCE = 8
"""Seconds that a training job has from SIGTERM to the end of its step and the saved state."""

STEPS: dict[str, Callable[[Job], None]] = {
    "fetch": fetch,
    "data": data,
    "vocabulary": vocabulary,
    "backbone": backbone,
    "tokens": tokens,
    "features": features,
    "train": train,
    "scores": scores,
    "table": table,
    "index": index,
    "claims": claims,
    "figure": figure,
    "report": report,
}


def run_step(root: Path, kind: str, key: str, seed: int | None, threads: int) -> None:
    """Run one step; SIGTERM ends it as an error does, so that what it holds is closed."""
    signal.signal(signal.SIGTERM, _stop)
    STEPS[kind](Job.load(root, kind, key, seed, threads))


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(f"stopped by signal {number}")


def _save_before_stopping(checkpoints: Checkpoints) -> None:
    """Let SIGTERM save the state after the step at hand; end in any case within seconds."""

    def ask(number: int, frame: FrameType | None) -> None:
        checkpoints.stop = number
        signal.signal(signal.SIGALRM, lambda *_: _stop(number, frame))
        signal.alarm(PATIENCE)

    signal.signal(signal.SIGTERM, ask)
