"""Small changes of meaning, made in the syntax tree of one module."""

from __future__ import annotations

import ast
import copy
import difflib
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Change = Callable[[ast.AST], ast.AST | None]
"""Changes a copy of a node; returns what takes its place, None for nothing."""

MESSAGES = {"UserError", "ValueError", "print", "say", "add_argument", "add_parser", "nearest"}
"""What is called with texts for people."""

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div, ast.Mult),
    ast.Mod: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}


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
    """A place of a tree and one change there.

    `path` leads to the node from the root, `line` is the first one of its statement.
    """

    path: tuple[tuple[str, int | None], ...]
    line: int
    what: str
    change: Change


def sites(tree: ast.Module) -> list[list[Site]]:
    """Return the possible changes of a module, those of each statement together."""
    found = [list(of) for of in _statements(tree.body, (), "body")]
    return [of for of in found if of]


def draw(
    source: Path, seed: int, number: int, lines: Mapping[str, Collection[int]] | None = None
) -> Mutant:
    """Return mutant `number` of `seed`: of a random statement of a random module in `source`.

    Modules are drawn by their number of statements; with `lines` ({module: lines}) only the
    statements that begin on one of them are drawn.
    """
    dice = random.Random(f"{seed} {number}")
    trees = {}
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source).as_posix()
        tree, places = _module(path.read_text("utf-8"))
        run = None if lines is None else set(lines.get(name, ()))
        if of := [s for s in places if run is None or s[0].line in run]:
            trees[name] = tree, of
    weights = [len(of) for _, of in trees.values()]
    (name,) = dice.choices(list(trees), weights)
    tree, places = trees[name]
    while True:
        site = dice.choice(dice.choice(places))
        if (mutant := apply(name, tree, site)) is not None:
            return mutant


@cache
def _module(text: str) -> tuple[ast.Module, list[list[Site]]]:
    tree = ast.parse(text)
    return tree, sites(tree)


def apply(name: str, tree: ast.Module, site: Site) -> Mutant | None:
    """Return the module with one change; None if the change does not parse, or changes nothing."""
    changed = copy.deepcopy(tree)
    *above, last = site.path
    holder = _follow(changed, above)
    node = _follow(changed, site.path)
    _put(holder, last, site.change(node))
    before = ast.unparse(tree)
    try:
        after = ast.unparse(ast.fix_missing_locations(changed))
        reread = ast.parse(after)
    except (SyntaxError, ValueError, AttributeError, TypeError):
        return None
    if ast.dump(reread) == ast.dump(tree):
        return None
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    diff = "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))
    return Mutant(name, site.line, site.what, diff, after + "\n")


