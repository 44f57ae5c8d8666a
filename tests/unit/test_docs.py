"""The documentation says what is there: links, files, commands, keys, formats and examples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from own_tasks import using
from pages.configuration import configuration_page
from pages.rows import rows_page

from minbert.commands.cli import COMMANDS, STEPS
from minbert.spec.config import load_config
from minbert.spec.entry import TaskEntry
from minbert.spec.resolve import Variant, resolve
from minbert.spec.stage import StageSpec
from minbert.spec.task import TaskSpec
from minbert.spec.yaml import parse_yaml
from minbert.store.kinds import KINDS

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "config" / "README.md",
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
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT[name], re.MULTILINE | re.DOTALL)


def commands(name: str) -> Iterator[str]:
    """Yield the lines of a page's plain blocks, and its code spans."""
    for block in blocks(name):
        yield from (line.partition("#")[0].strip() for line in block.splitlines())
    yield from re.findall(r"`([^`\n]+)`", TEXT[name])


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
def test_files_that_are_named_exist(name: str) -> None:
    for path in re.findall(rf"(?<![\w/.]){FOLDERS}/[\w./-]*\w", TEXT[name]):
        if path in EXAMPLES or re.search(r"[A-Z]", path.replace("README", "")):
            continue
        assert (ROOT / path).exists(), f"{name} names {path}, which is not there"


@every_page
def test_modules_that_are_named_exist(name: str) -> None:
    for module in set(re.findall(r"(?<![\w./-])minbert(?:\.[a-z_0-9]+){2,}", TEXT[name])):
        path = ROOT / "src" / module.replace(".", "/")
        if path.relative_to(ROOT).with_suffix(".py").as_posix() in EXAMPLES:
            continue
        assert path.is_dir() or path.with_suffix(".py").exists(), f"{name} names {module}"


def test_modules_of_the_architecture_exist() -> None:
    package = ROOT / "src" / "minbert"
    rooms = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    text = TEXT["docs/architecture.md"]
    named = [m for m in re.findall(r"`(\w+(?:\.\w+)+)`", text) if m.partition(".")[0] in rooms]
    assert len(named) >= 20
    for module in named:
        path = package / module.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").exists(), module
    picture = (ROOT / "docs" / "img" / "rooms.svg").read_text(encoding="utf-8")
    drawn = set(re.findall(r'<tspan class="name">(\w+)<', picture))
    assert drawn == rooms, "docs/img/rooms.svg does not show the rooms"


@every_page
def test_commands_that_are_named_exist(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for line in commands(name):
        words = re.sub(r"^(?:\.venv/bin/)", "", line).split()
        if len(words) < 2 or words[1].startswith("-") or words[1].isupper():
            continue
        if words[0] == "make":
            assert words[1] in targets, f"{name}: no target for '{line}'"
        if words[0] == "minbert":
            assert words[1] in {**COMMANDS, **STEPS}, f"{name}: no command for '{line}'"


@every_page
def test_snakemake_is_given_no_target_after_config(name: str) -> None:
    for line in commands(name):
        if line.startswith("snakemake") and "--config " in line:
            given = re.sub(r'"[^"]*"', "KEY=VALUE", line.partition("--config ")[2])
            first = given.partition(" -")[0].split()
            assert all("=" in word for word in first), f"{name}: '{line}'"


def test_the_page_of_the_configuration_is_what_its_fields_say() -> None:
    said = "run cd tests && python -m pages.configuration"
    assert TEXT["docs/configuration.md"] == configuration_page(), said


def test_every_key_of_a_stage_is_documented() -> None:
    text = TEXT["docs/adding.md"]
    for key in {*StageSpec.model_fields, *TaskSpec.model_fields} - {"tasks"}:
        assert re.search(rf"^- .*`{key}(?:\.\w+)?`", text, re.MULTILINE), key


def test_every_key_of_a_task_of_ones_own_is_documented() -> None:
    _, _, keys = TEXT["docs/adding.md"].partition("Keys of a task:\n")
    named = re.findall(r"^- (`\w+`(?:, `\w+`)*): ", keys, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(named))) == set(TaskEntry.model_fields)


