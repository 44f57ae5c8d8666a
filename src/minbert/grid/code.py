"""The digest of the code that a result depends on: syntax trees, closed over imports.

Comments, docstrings and formatting change no digest; neither does a module that is not imported.
Modules are read as source and never imported, so that a plan does not pay for torch.
"""

from __future__ import annotations

import ast
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import minbert
from minbert.common.errors import UserError

PACKAGE = "minbert"
OUTSIDE = (
    "minbert.common",
    *(f"minbert.grid.{name}" for name in ("parts", "spec", "task_spec", "tasks")),
)
"""What no digest covers: `common` changes no number; the list of parts only names modules, and
those that a stage uses are among its roots, so a new part changes no other stage's digest."""


class _Module(NamedTuple):
    digest: str
    imports: tuple[tuple[str, tuple[str, ...]], ...]


def code_modules(roots: Iterable[str]) -> dict[str, str]:
    """Return {module: digest} of `roots` and all that they import from the package, sorted.

    Imports count wherever they stand in a module, but under `if TYPE_CHECKING`. The `__init__` of
    a package counts if something below it does. Raises `UserError` for a root that is no module
    of the package, or a module that does not parse (naming file and line).
    """
    found: dict[str, str] = {}
    waiting = list(roots)
    for root in waiting:
        if _source(root) is None:
            raise UserError(f"'{root}' is no module of {PACKAGE}: no source file has that name")
    while waiting:
        name = waiting.pop()
        path = _source(name)
        if name in found or path is None or _is_outside(name):
            continue
        module = _read(path)
        found[name] = module.digest
        parent = name.rpartition(".")[0]
        if parent:
            waiting.append(parent)
        for target, names in module.imports:
            waiting.append(target)
            waiting += [f"{target}.{each}" for each in names]
    return dict(sorted(found.items()))


def files_digest(modules: Iterable[str]) -> str:
    """Return one digest of the source files of `modules`, byte by byte: much sooner than trees.

    Files that have not changed at all have not changed in what counts.
    """
    found = hashlib.sha256()
    for name in sorted(modules):
        path = _source(name)
        found.update(f"{name} {_bytes(path, *_age(path)) if path else 'none'}\n".encode())
    return found.hexdigest()


def differs(planned: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the modules that were changed, added or removed between two closures, sorted."""
    return sorted(n for n in {*planned, *now} if planned.get(n) != now.get(n))


def _is_outside(name: str) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in OUTSIDE)


def _source(name: str) -> Path | None:
    """Return the source file of a dotted module name, if it is one of the package."""
    first, *rest = name.split(".")
    if first != PACKAGE:
        return None
    for folder in minbert.__path__:  # As text: a plan asks for some hundred thousand.
        at = os.path.join(folder, *rest)
        for path in (f"{at}/__init__.py", f"{at}.py"):
            if os.path.isfile(path):
                return Path(path)
    return None


def _age(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _read(path: Path) -> _Module:
    return _parse(path, *_age(path))


@cache
def _bytes(path: Path, mtime_ns: int, size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _parse(path: Path, mtime_ns: int, size: int) -> _Module:
    """Parse a source file; its time and size are arguments so that an edit is seen."""
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f"{path}, line {line}" if line else str(path)
        raise UserError(f"{place}: does not parse: {getattr(error, 'msg', error)}") from None
    package = _package(path)
    imports = tuple(_imports(tree, package))
    return _Module(hashlib.sha256("\0".join(_words(tree)).encode()).hexdigest(), imports)


def _package(path: Path) -> list[str]:
    """Return the dotted package that relative imports of `path` start from, in parts."""
    for folder in minbert.__path__:
        if path.is_relative_to(folder):
            return [PACKAGE, *path.relative_to(folder).parent.parts]
    raise AssertionError(f"{path} is outside {PACKAGE}")


def _imports(node: ast.AST, package: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield (module, names taken from it) for each import at or below `node`."""
    if isinstance(node, ast.If) and _is_type_checking(node.test):
        for other in node.orelse:
            yield from _imports(other, package)
        return
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, ()
    elif isinstance(node, ast.ImportFrom):
        above = package[: len(package) - node.level + 1] if node.level else []
        module = ".".join([*above, *([node.module] if node.module else [])])
        yield module, tuple(alias.name for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, package)


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def _words(value: object) -> Iterator[str]:
    """Yield the words of a syntax tree, the same from every Python that parses it alike.

    `ast.dump` would do, but lists empty fields, and newer Pythons know more of them: an upgrade
    would throw every result away. Statements that are only text (docstrings) and the package's
    version number are left out.
    """
    if isinstance(value, ast.AST):
        yield f"({type(value).__name__}"
        for name, child in ast.iter_fields(value):
            if child is not None and child != [] and name not in {"kind", "type_comment"}:
                yield name
                yield from _words(child)
        yield ")"
    elif isinstance(value, list):
        yield "["
        for child in value:
            if not (isinstance(child, ast.stmt) and _is_inert(child)):
                yield from _words(child)
        yield "]"
    else:
        yield repr(value)


def _is_inert(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return isinstance(statement.value.value, str)
    if isinstance(statement, ast.Assign):
        return all(getattr(target, "id", None) == "__version__" for target in statement.targets)
    return False
