"""The mutants of the audit: what is changed, and what is left alone."""

from __future__ import annotations

import ast
from pathlib import Path

from audit.mutate import apply, draw, sites

SOURCE = '''"""A module."""
from __future__ import annotations
__version__ = "1"
LIMIT: int = 3

def f(x: int = 1, *, flag=True):
    """Return a number."""
    if x < 0:
        raise ValueError(f"below 0: {x}")
    total = 0
    for each in range(x):
        if each == 2 and flag:
            total += each
    print("done")
    return g(total, key="a") if total else -1
'''


def test_small_changes_of_meaning_are_made_and_texts_types_and_refusals_left_alone(
    tmp_path: Path,
) -> None:
    tree = ast.parse(SOURCE)
    made = [mutant for site in sites(tree) if (mutant := apply("m.py", tree, site))]
    assert {mutant.what for mutant in made} >= {
        *("3 -> 4", "True -> False", "Eq -> NotEq", "And -> Or", "Add -> Sub", "'a' -> 'ax'"),
        *("a statement dropped", "a loop reversed", "a loop without its first", "key= dropped"),
        *("nothing returned", "a branch taken in all cases"),
    }
    for mutant in made:
        for line in ("A module", "Return a number", "import", "__version__", "raise", "print"):
            assert line not in mutant.diff, mutant.what
    (tmp_path / "m.py").write_text(SOURCE, encoding="utf-8")
    assert draw(tmp_path, 3, 5, ["m.py"]) == draw(tmp_path, 3, 5, ["m.py"])
