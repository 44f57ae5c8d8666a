"""What pytest collects is the same for every worker, as pytest-xdist refuses to run otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COLLECT = """
import sys, time
now = time.time
time.time = lambda: now() + 86_400
import pytest
raise SystemExit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


def test_ids_and_their_order_depend_on_neither_hash_seed_nor_clock(
    request: pytest.FixtureRequest,
) -> None:
    config = request.config
    filters = ("-k", config.option.keyword, "-m", config.option.markexpr)
    other = subprocess.run(
        [sys.executable, "-c", COLLECT, *config.args, *filters],
        cwd=config.invocation_params.dir,
        env=os.environ | {"PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    ids = [item.nodeid for item in request.session.items]
    chosen = {*ids}  # `--lf` and `--deselect` leave out others
    assert ids == [line for line in other.stdout.splitlines() if line in chosen]
    assert len(set(ids)) == len(ids)
