"""What the code never does, read off its source: pickles, unsafe YAML, shells, open servers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import minbert
from minbert.base.errors import printable
from minbert.commands.cli import main
from minbert.track.store import server_command

ROOT = Path(__file__).parents[2]
SOURCES = sorted(Path(minbert.__path__[0]).rglob("*.py"))
RULES = [ROOT / "Snakefile", *sorted((ROOT / "workflow" / "rules").glob("*.smk"))]

PICKLING = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
UNSAFE = {
    **{"torch.load": "a pickle", "yaml.load": "YAML that makes objects"},
    **{f"torch.jit.{name}": "code in an archive" for name in ("load", "save")},
    **{f"np.{name}": "maybe a pickle" for name in ("load", "save", "savez", "fromfile")},
    **{f"pd.{name}": "a pickle" for name in ("read_pickle", "to_pickle")},
    **dict.fromkeys(("eval", "exec", "compile", "__import__"), "code from text"),
    **{f"os.{name}": "a shell" for name in ("system", "popen")},
    **{f"yaml.{name}": "YAML that makes objects" for name in ("unsafe_load", "full_load", "dump")},
}
"""Calls by their whole name."""


SAFE = {"torch.load": "weights_only=True", "yaml.load": "Loader=_Loader"}
"""What makes a call a safe one."""
FORBIDDEN = {"shell=True", "allow_pickle=True", "weights_only=False"}


def faults(path: Path) -> Iterator[str]:
    """Yield what a file does that none may."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{a.name}" for a in node.names)]
        for name in names:
            if name.partition(".")[0] in PICKLING or name in UNSAFE:
                yield f"line {node.lineno}: imports {name}"
        if isinstance(node, ast.Call):
            name, given = ast.unparse(node.func), {ast.unparse(k) for k in node.keywords}
            safe = SAFE.get(name)
            if name in UNSAFE and not (safe and safe in given):
                yield f"line {node.lineno}: {name} is {UNSAFE[name]}"
            if given & FORBIDDEN:
                yield f"line {node.lineno}: {name} with {given & FORBIDDEN}"


def test_no_module_pickles_or_runs_text() -> None:
    assert len(SOURCES) > 100
    found = {str(path): list(faults(path)) for path in SOURCES}
    assert {path: said for path, said in found.items() if said} == {}


@pytest.mark.parametrize(
    "text",
    [
        *("from joblib import dump", "import torch\ntorch.load('x')", "from torch import load"),
        *("np.load('x', allow_pickle=True)", "yaml.load(x, Loader=yaml.Loader)", "eval(x)"),
        *("subprocess.run('x', shell=True)", "os.system('x')", "f(weights_only=False)"),
    ],
)
def test_the_check_sees_what_it_is_for(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(text)
    assert list(faults(path))


def test_rules_quote_what_they_pass_to_a_shell() -> None:
    """A rule's shell sees keys (hex digits), numbers and quoted paths, never labels or data."""
    found = {text for path in RULES for text in re.findall(r"\{([^{}]+)\}", "".join(shells(path)))}
    assert found == {"params.step", "threads", "log:q"}


def shells(path: Path) -> list[str]:
    """Return the texts that the rules of a file give a shell."""
    return re.findall(r"shell:\n((?: {8,}f?\".*\"\n)+)", path.read_text(encoding="utf-8"))


def test_servers_listen_on_loopback() -> None:
    words = server_command("sqlite:///r/x.db", 5000)
    assert words[words.index("--host") + 1] == "127.0.0.1"


def test_text_of_data_cannot_steer_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert printable("a\tb\n\u00e9 \u6771 \U0001f600") == "a\tb\n\u00e9 \u6771 \U0001f600"
    assert printable("\x1b[2Jx\r\x07\u202e\x9b") == r"\x1b[2Jx\r\x07\u202e\x9b"
    (tmp_path / "config.yaml").write_text('grids: ["a\\e[31mb"]\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["plan"])
    told = capsys.readouterr().err
    assert "\x1b" not in told and r"a\x1b[31mb" in told
