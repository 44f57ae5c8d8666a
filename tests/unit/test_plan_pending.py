"""What `minbert plan` says of jobs that train nothing, of time, and of other versions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from planning import TWO_STAGES, planning_folder

from minbert.base.errors import UserError
from minbert.base.files import read_json
from minbert.commands.plan import plan_text, why_text
from minbert.commands.steps import load_job
from minbert.devices.cards import FAKE, VISIBLE
from minbert.plan.cost import Cost, Costs
from minbert.plan.describe import write
from minbert.plan.difference import LIMIT, Difference
from minbert.plan.pending import pending
from minbert.plan.plan import Plan
from minbert.spec.resolve import StageRef
from minbert.store.kinds import KINDS
from minbert.store.node import Node
from minbert.store.plans import PUBLISHED as PAGE
from minbert.store.plans import SCORES, VARIANTS, description_path

GRID = (
    TWO_STAGES
    + """\
  longer: {extends: t, epochs: 20}
  frozen: {extends: t, trainable: heads}
"""
)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return planning_folder(tmp_path, GRID)


def plan(base: Path, old: str = "", new: str = "", **config: Any) -> Plan:
    """Return the plan after an edit of the grid."""
    (base / "workflow/grids/g.yaml").write_text(GRID.replace(old, new), encoding="utf-8")
    values = {"grids": "g", "data": "builtin", "backbone": "builtin", "device": "cpu"}
    return Plan.load({**values, "results": str(base / "results"), **config}, base)


def put(path: Path, text: str) -> None:
    """Write a file without waiting for the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def finish(made: Plan, device: str = "cpu", seconds: float = 30.0, torch: str = "9.9") -> None:
    """Leave what a whole workflow leaves."""
    write(made)
    record = {
        "outcome": {"seconds": seconds},
        "environment": {"device": device, "packages": {"minbert": "0", "torch": torch}},
    }
    rows = {"rows": {"train": 90, "dev": 10, "test": 10}}
    for node in made.nodes.values():
        for seed in made.config.seeds if KINDS[node.kind].seeded else (None,):
            folder = node.folder(made.root, seed)
            for name in node.outputs:
                put(folder / name, "{}")
            if node.kind == "train":
                put(folder / "run.json", json.dumps(record))
            if node.kind == "data":
                put(folder / "report.json", json.dumps(rows))
    for name in (*made.products, SCORES, VARIANTS):
        put(made.root / name, "whole")
    stamps = dict.fromkeys((grid.paper for grid in made.grids), made.stamp)
    page = {"plans": {}, "stamps": stamps, "options": {}, "names": []}
    put(made.root / PAGE, json.dumps(page))
    put(made.mark, "")


def stage(made: Plan, variant: str) -> Node:
    return made.nodes["train", made.train(StageRef("hybrid-bert", variant, "main")).key]


def line(told: str, start: str) -> str:
    """Return the one line that begins so."""
    (found,) = [each for each in told.splitlines() if each.startswith(start)]
    return found


def test_every_job_is_listed_with_what_differs(base: Path) -> None:
    fresh = plan_text(plan(base))
    for kind in ("data", "vocabulary", "backbone", "tokens", "features", "scores", "table"):
        assert line(fresh, f"{kind} ").endswith("has never run")
    finish(plan(base))
    assert pending(plan(base)) == {} and "Other jobs" not in plan_text(plan(base))

    after = plan(base, corpus={"sizes": {"sst": {"train": 9, "dev": 8, "test": 7}}})
    told = plan_text(after)
    kinds = {node.kind for node, _ in pending(after)}
    assert kinds == {"data", "tokens", "features", "train", "scores", "table", "index", "report"}
    assert line(told, "data ").endswith("sizes: null -> {'dev': 8, 'test': 7, 'train': 9}")
    assert line(told, "tokens ").split()[1] == "sst"
    assert line(told, "tokens ").endswith("examples is another")
    assert line(told, "features ").endswith("tokens is another")
    assert line(told, "scores ").endswith("rows: 4 changed")
    assert line(told, "table ").endswith("scores is another")
    assert "the plain names do not hold" in line(told, "publish ")


FIGURES = """\
figures:
  a: {kind: gradient-cosines, title: T}
  b: {kind: loss-curves, title: U}
"""


