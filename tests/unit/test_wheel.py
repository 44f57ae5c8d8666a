"""The wheel: it holds the whole package, and its command starts where only its dependencies are."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from minbert import __version__

ROOT = Path(__file__).parents[2]


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


def test_it_has_every_file_of_the_package(wheel: Path) -> None:
    source = ROOT / "src"
    files = {path.relative_to(source).as_posix() for path in (source / "minbert").rglob("*.*")}
    wanted = {name for name in files if "__pycache__" not in name}
    with ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if name.startswith("minbert/")}
    assert found == wanted
    assert {"minbert/spec/tasks.yaml", "minbert/report/page.html.j2"} <= found


def test_its_command_starts_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    """This environment's packages stand in for the dependencies, its minbert left out."""
    fresh = tmp_path / "venv"
    venv.create(fresh, symlinks=True)
    python, packages = fresh / "bin" / "python", sysconfig.get_path("purelib")
    words = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*words, "--no-deps", "--no-index", str(wheel)], check=True)
    (own,) = fresh.glob("lib/python*/site-packages")
    (own / "dependencies.pth").write_text(packages + "\n", encoding="utf-8")

    def printed(*words: str | Path) -> str:
        done = subprocess.run(
            words, cwd=tmp_path, env={}, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert printed(python, "-c", "import minbert; print(minbert.__file__)").startswith(str(own))
    assert printed(fresh / "bin" / "minbert", "--version") == f"minbert {__version__}\n"
    assert "predict" in printed(fresh / "bin" / "minbert", "--help")
