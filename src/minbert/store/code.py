"""The digest of the code that a result depends on: syntax trees, closed over imports.

Comments, docstrings and formatting change no digest; neither does a module that is not imported.
Modules are read as source and never imported, so that a plan does not pay for torch; and read once
in a process, so that all of a plan is of one moment.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from minbert.base.errors import UserError

PACKAGE = "minbert"
_OF_BASE = ("environment", "errors", "locks", "process", "progress", "version")
SHOWN_NOT_HASHED = (
    *(f"minbert.base.{name}" for name in _OF_BASE),
    *(f"minbert.spec.{name}" for name in ("figures", "parts", "stage", "yaml")),
)
"""What the digest of a table, figure or page leaves out: `base` changes no result, nor how YAML is
read and mistakes are worded; the list of parts only names modules, of which those that a node uses
are among its parts; and a figure's spec has the options that its kind declares."""

NOT_HASHED = (
    *SHOWN_NOT_HASHED,
    *("minbert.spec.task", "minbert.spec.model"),
    *("minbert.train.checkpoints", "minbert.train.device"),
)
"""What other digests leave out besides: tasks and stages, as the key holds their values and what
follows from them (`StageSpec.derived`), and how fast and how safely a run computes."""

# The package's, without importing it, which would count as importing all that it opens.
FOLDER = Path(__file__).parents[1]


@cache
def code_modules(roots: tuple[str, ...], outside: tuple[str, ...] = ()) -> dict[str, str]:
    """Return {module: digest} of `roots` and all that they import from the package, sorted.

    Modules `outside`, or below such a package, are left out. Imports count anywhere in a module
    except under `if TYPE_CHECKING`; a package's `__init__` counts if something below it does.
    Raises `UserError` for a module that does not parse, naming file and line.
    """
    sources, found, waiting = _sources(), dict[str, str](), list(roots)
    left_out = tuple(f"{each}." for each in outside)
    while waiting:
        name = waiting.pop()
        if name in found or name not in sources or f"{name}.".startswith(left_out):
            continue
        found[name], imported = _parse(name)
        waiting += [name.rpartition(".")[0], *imported]
    return dict(sorted(found.items()))


def differs(planned: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the modules that were changed, added or removed between two closures, sorted."""
    return sorted({name for name, _ in planned.items() ^ now.items()})


@cache
def _sources() -> dict[str, Path]:
    """Return the source file of every module of the package, by name."""
    below = {path: path.relative_to(FOLDER).with_suffix("").parts for path in FOLDER.rglob("*.py")}
    return {".".join([PACKAGE, *of]).removesuffix(".__init__"): path for path, of in below.items()}


@cache
def _parse(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the digest and the imports of a module."""
    path, words = _sources()[name], list[str]()
    try:
        # The package itself opens finished results, and imports nothing before: it makes none.
        tree = ast.parse(b"''" if name == PACKAGE else path.read_bytes())
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: does not parse: {error.msg}") from None
    _add_words(tree, words)
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()
    return digest, tuple(_imports(tree, package))


def _imports(node: ast.AST, package: list[str]) -> Iterator[str]:
    """Yield each module imported at or below `node`, and `MODULE.NAME` of what is taken from it."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package[: len(package) - node.level + 1] if node.level else []
        module = ".".join([*above, *([node.module] if node.module else [])])
        yield from (module, *(f"{module}.{alias.name}" for alias in node.names))
    below: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        below = node.orelse
    for child in below:
        if not isinstance(child, ast.expr):  # which holds no statement
            yield from _imports(child, package)


def _add_words(value: object, words: list[str]) -> None:
    """Add the words of a syntax tree without docstrings, and without empty fields."""
    # Newer Pythons have more of these: with `ast.dump`, an upgrade would make results stale.
    if isinstance(value, ast.AST):
        words.append(f"({type(value).__name__}")
        for name, child in ast.iter_fields(value):
            if child is not None and child != [] and name not in {"kind", "type_comment"}:
                words.append(name)
                _add_words(child, words)
        words.append(")")
    elif isinstance(value, list):
        words.append("[")
        for child in value:
            text = child.value if isinstance(child, ast.Expr) else None
            if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
                _add_words(child, words)
        words.append("]")
    else:
        words.append(repr(value))
