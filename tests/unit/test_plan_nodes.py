"""The plan: what its nodes are called, what is written of them, what it refuses."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from encoders import write_tiny
from planning import REPOSITORY, planning_folder

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_text
from minbert.commands.plan import plan_text
from minbert.plan.describe import write
from minbert.plan.parameters import parameters
from minbert.plan.plan import Plan
from minbert.spec.config import PUBLISHED
from minbert.spec.published import read_published
from minbert.spec.resolve import StageRef
from minbert.store.node import Need, Node, canonical
from minbert.store.plans import describe_job, description_path, plan_path

GRID = Path("workflow/grids/hybrid-bert.yaml")
HUB = {"backbone": "some/other", "revision": "0" * 40}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a folder with the grid and the published figures."""
    planning_folder(tmp_path)
    shutil.copy2(REPOSITORY / GRID, tmp_path / GRID)
    return tmp_path


def plan(base: Path, **config: Any) -> Plan:
    """Return the plan of the built-in data and backbone."""
    values = {"grids": "hybrid-bert", "data": "builtin", "backbone": "builtin"}
    return Plan.load({**values, "results": str(base / "results"), **config}, base)


def key(made: Plan, variant: str) -> str:
    """Return the training key of a variant."""
    return made.train(StageRef("hybrid-bert", variant, "main")).key


def change(base: Path, old: str, new: str) -> None:
    """Replace the first `old` in the grid."""
    text = (base / GRID).read_text(encoding="utf-8")
    assert old in text
    (base / GRID).write_text(text.replace(old, new, 1), encoding="utf-8")


def share(base: Path, **layers: Any) -> None:
    """Make the grid one of variants that share so many layers, with the same names."""
    tasks = "tasks: {sst: {loss: cross_entropy}}"
    variants = (f"  {name}: {{{tasks}, shared_layers: {n}}}\n" for name, n in layers.items())
    head = "paper: hybrid-bert\ntitle: T\noverall: plain\nvariants:\n"
    write_text(base / GRID, head + "".join(variants))


def test_a_key_is_of_content_alone() -> None:
    """Neither the order of words nor where a download comes from is in it."""
    assert canonical({"b": 1, "a": [1.5, None]}) == canonical({"a": [1.5, None], "b": 1})
    one = Node("data", {"a": 1, "b": 2}, "minbert.data.tokenise")
    assert one.key == Node("data", {"b": 2, "a": 1}, "minbert.data.tokenise").key
    assert one.key != Node("data", {"b": 2, "a": 3}, "minbert.data.tokenise").key
    assert re.fullmatch("[0-9a-f]{16}", one.key)
    raw = Node("fetch", {"name": "x.csv", "checksum": "sha256:0"}, "minbert.data.fetch")
    assert one.key == replace(one, needs={"x": Need(raw, "x.csv")}).key
    assert one.key != replace(one, needs={"x": Need(replace(raw, kind="data"), "x.csv")}).key


def test_what_is_trained_is_in_the_key_and_nothing_else(base: Path) -> None:
    first = plan(base)
    for decides in (
        {"scale": {"learning_rate": 2}},
        {"limit": 5},
        {"backbone": str(write_tiny(base / "encoder"))},
    ):
        assert key(plan(base, **decides), "1-bert") != key(first, "1-bert")
    text = (base / PUBLISHED).read_text(encoding="utf-8").replace("0.510", "0.511")
    write_text(base / "old" / "scores.csv", text)
    change(base, "label: 1-bert", "label: one encoder")
    looks = {"device": "cuda", "precision": "bf16", "threads": 7, "keep_weights": False}
    looks |= {"tracking": {"enabled": False}, "published": "old/scores.csv"}
    second = plan(base, seeds=[0, 3], scale={"learning_rate": 1.0}, **looks)
    assert list(first.owners) == list(second.owners) and first.stamp != second.stamp
    assert len(list(second.runs())) == 2 * len(list(first.runs()))
    found, same = (
        {row["variant"]: row["published"] for row in of.shown["tables/hybrid-bert"].spec["rows"]}
        for of in (second, first)
    )
    assert (found["hybrid-bert"]["sst"], same["hybrid-bert"]["sst"]) == (0.511, 0.510)


