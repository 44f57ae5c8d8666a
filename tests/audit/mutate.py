"""Small changes of meaning, made in the syntax tree of one module."""

from __future__ import annotations

import ast
import copy
import difflib
import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

MESSAGES = {"UserError", "ValueError", "print", "say", "_arg", "_flag", "add_parser", "nearest"}
"""What is called with texts for people."""

OTHERS: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Div, ast.Mod: ast.Mult, ast.Pow: ast.Mult},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
"""What takes the place of an operator."""
VALUES: dict[type[object], Callable[[Any], object]] = {
    **{bool: lambda value: not value, int: lambda value: value + 1},
    **{float: lambda value: value * 2, str: lambda value: f"{value}x"},
}
"""What takes the place of a constant."""

CONTROL = "an edit of what starts the makers, which is outside all digests"
MAKER_CALL = "    return maker.make("
THREE_EPOCHS = '    job.spec.get("stage", {}).update(epochs=3)\n'


@dataclass(frozen=True)
class Mutant:
    """A changed module: its path under the package, what was done, and the new source."""

    module: str
    what: str
    source: str
    diff: str

    def __str__(self) -> str:
        return f"{self.module}: {self.what}\n{self.diff}"


Change = tuple[str, Callable[[Any], object]]
"""What is done, and a function that does it to a node."""
Site = tuple[int, Change]
"""A change of the node of this number (`_nodes`)."""


def control(source: Path) -> Mutant:
    """Return `CONTROL`: each stage trains three epochs, whatever its spec says."""
    module = "commands/steps.py"
    before, call, after = (source / module).read_text("utf-8").partition(MAKER_CALL)
    assert call
    return Mutant(module, CONTROL, before + THREE_EPOCHS + call + after, f"+{THREE_EPOCHS}")


def draw(source: Path, seed: int, number: int, modules: Collection[str]) -> Mutant:
    """Return the mutant `number` of a seed: a random change of one of `modules` in `source`."""
    dice = random.Random(f"{seed} {number}")
    places = [place for place in _places(source) if place[0] in modules]
    while True:
        name, tree, site = dice.choice(places)
        if mutant := apply(name, tree, site):
            return mutant


@cache
def _places(source: Path) -> list[tuple[str, ast.Module, Site]]:
    """Return each change with its module and the tree of that."""
    found = []
    for path in sorted(source.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        found += [(path.relative_to(source).as_posix(), tree, site) for site in sites(tree)]
    return found


def sites(tree: ast.Module) -> Iterator[Site]:
    """Yield every change of a module."""
    for number, node in enumerate(_nodes(tree)):
        yield from ((number, change) for change in _changes(node))


def apply(name: str, tree: ast.Module, site: Site) -> Mutant | None:
    """Return the module with one change; None if the change does not parse, or changes nothing."""
    number, (what, change) = site
    changed = copy.deepcopy(tree)
    change(list(_nodes(changed))[number])
    try:
        after = ast.unparse(ast.fix_missing_locations(changed))
        if ast.dump(ast.parse(after)) == ast.dump(tree):
            return None
    except (SyntaxError, ValueError, AttributeError, TypeError):
        return None
    before = ast.unparse(tree).splitlines()
    lines = difflib.unified_diff(before, after.splitlines(), n=0, lineterm="")
    diff = "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))
    return Mutant(name, what, after + "\n", diff)


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may be changed at and below a node."""
    if _is_left_out(node):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "format_spec", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _nodes(child)


def _is_left_out(node: ast.AST) -> bool:
    """Whether a node says nothing that decides a result: texts, imports, errors, types."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Raise():
            return True
        case ast.Assert() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__version__")]):
            return True
        case ast.If(body=[*_, ast.Raise()], orelse=[]):
            return True  # It was not taken: the grid ran to its end.
        case ast.Call():
            return _called(node) in MESSAGES
    return False


def _can_go(statement: ast.AST) -> bool:
    match statement:
        case ast.Expr(value=ast.Call() as call):
            return _called(call) not in MESSAGES
        case ast.AugAssign() | ast.Continue() | ast.Break() | ast.Delete():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.If(orelse=[]):
            return not _is_left_out(statement)
    return False


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _changes(node: ast.AST) -> Iterator[Change]:
    """Yield the changes of a node, each of which changes a copy of it in place."""
    body = getattr(node, "body", ())
    for at, statement in enumerate(body if isinstance(body, list) else ()):
        if _can_go(statement):
            yield "a statement dropped", _drop(at)
    match node:
        case ast.Constant(value=value) if type(value) in VALUES:
            other = VALUES[type(value)](value)
            yield f"{value!r:.40} -> {other!r:.40}", _set("value", other)
        case (
            ast.BinOp(op=op) | ast.AugAssign(op=op) | ast.BoolOp(op=op) | ast.Compare(ops=[op])
        ) if type(op) in OTHERS:
            new = OTHERS[type(op)]()
            change = _set("ops", [new]) if isinstance(node, ast.Compare) else _set("op", new)
            yield f"{type(op).__name__} -> {type(new).__name__}", change
        case ast.If() | ast.IfExp():
            yield "a branch taken in all cases", _set("test", ast.Constant(True))
        case ast.Return(value=ast.AST()):
            yield "nothing returned", _set("value", None)
        case ast.For() | ast.comprehension():
            yield "a loop reversed", _listed("[::-1]")
            yield "a loop without its first", _listed("[1:]")
        case ast.Call():
            for at, keyword in enumerate(node.keywords):
                if keyword.arg not in {None, "title", "help", "strict"}:
                    yield f"{keyword.arg}= dropped", lambda copied, at=at: copied.keywords.pop(at)


def _set(name: str, value: object) -> Callable[[Any], object]:
    return lambda node: setattr(node, name, value)


def _drop(at: int) -> Callable[[Any], object]:
    return lambda node: node.body.__setitem__(at, ast.Pass())


def _listed(part: str) -> Callable[[Any], object]:
    def change(node: Any) -> None:
        listed: Any = ast.parse(f"list(x){part}", mode="eval").body
        listed.value.args = [node.iter]
        node.iter = listed

    return change
