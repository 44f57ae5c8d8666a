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
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


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


def test_the_version_is_one() -> None:
    citation, changes = read("CITATION.cff"), (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert PROJECT["version"] == __version__ == citation["version"]
    newest = re.search(r"^## (\S+) \((\S+)\)$", changes, re.MULTILINE)
    assert newest and newest.groups() == (__version__, citation["date-released"])


def test_the_citation_has_the_papers_of_the_grids_and_the_projects_licence() -> None:
    citation = read("CITATION.cff")
    assert citation["license"] == PROJECT["license"]
    cited = {work["notes"].rpartition("grid ")[2]: work for work in citation["references"]}
    papers = {read(f"workflow/grids/{path.name}")["paper"] for path in grids()}
    assert set(cited) == papers - {"tuned-sum"}, "a question of this project's own"
    for work in cited.values():
        assert work["title"] and work["authors"] and work["institution"]


def test_it_has_what_the_workflow_catalog_asks_for() -> None:
    """Its words in README, its files, and the keys that its pages show."""
    readme = (ROOT / "README.md").read_text("utf-8").lower()
    assert "snakemake" in readme and "workflow" in readme
    assert (ROOT / "workflow" / "Snakefile").is_file() and (ROOT / "config" / "README.md").is_file()
    assert list((ROOT / "workflow" / "rules").glob("*.smk"))
    usage = read(".snakemake-workflow-catalog.yml")["usage"]
    assert usage.keys() == {"mandatory-flags", "software-stack-deployment", "report"}
    flag, profile = usage["mandatory-flags"]["flags"].split()
    assert flag == "--workflow-profile" and (ROOT / profile / "config.yaml").is_file()


def test_readme_and_citation_name_the_same_papers() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    for work in read("CITATION.cff")["references"]:
        (row,) = (line for line in readme.splitlines() if f"*{work['title']}*" in line)
        assert f"| `{work['notes'].rpartition('grid ')[2]}` |" in row
        for author in work["authors"]:
            assert f"{author['given-names']} {author['family-names']}" in row


def grids() -> list[Path]:
    return sorted((ROOT / "workflow" / "grids").glob("*.yaml"))


def test_hosted_checks_are_those_of_ci_run() -> None:
    """Both make the same targets, in the same order; the hosted ones also run the demo."""
    ours = re.findall(r"^make (\S+)", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    jobs = read(".github/workflows/ci.yml")["jobs"]
    hosted = {
        name: [step["run"].removeprefix("make ") for step in job["steps"] if "run" in step]
        for name, job in jobs.items()
    }
    assert hosted == {"test": ours, "demo": ["demo"]}
    (kept,) = (s["with"]["path"] for s in jobs["demo"]["steps"] if "upload" in s.get("uses", ""))
    assert kept == "results/demo/report.html"
    for job in jobs.values():
        (python,) = (
            s["with"]["python-version"] for s in job["steps"] if "setup-python" in s.get("uses", "")
        )
        assert PROJECT["requires-python"] == f">={python}"


def test_hooks_are_the_checks_of_make_check() -> None:
    """All but `snakemake --lint`, which reads the data's sources too."""
    (recipe,) = re.findall(r"^check: .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    sources = "src tests benchmarks study"
    words = recipe.replace("$(BIN)", ".venv/bin").replace("$(SOURCES)", sources)
    (local,) = read(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    entries = [hook["entry"] for hook in local["hooks"]]
    assert [*entries, ".venv/bin/snakemake --lint"] == words.strip().replace("\t", "").split("\n")


@pytest.mark.parametrize(
    "name", sorted(p.name for p in (ROOT / ".github/ISSUE_TEMPLATE").iterdir())
)
def test_issue_forms_are_whole(name: str) -> None:
    form = read(f".github/ISSUE_TEMPLATE/{name}")
    if name == "config.yml":
        assert form.keys() == {"blank_issues_enabled"}
        return
    assert {"name", "description", "body"} <= form.keys()
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in asked}) == len(asked)
    assert all(part["attributes"]["label"] for part in asked)
    assert any(part.get("validations", {}).get("required") for part in asked)
