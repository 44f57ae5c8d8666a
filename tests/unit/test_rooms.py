"""What a job's code may load: its digest covers it. Import-linter says which way imports run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from minbert.commands.steps import load_job
from minbert.store.code import NOT_HASHED, code_modules
from minbert.store.job import Job

LOADED = """
import json, sys
from pathlib import Path
from minbert.commands.steps import make
root, kind, key, seed = Path(sys.argv[1]), *sys.argv[2:4], json.loads(sys.argv[4])
make(root, [f"{kind}-{key}"], seed=seed)
print(json.dumps([name for name in sys.modules if name.startswith("minbert")]))
"""


@pytest.mark.parametrize("kind", ["data", "tokens", "features", "train"])
def test_all_that_a_job_loads_is_in_its_digest_or_surrounds_it(kind: str, root: Path) -> None:
    seed = 0 if kind == "train" else None
    around = code_modules(("minbert.commands.steps", "minbert.track.runs"))
    jobs: dict[str, Job] = {}  # one for each way to train
    for path in sorted((root / "store" / "spec").glob(f"{kind}-*.json")):
        job = load_job(root, kind, path.stem.partition("-")[2], seed, 1)
        if job.out.exists():
            jobs[job.spec["stage"]["trainable"] if kind == "train" else kind] = job
    assert len(jobs) == (4 if kind == "train" else 1)
    for job in jobs.values():
        words = [str(root), kind, job.described["key"], json.dumps(seed)]
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
        assert name in code_modules((name,))