def test_a_difference_that_the_configuration_takes_away_is_refused(base: Path) -> None:
    same = {"override": {"epochs": 5, "shared_layers": "all"}}
    with pytest.raises(UserError) as told:
        plan(base, **same)
    assert (
        "hybrid-bert: '1-bert/main' and 'hybrid-bert-40/main' become the same stage. In their grid "
        "they differ in 'epochs' (20 and 40); 'shared_layers' (all and 1)" in str(told.value)
    )
    with pytest.raises(UserError, match="'allow_duplicates'") as told:
        plan(base, **same, allow_duplicates="epochs")
    assert "'epochs'" not in str(told.value) and "'shared_layers'" in str(told.value)
    plan(base, **same, allow_duplicates=["epochs", "shared_layers"])
    change(base, "    label: Baseline", "    label: Baseline\n    tasks: {sst: {pooling: max}}")
    change(base, "  1-bert:", "  other: {extends: linear, trainable: heads, train: sst, "
           "evaluate_only: [para, sts], optimiser: {lr: 1e-3, weight_decay: 0.0}}\n\n"
           "  1-bert:")  # fmt: skip
    pooled = {"override": {"tasks": {"*": {"pooling": "mean"}}}}
    with pytest.raises(UserError, match=r"they differ in 'tasks\.\*\.pooling' \(max and cls\)"):
        plan(base, **pooled)
    plan(base, **pooled, allow_duplicates="tasks.*.pooling")
    with pytest.raises(UserError, match=r"allow_duplicates: unknown key 'pool'.*Known here"):
        plan(base, allow_duplicates="pool")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ({"shared_layers": 3}, "a/main: shared_layers is 3, but the backbone has 2 layers"),
        (
            {"shared_layers": 0.1, "shared_end": "top"},
            "a/main: shared_layers is 0.1, none of 2 layers",
        ),
        (
            {"trainable": "heads", "shared_layers": "all"},
            "b/main: 'trainable: heads' starts from the backbone",
        ),
    ],
)
def test_a_stage_that_cannot_be_is_named(base: Path, override: dict[str, Any], said: str) -> None:
    share(base, a="all", b=1)
    change(base, "b: {", "b: {start: a, ")
    with pytest.raises(UserError, match=f"^hybrid-bert: {re.escape(said)}"):
        plan(base, override=override, allow_duplicates="shared_layers")


def test_a_grid_may_share_more_layers_than_the_backbone_has(base: Path) -> None:
    """An override fits it; what was the same stays so, and what becomes the same is told."""
    half = {"override": {"shared_layers": 0.5}}
    share(base, a=8, b=8)
    assert len(list(plan(base, **half).runs())) == 1
    share(base, a="all", b=8)
    with pytest.raises(UserError, match=r"'shared_layers' \(all and 8\)"):
        plan(base, **half)
    plan(base, **half, allow_duplicates="shared_layers")
    share(base, a=18)
    for backbone in ("google-bert/bert-large-uncased", "some/other"):
        made = plan(base, **{**HUB, "backbone": backbone})
        assert parameters(made, made.variants["hybrid-bert", "a"], base_shapes=True) is None
        assert " GB " in next(li for li in plan_text(made).splitlines() if li.startswith("a "))


def test_parameters_are_counted_here_and_at_bert_base(base: Path) -> None:
    made = plan(base)
    for variant in made.grids[0].variants.values():
        here, there = (parameters(made, variant, base) for base in (False, True))
        assert here is not None and there is not None and here < there
    notes = made.shown["tables/hybrid-bert"].spec["footnotes"]
    assert any("hybrid-bert over those of 3-bert" in n and "59.7% at BERT-base" in n for n in notes)
    share(base, a="all", b=1)
    change(base, "variants:", "parameter_ratios: [[best, a]]\nvariants:\n"
           "  best: {best_of: [a, b]}")  # fmt: skip
    assert plan(base).shown["tables/hybrid-bert"].spec["footnotes"] == [], "not known"


def test_a_plan_shows_steps_and_examples_beside_those_of_its_grid(base: Path) -> None:
    shown = plan_text(plan(base, scale={"epochs": 0.15, "steps": {"per_epoch": 40}}))
    (line,) = [line for line in shown.splitlines() if line.startswith("1-bert ")]
    # 20 epochs of 6,040 examples of each task, by 16.
    assert " 801 (7,560) " in line and " 38,448 (362,400) " in line
    assert not (base / "results").exists(), "making a plan writes nothing"


def test_what_is_in_no_key_belongs_to_the_plan_that_says_it(base: Path) -> None:
    first = plan(base, device="cpu")
    name = write(first)
    path = description_path(first.root, "train", key(first, "1-bert"))
    written = path.stat().st_mtime_ns
    assert write(plan(base, device="cpu")) == name
    other = write(plan(base, device="cuda:2"))
    assert path.stat().st_mtime_ns == written

    def device(of: str | None) -> str:
        described = describe_job(first.root, "train", key(first, "1-bert"), of)
        assert described["title"] == "1-bert . sst+para+sts"
        return str(described["extra"]["device"])

    assert device(name) == "cpu" and device(other) == "cuda:2"
    assert write(plan(base, device="cpu")) == name
    assert device(None) == "cpu"
    with pytest.raises(UserError, match="with the plan '00'"):
        device("00")


