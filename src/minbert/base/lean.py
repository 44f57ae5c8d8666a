"""Jobs start and end without work that nobody needs: pandas, and looking for garbage in modules."""

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import ModuleType


class _NoPandas(MetaPathFinder):
    """Says that there is no pandas."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not imported here", name=name)


def without_pandas() -> None:
    """Have pyarrow look for pandas now, in vain; it asks once in a process.

    Before it makes an array of anything, pyarrow imports pandas to see whether the thing is a data
    frame's column: half a second in each of a grid's jobs, none of which has data frames.
    """
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow

        pyarrow.array([0])
    finally:
        sys.meta_path.remove(finder)


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
