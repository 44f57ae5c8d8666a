"""What people who join read and use: it says what the checkout does, and fits together."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from minbert import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


def strings(path: Path) -> str:
    """Return all texts of a module; what is put into them is left out."""
    tree = ast.walk(ast.parse(path.read_text("utf-8")))
    texts = (node.value for node in tree if isinstance(node, ast.Constant))
    return "\0".join(text for text in texts if isinstance(text, str))


def messages() -> list[str]:
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    blocks = re.findall(r"^```text\n(.*?)\n```$", page, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def said() -> list[str]:
    return [strings(path) for path in (ROOT / "src").rglob("*.py")]


@pytest.mark.parametrize("message", messages())
def test_messages_of_the_page_are_those_of_one_module(message: str, said: list[str]) -> None:
    parts = message.replace("MINBERT_DEVICE_LOCKS", "...").split("...")
    assert any(all(part in text for part in parts) for text in said)
    assert len("".join(parts)) >= 20


def test_the_citation_has_the_version_and_the_papers_of_grids_and_readme() -> None:
    citation, changes = read("CITATION.cff"), (ROOT / "CHANGELOG.md").read_text("utf-8")
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert PROJECT["version"] == __version__ == citation["version"]
    newest = re.search(r"^## (\S+) \((\S+)\)$", changes, re.MULTILINE)
    assert newest and newest.groups() == (__version__, citation["date-released"])
    cited = {work["notes"].rpartition("grid ")[2]: work for work in citation["references"]}
    grids = (ROOT / "workflow" / "grids").glob("*.yaml")
    papers = {read(f"workflow/grids/{path.name}")["paper"] for path in grids}
    assert set(cited) == papers - {"tuned-sum"}, "a question of this project's own"
    for paper, work in cited.items():
        assert f"- `{paper}`: " in readme and f"*{work['title']}*" in readme


def test_hosted_checks_are_those_of_ci_run() -> None:
    """Both make the same targets, in the same order; the hosted ones also run the demo."""
    ours = re.findall(r"^make (\S+)", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    jobs = read(".github/workflows/ci.yml")["jobs"]
    hosted = {
        name: [step["run"].removeprefix("make ") for step in job["steps"] if "run" in step]
        for name, job in jobs.items()
    }
    assert hosted == {"test": ours, "demo": ["demo"]}
