"""A run of a project in forked processes, without Snakemake: what is pending, job by job.

Starting Python and importing torch is most of a tiny job's time. So the parent imports the
libraries once, and never `minbert`; each run is a fork that imports it from the project's `src`,
and each job is a fork of that.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from io import BytesIO
from pathlib import Path
from typing import Any

LIBRARIES = (
    "jinja2 matplotlib.backends.backend_agg matplotlib.backends.backend_pdf matplotlib.pyplot "
    "numpy pandas PIL.Image pyarrow.compute pyarrow.parquet pydantic safetensors.torch "
    "scipy.special scipy.stats tokenizers torch torch.nn.functional yaml"
)
RESULT = "run.json"
LINES = "lines.json"
MODULES = "modules.json"
PLAN = "plan"
PR_SET_PDEATHSIG = 1
MOST_MEMORY = 8 << 30
MOST_FILE = 256 << 20
"""Bounds, in bytes, on what a mutant may take: some ask for a thousand times as much."""

VOLATILE = {
    *("seconds", "training_seconds", "tokens_per_second"),
    *("peak_memory_bytes", "peak_device_memory_bytes"),
    *("format", "code", "data", "backbone"),
}
"""What a training's record says of its speed and size, and of what it was made from.

These get one value, for the report's sake.
"""


@dataclass
class Run:
    """How a run ended. `jobs` are those that ran; `error` is empty if it ended well."""

    error: str = ""
    jobs: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    """their folders under the results root"""
    seconds: float = 0.0


def preload() -> None:
    """Import the libraries in this process, from which runs are forked."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["MPLBACKEND"] = "agg"
    for name in LIBRARIES.split():
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    figure = importlib.import_module("matplotlib.figure").Figure()
    figure.subplots().set_title("A")  # so that fonts are read once
    for form in ("png", "pdf"):
        figure.savefig(BytesIO(), format=form)
    assert not any(name.partition(".")[0] == "minbert" for name in sys.modules)


def run(project: Path, limit: float, trace: bool = False) -> Run:
    """Make in `project` all that is pending there; kill it after `limit` seconds.

    With `trace` the lines of the package that were run are left in `lines.json`.
    """
    result = project / RESULT
    result.unlink(missing_ok=True)
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _exit_with(lambda: _run(project, trace), project / "run.log")
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() - began > limit:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return Run(f"does not end within {limit:.0f} s")
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):  # what it may have left
        os.killpg(pid, signal.SIGKILL)
    if not result.exists():
        return Run(_last_line(project / "run.log"))
    found = Run(**json.loads(result.read_text("utf-8")))
    found.seconds = time.monotonic() - began
    return found


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _exit_with(work: Callable[[], object], log: Path) -> None:
    """Run `work` in this new process, which ends with it; its output goes to `log`."""
    status = 1
    _end_with_parent()
    try:
        sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        work()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _run(project: Path, trace: bool) -> None:
    with contextlib.suppress(PermissionError):
        os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE, MOST_FILE))
    os.chdir(project)
    sys.path.insert(0, str(project / "src"))
    for name in [name for name in os.environ if name.startswith(("MLFLOW", "SLURM"))]:
        del os.environ[name]
    lines = Lines(project) if trace else None
    if lines:
        lines.start()
    found = Run()
    try:
        _import_all(project)
        _work_off(found, lines)
    except BaseException as error:
        if isinstance(error, SystemExit):
            raise
        traceback.print_exc()
        found.error = f"{type(error).__name__}: {error}".splitlines()[-1]
    if lines:
        lines.write(PLAN)
    Path(RESULT).write_text(json.dumps(vars(found)), encoding="utf-8")


def _import_all(project: Path) -> None:
    """Import what the jobs of the run before imported, so that no fork does it alone."""
    with contextlib.suppress(FileNotFoundError):
        for name in json.loads((project / MODULES).read_text("utf-8")):
            with contextlib.suppress(Exception):  # The job that needs it will say so.
                importlib.import_module(name)


def _work_off(found: Run, lines: Lines | None) -> None:
    from minbert.plan.describe import title, write
    from minbert.plan.pending import pending
    from minbert.plan.plan import Plan

    plan = Plan.load(Path("config.yaml"), Path())
    written = write(plan)
    for node, seed in list(_in_order(pending(plan))):
        where = str(node.folder(plan.root, seed).relative_to(plan.root))
        words = ["make", f"{node.kind}-{node.key}", "--threads", "1"]
        words += [] if seed is None else ["--seed", str(seed)]
        if not _job(
            found, f"{node.kind} {title(plan, node, seed)}", words, plan.root, lines, where
        ):
            return
        found.made.append(where)
        if node.kind == "train":
            _settle(plan.root / where / "run.json")
    if not plan.mark.exists():
        words = ["publish", "--plan", written, "--mark", str(plan.mark)]
        _job(found, "publish", words, plan.root, lines, "publish")
        if not (found.error or plan.mark.exists()):
            found.error = "publish: left no mark"  # Snakemake refuses a job without its output


