"""The command line: help, errors, and the steps by name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from minbert import __version__
from minbert.commands.cli import COMMANDS, STEPS, main
from minbert.spec.yaml import from_words

Printed = pytest.CaptureFixture[str]


def ended(capsys: Printed, *words: str) -> tuple[object, str]:
    """Return the status with which a command ends the process, and what it prints."""
    with pytest.raises(SystemExit) as found:
        main(words)
    return found.value.code, "".join(capsys.readouterr())


def test_help_names_what_people_call_and_no_step(capsys: Printed) -> None:
    status, text = ended(capsys, "--help")
    assert status == 0 and "snakemake --cores N all" in text
    assert set(re.findall(r"(?m)^ {4}(\w+) ", text)) == COMMANDS.keys()
    for command, about in COMMANDS.items():
        _, text = ended(capsys, command, "--help")
        options = [option for option in about.options if option.startswith("-")]
        for option in ("--configfile", "--config ", "--results", "--directory", *options):
            assert option in text, command
    assert COMMANDS.keys().isdisjoint(STEPS)
    assert "KIND-KEY" in ended(capsys, "make", "--help")[1]
    assert ended(capsys, "--version") == (0, f"minbert {__version__}\n")


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
    monkeypatch.setattr("minbert.track.store.serve", lambda at, **_: found.append(at))
    main(["ui"])
    Path("config.yaml").write_text("grids: [a]\nresults: named\n")
    Path("more.yaml").write_text("results: more\n")
    main(["ui", *words])
    assert found == [Path("results"), Path(root)]


@pytest.mark.parametrize("root", ["2024", "a #b", "it's", "null"])
def test_results_may_be_any_path_of_one_call(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[object]()
    monkeypatch.setattr("minbert.plan.outputs.load_plan", lambda *given: given[-1])
    monkeypatch.setattr("minbert.commands.plan.plan_text", lambda w: found.append(from_words(w)))
    main(["plan", "--results", root])
    main(["plan"])
    assert found == [{"results": root}, {}]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("plam x", "minbert: no command 'plam'. Did you mean 'plan'?"),
        ("", "the following arguments are required: COMMAND"),
        ("plan --directory none", "config.yaml"),
        ("predict v a --seed -1", "argument --seed: "),
        ("predict v a --seed one", "argument --seed: found 'one', expected a whole number"),
        ("make train-00ff --results .", "minbert: train-00ff: give its --seed"),
        ("make train-00ff --seed 4294967296", "argument --seed: found '4294967296'"),
        ("ui --results here --configfile none.yaml", "minbert: none.yaml: there is no such file"),
        ("ui --results here", "/here: there is no such results folder"),
        ("figure p/ranking --size 3", "argument --size: found '3', expected WxH"),
        ("figure p/ranking --size 60x2", "argument --size: found '60x2', expected WxH"),
        ("figure p/ranking --size 3.3x0.9", "argument --size: found '3.3x0.9', expected WxH"),
        ("follow --results none", "minbert: none: there is no such results folder"),
    ],
)
def test_a_mistake_is_answered_in_a_line(
    words: str, told: str, capsys: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, printed = ended(capsys, *words.split())
    assert status == 2 and told in printed and "Traceback" not in printed
    assert not list(tmp_path.iterdir())


def python(code: str, **how: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-c", code], check=False, **how)


def test_a_reader_that_leaves_is_no_error() -> None:
    code = "import minbert.track.store as ui; ui.serve = lambda *_, **__: 'x'; "
    code += "from minbert.commands.cli import main; main(['ui'])"
    reading, writing = os.pipe()
    os.close(reading)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = python(code, env=buffered, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_ctrl_c_ends_a_command_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    def wait(*_: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("minbert.track.store.serve", wait)
    assert ended(capsys, "ui", "--results", "x") == (130, "")


def test_commands_start_without_heavy_imports() -> None:
    code = (
        "import sys, minbert.commands.cli, minbert.commands.plan; "
        "heavy = {'torch', 'mlflow', 'pandas', 'pyarrow', 'matplotlib'}; "
        "assert not heavy & {*sys.modules}; import minbert.predict.predict; "
        "assert 'torch' not in sys.modules"
    )
    assert python(code).returncode == 0


def test_threads_that_wait_do_not_spin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found: list[object] = []

    def load_job(root: Path, kind: str, key: str, **more: object) -> None:
        found.extend([kind, key, os.environ.get("OMP_WAIT_POLICY")])
        raise KeyboardInterrupt

    monkeypatch.setattr("minbert.commands.steps.load_job", load_job)
    monkeypatch.setenv("OMP_WAIT_POLICY", "")  # so that what is set here goes again
    monkeypatch.delenv("OMP_WAIT_POLICY")
    for threads in "12":
        with pytest.raises(SystemExit):
            main(f"make train-00ff --seed 0 --threads {threads} --results {tmp_path}".split())
    assert found == ["train", "00ff", None, "train", "00ff", "passive"]
