"""What is installed: pyproject, lock, conda environment, container and wheel say the same."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from minbert.base.environment import commit, cpu, environment, peak_memory
from minbert.base.files import write_text

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = yaml.safe_load((ROOT / "envs" / "minbert.yaml").read_text())["dependencies"]
DOCKER = re.sub(r"\\\n", " ", (ROOT / "envs" / "Dockerfile").read_text())


def versions(words: list[str]) -> dict[str, str]:
    """Return {package: version} of `NAME==VERSION` words."""
    pairs = (word.split("==") for word in words)
    return {canonicalize_name(name): version for name, version in pairs}


LOCK = versions((ROOT / "requirements.lock").read_text().split())


def pinned() -> dict[str, str]:
    """Return the packages of the rules' conda environment."""
    words = next(entry["pip"] for entry in CONDA if isinstance(entry, dict))
    return versions(words)


def names(*words: str) -> set[str]:
    return {canonicalize_name(Requirement(word).name) for word in words}


def test_the_lock_and_the_conda_environment_have_what_pyproject_asks_for() -> None:
    extras = PROJECT["optional-dependencies"]
    for word in (*PROJECT["dependencies"], *extras["test"], *extras["bench"]):
        asked = Requirement(word)
        assert LOCK[canonicalize_name(asked.name)] in asked.specifier
    assert not re.search(r"://|@|\+", " ".join(LOCK.values())), "no host and no local build"
    assert pinned().items() <= LOCK.items()
    assert names(*pinned()) == names(*PROJECT["dependencies"]) - {"snakemake"}


def test_the_rules_environment_has_every_package_that_a_rule_may_import() -> None:
    """But for what runs in Snakemake's own process."""
    package, found = ROOT / "src" / "minbert", set()
    for path in set(package.rglob("*.py")) - {package / "commands" / "session.py"}:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").partition(".")[0])
    modules = {"yaml": "pyyaml", "PIL": "pillow", "pydantic_core": "pydantic"}
    found -= {*sys.stdlib_module_names, "minbert"}
    assert names(*(modules.get(name, name) for name in found)) <= names(*pinned())


def test_the_container_is_made_of_the_same() -> None:
    """And ends as a user who is not root, with the minbert of the mounted checkout."""
    python = re.search(r"^FROM python:(\d+\.\d+)-slim", DOCKER, re.M)
    assert python and f"python={python[1]}" in CONDA
    assert python[1] in SpecifierSet(PROJECT["requires-python"])
    assert f'version="{PROJECT["version"]}"' in DOCKER
    (copied,) = re.findall(r"^COPY (.*) \S+$", DOCKER, re.M)
    sent = set(re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.M))
    assert set(copied.split()) == sent and all((ROOT / name).is_file() for name in sent)
    code = re.search(r'python -c "(.*?)" > (\S+)', DOCKER)
    assert code and f"--constraint requirements.lock --requirement {code[2]}" in DOCKER
    words = [sys.executable, "-c", code[1].replace("\\\\n", "\\n")]
    printed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == PROJECT["dependencies"]
    (user,) = re.findall(r"^USER (\d+)$", DOCKER, re.M)
    assert int(user) > 0 and f"--uid {user} " in DOCKER and "PYTHONPATH=/minbert/src" in DOCKER


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy, as building leaves files beside the source."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, folder / name)
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    words += ["--no-build-isolation", "--wheel-dir", str(folder / "dist"), str(folder)]
    subprocess.run(words, check=True)
    (built,) = (folder / "dist").iterdir()
    return built


def test_a_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    source = ROOT / "src"
    files = {path.relative_to(source).as_posix() for path in (source / "minbert").rglob("*.*")}
    with ZipFile(wheel) as archive:
        (points,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        assert "minbert = minbert.commands.cli:main" in archive.read(points).decode()
        found = {name for name in archive.namelist() if name.startswith("minbert/")}
    assert found == {name for name in files if "__pycache__" not in name}


def test_a_run_names_the_version_of_minbert() -> None:
    assert environment("cpu", 1, "fp32")["packages"]["minbert"] == PROJECT["version"]


def test_memory_is_told_in_bytes_and_without_that_of_the_parent_process() -> None:
    held = bytearray(100 << 20)
    code = "from minbert.base.environment import peak_memory; print(peak_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert 1 << 23 < int(done.stdout) < len(held) < peak_memory() < 1 << 40


def test_what_the_system_tells_of_cpu_and_memory_is_taken_if_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = peak_memory()
    write_text(cpus := tmp_path / "cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n")
    write_text(status := tmp_path / "status", "Name:\tpython\nVmHWM:\t  9 kB\n")
    monkeypatch.setattr("minbert.base.environment.CPUS", cpus)
    monkeypatch.setattr("minbert.base.environment.STATUS", status)
    assert (cpu(), peak_memory()) == ("Some CPU @ 2 GHz", 9 << 10)
    status.unlink()
    assert peak_memory() > before / 2, "as `getrusage` has it, in bytes"


def git(folder: Path, *words: str) -> str:
    """Run git without the user's own settings; return what it prints."""
    who = ["-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false"]
    command = ["git", *who, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("path", "edited"),
    [
        ("workflow/grids/new.yaml", ""),
        ("config.yaml", ""),
        ("src/minbert/model/layers.py", "+"),
        ("src/minbert/model/heads/new.py", "+"),
    ],
)
def test_a_commit_is_of_code_and_not_of_grids_wherever_it_is_run(
    path: str, edited: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of the working folder; a wheel inside another repository is of no commit."""
    code = tmp_path / "src/minbert/base/environment.py"
    for name in (code, "src/minbert/model/layers.py", "config.yaml"):
        write_text(tmp_path / name, "")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message", "ours")
    write_text(tmp_path / path, "edited")
    monkeypatch.setattr("minbert.base.environment.__file__", str(code))
    assert commit() == git(tmp_path, "rev-parse", "--short=10", "HEAD") + edited
    write_text(wheel := tmp_path / "venv/minbert/base/environment.py", "")
    monkeypatch.setattr("minbert.base.environment.__file__", str(wheel))
    assert commit() == "unknown"


CODE = """
import sys
from minbert.base.process import without_pandas
without_pandas()
import numpy as np, pyarrow as pa
table = pa.Table.from_pylist([{"a": 1, "b": [0.5]}, {"a": None, "b": None}])
pa.array(np.zeros(3), from_pandas=True)
pa.array([np.zeros(2)] * 2, pa.list_(pa.float32()))
table["a"].to_numpy(), table.sort_by("a"), table.to_pylist()
print("pandas" in sys.modules)
import pandas
print("pandas" in sys.modules)
"""


def test_pyarrow_works_without_pandas_which_can_still_be_imported() -> None:
    command = [sys.executable, "-c", CODE]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True"]


TRAINING = """
import gc, sys
from minbert.base.process import imports
with imports():
    assert not gc.isenabled()
    import minbert.train.trainable, minbert.train.run
costly = {"torch._dynamo", "torch._inductor", "sympy", "pyarrow.dataset", "mlflow", "transformers"}
assert not costly & {*sys.modules}
left_out = gc.get_freeze_count()
try:
    with imports():
        import minbert.nothing
except ModuleNotFoundError:
    pass
print(left_out > 100_000, gc.isenabled())
"""


def test_a_training_imports_nothing_costly_and_looks_for_no_garbage_in_modules() -> None:
    command = [sys.executable, "-c", TRAINING]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "True"]
