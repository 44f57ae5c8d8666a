"""The package's rooms: which way imports run, and what a job's code may load."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import grimp
import pytest
from planning import planning_folder
from trained_root import make_root

from minbert.base.files import write_text
from minbert.commands.steps import load_job
from minbert.plan.experiment import Experiment
from minbert.plan.sources import Sources
from minbert.spec.config import load_config
from minbert.spec.resolve import resolve
from minbert.store.code import NOT_HASHED, code_modules
from minbert.store.job import Job


def circles(imports: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yield every circle that a walk along the imports comes upon."""
    state: dict[str, str] = {}

    def walk(module: str, path: list[str]) -> Iterator[list[str]]:
        state[module] = "open"
        for other in sorted(imports[module]):
            if state.get(other) == "open":
                yield [*path[path.index(other) :], other]
            elif other not in state:
                yield from walk(other, [*path, other])
        state[module] = "done"

    for module in sorted(imports):
        if module not in state:
            yield from walk(module, [module])


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for types alone count, too."""
    graph = grimp.build_graph("minbert", cache_dir=None, exclude_type_checking_imports=False)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert list(circles(imports)) == []


def test_circles_are_found() -> None:
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == [["a", "b", "c", "a"]]
    assert list(circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})) == []


LOADED = """
import json, sys
from pathlib import Path
from minbert.commands.steps import run_step
root, kind, key, seed = Path(sys.argv[1]), *sys.argv[2:4], json.loads(sys.argv[4])
run_step(root, kind, key, seed, 1)
print(json.dumps([name for name in sys.modules if name.startswith("minbert")]))
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_root(tmp_path_factory.mktemp("rooms")).root


@pytest.mark.parametrize("kind", ["data", "tokens", "features", "train"])
def test_all_that_a_job_loads_is_in_its_digest_or_surrounds_it(kind: str, trained: Path) -> None:
    seed = 0 if kind == "train" else None
    around = code_modules(["minbert.commands.steps", "minbert.track.runs"])
    jobs: dict[str, Job] = {}  # one for each way to train
    for path in sorted((trained / "store" / "spec").glob(f"{kind}-*.json")):
        job = load_job(trained, kind, path.stem.partition("-")[2], seed, 1)
        if job.out.exists():
            jobs[job.spec["stage"]["trainable"] if kind == "train" else kind] = job
    assert len(jobs) == (4 if kind == "train" else 1)
    for job in jobs.values():
        words = [str(trained), kind, job.described["key"], json.dumps(seed)]
        ran = subprocess.run(
            [sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=True
        )
        loaded = set(json.loads(ran.stdout.splitlines()[-1]))
        strange = {
            name
            for name in loaded - around.keys() - set(job.described["code"])
            if not any(name == each or name.startswith(f"{each}.") for each in NOT_HASHED)
        }
        assert not strange, f"{job.title}: not in its digest: {sorted(strange)}"


def test_what_is_outside_exists() -> None:
    for name in NOT_HASHED:
        assert name in code_modules([name])


GRID = """\
paper: one
title: One
overall: plain
variants:
  a:
    tasks:
      sst: {loss: cross_entropy}
      para: {loss: binary_cross_entropy, pairing: siamese, features: [u, v]}
"""


def test_fourteen_modules_lead_from_a_variant_to_its_key(tmp_path: Path) -> None:
    """Those whose code runs between the grid file and the key, `base` apart."""
    write_text(planning_folder(tmp_path) / "one.yaml", GRID)
    results = tmp_path / "results"
    words = {"grids": ["one.yaml"], "data": "builtin", "backbone": "builtin"}
    config = load_config({**words, "results": str(results)})
    sources = Sources(config, results, tmp_path)
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        module = str(frame.f_globals.get("__name__", ""))
        if event == "call" and module.startswith("minbert."):
            seen.add(module.removeprefix("minbert."))

    sys.setprofile(note)
    try:
        (grid,) = resolve(config, tmp_path)
        every = {stage.ref: stage for each in grid.variants.values() for stage in each.stages}
        experiment = Experiment(config, tmp_path, (grid,), every, (), sources)
        key = experiment.train(next(iter(experiment.stages))).key
    finally:
        sys.setprofile(None)
    assert len(key) == 16
    named = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text("utf-8")
    assert {module for module in seen if not module.startswith(("base.", "data."))} == {
        *(f"spec.{name}" for name in ("yaml", "grid", "variants", "resolve", "stage")),
        *(
            "spec.task",
            "spec.entry",
            "spec.parts",
            "spec.model",
            "spec.architecture",
            "plan.experiment",
            "plan.sources",
            "store.node",
            "store.code",
        ),
    }
    assert all(f"`{module}`" in named for module in seen if module.startswith(("spec.", "plan.")))
