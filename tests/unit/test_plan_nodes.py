"""The plan: what its nodes are called, what is written of them, what they cost."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from encoders import write_tiny
from planning import planning_folder

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_text
from minbert.commands.plan import plan_text
from minbert.plan.describe import write
from minbert.plan.experiment import Experiment
from minbert.plan.parameters import parameters
from minbert.plan.pending import inputs, pending
from minbert.plan.plan import Plan
from minbert.spec.config import PUBLISHED
from minbert.spec.published import read_published
from minbert.spec.resolve import Stage, StageRef
from minbert.store.node import Need, Node, canonical
from minbert.store.plans import describe_job, description_path, plan_path

REPOSITORY = Path(__file__).parents[2]
GRID = Path("workflow/grids/hybrid-bert.yaml")


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


def test_keys_do_not_depend_on_the_order_of_words() -> None:
    assert canonical({"b": 1, "a": [1.5, None]}) == canonical({"a": [1.5, None], "b": 1})
    one = Node("data", {"a": 1, "b": 2}, "minbert.data.tokenise")
    assert one.key == Node("data", {"b": 2, "a": 1}, "minbert.data.tokenise").key
    assert one.key != Node("data", {"b": 2, "a": 3}, "minbert.data.tokenise").key
    assert re.fullmatch("[0-9a-f]{16}", one.key)


def test_a_download_is_in_no_key_that_needs_it() -> None:
    raw = Node("fetch", {"name": "x.csv", "checksum": "sha256:0"}, "minbert.data.fetch")
    alone = Node("data", {}, "minbert.data.dataset")
    assert alone.key == replace(alone, needs={"x": Need(raw, "x.csv")}).key
    assert alone.key != replace(alone, needs={"x": Need(replace(raw, kind="data"), "x.csv")}).key


def test_seeds_devices_and_labels_are_in_no_training_key(base: Path) -> None:
    first = plan(base)
    change(base, "label: 1-bert", "label: one encoder")
    looks = {
        "seeds": [0, 3],
        "device": "cuda",
        "precision": "bf16",
        "threads": 7,
    }
    second = plan(base, **looks, keep_weights=False, tracking={"enabled": False})
    assert list(first.owners) == list(second.owners)
    assert len(list(second.runs())) == 2 * len(list(first.runs()))
    assert first.stamp != second.stamp


def test_what_is_trained_is_in_the_key(base: Path) -> None:
    first = key(plan(base), "1-bert")
    assert first != key(plan(base, scale={"learning_rate": 2}), "1-bert")
    assert first != key(plan(base, limit=5), "1-bert")
    other = write_tiny(base / "encoder")
    assert first != key(plan(base, backbone=str(other)), "1-bert")
    assert first == key(plan(base, scale={"learning_rate": 1.0}), "1-bert")


def test_each_stage_is_made_a_training_once(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[StageRef] = []
    training = Experiment._training

    def counted(self: Experiment, stage: Stage) -> Node:
        made.append(stage.ref)
        return training(self, stage)

    monkeypatch.setattr(Experiment, "_training", counted)
    nodes = plan(base).nodes
    assert any(kind == "train" for kind, _ in nodes) and len(made) == len({*made})


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


def share(base: Path, **layers: Any) -> None:
    """Make the grid one of variants that share so many layers, with the same names."""
    tasks = "tasks: {sst: {loss: cross_entropy}}"
    variants = (f"  {name}: {{{tasks}, shared_layers: {n}}}\n" for name, n in layers.items())
    head = "paper: hybrid-bert\ntitle: T\noverall: plain\nvariants:\n"
    write_text(base / GRID, head + "".join(variants))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ({"shared_layers": 3}, "shared_layers is 3, but the backbone has 2 layers"),
        ({"shared_layers": 0.1, "shared_end": "top"}, "shared_layers is 0.1, none of 2 layers"),
    ],
)
def test_sharing_that_does_not_fit_the_backbone_names_the_stage(
    base: Path, override: dict[str, Any], said: str
) -> None:
    share(base, a="all")
    with pytest.raises(UserError, match=f"^hybrid-bert: a/main: {re.escape(said)}"):
        plan(base, override=override)


def test_heads_alone_that_start_from_another_stage_are_refused(base: Path) -> None:
    late = "  late: {extends: linear, trainable: heads, start: 1-bert}\n\n"
    change(base, "  1-bert:", f"{late}  1-bert:")
    with pytest.raises(UserError, match=r"^hybrid-bert: late/main: 'trainable: heads' starts from"):
        plan(base)


def test_a_grid_may_share_more_layers_than_the_backbone_has(base: Path) -> None:
    """An override fits it; what was the same stays so, and what becomes the same is told."""
    half = {"override": {"shared_layers": 0.5}}
    share(base, a=8, b=8)
    assert len(list(plan(base, **half).runs())) == 1
    share(base, a="all", b=8)
    with pytest.raises(UserError, match=r"'shared_layers' \(all and 8\)"):
        plan(base, **half)
    plan(base, **half, allow_duplicates="shared_layers")


@pytest.mark.parametrize("backbone", ["google-bert/bert-large-uncased", "some/other"])
def test_a_larger_backbone_may_share_more_layers_than_bert_base_has(
    base: Path, backbone: str
) -> None:
    share(base, a=18)
    made = plan(base, backbone=backbone, revision="0" * 40)
    variant = made.variants["hybrid-bert", "a"]
    assert parameters(made, variant, base_shapes=True) is None
    assert " GB " in next(line for line in plan_text(made).splitlines() if line.startswith("a "))


def test_a_ratio_of_parameters_that_are_not_known_is_not_shown(base: Path) -> None:
    share(base, a="all", b=1)
    change(base, "variants:", "parameter_ratios: [[best, a]]\nvariants:\n"
           "  best: {best_of: [a, b]}")  # fmt: skip
    assert plan(base).outputs["hybrid-bert"].table.spec["footnotes"] == []


def test_a_plan_shows_steps_and_examples_beside_those_of_its_grid(base: Path) -> None:
    shown = plan_text(plan(base, scale={"epochs": 0.15, "steps": {"per_epoch": 40}}))
    (line,) = [line for line in shown.splitlines() if line.startswith("1-bert ")]
    # 20 epochs of 6,040 examples of each task, by 16.
    assert " 801 (7,560) " in line and " 38,448 (362,400) " in line


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


def test_a_damaged_description_is_written_again(base: Path) -> None:
    made = plan(base)
    write(made)
    path = description_path(made.root, "train", key(made, "1-bert"))
    whole = path.read_text("utf-8")
    for text in ("", "[]", "{}", whole.replace('"epochs": 10', '"epochs": 11')):
        path.write_text(text, encoding="utf-8")
        write(made)
        assert path.read_text("utf-8") == whole


def test_a_damaged_record_is_written_again_and_stops_nobody_who_needs_it_not(base: Path) -> None:
    made = plan(base)
    name = write(made)
    path = plan_path(made.root, name)
    whole = read_json(path) | {"written": 0}
    path.write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(str(path))):
        describe_job(made.root, "train", key(made, "1-bert"), name)
    other = write(plan(base, device="cuda:2"))
    assert describe_job(made.root, "train", key(made, "1-bert"))["extra"]["device"] == "cuda:2"
    assert write(made) == name != other and read_json(path) | {"written": 0} == whole


def test_making_a_plan_writes_nothing(base: Path) -> None:
    made = plan(base)
    plan_text(made)
    assert not made.root.exists()


def test_products_are_published_from_keyed_paths(base: Path) -> None:
    made = plan(base)
    table = made.products["tables/hybrid-bert.md"]
    assert table == made.root / "store" / "table" / made.outputs["hybrid-bert"].table.key / (
        "table.md"
    )
    assert "figures/hybrid-bert/multitask-loss.png" in made.products
    assert made.mark.name == f"{made.stamp}-0.done"
    jobs = pending(made)
    assert inputs(jobs, (made.node("table", table.parent.name), None)) == [str(made.scores[0])]


def test_a_node_that_is_not_planned_is_refused(base: Path) -> None:
    with pytest.raises(UserError, match="asks for no train with key 0000000000000000"):
        plan(base).node("train", "0" * 16)


def test_parameters_are_counted_here_and_at_bert_base(base: Path) -> None:
    made = plan(base)
    variants = made.grids[0].variants
    for name in variants:
        here, there = (parameters(made, variants[name], base) for base in (False, True))
        assert here is not None and there is not None and here < there
    notes = made.outputs["hybrid-bert"].table.spec["footnotes"]
    assert any("hybrid-bert over those of 3-bert" in n and "59.7% at BERT-base" in n for n in notes)


def test_a_variant_with_published_test_scores_only_has_a_row_on_dev_too(base: Path) -> None:
    """By dev scores it may be the best variant, which the table must show."""
    rows = plan(base).outputs["hybrid-bert"].table.spec["rows"]
    found = [(row["split"], row["table"]) for row in rows if row["variant"] == "hybrid-bert-40"]
    assert found == [("test", "1"), ("dev", None)]


def test_scores_and_table_know_the_single_tasks(base: Path) -> None:
    of = plan(base).outputs["hybrid-bert"]
    assert (of.scores.spec["single"], of.table.spec["single"]) == ("single-task", "single-task")
    change(base, "  single-task:\n", "  single-task:\n    label: one by one\n")
    labelled = plan(base).outputs["hybrid-bert"]
    assert (labelled.scores.key, labelled.table.spec["single"]) == (of.scores.key, "one by one")
    change(base, "single: single-task\n", "")
    none = plan(base).outputs["hybrid-bert"]
    assert (none.scores.spec["single"], none.table.spec["single"]) == ("", "")


def test_published_figures_are_read_or_refused(base: Path) -> None:
    rows = read_published(base / PUBLISHED)
    (hybrid,) = [r for r in rows if r.paper == "hybrid-bert" and r.variant == "hybrid-bert"]
    assert hybrid.figures["sst"] == 0.510 and hybrid.figures["other"] is None
    text = (base / PUBLISHED).read_text(encoding="utf-8")
    (base / PUBLISHED).write_text(text.replace("0.510", "o.510"), encoding="utf-8")
    with pytest.raises(UserError, match=r"published\.csv, line 5: .*o\.510"):
        read_published(base / PUBLISHED)
    row = "hybrid-bert,1,Baseline,baseline,dev,0.312"
    for changed, said in {
        "hybrid-bert,1,Baseline,baseline,dev,nan": "sst' is 'nan'; expected a finite number",
        "hybrid-bert,1,Baseline,baseline,dev,1_0": "sst' is '1_0'",
        "hybrid-bert,1,Baseline,baseline,dev,31.2": r"sst' is '31\.2'; expected less than or eq",
        "hybrid-bert,1,Baseline,baseline,dve,0.312": "split' is 'dve'; expected 'dev' or 'test'",
        "hybrid-bert,1,Base,line,baseline,dev,0.312": "another number of cells than the heading",
        "hybrid-bert,1,baseline,dev,0.312": "another number of cells than the heading",
        'hybrid-bert,1,"Base"line,baseline,dev,0.312': "expected after",
    }.items():
        (base / PUBLISHED).write_text(text.replace(row, changed), encoding="utf-8")
        with pytest.raises(UserError, match=rf"published\.csv, line 2: .*{said}"):
            read_published(base / PUBLISHED)
    (base / PUBLISHED).write_text(text.replace("lmrd,,", "lmdr,,"), encoding="utf-8")
    with pytest.raises(UserError, match=r"unknown task 'lmdr'.* Did you mean 'lmrd'"):
        read_published(base / PUBLISHED)
    (base / PUBLISHED).write_bytes(text.replace("Baseline", "Café").encode("latin-1"))
    with pytest.raises(UserError, match=r"published\.csv: byte .* is not UTF-8; save it"):
        read_published(base / PUBLISHED)
    with pytest.raises(UserError, match=f"{base / 'none.csv'}: there is no such file"):
        read_published(base / "none.csv")
    (base / PUBLISHED).write_text(text.replace("overall", "total", 1), encoding="utf-8")
    with pytest.raises(UserError, match=r"its columns are .*'total'"):
        read_published(base / PUBLISHED)


def test_published_scores_may_lie_elsewhere_and_decide_no_training(base: Path) -> None:
    before = plan(base)
    text = (base / PUBLISHED).read_text(encoding="utf-8").replace("0.510", "0.511")
    write_text(base / "old" / "scores.csv", text)
    made = plan(base, published="old/scores.csv")
    assert [key(made, name) for name in ("1-bert", "hybrid-bert")] == [
        key(before, name) for name in ("1-bert", "hybrid-bert")
    ]
    found, same = (
        {row["variant"]: row["published"] for row in each.outputs["hybrid-bert"].table.spec["rows"]}
        for each in (made, before)
    )
    assert (found["hybrid-bert"]["sst"], same["hybrid-bert"]["sst"]) == (0.511, 0.510)
    reports = [next(n for n in of.nodes.values() if n.kind == "report") for of in (made, before)]
    assert reports[0].spec == reports[1].spec, "where it lies is not shown"
