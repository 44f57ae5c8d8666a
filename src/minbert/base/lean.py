"""Jobs start without pandas, which pyarrow would import only to learn that nobody uses it."""

import sys
from collections.abc import Sequence
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
