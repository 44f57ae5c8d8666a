"""What a training job's start costs: modules that it must not import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

JOB = """
import json, sys
from pathlib import Path
import torch
from minbert.spec.stage import StageSpec
from minbert.train.learner import Sources
from minbert.train.run import train_stage

spec, backbone, tokens, out = json.loads(sys.argv[1])
sources = Sources(Path(backbone), {"sst": Path(tokens)}, {})
spec = StageSpec.model_validate(spec)
train_stage(spec, 0, sources, Path(out), title="run", device="cpu", precision="fp32")
print(json.dumps(sorted(sys.modules)))
"""
COSTLY = {
    "torch._dynamo",
    "torch._inductor",
    "sympy",
    "pyarrow.dataset",
    "mlflow",
    "matplotlib",
    "transformers",
}


def test_a_training_job_imports_nothing_costly(
    backbone: Path, tokens: dict[str, Path], make_spec: Any, tmp_path: Path
) -> None:
    spec = make_spec(("sst",)).model_dump(mode="json")
    given = json.dumps([spec, str(backbone), str(tokens["sst"]), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-c", JOB, given], check=True, text=True, stdout=subprocess.PIPE
    )
    assert COSTLY & set(json.loads(done.stdout)) == set()