def statement_at(source: str, line: int) -> int:
    """Return the first line of the innermost statement that has this line."""
    found = [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(found)


def _follow(node: ast.AST, path: Iterator | list | tuple) -> ast.AST:
    for name, index in path:
        value = getattr(node, name)
        node = value if index is None else value[index]
    return node


def _put(holder: ast.AST, at: tuple[str, int | None], node: ast.AST | None) -> None:
    name, index = at
    if index is None:
        setattr(holder, name, node)
        return
    of = getattr(holder, name)
    of[index : index + 1] = [] if node is None else [node]
    if not of and name == "body":
        of.append(ast.Pass())


Path_ = tuple[tuple[str, int | None], ...]


def _statements(body: list[ast.stmt], path: Path_, name: str) -> Iterator[Iterator[Site]]:
    for index, statement in enumerate(body):
        if _is_left_out(statement):
            continue
        here = (*path, (name, index))
        yield _of_statement(statement, here)
        for field in ("body", "orelse", "finalbody"):
            if isinstance(inner := getattr(statement, field, None), list):
                yield from _statements(inner, here, field)
        for number, handler in enumerate(getattr(statement, "handlers", [])):
            yield from _statements(handler.body, (*here, ("handlers", number)), "body")


def _is_left_out(statement: ast.stmt) -> bool:
    """Whether a statement says nothing that decides a result: texts, imports, errors, types."""
    match statement:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Import() | ast.ImportFrom() | ast.Raise() | ast.Pass() | ast.Assert():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.Assign(targets=[ast.Name(id="__version__")]):
            return True
        case ast.If(body=[*_, ast.Raise()], orelse=[]):
            return True  # It was not taken: the grid ran to its end.
    return False


def _of_statement(statement: ast.stmt, path: Path_) -> Iterator[Site]:
    line = statement.lineno

    def site(what: str, change: Change) -> Site:
        return Site(path, line, what, change)

    match statement:
        case ast.Expr(value=ast.Call()) if _called(statement.value) not in MESSAGES:
            yield site("a call dropped", lambda _: None)
        case ast.AugAssign() | ast.Continue() | ast.Break() | ast.Delete():
            yield site("a statement dropped", lambda _: None)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield site("a statement dropped", lambda _: None)
        case ast.If():
            yield site("a branch taken in all cases", _always)
            if statement.orelse:
                yield site("branches swapped", _swapped("body", "orelse"))
            else:
                yield site("a branch dropped", lambda _: None)
        case ast.Return(value=value) if value is not None:
            yield site("nothing returned", _return(None))
            if isinstance(value, ast.Call) and value.args and _plain(value.args[0]):
                yield site("an argument returned", _return(value.args[0]))
            if isinstance(value, ast.BinOp):
                yield site("a part returned", _return(value.left))
        case ast.For():
            yield site("a loop reversed", _reverse)
            yield site("a loop without its first", _skip_first)
    if isinstance(statement, ast.AugAssign) and type(statement.op) in OPERATORS:
        for op in OPERATORS[type(statement.op)]:
            yield site(f"{type(statement.op).__name__} -> {op.__name__}", _operator(op))
    for name, value in ast.iter_fields(statement):
        if name in {"body", "orelse", "finalbody", "handlers", "annotation", "returns"}:
            continue
        yield from _below(value, path, name, line)


def _below(value: object, path: Path_, name: str, line: int) -> Iterator[Site]:
    """Yield the changes of expressions in a field of a node."""
    if isinstance(value, ast.arguments):
        for field in ("defaults", "kw_defaults"):
            yield from _below(getattr(value, field), (*path, (name, None)), field, line)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            if isinstance(each, ast.AST):
                yield from _of_expression(each, (*path, (name, index)), line)
    elif isinstance(value, ast.AST):
        yield from _of_expression(value, (*path, (name, None)), line)


def _of_expression(node: ast.AST, path: Path_, line: int) -> Iterator[Site]:

    def site(what: str, change: Change) -> Site:
        return Site(path, line, what, change)

    match node:
        case ast.Call() if _called(node) in MESSAGES:
            return
        case ast.Constant():
            for other in _constants(node.value):
                yield site(f"{node.value!r} -> {other!r}"[:60], _constant(other))
        case ast.BinOp() if type(node.op) in OPERATORS:
            for op in OPERATORS[type(node.op)]:
                yield site(f"{type(node.op).__name__} -> {op.__name__}", _operator(op))
            if not isinstance(node.op, ast.BitOr):
                yield site("operands swapped", _swapped("left", "right"))
        case ast.Compare(ops=[op]):
            for other_op in COMPARISONS[type(op)]:
                yield site(f"{type(op).__name__} -> {other_op.__name__}", _compare(other_op))
        case ast.BoolOp():
            yield site("and <-> or", _bool_operator)
            yield site("a condition dropped", _drop_condition)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield site(f"{type(node.op).__name__} dropped", lambda n: n.operand)  # type: ignore
        case ast.IfExp():
            yield site("branches swapped", _swapped("body", "orelse"))
        case ast.comprehension():
            yield site("a loop reversed", _reverse)
            if node.ifs:
                yield site("a filter dropped", _drop_filter)
        case ast.Call() if len(node.args) > 1 and not _starred(node):
            yield site("arguments swapped", _swap_arguments)
    if isinstance(node, ast.Call):
        for number, keyword in enumerate(node.keywords):
            if keyword.arg not in {None, "title", "help", "strict"}:
                yield site(f"{keyword.arg}= dropped", _drop_keyword(number))
    for name, value in ast.iter_fields(node):
        if name not in {"ops", "op", "ctx", "format_spec", "annotation"}:
            yield from _below(value, path, name, line)


def _constants(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, *([0] if value > 1 else []), *([-value] if value else [])]
    if isinstance(value, float):
        return [value * 2, value / 2, *([0.0] if value else [1.0]), value + 1]
    if isinstance(value, str):
        return [f"{value}x"] if value.strip() else ["x"]
    return []


def _called(call: ast.expr) -> str:
    function = getattr(call, "func", None)
    return str(getattr(function, "attr", getattr(function, "id", "")))


def _plain(node: ast.expr) -> bool:
    return not isinstance(node, ast.Starred | ast.GeneratorExp)


def _starred(call: ast.Call) -> bool:
    return any(isinstance(each, ast.Starred) for each in call.args)


def _constant(value: object) -> Change:
    return lambda _: ast.Constant(value)  # type: ignore[arg-type]


def _operator(op: type[ast.operator]) -> Change:
    def change(node: ast.AST) -> ast.AST:
        node.op = op()  # type: ignore[attr-defined]
        return node

    return change


def _compare(op: type[ast.cmpop]) -> Change:
    def change(node: ast.AST) -> ast.AST:
        node.ops = [op()]  # type: ignore[attr-defined]
        return node

    return change


def _return(value: ast.expr | None) -> Change:
    return lambda _: ast.Return(value and copy.deepcopy(value))


def _bool_operator(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return node


def _drop_condition(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.BoolOp)
    if len(node.values) == 2:
        return node.values[0]
    node.values.pop()
    return node


def _swapped(one: str, other: str) -> Callable[[ast.AST], ast.AST]:
    """Return a change that swaps two fields of a node."""

    def swap(node: ast.AST) -> ast.AST:
        first, second = getattr(node, one), getattr(node, other)
        setattr(node, one, second)
        setattr(node, other, first)
        return node

    return swap


def _always(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.If)
    node.test = ast.Constant(True)
    return node


def _swap_arguments(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Call)
    node.args[:2] = [node.args[1], node.args[0]]
    return node


def _drop_keyword(number: int) -> Change:
    def change(node: ast.AST) -> ast.AST:
        assert isinstance(node, ast.Call)
        del node.keywords[number]
        return node

    return change


def _drop_filter(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.comprehension)
    node.ifs.pop()
    return node


def _reverse(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.For | ast.comprehension)
    node.iter = _listed(node.iter, "[::-1]")
    return node


def _skip_first(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.For)
    node.iter = _listed(node.iter, "[1:]")
    return node


def _listed(of: ast.expr, part: str) -> ast.expr:
    listed = ast.parse(f"list(x){part}", mode="eval").body
    assert isinstance(listed, ast.Subscript) and isinstance(listed.value, ast.Call)
    listed.value.args = [of]
    return listed
