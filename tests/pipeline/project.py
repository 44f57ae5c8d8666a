"""A copy of the workflow with a tiny configuration, and what tests do with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, chdir
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import encoders

from minbert.evaluate.text import read_csv
from minbert.plan.outputs import load_plan
from minbert.plan.pending import pending
from minbert.plan.plan import Plan
from minbert.store import code

CHECKOUT = Path(__file__).parents[2]
WORKFLOW = ("Snakefile", "workflow", "profiles", "envs", "src")
PAPER = "hybrid-bert"

CONFIG = """\
grids: [hybrid-bert]
seeds: [0]
data: builtin
limit: 48
backbone: backbone
device: cpu
precision: fp32
threads: 1
scale: {learning_rate: 50, epochs: 0.05}
"""

SECRET = "s3cr3t-9f2c"
CREDENTIALS = dict.fromkeys(
    ("HF_TOKEN", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "WANDB_API_KEY"), SECRET
)
"""What a user's environment may hold, in all commands here; it must stay there."""

SST_ONLY = """\
variants:
  sst-only:
    extends: multitask
    label: SST alone
    tasks:
      para: null
      sts: null

"""
"""A row that uses neither MSE nor surgery, and stands in no figure."""


def copy_workflow(folder: Path) -> None:
    """Copy the workflow and the package, whole, to the new `folder`; no configuration."""
    folder.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in WORKFLOW:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy2(source, folder / name)


