"""The container's recipe, read as Docker would, agrees with pyproject, the lock, the checkout."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = yaml.safe_load((ROOT / "envs" / "minbert.yaml").read_text())["dependencies"]


def instructions() -> list[tuple[str, str]]:
    """Return the recipe's (instruction, rest), continued lines joined, comments left out."""
    text = (ROOT / "envs" / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    words = [line.split(None, 1) for line in joined.splitlines() if line.strip()]
    return [(name, rest) for name, rest in words]


def of(name: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == name]


def test_python_is_that_of_the_other_environments() -> None:
    (image,) = of("FROM")
    found = re.fullmatch(r"python:(\d+\.\d+)-slim-\w+", image)
    assert found and f"python={found[1]}" in CONDA
    assert found[1] in SpecifierSet(PROJECT["requires-python"])


def test_labels_say_what_pyproject_says() -> None:
    labels = dict(re.findall(r'opencontainers\.image\.(\w+)="([^"]*)"', " ".join(of("LABEL"))))
    assert labels["title"] == PROJECT["name"] and labels["version"] == PROJECT["version"]
    assert labels["licenses"] == PROJECT["license"] and labels["description"]


def test_what_is_copied_is_there_and_sent_to_the_build() -> None:
    (copied,) = of("COPY")
    *files, _ = copied.split()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {line[1:] for line in ignored if line.startswith("!")}
    assert set(files) == sent and "*" in ignored
    assert all((ROOT / name).is_file() for name in files)


def test_it_installs_what_pyproject_asks_for_at_the_versions_of_the_lock() -> None:
    (install,) = (run for run in of("RUN") if "pip install" in run)
    found = re.search(r'python -c "(.*?)" > (\S+)', install)
    assert found
    printed = subprocess.run(
        [sys.executable, "-c", found[1].replace("\\\\n", "\\n")],
        *(), cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert printed.splitlines() == PROJECT["dependencies"]
    assert f"--constraint requirements.lock --requirement {found[2]}" in install
    locked = {line.split("==")[0] for line in (ROOT / "requirements.lock").read_text().split()}
    asked = {canonicalize_name(Requirement(word).name) for word in printed.splitlines()}
    assert asked <= {canonicalize_name(name) for name in locked}


def test_it_ends_as_a_user_who_is_not_root_and_whom_a_host_can_check() -> None:
    assert of("USER")[-1].isdecimal() and int(of("USER")[-1]) > 0
    (made,) = (run for run in of("RUN") if "useradd" in run)
    assert f"--uid {of('USER')[-1]} " in made
    names = [name for name, _ in instructions()]
    assert "RUN" not in names[names.index("USER") :]


def test_minbert_is_the_one_in_the_mounted_checkout() -> None:
    assert "PYTHONPATH=/minbert/src" in " ".join(of("ENV")) and of("WORKDIR")[-1] == "/minbert"


def imported() -> set[str]:
    """Return the top-level modules that the package imports anywhere, its own left out.

    Some modules of `commands` run in Snakemake's own process, not in a rule's.
    """
    found = set()
    package = ROOT / "src" / "minbert"
    snakemakes = {package / "commands" / name for name in ("rules.py", "session.py", "progress.py")}
    for path in set(package.rglob("*.py")) - snakemakes:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module or "")
    return {name.partition(".")[0] for name in found} - sys.stdlib_module_names - {"minbert"}


def test_the_rules_environment_has_every_package_that_a_rule_may_import() -> None:
    """Rules run steps of the package, which import nothing of Snakemake."""
    pinned = next(entry["pip"] for entry in CONDA if isinstance(entry, dict))
    packages = {canonicalize_name(word.split("==")[0]) for word in pinned}
    modules = {"yaml": "pyyaml", "PIL": "pillow", "pydantic_core": "pydantic"}
    assert {canonicalize_name(modules.get(name, name)) for name in imported()} <= packages
