"""The command line: help, errors, and the steps by name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from minbert import __version__
from minbert.commands.cli import main


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what a command prints; it must end well."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_help_names_what_people_call_and_no_step(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--help")
    found = set(re.findall(r"(?m)^ {4}(\w+) ", text))
    people = {"plan", "learned", "gc", "adopt", "bundle", "unbundle", "ui", "predict"}
    assert found == people | {"export", "compare", "submit", "figure"}
    assert "snakemake --cores N all" in text
    for command in found:
        text = printed(capsys, command, "--help")
        assert "--configfile" in text and "--config " in text and "--results" in text, command


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("plam", "no command 'plam'. Did you mean 'plan'?"),
        ("table", "no command 'table'. `minbert make table-KEY` makes it."),
    ],
)
def test_a_command_that_there_is_not_is_answered_with_one_that_there_is(
    command: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "x"])
    assert ended.value.code == 2 and said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "root"),
    [
        ((), "named"),
        (("--results", "given"), "given"),
        (("--config", "results=other"), "other"),
        (("--configfile", "more.yaml"), "more"),
    ],
)
def test_every_command_finds_the_results_of_the_configuration(
    words: tuple[str, ...], root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found: list[Path] = []
    monkeypatch.setattr("minbert.track.ui.serve", lambda at, **_: found.append(at))
    main(["ui"])
    Path("config.yaml").write_text("grids: [a]\nresults: named\n")
    Path("more.yaml").write_text("results: more\n")
    main(["ui", *words])
    assert found == [Path("results"), Path(root)]


def test_help_of_training(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "train", "--help")
    for word in ("key", "--seed", "--results", "--threads", "16 hex digits"):
        assert word in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--version") == f"minbert {__version__}\n"


def test_a_user_error_has_no_traceback(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--directory", str(tmp_path / "none")])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("minbert: ") and "config.yaml" in told


def test_a_reader_that_leaves_is_no_error() -> None:
    code = "import minbert.track.ui as ui; ui.serve = lambda *_, **__: 'x'; "
    code += "from minbert.commands.cli import main; main(['ui'])"
    reading, writing = os.pipe()
    os.close(reading)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    words = [sys.executable, "-c", code]
    told = {"stdout": writing, "stderr": subprocess.PIPE}
    done = subprocess.run(words, check=False, env=buffered, **told)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_ctrl_c_ends_a_command_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(**options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("minbert.commands.cli._follow", wait)
    with pytest.raises(SystemExit) as ended:
        main(["follow"])
    assert ended.value.code == 130


def test_plan_starts_without_heavy_imports() -> None:
    code = (
        "import sys, minbert.commands.cli, minbert.commands.plan; "
        "print(sorted({'torch', 'mlflow', 'pandas', 'pyarrow', 'matplotlib'} & set(sys.modules)))"
    )
    words = [sys.executable, "-c", code]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(("threads", "policy"), [(2, "passive"), (1, None)])
def test_threads_that_wait_do_not_spin(
    threads: int, policy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str | None] = []
    monkeypatch.setattr("minbert.base.process.end_with_parent", lambda: None)
    monkeypatch.setattr(
        "minbert.commands.steps.run_step",
        lambda *_, **__: found.append(os.environ.get("OMP_WAIT_POLICY")),
    )
    monkeypatch.setenv("OMP_WAIT_POLICY", "")  # so that what is set here goes again
    monkeypatch.delenv("OMP_WAIT_POLICY")
    main(["train", "00ff", "--seed", "0", "--threads", str(threads)])
    assert found == [policy]


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "v", "a", "--seed", "-1"],
        ["predict", "v", "a", "--seed", "one"],
        ["train", "00ff", "--seed", str(2**32)],
        ["train", "00ff", "--seed", "0", "--threads", "0"],
        ["ui", "--port", "65536"],
    ],
)
def test_numbers_out_of_range_are_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    option = next(word for word in reversed(words) if word.startswith("--"))
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert f"argument {option}: found '{words[-1]}', expected a whole number from " in told


def test_a_folder_that_is_not_there_is_not_followed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        main(["follow", "--once", "--results", str(nope := tmp_path / "nope")])
    told = f"minbert: {nope}: there is no such results folder to follow\n"
    assert capsys.readouterr().err == told and not nope.exists()