def _job(
    found: Run, name: str, words: list[str], root: Path, lines: Lines | None, where: str
) -> bool:
    """Run one job in a process of its own; note it, or why it failed."""
    log = root / "logs" / f"{'-'.join(words[:2])}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    pid = os.fork()
    if pid == 0:
        from minbert.commands.cli import main

        def work() -> None:
            try:
                main([*words, "--results", str(root)])
            finally:
                if lines:
                    lines.write(where)

        _exit_with(work, log)
    _, status, used = os.wait4(pid, 0)
    print(f"{name}: {used.ru_utime + used.ru_stime:.2f} s of CPU", flush=True)
    if status:
        found.error = f"{name}: {_last_line(log) or f'status {status}'}"
        return False
    found.jobs.append(name)
    return True


def _in_order(jobs: Any) -> Iterator[tuple[Any, int | None]]:
    """Yield the pending (node, seed), each after those that it needs."""
    waiting = {(node.kind, node.key, seed): (node, seed) for node, seed in jobs}
    done: set[tuple[str, str, int | None]] = set()

    def visit(node: Any, seed: int | None) -> Iterator[tuple[Any, int | None]]:
        at = (node.kind, node.key, seed)
        if at in done or at not in waiting:
            return
        done.add(at)
        for need in node.needs.values():
            yield from visit(need.node, need.seed_for(seed))
        yield waiting[at]

    for node, seed in list(waiting.values()):
        yield from visit(node, seed)


def _settle(path: Path) -> None:
    """Give what a record says of speed and memory one value, which the report then shows."""

    def settled(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {k: 1 if k in VOLATILE else settled(v) for k, v in value.items()}

    record = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(settled(record), indent=1, sort_keys=True), encoding="utf-8")


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else ""


class Lines:
    """Notes which statements of a project's package each job runs, and the plan, before it forks.

    Each is compiled with a note before it, which is sooner than to trace: a tracer is asked at
    every call of every library.
    """

    def __init__(self, project: Path) -> None:
        self.source = str(project / "src" / "minbert") + os.sep
        self.folder = project / "lines"
        self.folder.mkdir(exist_ok=True)
        self.found: set[tuple[str, int]] = set()

    def start(self) -> None:
        """Note what is imported from now on."""
        sys.dont_write_bytecode = True
        compiled = SourceFileLoader.source_to_code
        lines = self

        def noted(self: SourceFileLoader, data: Any, path: Any, *rest: Any, **more: Any) -> Any:
            if str(path).startswith(lines.source):
                name = str(path).removeprefix(lines.source)
                data = _Noted(name).visit(ast.parse(data))
                data = ast.fix_missing_locations(data)
            return compiled(self, data, path, *rest, **more)

        SourceFileLoader.source_to_code = noted  # type: ignore[method-assign]
        builtins.__noted__ = lambda *at: self.found.add(at)  # type: ignore[attr-defined]

    def write(self, who: str) -> None:
        """Leave what this process found, under the folder of its job or `PLAN`."""
        modules = [name for name in sys.modules if name.partition(".")[0] == "minbert"]
        told = {"who": who, "modules": modules, "lines": sorted(self.found)}
        (self.folder / f"{os.getpid()}.json").write_text(json.dumps(told), encoding="utf-8")


class _Noted(ast.NodeTransformer):
    """Puts a call of `__noted__(file, line)` before each statement of a module."""

    def __init__(self, name: str) -> None:
        self.name = name

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit what is below, then each list of statements of the node."""
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list) and statements:
                setattr(node, name, list(self._noted(statements)))
        return node

    def _noted(self, statements: list[ast.stmt]) -> Iterator[ast.stmt]:
        for statement in statements:
            text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not text and not isinstance(statement, ast.ImportFrom):
                (note,) = ast.parse(f"__noted__({self.name!r}, {statement.lineno})").body
                yield note
            yield statement


def join_lines(project: Path) -> None:
    """Put together what the processes of a traced run found.

    `lines.json` has {job's folder, or `PLAN`: {module: lines}}.
    """
    found: dict[str, dict[str, list[int]]] = {}
    modules: set[str] = set()
    for path in sorted((project / "lines").iterdir()):
        told = json.loads(path.read_text("utf-8"))
        modules |= set(told["modules"])
        of = found.setdefault(told["who"], {})
        for name, number in told["lines"]:
            of.setdefault(name, []).append(number)
    (project / LINES).write_text(json.dumps(found), encoding="utf-8")
    kept = [name for name in sorted(modules) if name != "minbert.__main__"]
    (project / MODULES).write_text(json.dumps(kept), encoding="utf-8")
