"""Small changes of meaning, made in the syntax tree of one module."""

from __future__ import annotations

import ast
import copy
import difflib
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

MESSAGES = {"UserError", "ValueError", "print", "say", "_arg", "_flag", "add_parser", "nearest"}
"""What is called with texts for people."""

OTHERS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    **{ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE)},
    **{ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.LtE)},
    **{ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,)},
    **{ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.And: (ast.Or,), ast.Or: (ast.And,)},
    **{ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div, ast.Add)},
    **{ast.Div: (ast.Mult,), ast.FloorDiv: (ast.Div, ast.Mult), ast.Mod: (ast.Mult,)},
    **{ast.Pow: (ast.Mult,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,)},
}
"""What takes the place of an operator."""


@dataclass(frozen=True)
class Mutant:
    """A changed module: its path under the package, where, what was done, and the new source.

    `line` is the first one of the statement that was changed.
    """

    module: str
    line: int
    what: str
    diff: str
    source: str


@dataclass(frozen=True)
class Site:
    """A change of the node `number` of a tree (`_nodes`); `line` is where its statement begins."""

    number: int
    line: int
    what: str
    change: Callable[[Any], object]


def draw(
    source: Path, seed: int, number: int, lines: Mapping[str, Collection[int]] | None = None
) -> Mutant:
    """Return the mutant `number` of a seed: a change of a random statement in `source`.

    With `lines` ({module: lines}) only the statements that begin on one of them are drawn.
    """
    dice = random.Random(f"{seed} {number}")
    places = [
        (name, tree, of_statement)
        for name, tree, found in _modules(source)
        for of_statement in found
        if lines is None or of_statement[0].line in lines.get(name, ())
    ]
    while True:
        name, tree, of_statement = dice.choice(places)
        if mutant := apply(name, tree, dice.choice(of_statement)):
            return mutant


@cache
def _modules(source: Path) -> list[tuple[str, ast.Module, list[list[Site]]]]:
    """Return each module, its tree, and its changes by statement."""
    found = []
    for path in sorted(source.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        by_line = groupby(sorted(sites(tree), key=lambda site: site.line), lambda site: site.line)
        found.append((path.relative_to(source).as_posix(), tree, [list(of) for _, of in by_line]))
    return found


def sites(tree: ast.Module) -> Iterator[Site]:
    """Yield every change of a module."""
    for number, (node, line) in enumerate(_nodes(tree)):
        for what, change in _changes(node):
            yield Site(number, line, what, change)
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            for at, statement in enumerate(body if isinstance(body, list) else ()):
                if _can_go(statement):
                    yield Site(number, statement.lineno, "a statement dropped", _drop(name, at))


def apply(name: str, tree: ast.Module, site: Site) -> Mutant | None:
    """Return the module with one change; None if the change does not parse, or changes nothing."""
    changed = copy.deepcopy(tree)
    site.change(next(node for n, (node, _) in enumerate(_nodes(changed)) if n == site.number))
    try:
        after = ast.unparse(ast.fix_missing_locations(changed))
        if ast.dump(ast.parse(after)) == ast.dump(tree):
            return None
    except (SyntaxError, ValueError, AttributeError, TypeError):
        return None
    before = ast.unparse(tree).splitlines()
    lines = difflib.unified_diff(before, after.splitlines(), n=0, lineterm="")
    diff = "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))
    return Mutant(name, site.line, site.what, diff, after + "\n")


def statement_at(source: str, line: int) -> int:
    """Return the first line of the innermost statement that has this line."""
    statements = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt))
    return max(s.lineno for s in statements if s.lineno <= line <= (s.end_lineno or 0))


def _nodes(node: ast.AST, line: int = 0) -> Iterator[tuple[ast.AST, int]]:
    """Yield what may be changed at and below a node, each with its statement's first line."""
    if _is_left_out(node):
        return
    line = node.lineno if isinstance(node, ast.stmt) else line
    yield node, line
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "format_spec", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _nodes(child, line)


