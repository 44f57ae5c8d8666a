"""docs/results.ipynb: what the results of a run look like from Python.

`cd tests && python -m pages.notebook ROOT` runs its cells on the results folder ROOT, that of the
demo's first grid, and keeps what they show.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
import pandas as pd
from nbformat.v4 import new_output

NOTEBOOK = Path(__file__).parents[2] / "docs" / "results.ipynb"
FOLDER = Path("results", "demo")
"""The results folder that the cells name."""
WIDTH = 100


def read() -> Any:
    """Return the notebook."""
    return nbformat.read(NOTEBOOK, as_version=4)


def shown(cell: Any) -> str:
    """Return the text that a cell shows."""
    return "".join(of.text if "text" in of else of.data["text/plain"] for of in cell.outputs)


def execute(notebook: Any, root: Path) -> Any:
    """Give a notebook what its cells show when `FOLDER` is the results folder `root`.

    As in Jupyter, all cells share their names.
    """
    names: dict[str, Any] = {}
    root = root.absolute()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        FOLDER.parent.mkdir()
        FOLDER.symlink_to(root)
        with pd.option_context("display.width", WIDTH, "display.max_columns", 20):
            code = (cell for cell in notebook.cells if cell.cell_type == "code")
            for number, cell in enumerate(code, start=1):
                cell |= {"execution_count": number, "outputs": [*_run(cell.source, names, number)]}
    return notebook


def _run(source: str, names: dict[str, Any], number: int) -> Iterator[Any]:
    """Run the code of a cell; yield what it printed, and the values of its expressions."""
    printed, values = io.StringIO(), list[Any]()
    with contextlib.redirect_stdout(printed), mock.patch("sys.displayhook", values.append):
        statements = ast.Interactive(ast.parse(source).body)
        exec(compile(statements, f"cell {number}", "single"), names)
    if text := printed.getvalue():
        yield new_output("stream", text=text)
    for value in values:
        if value is not None:
            data = {"text/plain": repr(value)}
            if isinstance(value, pd.DataFrame):
                data["text/html"] = value.to_html(border=0)
            yield new_output("execute_result", data=data, execution_count=number)


if __name__ == "__main__":
    os.environ["TQDM_DISABLE"] = "1"
    nbformat.write(execute(read(), Path(sys.argv[1])), NOTEBOOK)
