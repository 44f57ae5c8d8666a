"""The code digest: what changes it, which modules it covers, and what keys hold of others."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from planning import REPOSITORY

from minbert.base.errors import UserError
from minbert.plan.outputs import load_plan
from minbert.spec.resolve import StageRef
from minbert.spec.stage import StageSpec
from minbert.store import code
from minbert.store.code import code_modules, differs
from minbert.store.node import digest

MODULES = {
    "__init__.py": '"""Root."""\n__version__ = "1"\n',
    "common/__init__.py": "",
    "common/files.py": "SPEED = 1\n",
    "grid/__init__.py": "",
    "grid/parts.py": "PARTS = {}\n",
    "a/__init__.py": "",
    "a/main.py": (
        "from typing import TYPE_CHECKING\n"
        "import json\n"
        "from minbert.base import files\n"
        "from minbert.spec.parts import PARTS\n"
        "from minbert.a import sibling\n"
        "from . import near\n"
        "from ..b.deep import thing as other\n"
        "if TYPE_CHECKING:\n    from minbert.c import unused\n"
        "def run() -> int:\n"
        '    """Run."""\n'
        "    import minbert.b.lazy\n"
        "    return 3\n"
    ),
    "a/sibling.py": "X = 1\n",
    "a/near.py": "from minbert.a import main\n",
    "b/__init__.py": "B = 1\n",
    "b/deep.py": "thing = 2\n",
    "b/lazy.py": "Y = 1\n",
    "c.py": "unused = 1\n",
}
CLOSURE = ["minbert", "minbert.a", *(f"minbert.a.{of}" for of in ("main", "near", "sibling"))]
CLOSURE += ["minbert.b", "minbert.b.deep", "minbert.b.lazy"]


def forget() -> None:
    """A process reads each file once."""
    for cached in (code._sources, code.code_modules, code._parse):
        cached.cache_clear()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = tmp_path / "minbert"
    for name, text in MODULES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(code, "FOLDER", root)
    forget()
    yield root
    forget()


def edit(package: Path, name: str, old: str, new: str) -> None:
    """Replace text of a module."""
    text = (package / name).read_text()
    assert old in text
    (package / name).write_text(text.replace(old, new))
    forget()


def changed(package: Path, name: str, old: str, new: str) -> list[str]:
    """Return the modules whose digest differs after an edit."""
    before = code_modules(("minbert.a.main",))
    edit(package, name, old, new)
    return differs(before, code_modules(("minbert.a.main",)))


def test_closure_over_all_forms_of_import(package: Path) -> None:
    assert list(code_modules(("minbert.a.main",))) == CLOSURE
    for root in ("b", "c"):
        assert list(code_modules((f"minbert.{root}",))) == ["minbert", f"minbert.{root}"]


@pytest.mark.parametrize(
    ("name", "old", "new", "modules"),
    [
        ("a/main.py", "return 3", "return 4", ["minbert.a.main"]),
        ("b/lazy.py", "Y = 1", "Y = -1", ["minbert.b.lazy"]),
        (
            "a/sibling.py",
            "X = 1",
            "from minbert import c\nX = 1",
            ["minbert.a.sibling", "minbert.c"],
        ),
        ("a/main.py", "return 3", "return 3  # three\n", []),
        ("a/main.py", '"""Run."""', '"""Run it, and say so."""', []),
        ("__init__.py", '"1"', '"2"', []),
        ("grid/parts.py", "{}", "{1: 2}", []),
    ],
)
def test_edits_change(package: Path, name: str, old: str, new: str, modules: list[str]) -> None:
    assert changed(package, name, old, new) == modules


def test_a_syntax_error_names_file_and_line(package: Path) -> None:
    (package / "b" / "deep.py").write_text("x = 1\ny = (\n")
    with pytest.raises(UserError, match=r"deep\.py, line 2: does not parse: '\(' was never closed"):
        code_modules(("minbert.a.main",))


def test_the_digest_of_known_source_is_the_same_on_every_python(package: Path) -> None:
    (package / "c.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass(frozen=True)\n"
        "class Point:\n"
        "    x: float = 1e-5\n"
        "    async def f(self, *a, k=None, **b) -> str:\n"
        "        return f'{self.x!r:>9} and' 'more' if a else [i for i in b if not i][1:]\n"
    )
    digest = code_modules(("minbert.c",))["minbert.c"]
    assert digest == "7596f93198251f2879cec4caafdf5aa9a97a51678efdd9644d6253661e8e7ddf"


SPEC = {
    "tasks": {
        "sts": {"loss": "mse", "pairing": "cross"},
        "sst": {"loss": "cross_entropy"},
        "cfimdb": {"loss": "cross_entropy", "trained": False},
    },
    "smart": {"weight": 1.0},
}


def spec() -> StageSpec:
    return StageSpec.model_validate(SPEC)


def test_what_training_takes_from_a_spec_by_code() -> None:
    found = spec().derived()
    assert (found["tasks"], found["trained"]) == (["sst", "sts", "cfimdb"], ["sst", "sts"])
    assert found["divergences"] == {"sst": "symmetric_kl", "sts": "squared_error"}
    assert found["parts"]["loss:mse"] == "minbert.train.losses.mse:MeanSquaredError"
    smart = {"weight": 1.0, "divergence": "detached_kl"}
    found = StageSpec.model_validate({**SPEC, "smart": smart}).derived()
    assert found["divergences"] == dict.fromkeys(("sst", "sts"), "detached_kl")
    assert [name for name in found["parts"] if "diverg" in name] == ["divergence:detached_kl"]


BEFORE = {
    "hybrid-bert hybrid-bert/main": "466e0cd104058549",
    "hybrid-bert sequential/main": "30be777d1378a613",
    "minbert-downstream r5/main": "4ed91df424215e6a",
    "adapter-fusion adapter-fusion/sst": "0d85420d00985d92",
}


def test_settings_that_came_later_are_not_in_the_keys_of_older_stages() -> None:
    plan = load_plan([REPOSITORY / "config.yaml"], REPOSITORY)
    refs = {name: StageRef(*re.split("[ /]", name)) for name in BEFORE}
    assert {name: digest(plan.train(ref).spec["stage"]) for name, ref in refs.items()} == BEFORE
    assert spec().model_dump()["smart"].keys().isdisjoint({"divergence", "reduction"})
