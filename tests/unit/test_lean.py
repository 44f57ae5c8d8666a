"""What jobs do not do: import what is costly, look for garbage in modules."""

import subprocess
import sys

CODE = """
import sys
from minbert.base.process import without_pandas
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


TRAINING = """
import gc, sys
from minbert.base.process import imports
with imports():
    assert not gc.isenabled()
    import minbert.train.finetune, minbert.train.run
costly = {"torch._dynamo", "torch._inductor", "sympy", "pyarrow.dataset", "mlflow", "transformers"}
assert not costly & {*sys.modules}
left_out = gc.get_freeze_count()
try:
    with imports():
        import minbert.nothing
except ModuleNotFoundError:
    pass
print(left_out > 100_000, gc.isenabled())
"""


def test_a_training_imports_nothing_costly_and_looks_for_no_garbage_in_modules() -> None:
    command = [sys.executable, "-c", TRAINING]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.split() == ["True", "True"]
