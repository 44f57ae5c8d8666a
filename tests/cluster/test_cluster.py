"""The short form: a grid on a real Slurm, disturbed twice, ends like the local run.

`make test-cluster` is the long one. Where Slurm cannot be had this skips and says why.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from cluster.__main__ import rounds
from cluster.slurm import NoSlurm, Slurm, why_not

pytestmark = pytest.mark.cluster


def test_a_disturbed_run_on_slurm_ends_like_the_local_one(tmp_path: Path) -> None:
    if find_spec("snakemake_executor_plugin_slurm") is None:
        pytest.skip("the executor for Slurm is not installed: pip install -e '.[slurm]'")
    if (why := why_not()) is not None:
        pytest.skip(why)
    try:
        with Slurm(tmp_path / "slurm") as slurm:
            assert rounds(slurm, tmp_path, short=True) == []
    except NoSlurm as error:
        pytest.skip(str(error))
