"""The options of a kind of figure, read from its source: its module would load matplotlib."""

import ast
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError, nearest
from minbert.spec.grid import OWN
from minbert.spec.parts import part_module


def check_options(kind: str, options: Mapping[str, Any], where: str) -> None:
    """Refuse options that the kind does not have, and the absence of those that it needs."""
    known = figure_options(kind)
    for name in options:
        if name not in known:
            said = f"Known: {', '.join(known) or 'none'}"
            raise UserError(f"{where}: unknown option '{name}'.{nearest(name, known)} {said}")
    if missing := [name for name, needed in known.items() if needed and name not in options]:
        raise UserError(f"{where}: kind '{kind}' needs the option '{missing[0]}'")


def figure_options(kind: str) -> dict[str, bool]:
    """Return the options of a kind of figure, and whether each must be given."""
    fields = _fields(part_module("figure", kind), "Spec")
    return {name: needed for name, needed in fields.items() if name not in OWN}


def needs_variants(kind: str) -> bool:
    """Return whether a kind of figure shows variants that it has to be given."""
    return _fields(part_module("figure", kind), "Spec").get("variants", False)


@cache
def _fields(module: str, name: str) -> dict[str, bool]:
    """Return the fields of a model, those that it inherits among them: whether each is needed."""
    found = find_spec(module) if module.startswith("minbert.") else None
    if found is None or found.origin is None:
        return {}
    classes: dict[str, tuple[str, str]] = {}
    fields: dict[str, bool] = {}
    for node in ast.parse(Path(found.origin).read_bytes()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            classes |= {each.asname or each.name: (node.module, each.name) for each in node.names}
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = module, node.name
            if node.name == name:
                for base in node.bases:
                    fields |= _fields(*classes.get(ast.unparse(base), ("", "")))
                fields |= _own(node)
    return fields


def _own(model: ast.ClassDef) -> dict[str, bool]:
    """Return the fields that a class itself has."""
    fields = {}
    for line in model.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            given = line.value
            needed = given is None
            if isinstance(given, ast.Call) and ast.unparse(given.func) == "Field":
                names = {each.arg for each in given.keywords}
                needed = not given.args and not names & {"default", "default_factory"}
            fields[line.target.id] = needed
    return fields