def _is_left_out(node: ast.AST) -> bool:
    """Whether a node says nothing that decides a result: texts, imports, errors, types."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Raise():
            return True
        case ast.Assert() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.Assign(targets=[ast.Name(id="__version__")]):
            return True
        case ast.If(body=[*_, ast.Raise()], orelse=[]):
            return True  # It was not taken: the grid ran to its end.
        case ast.Call():
            return _called(node) in MESSAGES
    return False


def _can_go(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call()):
            return _called(statement.value) not in MESSAGES
        case ast.AugAssign() | ast.Continue() | ast.Break() | ast.Delete():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.If(orelse=[]):
            return not _is_left_out(statement)
    return False


def _called(call: ast.expr) -> str:
    function = getattr(call, "func", None)
    return str(getattr(function, "attr", getattr(function, "id", "")))


Change = tuple[str, Callable[[Any], object]]


def _changes(node: ast.AST) -> Iterator[Change]:
    """Yield the changes of a node, each of which changes a copy of it in place."""
    match node:
        case ast.Constant(value=value):
            for other in _constants(value):
                yield f"{value!r} -> {other!r}"[:60], _set("value", other)
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp():
            for op in OTHERS.get(type(node.op), ()):
                yield f"{type(node.op).__name__} -> {op.__name__}", _set("op", op())
        case ast.Compare(ops=[op]):
            for other in OTHERS[type(op)]:
                yield f"{type(op).__name__} -> {other.__name__}", _set("ops", [other()])
        case ast.UnaryOp(op=ast.Not() | ast.USub() as op, operand=operand):
            yield f"{type(op).__name__} dropped", _set("operand", ast.UnaryOp(op, operand))
        case ast.If() | ast.IfExp():
            yield "a branch taken in all cases", _set("test", ast.Constant(True))
            if node.orelse:
                yield "branches swapped", _swap("body", "orelse")
        case ast.Return(value=value) if value is not None:
            yield "nothing returned", _set("value", None)
        case ast.For() | ast.comprehension():
            yield "a loop reversed", _listed("[::-1]")
            yield "a loop without its first", _listed("[1:]")
            if getattr(node, "ifs", []):
                yield "a filter dropped", lambda copied: copied.ifs.pop()
        case ast.Call():
            if len(node.args) > 1 and not any(isinstance(a, ast.Starred) for a in node.args):
                yield "arguments swapped", lambda copied: copied.args.insert(0, copied.args.pop(1))
            for at, keyword in enumerate(node.keywords):
                if keyword.arg not in {None, "title", "help", "strict"}:
                    yield f"{keyword.arg}= dropped", lambda copied, at=at: copied.keywords.pop(at)
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.BitOr):
        yield "operands swapped", _swap("left", "right")
    if isinstance(node, ast.BoolOp):
        yield "a condition dropped", lambda copied: copied.values.pop()


def _constants(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, *([0] if value > 1 else []), *([-value] if value else [])]
    if isinstance(value, float):
        return [value * 2, value / 2, value + 1]
    if isinstance(value, str):
        return [f"{value}x"]
    return []


def _set(name: str, value: object) -> Callable[[Any], object]:
    return lambda node: setattr(node, name, copy.deepcopy(value))


def _swap(one: str, other: str) -> Callable[[Any], object]:
    def change(node: Any) -> None:
        first, second = getattr(node, one), getattr(node, other)
        setattr(node, one, second)
        setattr(node, other, first)

    return change


def _drop(name: str, at: int) -> Callable[[Any], object]:
    return lambda node: getattr(node, name).__setitem__(at, ast.Pass())


def _listed(part: str) -> Callable[[Any], object]:
    def change(node: Any) -> None:
        listed: Any = ast.parse(f"list(x){part}", mode="eval").body
        listed.value.args = [node.iter]
        node.iter = listed

    return change