def test_reasons_are_a_few_words_and_of_the_same_paper(base: Path) -> None:
    other = GRID.replace("hybrid-bert", "gradient-surgery").replace("epochs: 20", "epochs: 9")
    put(base / "workflow/grids/o.yaml", other + FIGURES)
    grids = ["g", "o"]
    finish(plan(base, grids=grids))
    finish(plan(base, "epochs: 20", "epochs: 25", grids=grids))  # later, of the paper in `g`
    rows = "epochs: 8, max_length: 96, optimiser: {lr: 3e-4}}\n  more: {extends: t, epochs: 30}"
    put(base / "workflow/grids/o.yaml", other.replace("epochs: 9}", rows) + FIGURES)
    told, others = plan_text(plan(base, grids=grids)).split("Other jobs")
    longer = [each for each in told.splitlines() if each.startswith("longer ")]
    assert longer[1].endswith("3 settings changed: epochs, max_length, optimiser.lr")
    assert line(others, "scores ").endswith("rows: 1 new, 1 changed")
    assert line(others, "table ").endswith("rows: 1 new; scores is another")
    for name in ("a", "b"):
        told = line(others, f"figure   {name} ")
        assert told.endswith("rows: 1 new; histories/longer/0 is another")
    report = line(others, "report ")
    assert "  rows: 1 new, 1 changed; 5 inputs changed: " in report  # 25 epochs are no more
    assert len(report.rpartition("   ")[2]) <= LIMIT


def test_code_and_many_settings_are_a_few_words() -> None:
    changes = {f"setting{number}": (number, [number] * 50) for number in range(9)}
    one = Difference({"a": (1, 2)}, {"minbert.train.losses.mse": ("a", "b")}, {})
    assert str(one) == "a: 1 -> 2; code of train.losses.mse changed"
    many = Difference(changes, {f"minbert.{n}": ("a", "b") for n in "vwxyz"}, {})
    assert str(many) == (
        "9 settings changed: setting0, setting1, setting2 and 6 more; "
        "code of 5 modules changed: v, w, x ..."
    )
    assert str(Difference({"tasks": (None, [3] * 50)}, {}, {})) == "tasks: new"
    assert len(many.in_full()) == 14


def test_one_variant_is_explained_in_full(base: Path) -> None:
    finish(plan(base))
    sizes = {"sst": {"train": 9, "dev": 8, "test": 7}}
    after = plan(base, "epochs: 20", "epochs: 21, max_length: 96", corpus={"sizes": sizes})
    told = why_text(after, "longer")
    assert why_text(after, "hybrid-bert/longer") == told
    lines = told.splitlines()
    key = stage(after, "longer").key
    assert lines[0] == f"hybrid-bert/longer/main, {key}: to run with seeds 0"
    assert lines[1:3] == ["  epochs: 20 -> 21", "  max_length: 512 -> 96"]
    assert lines[3].startswith("  tokens.sst is another (")
    tokens = after.sources.tokens("sst").key
    data = after.sources.data("sst").key
    assert lines[4] == f"  sst, tokens {tokens}:"
    assert lines[5].startswith("    examples is another (")
    assert lines[6:] == [
        f"    sst, data {data}:",
        "      sizes: null -> {'dev': 8, 'test': 7, 'train': 9}",
    ]
    assert why_text(plan(base), "first").endswith(": done")
    with pytest.raises(UserError, match=r"no grid has a variant 'longr'\. Did you mean 'longer'"):
        why_text(after, "longr")


def test_jobs_that_are_needed_by_finished_ones_alone_do_not_run(base: Path) -> None:
    made = plan(base)
    finish(made)
    shutil.rmtree(made.root / "store" / "tokens")
    assert pending(made) == {}
    after = plan(base, "epochs: 20", "epochs: 21")
    assert {node.kind for node, _ in pending(after)} == {
        *("tokens", "train", "scores", "table", "index", "report"),
    }
    assert "has never run" not in line(plan_text(after), "longer")


def test_weights_that_were_let_go_are_trained_again_where_they_are_needed(base: Path) -> None:
    made = plan(base)
    finish(made)
    weights = stage(made, "first").folder(made.root, 0) / "model.safetensors"
    weights.unlink()
    assert pending(made) == {}
    after = plan(base, "lr: 2e-4", "lr: 3e-4")
    told = plan_text(after)
    assert "model.safetensors was deleted and is needed again" in line(told, "first")
    assert "optimiser.lr: 0.0002 -> 0.0003" in line(told, "second")
    assert "4 training jobs, 2 to run" in told


