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
ON_LINE_11 = {"a loop reversed", "a loop without its first"}


def changes() -> list[tuple[str, str]]:
    """Return (what, diff) of every mutant of the module."""
    tree = ast.parse(SOURCE)
    found = [apply("m.py", tree, site) for of in sites(tree) for site in of]
    return [(mutant.what, mutant.diff) for mutant in found if mutant]


def test_each_kind_of_change_is_made() -> None:
    found = {what for what, _ in changes()}
    assert found >= {
        *("3 -> 4", "1 -> 2", "True -> False", "0 -> 1", "Eq -> NotEq", "and <-> or"),
        *("a statement dropped", "Add -> Sub", "a loop reversed", "a loop without its first"),
        *("nothing returned", "branches swapped", "key= dropped", "USub dropped", "'a' -> 'ax'"),
        *("a branch dropped", "a branch taken in all cases", "a condition dropped"),
    }


def test_texts_types_imports_and_refusals_are_left_alone() -> None:
    for what, diff in changes():
        for line in ("A module", "Return a number", "import", "__version__", "raise", "print"):
            assert line not in diff, what
        assert "int" not in what


def test_every_mutant_is_another_program_that_parses() -> None:
    tree = ast.parse(SOURCE)
    for site in (site for of in sites(tree) for site in of):
        mutant = apply("m.py", tree, site)
        if mutant:
            assert ast.dump(ast.parse(mutant.source)) != ast.dump(tree)


def test_a_seed_and_a_number_name_a_mutant(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(SOURCE, encoding="utf-8")
    assert draw(tmp_path, 3, 5) == draw(tmp_path, 3, 5)
    assert len({draw(tmp_path, 3, number).diff for number in range(20)}) > 5


def test_only_statements_that_are_executed_are_changed(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(SOURCE, encoding="utf-8")
    found = [draw(tmp_path, 0, number, {"m.py": [11]}) for number in range(20)]
    assert {mutant.line for mutant in found} == {11}
    assert {mutant.what for mutant in found} >= ON_LINE_11
