"""The notebook of the documentation shows what its cells give."""

from __future__ import annotations

import re

import nbformat
import pytest
from pages.notebook import NOTEBOOK, execute, read, shown

from .project import Project

pytestmark = pytest.mark.pipeline

MOST_BYTES = 40_000


def heading(text: str) -> str:
    """Return the first line without its numbers and keys: names of columns, or what it is of."""
    first = next(iter(text.splitlines()), "")
    number = r"[0-9a-f]{16}|(?<![\w-])-?\d[\d.:-]*(?![\w-])"
    return " ".join(re.sub(number, "0", first).split())


def test_the_notebook_runs_and_shows_what_it_holds(finished: Project) -> None:
    kept, made = read(), execute(read(), finished.root)
    cells = [of for of in zip(kept.cells, made.cells, strict=True) if of[0].cell_type == "code"]
    assert len(cells) >= 10
    for number, (old, new) in enumerate(cells, start=1):
        said = heading(shown(old))
        assert said, f"cell {number} shows nothing: cd tests && python -m pages.notebook"
        assert said == heading(shown(new)), old.source
        assert old.execution_count == new.execution_count == number


def test_the_notebook_is_one_that_a_forge_shows() -> None:
    nbformat.validate(nbformat.read(NOTEBOOK, as_version=4))
    assert NOTEBOOK.stat().st_size < MOST_BYTES