def test_time_is_measured_by_runs_of_the_same_shape_on_the_same_device(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(plan(base), seconds=40)
    after = plan(base, "lr: 1e-4", "lr: 5e-4")
    first = stage(after, "first")
    assert not first.done(after.root, 0)
    assert Costs(after).of(first) == Cost(40, measured=True)
    # Other epochs, other rows and another device are another shape.
    assert (
        not Costs(longer := plan(base, "epochs: 20", "epochs: 21"))
        .of(stage(longer, "longer"))
        .measured
    )
    sizes = {"sst": {"train": 9, "dev": 8, "test": 7}}
    fewer = plan(base, corpus={"sizes": sizes})
    assert not Costs(fewer).of(stage(fewer, "first")).measured
    on_gpu = plan(base, "lr: 1e-4", "lr: 5e-4", device="cuda")
    assert not Costs(on_gpu).of(stage(on_gpu, "first")).measured
    monkeypatch.setenv(FAKE, "1x80GB")
    auto = plan(base, "lr: 1e-4", "lr: 5e-4", device="auto")
    assert not Costs(auto).of(stage(auto, "first")).measured
    monkeypatch.setenv(VISIBLE, "")  # then jobs run on the CPU
    assert Costs(auto).of(stage(auto, "first")) == Cost(40, measured=True)
    finish(plan(base), seconds=3, device="NVIDIA H200")
    assert Costs(on_gpu).of(stage(on_gpu, "first")) == Cost(3, measured=True)
    finish(plan(base), seconds=9, device="mps")
    for device in ("cuda", "cpu"):
        other = plan(base, "lr: 1e-4", "lr: 5e-4", device=device)
        assert not Costs(other).of(stage(other, "first")).measured
    mps = plan(base, "lr: 1e-4", "lr: 5e-4", device="mps")
    assert Costs(mps).of(stage(mps, "first")) == Cost(9, measured=True)


def test_the_totals_keep_measured_and_estimated_apart(base: Path) -> None:
    finish(plan(base), seconds=40)
    assert "Estimated:" not in plan_text(plan(base, "lr: 1e-4", "lr: 5e-4"))
    told = plan_text(plan(base))
    assert line(told, "all ").split()[-4:] == ["0", "s", "0", "s"]
    after = plan(base, "lr: 1e-4}}", "lr: 5e-4}}\n  more: {extends: t, epochs: 21}")
    told = plan_text(after)
    measured, _, estimated, _ = line(told, "all ").split()[-4:]
    assert measured == "80" and int(estimated) > 0  # first, and second, which starts from it
    assert "est." in line(told, "more ") and "est." not in line(told, "first ")
    assert "Estimated: if there is no such run, by counted operations at" in told


def test_the_plan_bounds_the_time_by_work_and_by_the_longest_chain(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Costs, "of", lambda self, node: Cost(600.0, measured=False))
    bound = line(plan_text(plan(base, seeds=[0, 1])), "On n devices")
    # Four stages, two seeds; the second stage starts from the first.
    assert "at least 80.0 min / n" in bound
    assert "longest chain of trainings, 20.0 min (first . sst" in bound and " > second" in bound
    finish(plan(base, seeds=[0, 1]))
    assert "On n devices" not in plan_text(plan(base, seeds=[0, 1]))


def test_other_versions_are_told_and_train_nothing(base: Path) -> None:
    made = plan(base, seeds=[0, 1])
    finish(made, torch="1.2.3+cpu")
    told = plan_text(made)
    assert "8 training jobs, 0 to run" in told
    assert "8 finished runs were made with torch 1.2.3; here it is" in told
    assert "`dependencies: [torch]` in config.yaml" in told
    assert "minbert 0" not in told


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"outcome": {"seconds": "x"}}', '{"outcome": {"seconds": 1}, "rows"'),
        *(
            f'{{"outcome": {{"seconds": {n}}}, "rows": {{"train": {rows}}}}}'
            for n, rows in (("0.0", "-1"), ("NaN", "1.5"), ("Infinity", "1" * 300), ("-5", "null"))
        ),
    ],
)
def test_damaged_records_are_named_and_stop_nothing(base: Path, text: str) -> None:
    made = plan(base, seeds=[0, 1])
    finish(made, seconds=40)
    damaged = [
        stage(made, "first").folder(made.root, 1) / "run.json",
        made.sources.data("sst").folder(made.root) / "report.json",
    ]
    for path in damaged:
        put(path, text)
    told = plan_text(made)
    assert "8 training jobs, 0 to run" in told and "done" in line(told, "first ")
    for path in damaged:
        again = f"{path} is damaged: delete {path.parent} and {made.root / 'store' / 'report'}, and"
        assert line(told, f"{path} ").startswith(again)
    assert Costs(made).of(stage(made, "first")) == Cost(40, measured=True), "by the other seed"
    put(stage(made, "first").folder(made.root, 0) / "run.json", text)
    put(made.sources.backbone.folder(made.root) / "config.json", "{")
    assert Costs(made).of(stage(made, "longer")) == Cost(40, measured=True), "its own"
    new = plan(base, "epochs: 20", "epochs: 30", seeds=[0, 1])
    assert not Costs(new).of(stage(new, "longer")).measured


