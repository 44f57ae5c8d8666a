"""The documentation says what is there: links, files, commands, keys, formats and examples."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pages.configuration import configuration_page
from pages.pictures import BYTES, PICTURES
from pages.rows import rows_page

from minbert.commands.cli import COMMANDS, CONFIGURED, STEPS
from minbert.plan.outputs import FIGURES
from minbert.spec.config import load_config
from minbert.spec.figures import FIGURE_KINDS
from minbert.spec.resolve import Variant, resolve
from minbert.spec.stage import StageSpec
from minbert.spec.task import TaskEntry, TaskSpec
from minbert.spec.yaml import load_yaml, parse_yaml
from minbert.store.node import KINDS

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "config" / "README.md",
    ROOT / "study" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
TEXT = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}

# What a reader is told to write, so that it is not there.
EXAMPLES = {
    "workflow/grids/depth.yaml",
    "workflow/grids/mine.yaml",
    "workflow/grids/parts.yaml",
    "src/minbert/model/heads/normed.py",
    "src/minbert/model/pooling/last.py",
    "src/minbert/spec/encoders/data2vec.py",
    "src/minbert/train/losses/huber.py",
    "src/minbert/train/samplers/shuffled.py",
    "src/minbert/train/schedules/squared.py",
    "src/minbert/train/surgery/equal_norms.py",
}
FOLDERS = r"(?:src|workflow|profiles|envs|tests|docs|benchmarks)"

every_page = pytest.mark.parametrize("name", TEXT)


def slugs(text: str) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def blocks(name: str, language: str = "") -> list[str]:
    """Return the fenced blocks of a page that are in `language`."""
    found = re.findall(r"^```(.*)\n((?:.*\n)*?)```$", TEXT[name], re.MULTILINE)
    return [text for of, text in found if of == language]


def commands(name: str) -> Iterator[str]:
    """Yield the lines of a page's plain blocks, and its code spans."""
    for block in blocks(name):
        lines = block.replace("\\\n", " ").splitlines()
        yield from (line.partition("#")[0].strip() for line in lines)
    for paragraph in re.sub(r"^ *```.*?^ *```$", "", TEXT[name], flags=re.M | re.S).split("\n\n"):
        yield from re.findall(r"`([^`]+)`", " ".join(paragraph.split()))


@every_page
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXT[name]):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name}: {target} leads nowhere"
        if anchor:
            assert anchor in slugs(there.read_text(encoding="utf-8")), f"{name}: no {target}"


@every_page
def test_files_and_modules_that_are_named_exist(name: str) -> None:
    paths = re.findall(rf"(?<![\w/.]){FOLDERS}/[\w./-]*\w", TEXT[name])
    modules = re.findall(r"(?<![\w./-])minbert(?:\.[a-z_0-9]+){2,}", TEXT[name])
    paths += [f"src/{module.replace('.', '/')}" for module in modules]
    for path in paths:
        if {path, f"{path}.py"} & EXAMPLES or re.search(r"[A-Z]", path.replace("README", "")):
            continue
        there = (ROOT / path).exists() or (ROOT / f"{path}.py").exists()
        assert there, f"{name} names {path}, which is not there"


def test_modules_of_the_architecture_exist() -> None:
    package = ROOT / "src" / "minbert"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    named = re.findall(rf"`((?:{'|'.join(rooms)})(?:\.\w+)+)`", TEXT["docs/architecture.md"])
    assert len(named) >= 20
    for module in named:
        path = package / module.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").exists(), module
    picture = (ROOT / "docs" / "img" / "rooms.svg").read_text(encoding="utf-8")
    drawn = set(re.findall(r'<tspan class="name">(\w+)<', picture))
    assert drawn == rooms, "docs/img/rooms.svg does not show the rooms"