def resolved(example: Path | None = None, **settings: Any) -> dict[str, Variant]:
    """Return the variants of the default grids, with an example file beside them."""
    named = load_config([ROOT / "config.yaml"]).grids
    grids = [str(ROOT / f"workflow/grids/{name}.yaml") for name in named]
    grids += [str(example)] if example else []
    found = resolve(load_config({"grids": grids, **settings}), ROOT)
    return {f"{g.paper}/{name}": v for g in found for name, v in g.variants.items()}


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "example.yaml"
    path.write_text(text, encoding="utf-8")
    return path


# The last one needs the parts of the page: tests/pipeline/test_newcomer.py.
*YAML, _ = blocks("docs/adding.md", "yaml")
GRIDS = [text for text in YAML if text.startswith("paper: ")]
(OWN,) = (text for text in YAML if text not in GRIDS)


@pytest.mark.parametrize("example", GRIDS)
def test_the_examples_of_grids_resolve(tmp_path: Path, example: str) -> None:
    with using():
        before = resolved()
        after = resolved(file(tmp_path, example), **parse_yaml(OWN, "example"))
    assert before.items() <= after.items()
    assert len(after) > len(before)


def test_the_first_example_is_short_and_one_of_the_second_is_known_already(tmp_path: Path) -> None:
    first, second, *_ = blocks("docs/adding.md", "yaml")
    assert len(first.splitlines()) <= 5
    variants = resolved(file(tmp_path, second))
    names = ("hybrid-bert", "hybrid-bert-lr1e-5")
    one, same = (variants[f"hybrid-bert/{name}"].stages[0].spec for name in names)
    assert one == same


def test_the_example_of_an_override_changes_every_stage() -> None:
    (example,) = blocks("docs/configuration.md", "yaml")
    plain, changed = resolved(), resolved(**parse_yaml(example, "example"))
    for name, variant in changed.items():
        for before, after in zip(plain[name].stages, variant.stages, strict=True):
            factor = 1 if after.spec.trainable == "heads" else 50
            assert after.spec.optimiser.lr == pytest.approx(factor * before.spec.optimiser.lr)
            assert {task.batch_size for task in after.spec.tasks.values()} == {32}
            assert "sts" not in after.spec.tasks or after.spec.tasks["sts"].weight == 2
    schedules = {
        n: v.stages[0].spec.optimiser.schedule.name for n, v in changed.items() if v.stages
    }
    assert schedules["hybrid-bert/1-bert"] == "linear"
    assert schedules["hybrid-bert/sequential-onecycle"] == "onecycle"
    assert schedules["hybrid-bert/sequential"] == "constant"


def test_the_kinds_of_nodes_and_their_files_are_documented() -> None:
    _, _, listed = TEXT["docs/pipeline.md"].partition("## What is made from what\n")
    kinds = re.findall(r"^- `(\w+)` \(([^)]+)\):", listed.partition("\n## ")[0], re.MULTILINE)
    found = {kind: tuple(re.findall(r"`([^`]+)`", files)) for kind, files in kinds}
    assert found == {kind.name: kind.outputs for kind in KINDS.values()}


def test_the_columns_of_tables_are_documented() -> None:
    from minbert.data.examples import SCHEMA as EXAMPLES
    from minbert.data.labels import SCHEMA as LABELS
    from minbert.data.rows import SCHEMA as ROWS
    from minbert.data.tokenise import SCHEMA as TOKENS
    from minbert.evaluate.reading import SCHEMA as SCORES
    from minbert.train.evaluation import PREDICTIONS
    from minbert.train.history import SCHEMA as HISTORY

    schemas = {
        "examples": EXAMPLES,
        "labels": LABELS,
        "rows": ROWS,
        "tokens": TOKENS,
        "history": HISTORY,
        "predictions": PREDICTIONS,
        "scores": SCORES,
    }
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