def test_a_version_trains_anew_only_where_it_is_asked_for(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys(version: str, **config: Any) -> set[str]:
        found = {"torch": version, "numpy": "2"}
        for module in ("experiment", "earlier"):
            monkeypatch.setattr(
                f"minbert.plan.{module}.versions", lambda names: {n: found.get(n) for n in names}
            )
        made = plan(base, **config)
        assert "dependencies" not in made.sources.data("sst").spec
        return set(made.owners)

    assert keys("1") == keys("2")
    asked = {"dependencies": ["torch"]}
    assert keys("1", **asked) == keys("1", **asked) != keys("2", **asked)
    assert not keys("1") & keys("1", **asked)
    both = {"dependencies": ["torch", "numpy"]}
    assert keys("1", **both) == keys("1", dependencies=["numpy", "torch"]) != keys("1", **asked)

    keys("1", **asked)
    finish(plan(base, **asked))
    keys("2", **asked)
    assert "dependencies.torch: 1 -> 2" in line(plan_text(plan(base, **asked)), "first ")


def test_a_job_with_other_versions_than_planned_stops(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(base, dependencies=["torch"])
    write(made)
    key = stage(made, "first").key
    assert load_job(made.root, "train", key, 0, 1).spec["dependencies"]["torch"]
    monkeypatch.setattr(
        "minbert.commands.steps.versions", lambda names: dict.fromkeys(names, "0.1")
    )
    with pytest.raises(UserError, match=r"planned for torch 2.*runs with torch 0\.1"):
        load_job(made.root, "train", key, 0, 1)


def test_only_recorded_packages_can_be_asked_for(base: Path) -> None:
    with pytest.raises(
        UserError,
        match=r"'dependencies': the version of 'troch' is not recorded; known.*mean 'torch'",
    ):
        plan(base, dependencies=["troch"])
    assert plan(base, dependencies="torch").config.dependencies == ("torch",)


@pytest.mark.parametrize(
    "text", ["{}", '{"spec": {}}', '{"spec": {"stage": 1}}', '{"needs": []}', '{"code": 3}', None]
)
def test_damaged_descriptions_of_earlier_nodes_stop_nothing(base: Path, text: str | None) -> None:
    """A job's own is written again; of others, costs and reasons do without."""
    old = plan(base)
    finish(old, seconds=40)
    made = plan(base, "epochs: 20", "epochs: 30")
    for kind, key in old.nodes.keys() - made.nodes.keys() | set(list(made.nodes)[:1]):
        path = description_path(made.root, kind, key)
        whole = json.loads(path.read_text("utf-8"))
        path.unlink()
        if text is None:
            path.mkdir()
        else:
            put(path, json.dumps(whole | json.loads(text) if text != "{}" else {}))
    told = plan_text(made)
    kept = description_path(made.root, "train", stage(old, "longer").key)
    assert line(told, f"{kept}: ").endswith("It counts as never planned; delete it.")
    assert "has never run" in line(told, "longer ")


def test_a_users_files_among_the_descriptions_are_passed_over(base: Path) -> None:
    made = plan(base)
    finish(made)
    expected = plan_text(plan(base))
    of = description_path(made.root, "train", stage(made, "first").key)
    for name in ("old-{}.json", "{} (copy).json", "{}-old.json"):
        of.with_name(name.format(of.stem)).write_bytes(of.read_bytes())
    (of.parent / "x.json").write_text("[]", "utf-8")
    (of.parent / "train-notes.json").mkdir()
    assert plan_text(plan(base)) == expected


def test_folders_in_the_place_of_files_are_named(base: Path) -> None:
    made = plan(base)
    finish(made)
    record = stage(made, "first").folder(made.root, made.config.seeds[0]) / "run.json"
    for path in (record, made.root / PAGE):
        path.unlink()
        path.mkdir()
    assert f"{record} is damaged: delete {record.parent}" in plan_text(plan(base))
    with pytest.raises(UserError, match=r"run.json: is not a regular file, expected"):
        read_json(record)
    record.rmdir()
    (made.root / PAGE).rmdir()
    finish(made)
    assert plan(base).mark.exists()
    (made.root / "variants.tsv").unlink()
    (made.root / "variants.tsv").mkdir()
    assert not plan(base).mark.exists(), "so that publishing tells it"


def test_a_published_row_of_a_misspelt_variant_is_named(base: Path) -> None:
    """One that the grid just lacks is not: a grid need not have all of a paper."""
    published = (base / "workflow/published.csv").read_text(encoding="utf-8")
    put(base / "workflow/published.csv", published.replace(",3-bert,dev,", ",longr,dev,"))
    told = plan_text(plan(base))
    assert (
        "has a row of 'longr', which the grid of hybrid-bert lacks. Did you mean 'longer'?" in told
    )
    assert told.count("which the grid of") == 1
