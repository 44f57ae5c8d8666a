"""What the code never does, besides what ruff refuses: pickles, unsafe YAML, unquoted words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import minbert
from minbert.base.errors import UserError, printable
from minbert.commands.cli import main
from minbert.spec import yaml as loader
from minbert.track.ui import command

ROOT = Path(__file__).parents[2]
SOURCES = sorted(Path(minbert.__path__[0]).rglob("*.py"))
RULES = [ROOT / "Snakefile", *sorted((ROOT / "workflow" / "rules").glob("*.smk"))]


def test_weights_are_never_loaded_from_a_pickle() -> None:
    """What else could run text or data as code, ruff finds."""
    loads = [call for path in SOURCES for call in re.findall(r"torch\.load\(.*", read(path))]
    assert loads and all("weights_only=True" in call for call in loads)
    assert not [path for path in SOURCES if re.search(r"joblib|allow_pickle=True", read(path))]


def test_yaml_is_read_by_a_safe_loader() -> None:
    assert issubclass(loader._Loader, yaml.SafeLoader)
    assert loader._Loader.yaml_constructors.keys() == yaml.SafeLoader.yaml_constructors.keys()
    for text in ("!!python/object/apply:os.system ['true']", "!!python/name:os.system"):
        with pytest.raises(UserError, match="could not determine a constructor"):
            loader.parse_yaml(text, "here")


def test_rules_quote_what_they_pass_to_a_shell() -> None:
    """A rule's shell sees keys (hex digits), numbers and quoted paths, never labels or data."""
    found = {text for path in RULES for text in re.findall(r"\{([^{}]+)\}", "".join(shells(path)))}
    assert found == {"params.step", "params.at", "params.what", "threads", "log:q"}
    asks = (ROOT / "src/minbert/commands/rules.py").read_text(encoding="utf-8")
    assert 'self.at = f"--results {shlex.quote(str(plan.root))} --plan {record}"' in asks
    names = (ROOT / "workflow/rules/evaluate.smk").read_text(encoding="utf-8")
    assert names.count("what=") == names.count("shlex.quote(") == 2


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def shells(path: Path) -> list[str]:
    """Return the texts that the rules of a file give a shell."""
    return re.findall(r"shell:\n((?: {8,}f?\".*\"\n)+)", read(path))


def test_servers_listen_on_loopback() -> None:
    words = command(Path("r"), "sqlite:///r/x.db", 5000)
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
