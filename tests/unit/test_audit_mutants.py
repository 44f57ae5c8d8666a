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


def test_small_changes_of_meaning_are_made_and_texts_types_and_refusals_left_alone() -> None:
    tree = ast.parse(SOURCE)
    made = [mutant for site in sites(tree) if (mutant := apply("m.py", tree, site))]
    assert {mutant.what for mutant in made} >= {
        *("3 -> 4", "1 -> 2", "True -> False", "0 -> 1", "Eq -> NotEq", "And -> Or"),
        *("a statement dropped", "Add -> Sub", "a loop reversed", "a loop without its first"),
        *("nothing returned", "branches swapped", "key= dropped", "USub dropped", "'a' -> 'ax'"),
        *("a branch taken in all cases", "a condition dropped"),
    }
    for mutant in made:
        assert ast.dump(ast.parse(mutant.source)) != ast.dump(tree), mutant.what
        for line in ("A module", "Return a number", "import", "__version__", "raise", "print"):
            assert line not in mutant.diff, mutant.what


def test_a_seed_and_a_number_name_a_mutant_of_what_is_executed(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(SOURCE, encoding="utf-8")
    assert draw(tmp_path, 3, 5) == draw(tmp_path, 3, 5)
    assert len({draw(tmp_path, 3, number).diff for number in range(20)}) > 5
    found = [draw(tmp_path, 0, number, {"m.py": [11]}) for number in range(20)]
    assert {mutant.line for mutant in found} == {11}
    assert {mutant.what for mutant in found} >= {"a loop reversed", "a loop without its first"}