def test_what_is_damaged_is_written_again_and_stops_nobody_else(base: Path) -> None:
    made = plan(base)
    name, one = write(made), key(made, "1-bert")
    described = description_path(made.root, "train", one)
    whole = described.read_text("utf-8")
    for text in ("", "[]", "{}", whole.replace('"epochs": 10', '"epochs": 11')):
        described.write_text(text, encoding="utf-8")
        write(made)
        assert described.read_text("utf-8") == whole
    path = plan_path(made.root, name)
    record = read_json(path) | {"written": 0}
    path.write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(str(path))):
        describe_job(made.root, "train", one, name)
    other = write(plan(base, device="cuda:2"))
    assert describe_job(made.root, "train", one)["extra"]["device"] == "cuda:2"
    assert write(made) == name != other and read_json(path) | {"written": 0} == record


def test_products_are_published_from_keyed_paths(base: Path) -> None:
    made = plan(base)
    table = made.shown["tables/hybrid-bert"]
    assert made.products["tables/hybrid-bert.md"] == table.folder(made.root) / "table.md"
    assert {"figures/hybrid-bert/multitask-loss.png", "report.html"} <= made.products.keys()
    assert not any("scores" in name for name in made.products)
    assert made.mark.name == f"{made.stamp}-0.done"
    with pytest.raises(UserError, match="asks for no train with key 0000000000000000"):
        made.node("train", "0" * 16)


def test_a_variant_with_published_test_scores_only_has_a_row_on_dev_too(base: Path) -> None:
    """By dev scores it may be the best variant, which the table must show."""
    rows = plan(base).shown["tables/hybrid-bert"].spec["rows"]
    found = [(row["split"], row["table"]) for row in rows if row["variant"] == "hybrid-bert-40"]
    assert found == [("test", "1"), ("dev", None)]


def test_scores_and_table_know_the_single_tasks(base: Path) -> None:
    def known() -> tuple[str, ...]:
        scores, table = (plan(base).shown[f"{kind}/hybrid-bert"] for kind in ("scores", "tables"))
        return scores.key, scores.spec["single"], table.spec["single"]

    key, *single = known()
    assert single == ["single-task", "single-task"]
    change(base, "  single-task:\n", "  single-task:\n    label: one by one\n")
    assert known() == (key, "single-task", "one by one")
    change(base, "single: single-task\n", "")
    assert known()[1:] == ("", "")


ROW = "hybrid-bert,1,Baseline,baseline,dev,0.312"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("0.510", "o.510", r", line 5: .*o\.510"),
        (ROW, ROW.replace("0.312", "nan"), ", line 2: .*sst' is 'nan'; expected a finite number"),
        (
            ROW,
            ROW.replace("0.312", "31.2"),
            r", line 2: .*sst' is '31\.2'; expected less",
        ),
        (ROW, ROW.replace("dev", "dve"), ", line 2: .*split' is 'dve'; expected 'dev' or 'test'"),
        (ROW, ROW.replace("Base", "Base,"), ", line 2: .*another number of cells than the heading"),
        (ROW, ROW.replace("Baseline", '"Base"line'), ", line 2: .*expected after"),
        ("lmrd,,", "lmdr,,", r".*unknown task 'lmdr'.* Did you mean 'lmrd'"),
        ("overall", "total", ".*its columns are .*'total'"),
        ("Baseline", "Caf\xe9", ": byte .* is not UTF-8; save it"),
    ],
)
def test_published_figures_are_read_or_refused(base: Path, old: str, new: str, said: str) -> None:
    rows = read_published(base / PUBLISHED)
    (hybrid,) = [r for r in rows if r.paper == "hybrid-bert" and r.variant == "hybrid-bert"]
    assert hybrid.figures["sst"] == 0.510 and hybrid.figures["other"] is None
    text = (base / PUBLISHED).read_text(encoding="utf-8")
    (base / PUBLISHED).write_bytes(text.replace(old, new).encode("latin-1"))
    with pytest.raises(UserError, match=rf"published\.csv{said}"):
        read_published(base / PUBLISHED)


def test_published_figures_that_are_not_there_are_named(base: Path) -> None:
    with pytest.raises(UserError, match=f"{base / 'none.csv'}: there is no such file"):
        read_published(base / "none.csv")
