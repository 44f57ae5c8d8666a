"""The plan: what its nodes are called, what is written of them, what it refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from encoders import edit, write_tiny
from factories import make_plan, training
from planning import REPOSITORY, TWO_STAGES, planning_folder

from minbert.base.errors import UserError
from minbert.base.files import write_text
from minbert.commands.plan import plan_text
from minbert.plan.describe import write
from minbert.plan.parameters import variant_parameters
from minbert.plan.plan import Plan
from minbert.spec.config import PUBLISHED
from minbert.spec.published import read_published
from minbert.store.node import Need, Node, canonical
from minbert.store.plans import describe_job, description_path, plan_path

HYBRID = (REPOSITORY / "workflow/grids/hybrid-bert.yaml").read_text(encoding="utf-8")
ROW = "hybrid-bert,1,1-bert,1-bert,dev,0.497,0.854,0.863,,,0.761,\n"
Edit = tuple[str, str]


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


def test_what_does_not_train_is_in_no_key_of_a_training(tmp_path: Path) -> None:
    first = plan(tmp_path)
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
    message = "^hybrid-bert: .1-bert/main. and .hybrid-bert/main. differ in their grid and become"
    with pytest.raises(UserError, match=message):
        plan(tmp_path, override={"epochs": 5, "shared_layers": "all"})


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ({"shared_layers": 3}, "a/main: shared_layers is 3, 3 of the backbone's 2 layers; from"),
        (
            {"shared_layers": 0.1, "shared_end": "top"},
            "a/main: shared_layers is 0.1, 0 of the backbone's 2 layers; from the top give 1 to 2",
        ),
    ],
)
def test_impossible_stages_are_named(tmp_path: Path, override: dict[str, Any], said: str) -> None:
    started = share(a="all", b=1).replace("b: {", "b: {start: a, ")
    with pytest.raises(UserError, match=f"^hybrid-bert: {re.escape(said)}"):
        sharing(tmp_path, started, override=override)


def test_cross_pairs_need_two_token_types(tmp_path: Path) -> None:
    edit(folder := write_tiny(tmp_path / "encoder"), type_vocab_size=1)
    with pytest.raises(
        UserError, match="'pairing: cross', and the backbone's type_vocab_size is 1"
    ):
        plan(tmp_path, backbone=str(folder))


def test_a_grid_may_share_more_layers_than_the_backbone_has(tmp_path: Path) -> None:
    """An override fits it; what was the same stays so."""
    half = {"override": {"shared_layers": 0.5}}
    assert len(list(sharing(tmp_path, share(a=8, b=8), **half).runs())) == 1
    made = sharing(tmp_path, share(a=18), backbone="some/other", revision="0" * 40)
    assert variant_parameters(made, made.variants["hybrid-bert", "a"], base_shapes=True) is None
    assert " GB " in next(li for li in plan_text(made).splitlines() if li.startswith("a "))


def test_a_fraction_of_the_layers_that_was_rounded_is_told(tmp_path: Path) -> None:
    made = sharing(tmp_path, share(a=0.25, b=0.5, c=0.75))
    rounded = (("a", 0.25, 0), ("c", 0.75, 2))
    told = [f"{n}/main: 'shared_layers: {f}' of 2 layers became {d}." for n, f, d in rounded]
    assert made.shown["tables/hybrid-bert"].spec["footnotes"] == told
    assert all(f"hybrid-bert: {each}" in plan_text(made) for each in told)


def test_parameters_are_counted_here_and_at_bert_base(tmp_path: Path) -> None:
    made = plan(tmp_path)
    notes = made.shown["tables/hybrid-bert"].spec["footnotes"]
    assert any("hybrid-bert over those of 3-bert" in n and "59.7% at BERT-base" in n for n in notes)
    best = share(a="all", b=1).replace("{a", "{best: {best_of: [a, b]}, a", 1)
    made = sharing(tmp_path, f"{best}\nparameter_ratios: [[best, a]]")
    assert made.shown["tables/hybrid-bert"].spec["footnotes"] == [], "not known"


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
    with pytest.raises(UserError, match=r"00\.json is missing"):
        device("00")


def test_what_is_damaged_is_written_again_and_stops_nobody_else(tmp_path: Path) -> None:
    made = plan(tmp_path)
    name, one = write(made), key(made, "1-bert")
    described, path = description_path(made.root, "train", one), plan_path(made.root, name)
    whole = described.read_text("utf-8")
    write_text(described, whole.replace('"epochs": 10', '"epochs": 11'))
    write(made)
    assert described.read_text("utf-8") == whole
    write_text(path, "")
    with pytest.raises(UserError, match=re.escape(str(path))):
        describe_job(made.root, "train", one, name)
    write(plan(tmp_path, device="cuda:2"))
    assert describe_job(made.root, "train", one)["extra"]["device"] == "cuda:2"


def test_a_variant_with_published_test_scores_only_has_a_row_on_dev_too(tmp_path: Path) -> None:
    """By dev scores it may be the best variant, which the table must show."""
    rows = plan(tmp_path).shown["tables/hybrid-bert"].spec["rows"]
    found = [(row["split"], row["table"]) for row in rows if row["variant"] == "hybrid-bert-40"]
    assert found == [("test", "1"), ("dev", None)]


def test_the_figure_of_another_task_is_of_the_only_one_that_the_variant_has(tmp_path: Path) -> None:
    grid = TWO_STAGES.replace("sst: {loss: cross_entropy}", "lmrd: {loss: cross_entropy}")
    head = "paper,table,row,variant,split,sst,para,sts,other,other_task,overall,note"
    lines = [head, "hybrid-bert,1,A,first,dev,,,,0.5,,,", "hybrid-bert,1,B,second,dev,,,,,,0.4,"]
    write_text(tmp_path / "own.csv", "\n".join(lines))
    made = make_plan(tmp_path, grid, published="own.csv")
    rows = made.shown["tables/hybrid-bert"].spec["rows"]
    assert [row["other_task"] for row in rows] == ["lmrd", None]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("0.510", "o.510", r", line 5: .*o\.510"),
        (",0.312", ",31.2", r", line 2: .*sst' is '31\.2'; expected less"),
        ("lmrd,,", "lmdr,,", r".*unknown task 'lmdr'.* Did you mean 'lmrd'"),
        ("overall", "total", ", line 2: unknown key 'total'"),
        (",overall,", ",overall,overall,", ", line 1: two columns are called 'overall'"),
        (ROW, ROW * 2, ", line 4: the same row as above; take one out"),
    ],
)
def test_published_figures_are_checked(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = planning_folder(tmp_path) / PUBLISHED
    (hybrid,) = (r for r in read_published(path) if (r.paper, r.variant) == ("hybrid-bert",) * 2)
    assert hybrid.figures["sst"] == 0.510 and "other" not in hybrid.figures
    write_text(path, path.read_text(encoding="utf-8").replace(old, new))
    with pytest.raises(UserError, match=rf"published\.csv{said}"):
        read_published(path)
