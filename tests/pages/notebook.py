"""docs/results.ipynb: what the results of a run look like from Python.

`cd tests && python -m pages.notebook ROOT` runs its cells on the results folder ROOT, that of the
demo's first grid, and keeps what they show.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from minbert.base.files import write_text

NOTEBOOK = Path(__file__).parents[2] / "docs" / "results.ipynb"
FOLDER = Path("results", "demo")
"""The results folder that the cells name."""
WIDTH = 100

Cell = dict[str, Any]


def read() -> dict[str, Any]:
    """Return the notebook, in version 4 of the format."""
    found: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return found


def shown(cell: Cell) -> str:
    """Return the text that a cell shows."""
    texts = [
        output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"]
        for output in cell["outputs"]
    ]
    return "".join("".join(text) for text in texts)


def executed(notebook: dict[str, Any], root: Path) -> dict[str, Any]:
    """Return the notebook with what its cells show when `FOLDER` is the results folder `root`.

    As in Jupyter, all cells share their names, and the value of a last expression is shown.
    """
    names: dict[str, Any] = {}
    cells: list[Cell] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        FOLDER.parent.mkdir()
        FOLDER.symlink_to(root.absolute())
        with pd.option_context("display.width", WIDTH, "display.max_columns", 20):
            for cell in notebook["cells"]:
                number = sum(of["cell_type"] == "code" for of in cells) + 1
                ran = cell["cell_type"] == "code"
                cells.append(cell | (_run(cell, names, number) if ran else {}))
    return notebook | {"cells": cells}


def _run(cell: Cell, names: dict[str, Any], number: int) -> Cell:
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, outputs = io.StringIO(), []
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if isinstance(value, pd.DataFrame):
            data["text/html"] = value.to_html(border=0).splitlines(keepends=True)
        about = {"output_type": "execute_result", "execution_count": number, "metadata": {}}
        outputs.append({**about, "data": data})
    return {"execution_count": number, "outputs": outputs}


if __name__ == "__main__":
    os.environ["TQDM_DISABLE"] = "1"
    made = executed(read(), Path(sys.argv[1]))
    write_text(NOTEBOOK, json.dumps(made, indent=1, ensure_ascii=False) + "\n")
