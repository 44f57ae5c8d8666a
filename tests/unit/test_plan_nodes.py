"""The plan: what its nodes are called, what is written of them, what it refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from encoders import write_tiny
from factories import make_plan, training
from planning import REPOSITORY, planning_folder

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_text
from minbert.commands.plan import plan_text
from minbert.plan.describe import write
from minbert.plan.parameters import parameters
from minbert.plan.plan import Plan
from minbert.spec.config import PUBLISHED
from minbert.spec.published import read_published
from minbert.store.node import Need, Node, canonical
from minbert.store.plans import describe_job, description_path, plan_path

HYBRID = (REPOSITORY / "workflow/grids/hybrid-bert.yaml").read_text(encoding="utf-8")
HUB = {"backbone": "some/other", "revision": "0" * 40}
Edit = tuple[str, str]
UNTIED: Edit = ("  1-bert:", "  other: {extends: linear, trainable: heads, train: sst, "
                "evaluate_only: [para, sts], optimiser: {lr: 1e-3, weight_decay: 0.0}}\n\n"
                "  1-bert:")  # fmt: skip
POOLED: Edit = ("    label: Baseline", "    label: Baseline\n    tasks: {sst: {pooling: max}}")


def plan(tmp_path: Path, *edits: Edit, **config: Any) -> Plan:
    """Return the plan of the grid after edits, of the first place each."""
    text = HYBRID
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return make_plan(tmp_path, text, **{"device": "auto", **config})


def sharing(tmp_path: Path, variants: str, **config: Any) -> Plan:
    """Return the plan of variants (YAML) that share layers, with the names of the grid."""
    head = "paper: hybrid-bert\ntitle: T\noverall: plain\n"
    common = "templates: {t: {tasks: {sst: {loss: cross_entropy}}}}\n"
    return make_plan(tmp_path, f"{head}{common}variants: {variants}\n", **config)


def share(**layers: Any) -> str:
    each = (f"{name}: {{extends: t, shared_layers: {n}}}" for name, n in layers.items())
    return f"{{{', '.join(each)}}}"


def key(made: Plan, variant: str) -> str:
    """Return the training key of a variant."""
    return training(made, variant).key


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


def test_what_is_trained_is_in_the_key_and_nothing_else(tmp_path: Path) -> None:
    first = plan(tmp_path)
    for decides in (
        {"scale": {"learning_rate": 2}},
        {"limit": 5},
        {"backbone": str(write_tiny(tmp_path / "encoder"))},
    ):
        assert key(plan(tmp_path, **decides), "1-bert") != key(first, "1-bert")
    text = (tmp_path / PUBLISHED).read_text(encoding="utf-8").replace("0.510", "0.511")
    write_text(tmp_path / "old" / "scores.csv", text)
    looks = {"device": "cuda", "precision": "bf16", "threads": 7, "keep_weights": False}
    looks |= {"tracking": {"enabled": False}, "published": "old/scores.csv"}
    renamed = ("label: 1-bert", "label: one encoder")
    second = plan(tmp_path, renamed, seeds=[0, 3], scale={"learning_rate": 1.0}, **looks)
    assert list(first.owners) == list(second.owners) and first.stamp != second.stamp
    assert len(list(second.runs())) == 2 * len(list(first.runs()))
    found, same = (
        {row["variant"]: row["published"] for row in of.shown["tables/hybrid-bert"].spec["rows"]}
        for of in (second, first)
    )
    assert (found["hybrid-bert"]["sst"], same["hybrid-bert"]["sst"]) == (0.511, 0.510)


def test_a_difference_that_the_configuration_takes_away_is_refused(tmp_path: Path) -> None:
    same = {"override": {"epochs": 5, "shared_layers": "all"}}
    with pytest.raises(UserError) as told:
        plan(tmp_path, **same)
    assert (
        "hybrid-bert: '1-bert/main' and 'hybrid-bert-40/main' become the same stage. In their grid "
        "they differ in 'epochs' (20 and 40); 'shared_layers' (all and 1)" in str(told.value)
    )
    with pytest.raises(UserError, match="'allow_duplicates'") as told:
        plan(tmp_path, **same, allow_duplicates="epochs")
    assert "'epochs'" not in str(told.value) and "'shared_layers'" in str(told.value)
    plan(tmp_path, **same, allow_duplicates=["epochs", "shared_layers"])
    pooled = {"override": {"tasks": {"*": {"pooling": "mean"}}}}
    with pytest.raises(UserError, match=r"they differ in 'tasks\.\*\.pooling' \(max and cls\)"):
        plan(tmp_path, POOLED, UNTIED, **pooled)
    plan(tmp_path, POOLED, UNTIED, **pooled, allow_duplicates="tasks.*.pooling")


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
def test_a_stage_that_cannot_be_is_named(
    tmp_path: Path, override: dict[str, Any], said: str
) -> None:
    started = share(a="all", b=1).replace("b: {", "b: {start: a, ")
    with pytest.raises(UserError, match=f"^hybrid-bert: {re.escape(said)}"):
        sharing(tmp_path, started, override=override, allow_duplicates="shared_layers")


def test_a_grid_may_share_more_layers_than_the_backbone_has(tmp_path: Path) -> None:
    """An override fits it; what was the same stays so, and what becomes the same is told."""
    half = {"override": {"shared_layers": 0.5}}
    assert len(list(sharing(tmp_path, share(a=8, b=8), **half).runs())) == 1
    with pytest.raises(UserError, match=r"'shared_layers' \(all and 8\)"):
        sharing(tmp_path, share(a="all", b=8), **half)
    sharing(tmp_path, share(a="all", b=8), **half, allow_duplicates="shared_layers")
    for backbone in ("google-bert/bert-large-uncased", "some/other"):
        made = sharing(tmp_path, share(a=18), **{**HUB, "backbone": backbone})
        assert parameters(made, made.variants["hybrid-bert", "a"], base_shapes=True) is None
        assert " GB " in next(li for li in plan_text(made).splitlines() if li.startswith("a "))


def test_parameters_are_counted_here_and_at_bert_base(tmp_path: Path) -> None:
    made = plan(tmp_path)
    for variant in made.grids[0].variants.values():
        here, there = (parameters(made, variant, at_base) for at_base in (False, True))
        assert here is not None and there is not None and here < there
    notes = made.shown["tables/hybrid-bert"].spec["footnotes"]
    assert any("hybrid-bert over those of 3-bert" in n and "59.7% at BERT-base" in n for n in notes)
    best = share(a="all", b=1).replace("{a", "{best: {best_of: [a, b]}, a", 1)
    made = sharing(tmp_path, f"{best}\nparameter_ratios: [[best, a]]")
    assert made.shown["tables/hybrid-bert"].spec["footnotes"] == [], "not known"


def test_a_plan_shows_steps_and_examples(tmp_path: Path) -> None:
    shown = plan_text(plan(tmp_path, scale={"epochs": 0.15, "steps": {"per_epoch": 40}}))
    (line,) = [line for line in shown.splitlines() if line.startswith("1-bert ")]
    assert " 801 " in line and " 38,448 " in line
    assert not (tmp_path / "results").exists(), "making a plan writes nothing"


def test_what_is_in_no_key_belongs_to_the_plan_that_says_it(tmp_path: Path) -> None:
    first = plan(tmp_path, device="cpu")
    name = write(first)
    path = description_path(first.root, "train", key(first, "1-bert"))
    written = path.stat().st_mtime_ns
    assert write(plan(tmp_path, device="cpu")) == name
    other = write(plan(tmp_path, device="cuda:2"))
    assert path.stat().st_mtime_ns == written

    def device(of: str | None) -> str:
        described = describe_job(first.root, "train", key(first, "1-bert"), of)
        assert described["title"] == "1-bert . sst+para+sts"
        return str(described["extra"]["device"])

    assert device(name) == "cpu" and device(other) == "cuda:2"
    assert write(plan(tmp_path, device="cpu")) == name
    assert device(None) == "cpu"
    with pytest.raises(UserError, match="with the plan '00'"):
        device("00")


def test_what_is_damaged_is_written_again_and_stops_nobody_else(tmp_path: Path) -> None:
    made = plan(tmp_path)
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
    other = write(plan(tmp_path, device="cuda:2"))
    assert describe_job(made.root, "train", one)["extra"]["device"] == "cuda:2"
    assert write(made) == name != other and read_json(path) | {"written": 0} == record


def test_products_are_published_from_keyed_paths(tmp_path: Path) -> None:
    made = plan(tmp_path)
    table = made.shown["tables/hybrid-bert"]
    assert made.products["tables/hybrid-bert.md"] == table.folder(made.root) / "table.md"
    assert {"figures/hybrid-bert/multitask-loss.png", "report.html"} <= made.products.keys()
    assert not any("scores" in name for name in made.products)
    assert made.mark.name == f"{made.stamp}-0.done"


def test_a_variant_with_published_test_scores_only_has_a_row_on_dev_too(tmp_path: Path) -> None:
    """By dev scores it may be the best variant, which the table must show."""
    rows = plan(tmp_path).shown["tables/hybrid-bert"].spec["rows"]
    found = [(row["split"], row["table"]) for row in rows if row["variant"] == "hybrid-bert-40"]
    assert found == [("test", "1"), ("dev", None)]


def test_scores_and_table_know_the_single_tasks(tmp_path: Path) -> None:
    def known(*edits: Edit) -> tuple[str, ...]:
        scores, table = (
            plan(tmp_path, *edits).shown[f"{kind}/hybrid-bert"] for kind in ("scores", "tables")
        )
        return scores.key, scores.spec["single"], table.spec["single"]

    key, *single = known()
    assert single == ["single-task", "single-task"]
    labelled = known(("  single-task:\n", "  single-task:\n    label: one by one\n"))
    assert labelled == (key, "single-task", "one by one")
    assert known(("single: single-task\n", ""))[1:] == ("", "")


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
        (ROW, ROW.replace("Base", "Base,"), ", line 2: unknown key 'None'"),
        ("lmrd,,", "lmdr,,", r".*unknown task 'lmdr'.* Did you mean 'lmrd'"),
        ("overall", "total", ", line 2: unknown key 'total'"),
        ("Baseline", "Caf\xe9", ": byte .* is not UTF-8; save it"),
    ],
)
def test_published_figures_are_read_or_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = planning_folder(tmp_path) / PUBLISHED
    (hybrid,) = (r for r in read_published(path) if (r.paper, r.variant) == ("hybrid-bert",) * 2)
    assert hybrid.figures["sst"] == 0.510 and hybrid.figures["other"] is None
    path.write_bytes(path.read_text(encoding="utf-8").replace(old, new).encode("latin-1"))
    with pytest.raises(UserError, match=rf"published\.csv{said}"):
        read_published(path)
    with pytest.raises(UserError, match=f"{path}2: there is no such file"):
        read_published(Path(f"{path}2"))
