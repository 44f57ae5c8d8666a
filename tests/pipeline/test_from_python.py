"""The notebook of the documentation shows what its cells give."""

from __future__ import annotations

import re

import nbformat
import pytest
from pages.notebook import NOTEBOOK, executed, read, shown

from .project import Project

pytestmark = pytest.mark.pipeline

MOST_BYTES = 40_000


def heading(text: str) -> str:
    """Return the first line without its numbers and keys: names of columns, or what it is of."""
    first = next(iter(text.splitlines()), "")
    number = r"[0-9a-f]{16}|(?<![\w-])-?\d[\d.:-]*(?![\w-])"
    return " ".join(re.sub(number, "0", first).split())


def test_the_notebook_runs_and_shows_what_it_holds(finished: Project) -> None:
    kept = read()
    made = executed(kept, finished.root)
    cells = [
        each
        for each in zip(kept["cells"], made["cells"], strict=True)
        if each[0]["cell_type"] == "code"
    ]
    assert len(cells) >= 10
    for number, (old, new) in enumerate(cells, start=1):
        assert heading(shown(old)), (
            f"cell {number} shows nothing: cd tests && python -m pages.notebook"
        )
        assert heading(shown(old)) == heading(shown(new)), "".join(old["source"])
        assert old["execution_count"] == number


def test_the_notebook_is_one_that_a_forge_shows() -> None:
    nbformat.validate(nbformat.read(NOTEBOOK, as_version=4))
    assert NOTEBOOK.stat().st_size < MOST_BYTES