@cache
def snakemake_options() -> set[str]:
    """Return Snakemake's options, from a process of its own: its solver breaks other libraries."""
    command = [sys.executable, "-m", "snakemake", "--help"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", said))


@every_page
def test_commands_that_are_named_exist_and_take_these_options(name: str) -> None:
    """Options that the list of changes names may be gone."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    variables = set(re.findall(r"\$\((?:(?:if|or) \$\()?([A-Z]+)", makefile))
    ours = {**COMMANDS, **STEPS}
    for line in commands(name):
        words = re.sub(r"^(?:\S+=\S* )*(?:\.venv/bin/)?", "", line).split()
        if len(words) < 2 or words[1].isupper():
            continue
        options = {word.partition("=")[0] for word in words[1:] if word.startswith("-")}
        if words[0] == "make":
            assert words[1] in targets, f"{name}: no target for '{line}'"
            given = set(re.findall(r"\b([A-Z]+)=", " ".join(words)))
            assert given <= variables, f"{name}: {line}: {given - variables}"
        known = snakemake_options() if words[0] == "snakemake" else {*options}
        if words[0] == "minbert" and not words[1].startswith("-"):
            assert words[1] in ours, f"{name}: no command for '{line}'"
            known = {*ours[words[1]].options, *(CONFIGURED if words[1] in COMMANDS else ())}
        assert options <= known or name == "CHANGELOG.md", f"{name}: {line}: {options - known}"


@every_page
def test_commands_are_the_same_in_bash_and_zsh(name: str) -> None:
    """Zsh neither splits an unquoted variable, nor leaves brackets that match no file."""
    for block in blocks(name):
        for line in block.splitlines():
            bare = re.sub(r"\"[^\"]*\"|'[^']*'", "", line.partition("#")[0])
            assert not re.search(r"\$\w|[\[\]?]", bare), f"{name}: {line}"


def test_the_page_of_the_configuration_is_what_its_fields_say() -> None:
    said = "run cd tests && python -m pages.configuration"
    assert TEXT["docs/configuration.md"] == configuration_page(), said


def test_every_key_of_a_stage_and_of_a_task_is_documented() -> None:
    stages, _, keys = TEXT["docs/adding.md"].partition("Keys of a task:\n")
    for key in {*StageSpec.model_fields, *TaskSpec.model_fields} - {"tasks"}:
        assert re.search(rf"^- .*`{key}(?:\.\w+)?`", stages + keys, re.MULTILINE), key
    named = re.findall(r"^- (`\w+`(?:, `\w+`)*): ", keys, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(named))) == set(TaskEntry.model_fields)


def resolved(*examples: Path, **settings: Any) -> dict[str, Variant]:
    """Return the variants of the default grids, with example files beside them."""
    named = load_config([ROOT / "config.yaml"]).grids
    grids = [*(f"{ROOT}/workflow/grids/{name}.yaml" for name in named), *map(str, examples)]
    found = resolve(load_config({"grids": grids, **settings}), ROOT)
    return {f"{g.paper}/{name}": v for g in found for name, v in g.variants.items()}


# The last one needs the parts of the page: tests/pipeline/test_newcomer.py.
*YAML, _ = blocks("docs/adding.md", "yaml")
GRIDS = [text for text in YAML if text.startswith("paper: ")]
(OWN,) = (text for text in YAML if text.startswith("tasks:"))


@pytest.mark.parametrize("example", GRIDS)
def test_the_examples_of_grids_resolve(tmp_path: Path, example: str) -> None:
    (path := tmp_path / "example.yaml").write_text(example, encoding="utf-8")
    before, after = resolved(), resolved(path, **parse_yaml(OWN, "example"))
    assert before.items() <= after.items()
    assert len(after) > len(before)


def test_the_example_of_an_override_changes_every_stage() -> None:
    (example,) = blocks("docs/configuration.md", "yaml")
    for variant in resolved(**parse_yaml(example, "example")).values():
        for stage in variant.stages:
            assert {task.batch_size for task in stage.spec.tasks.values()} == {32}


def test_the_kinds_of_nodes_and_their_files_are_documented() -> None:
    _, _, listed = TEXT["docs/pipeline.md"].partition("## What is made from what\n")
    kinds = re.findall(r"^- `(\w+)` \(([^)]+)\):", listed.partition("\n## ")[0], re.MULTILINE)
    found = {kind: tuple(re.findall(r"`([^`]+)`", files)) for kind, files in kinds}
    assert found == {name: kind.outputs for name, kind in KINDS.items()}


def test_the_columns_of_tables_are_documented() -> None:
    from minbert.data.examples import ROWS
    from minbert.data.examples import SCHEMA as EXAMPLES
    from minbert.data.labels import SCHEMA as LABELS
    from minbert.data.tokenise import SCHEMA as TOKENS
    from minbert.evaluate.reading import SCHEMA as SCORES
    from minbert.train.history import PREDICTIONS
    from minbert.train.history import SCHEMA as HISTORY

    schemas = {"examples": EXAMPLES, "labels": LABELS, "rows": ROWS, "tokens": TOKENS}
    schemas |= {"history": HISTORY, "predictions": PREDICTIONS, "scores": SCORES}
    text = TEXT["docs/pipeline.md"]
    for name, schema in schemas.items():
        (columns,) = re.findall(rf"^`{name}.parquet`:\n\n((?:[- ] .+\n)+)", text, re.MULTILINE)
        listed = [
            (column, kind)
            for named, kind in re.findall(r"^- (`.+?`) \(([^)]+)\)", columns, re.MULTILINE)
            for column in re.findall(r"`([^`]+)`", named)
        ]
        assert [column for column, _ in listed] == schema.names, name
        for column, kind in listed:
            stored = str(schema.field(column).type).replace("double", "float64")
            stored = re.sub(r"list<\w+: (\w+)>", r"list of \1", stored)
            assert kind == re.sub(r"\bfloat$", "float32", stored), f"{name}: {column}"


def test_the_page_of_rows_is_what_the_grids_say() -> None:
    assert TEXT["docs/rows.md"] == rows_page(ROOT), "run cd tests && python -m pages.rows"


def test_every_figure_and_kind_is_listed() -> None:
    text = TEXT["docs/figures.md"]
    grids = resolve(load_config([ROOT / "config.yaml"]), ROOT)
    papers = {grid.paper for grid in grids}
    planned = {f"figures/{grid.paper}/{name}" for grid in grids for name in grid.figures}
    planned |= {f"figures/all/{name}" for name in load_yaml(ROOT / FIGURES)["figures"]}
    listed: set[str] = set()
    for name in re.findall(r"`(figures/[\w-]+/[\w-]+)`", text):
        listed |= {name.replace("PAPER", paper) for paper in papers}
    for paper, names in re.findall(r"`figures/([\w-]+)`\):\n((?:\n?- .*\n(?:  .*\n)*)+)", text):
        listed |= {f"figures/{paper}/{name}" for name in re.findall(r"`([a-z-]+)`", names)}
    assert listed == planned
    assert set(FIGURE_KINDS) <= set(re.findall(r"`([\w-]+)`", text))


def test_all_pictures_are_small_and_shown() -> None:
    names = {name for pictures in PICTURES.values() for name in pictures.values()}
    pictures = {path.name: path for path in (ROOT / "docs" / "img").iterdir()}
    assert pictures.keys() == {f"{name}.webp" for name in names} | {"rooms.svg"}
    for name, path in pictures.items():
        assert any(f"img/{name})" in text for text in TEXT.values()), f"{name} is shown nowhere"
        assert path.stat().st_size <= BYTES
