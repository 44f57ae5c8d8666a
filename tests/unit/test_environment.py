"""What is installed: pyproject, the lock and the conda environment say the same."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from minbert.base.environment import commit, environment, peak_memory, versions
from minbert.base.files import write_text
from minbert.base.version import VERSION

ROOT = Path(__file__).parents[2]


def lock() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().split()
    pairs = [line.split("==") for line in lines]
    assert all(len(pair) == 2 for pair in pairs), "the lock holds NAME==VERSION lines only"
    return {canonicalize_name(name): version for name, version in pairs}


def requirements(*extras: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    words = list(project["dependencies"])
    for extra in extras:
        words += project["optional-dependencies"][extra]
    return [Requirement(word) for word in words]


@pytest.mark.parametrize("requirement", requirements("test", "bench"), ids=str)
def test_the_lock_has_what_pyproject_asks_for(requirement: Requirement) -> None:
    version = lock()[canonicalize_name(requirement.name)]
    assert version in requirement.specifier, f"{requirement} and {requirement.name}=={version}"


def test_the_lock_names_no_host_and_no_local_build() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"://|@|\+", text)


def test_the_conda_environment_follows_the_lock() -> None:
    environment = yaml.safe_load((ROOT / "envs" / "minbert.yaml").read_text())
    pinned = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    found = dict(word.split("==") for word in pinned)
    locked = lock()
    assert found == {name: locked[canonicalize_name(name)] for name in found}
    asked = {canonicalize_name(r.name) for r in requirements()} - {"snakemake"}
    assert {canonicalize_name(name) for name in found} == asked


def test_a_run_names_the_version_of_minbert_where_only_its_packages_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in the container and in conda's environment: it comes from the checkout."""

    def version(name: str) -> str:
        if name == "minbert":
            raise PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr("minbert.base.environment.version", version)
    assert environment("cpu", 1, "fp32")["packages"]["minbert"] == VERSION


def test_builds_of_one_version_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"torch": "2.13.0+cpu", "numpy": "2.4.6"}
    monkeypatch.setattr("minbert.base.environment.version", lambda name: found[name])
    assert versions(found) == {"torch": "2.13.0", "numpy": "2.4.6"}


def test_memory_is_told_in_bytes_and_without_that_of_the_parent_process() -> None:
    held = bytearray(100 << 20)
    code = "from minbert.base.environment import peak_memory; print(peak_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert 1 << 23 < int(done.stdout) < len(held) < peak_memory() < 1 << 40


def git(folder: Path, *words: str) -> str:
    """Run git without the user's own settings; return what it prints."""
    who = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false"]
    command = ["git", *who, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_wheel_inside_another_repository_is_of_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "--message", "other")
    code = tmp_path / "venv" / "minbert" / "base" / "environment.py"
    write_text(code, "")
    monkeypatch.setattr("minbert.base.environment.__file__", str(code))
    assert commit() == "unknown"


@pytest.mark.parametrize(
    ("path", "edited"),
    [
        ("workflow/grids/mine.yaml", ""),
        ("workflow/grids/new.yaml", ""),
        ("config.yaml", ""),
        ("src/minbert/base/environment.py", "+"),
        ("src/minbert/model/heads/mlp.py", "+"),
        ("src/minbert/model/heads/new.py", "+"),
        ("src/minbert/model/heads/__pycache__/mlp.pyc", ""),
    ],
)
def test_a_commit_is_of_code_and_not_of_grids_wherever_it_is_run(
    path: str, edited: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of the working folder, which may be another project's repository."""
    code = tmp_path / "src/minbert/base/environment.py"
    committed = (code, "src/minbert/model/heads/mlp.py", "workflow/grids/mine.yaml", "config.yaml")
    for name in committed:
        write_text(tmp_path / name, "")
    write_text(tmp_path / ".gitignore", "__pycache__/\n")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message", "ours")
    write_text(tmp_path / path, "edited")
    monkeypatch.setattr("minbert.base.environment.__file__", str(code))
    (tmp_path / "elsewhere").mkdir()
    git(tmp_path / "elsewhere", "init")
    git(tmp_path / "elsewhere", "commit", "--allow-empty", "--message", "theirs")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert commit() == git(tmp_path, "rev-parse", "--short=10", "HEAD") + edited