@dataclass(frozen=True)
class Project:
    """A folder with the workflow, its own copy of the package, and its results."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Project:
        """Copy the workflow with the rows of Table 1 and one figure; give it the configuration.

        Claims go with the rows that they are about.
        """
        copy_workflow(folder)
        encoders.write_tiny(folder / "backbone")
        (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
        project = cls(folder)
        grid = folder / "workflow" / "grids" / f"{PAPER}.yaml"
        whole = grid.read_text(encoding="utf-8").partition("\n# What the paper says")[0]
        kept, table_3 = whole.split("  # Table 3.")
        rest = table_3[table_3.index("# The paper says") :]
        head, figures = rest.split("figures:\n")
        first = re.split(r"\n\n", figures)[0]
        grid.write_text(f"{kept}{head}figures:\n{first}\n", encoding="utf-8")
        (folder / "workflow" / "figures.yaml").unlink()
        project.edit(f"workflow/grids/{PAPER}.yaml", "variants:\n", SST_ONLY)
        return project

    def copy(self, folder: Path) -> Project:
        """Copy all there is."""
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
        return Project(folder)

    @property
    def root(self) -> Path:
        """The results root."""
        return self.folder / "results"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands: the copy's package comes first."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SNAKEMAKE", "MLFLOW"))}
        path = os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])
        return {**kept, **CREDENTIALS, "PYTHONPATH": str(self.folder / "src"), "PATH": path}

    def start(self, *words: str, process_group: int | None = None) -> subprocess.Popen[str]:
        """Start a command here; its output and errors go to one pipe."""
        return subprocess.Popen(
            words,
            cwd=self.folder,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=process_group,
        )

    def run(self, *words: str, ends: int | None = 0, within: float = 600) -> str:
        """Run a command to its end, at most `within` seconds, and return what it printed.

        `ends` is its expected status.
        """
        process = self.start(*words)
        try:
            printed, _ = process.communicate(timeout=within)
        finally:
            process.kill()
        assert ends is None or process.returncode == ends, printed
        return printed

    def snakemake(self, *words: str, ends: int | None = 0) -> str:
        """Run Snakemake on two cores."""
        return self.run("snakemake", "--cores", "2", *words, ends=ends)

    def log(self) -> str:
        """Return Snakemake's own log of its last run: every job, which the console leaves out."""
        logs = (self.folder / ".snakemake" / "log").glob("*.log")
        return max(logs, key=lambda path: path.name).read_text("utf-8")

    def minbert(self, *words: str, ends: int | None = 0) -> str:
        """Run `minbert`."""
        return self.run("minbert", *words, ends=ends)

    def load(self) -> Plan:
        """Return what is planned here now, by the code of the copy."""
        package = self.folder / "src" / "minbert"
        with chdir(self.folder), mock.patch.object(code, "FOLDER", package), ExitStack() as stack:
            for cached in (code._sources, code.code_modules, code._parse):
                cached.cache_clear()
                stack.callback(cached.cache_clear)
            plan = load_plan([Path("config.yaml")], Path())
            assert plan.nodes  # Their code is read now.
            return plan

    def planned(self) -> set[str]:
        """Return what would run, by the plan, as `jobs` says it."""
        plan = self.load()
        with chdir(self.folder):
            found = {
                f"train {plan.owners[node.key].variant} {seed}" if seed is not None else node.kind
                for node, seed in pending(plan)
            }
            return found if plan.mark.exists() else found | {"publish"}

    def plan(self) -> str:
        """Return the name of the plan that was written last."""
        records = (self.root / "store" / "plans").glob("*.json")
        return max(records, key=lambda path: path.stat().st_mtime_ns).stem

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace the first `old` in a file; it must be there."""
        file = self.folder / path
        text = file.read_text(encoding="utf-8")
        assert old in text, f"{path} has no {old!r}"
        file.write_text(text.replace(old, new, 1), encoding="utf-8")

    def configure(self, **values: str) -> None:
        """Set top-level keys of config.yaml to YAML texts."""
        file = self.folder / "config.yaml"
        text = file.read_text(encoding="utf-8")
        for key, value in values.items():
            line = f"{key}: {value}\n"
            text, found = re.subn(rf"(?m)^{key}: .*\n", line, text)
            text = text if found else text + line
        file.write_text(text, encoding="utf-8")

    def jobs(self) -> set[str]:
        """Return what `all` would run: 'train VARIANT SEED', else rule and task or nothing."""
        return planned_jobs(self.snakemake("-n", "all"), self.variants)

    def variants(self) -> dict[str, str]:
        """Return {training key: first variant with it}, as they are planned now."""
        return {key: ref.variant for key, ref in self.load().owners.items()}

    def key(self, variant: str) -> str:
        """Return the training key of a variant, as it is planned now."""
        return next(key for key, name in self.variants().items() if name == variant)

    def seed_folder(self, variant: str, seed: int = 0) -> Path:
        """Return where a variant's training leaves its files."""
        return self.root / "store" / "train" / self.key(variant) / f"seed{seed}"

    def target(self, variant: str, seed: int) -> str:
        """Return the word that asks Snakemake for one training."""
        return str((self.seed_folder(variant, seed) / "run.json").relative_to(self.folder))

    def tables(self) -> dict[str, bytes]:
        """Return the published tables' bytes by name."""
        folder = self.root / "tables"
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    def table(self, name: str) -> list[dict[str, str]]:
        """Return the lines of a published csv table."""
        return read_csv(self.root / "tables" / f"{name}.csv")

    def trained(self) -> dict[str, int]:
        """Return {file: time of last change, ns} of all that training left."""
        files = (self.root / "store" / "train").rglob("*.*")
        return {str(p.relative_to(self.root)): p.stat().st_mtime_ns for p in files if p.is_file()}


_JOB = re.compile(r"^(?:local)?rule (\w+):\n((?:    .*\n)+)", re.MULTILINE)
_MADE = re.compile(r"store/(\w+)/([0-9a-f]{16})/(?:seed(\d+)/)?")


def planned_jobs(printed: str, variants: Callable[[], dict[str, str]]) -> set[str]:
    """Return what jobs make that Snakemake prints as it starts or plans them.

    That is 'train VARIANT SEED', other kinds by their name, and of a job that makes nothing under a
    key its rule. `variants` names training keys; it is asked only if there are any.
    """
    found = set[tuple[str, str, str]]()
    for rule, body in _JOB.findall(printed):
        output = re.search(r"(?m)^    output: (.*)", body)
        made = _MADE.findall(output[1]) if output else []
        found |= {*made} or {(rule, "", "")} - {("all", "", "")}
    return {
        f"train {variants()[key]} {seed}" if kind == "train" else kind for kind, key, seed in found
    }


def wait_for(what: Callable[[], bool], why: str, seconds: float = 600) -> None:
    """Wait until `what()` holds; fail with `why` if it does not in time."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {why}"
        time.sleep(0.02)
