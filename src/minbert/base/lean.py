"""Jobs start and end without work that nobody needs: pandas, and looking for garbage in modules."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


def without_pandas() -> None:
    """Have pyarrow look for pandas now, in vain; it asks once in a process.

    Before it makes an array of anything, pyarrow imports pandas to see whether the thing is a data
    frame's column: half a second in each of a grid's jobs, none of which has data frames.
    """
    if "pandas" in sys.modules:
        return
    finder: Any = SimpleNamespace(find_spec=_refuse_pandas)
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow

        pyarrow.array([0])
    finally:
        sys.meta_path.remove(finder)


def _refuse_pandas(name: str, *_: object) -> None:
    if name == "pandas":
        raise ModuleNotFoundError("pandas is not imported here", name=name)


@contextmanager
def imports() -> Iterator[None]:
    """Import modules in the block without looking for garbage in them, then, later or at the end.

    torch makes 300,000 objects that stay. Python's collector goes through them as they are made, in
    training and at the end: half a second in each of a grid's jobs.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
