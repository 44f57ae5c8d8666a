"""Jobs do not import pandas."""

import subprocess
import sys

CODE = """
import sys
from minbert.base.lean import without_pandas
without_pandas()
import numpy as np, pyarrow as pa
table = pa.Table.from_pylist([{"a": 1, "b": [0.5]}, {"a": None, "b": None}])
pa.array(np.zeros(3), from_pandas=True)
pa.array([np.zeros(2)] * 2, pa.list_(pa.float32()))
table["a"].to_numpy(), table.sort_by("a"), table.to_pylist()
print("pandas" in sys.modules)
import pandas
print("pandas" in sys.modules)
"""


def test_pyarrow_works_without_pandas_which_can_still_be_imported() -> None:
    command = [sys.executable, "-c", CODE]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.split() == ["False", "True"]
