"""The lists of keys in docs/configuration.md: each with its default and the text below its field.

`cd tests && python -m pages.configuration` writes them; a test holds the page to the models.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from minbert.base.files import write_text
from minbert.spec.config import Config
from minbert.spec.model import Spec
from minbert.spec.protocol import COURSE_URL, LMRD_URL

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
LIST = re.compile(r"<!-- keys to (\S+) -->\n(?:.+\n)*")
SAID = (None, COURSE_URL, LMRD_URL)
"""Defaults that the page does not show: none, and long URLs."""


def field_texts(model: type[Spec]) -> dict[str, str]:
    """Return the string below each field of a model, its own or inherited, on one line."""
    found = {}
    for base in [base for base in model.__mro__[::-1] if issubclass(base, Spec)]:
        (body,) = ast.parse(inspect.getsource(base)).body
        assert isinstance(body, ast.ClassDef)
        for field, below in pairwise(body.body):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                text = ast.literal_eval(below.value)
                found[ast.unparse(field.target)] = " ".join(text.split())
    return found


def config_keys(model: type[Spec], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield each key of a configuration, dotted, and its line of the page."""
    texts = field_texts(model)
    for name, field in model.model_fields.items():
        key, kind = prefix + name, field.annotation
        if isinstance(kind, type) and issubclass(kind, Spec):
            yield from config_keys(kind, f"{key}.")
            continue
        value = None if field.is_required() else field.get_default(call_default_factory=True)
        text = value if isinstance(value, str) else json.dumps(value).removesuffix(".0")
        shown = " (required)" if field.is_required() else "" if value in SAID else f" (`{text}`)"
        yield key, f"- `{key}`{shown}: {texts[name]}"


def configuration_page() -> str:
    """Return the page with its lists made anew, which have all keys in the order of the models."""
    keys = iter(config_keys(Config))
    wrap = textwrap.TextWrapper(120, subsequent_indent="  ", break_on_hyphens=False)

    def listed(found: re.Match[str]) -> str:
        lines = [f"<!-- keys to {found[1]} -->"]
        for key, line in keys:
            lines.append(wrap.fill(line))
            if key == found[1]:
                break
        return "\n".join(lines) + "\n"

    page = LIST.sub(listed, PAGE.read_text("utf-8"))
    left = [key for key, _ in keys]
    assert not left, f"docs/configuration.md has no list with {', '.join(left)}"
    return page


if __name__ == "__main__":
    write_text(PAGE, configuration_page())
