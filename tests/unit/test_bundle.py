"""Bundles: what is in them, the same bytes each time, and taking them in."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pyarrow.parquet as pq
import pytest
import trained_root
from own_tasks import NEWS, using
from trained_root import run_folder

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json
from minbert.base.locks import results_lock
from minbert.data.identity import sha256
from minbert.plan.describe import write
from minbert.plan.pending import pending
from minbert.plan.plan import Plan
from minbert.publish.archive import MANIFEST, RUN
from minbert.publish.bundle import bundle
from minbert.publish.unbundle import ImportResult, unbundle
from minbert.store.node import needs_of
from minbert.store.plans import ONLY, PUBLISHED, description_path, plan_path, records, write_plan

TEXTS = {"model.safetensors", "examples.parquet", "tokens.parquet", "rejected.csv"}


@pytest.fixture(scope="module")
def plan(trained_plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Return the plan of a copy of the trained results, which has the rows of its data."""
    base = tmp_path_factory.mktemp("bundled") / "base"
    made = trained_root.plan_of(Path(shutil.copytree(trained_plan.base, base)))
    trained_root.publish(made)
    for kind, key in [at for at in made.nodes if at[0] == "rows"]:
        trained_root._make(made, kind, key)
    return made


@pytest.fixture(scope="module")
def made(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "out.zip"
    bundle(plan.root, out)
    return out


def runs_of(plan: Plan) -> set[str]:
    runs = (plan.root / "store" / "train").rglob("run.json")
    return {str(path.parent.relative_to(plan.root / "store")) for path in runs}


def in_store(root: Path, plan: Plan, variant: str, stage: str = "main") -> Path:
    return root / "store" / run_folder(plan, variant, stage).relative_to(plan.root / "store")


def test_a_bundle_has_all_that_is_shown_and_no_texts_or_weights(plan: Plan, made: Path) -> None:
    """Ids and labels are in it once; `variants.tsv` leads a reviewer from a row to its run."""
    run = run_folder(plan, "three").relative_to(plan.root / "store")
    with zipfile.ZipFile(made) as archive:
        names = set(archive.namelist())
        listed = json.loads(archive.read(MANIFEST))["files"]
        every = b"".join(archive.read(name) for name in names)
        variants = pd.read_csv(archive.open("variants.tsv"), sep="\t", keep_default_na=False)
        packed = pq.read_table(io.BytesIO(archive.read(f"{run}/predictions.parquet")))
    keys = {run.split("/")[1] for run in runs_of(plan)}
    needs = {at for key in keys for at in needs_of(plan.nodes["train", key].describe())}
    described = {f"spec/{kind}-{key}.json" for kind, key in needs | {("train", k) for k in keys}}
    assert {f"{run}/{file}" for run in runs_of(plan) for file in RUN} | described <= names
    assert {name.rpartition("/")[2] for name in names}.isdisjoint(TEXTS)
    assert set(listed) == names - {MANIFEST}
    texts = pq.read_table(plan.sources.data("sst").folder(plan.root) / "examples.parquet")
    assert not any(text.encode() in every for text in texts["sentence1"].to_pylist())
    assert {"id", "label"}.isdisjoint(packed.schema.names) and "row" in packed.schema.names
    found = variants.set_index(["paper", "variant", "stage"])["key"]
    assert found["one", "three", "main"] == run.parts[1] and len(found) == len(plan.stages)


@pytest.mark.parametrize("published", [PUBLISHED, f"{ONLY}/{PUBLISHED}"])
def test_own_tasks_of_published_results_come_along_though_the_newest_plan_has_none(
    plan: Plan, tmp_path: Path, published: str
) -> None:
    root = Path(shutil.copytree(plan.root, tmp_path / "results"))
    newest, record = next(records(root))
    earlier = write_plan(root, record | {"tasks": [NEWS.model_dump(mode="json")]})
    path = plan_path(root, earlier)
    write_json(path, read_json(path) | {"written": 0})
    assert next(records(root))[0] == newest
    write_json(root / published, {"plan": earlier, "stamp": "", "names": []})
    with using():
        bundle(root, tmp_path / "out.zip")
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        listed = json.loads(archive.read(MANIFEST))["tasks"]
    assert [task["name"] for task in listed] == ["news"]


def test_what_gc_deleted_of_a_published_plan_is_left_out(plan: Plan, tmp_path: Path) -> None:
    """With what needs it and was never made: `unbundle` takes only what is described."""
    root = Path(shutil.copytree(plan.root, tmp_path / "results"))
    started, follower = in_store(root, plan, "adapted", "a"), in_store(root, plan, "fused")
    for run in (started, follower):
        shutil.rmtree(run.parent)
    description_path(root, "train", started.parent.name).unlink()
    bundle(root, tmp_path / "out.zip")
    assert unbundle(tmp_path / "out.zip", tmp_path / "other").new == len(runs_of(plan)) - 2


def test_a_store_that_is_a_link_to_another_disk_takes_a_bundle_in(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    with TemporaryDirectory(dir=shared) as far:
        (tmp_path / "store").symlink_to(far)
        assert unbundle(made, tmp_path) == ImportResult(new=len(runs_of(plan)), known=0)
        assert all((Path(far) / run / "run.json").is_file() for run in runs_of(plan))


def test_what_was_taken_in_is_the_same_and_bundles_to_the_same_bytes(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    other = tmp_path / "results"
    (other / "store/.unbundle/store").mkdir(parents=True)  # What a killed one left.
    assert unbundle(made, other) == ImportResult(new=len(runs_of(plan)), known=0)
    for run in runs_of(plan):
        one, new = plan.root / "store" / run, other / "store" / run
        assert (new / "run.json").read_bytes() == (one / "run.json").read_bytes()
        for file in ("history.parquet", "predictions.parquet"):
            assert pq.read_table(new / file).equals(pq.read_table(one / file))
    assert not list(other.rglob(".unbundle*"))
    moved = Plan.load(plan.config.model_dump() | {"results": str(other)}, plan.base)
    waiting = {moved.owners[node.key].variant for node, _ in pending(moved) if node.kind == "train"}
    assert waiting == set(trained_root.UNTRAINED)
    write(moved)
    bundle(other, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == made.read_bytes()


def test_weights_come_if_they_are_asked_for(plan: Plan, made: Path, tmp_path: Path) -> None:
    bundle(plan.root, tmp_path / "with.zip", weights=True)
    for path, wanted in ((made, False), (tmp_path / "with.zip", True)):
        unbundle(path, tmp_path / path.stem)
        weights = in_store(tmp_path / path.stem, plan, "three") / "model.safetensors"
        assert weights.exists() == wanted
    assert sha256(weights) == sha256(run_folder(plan, "three") / "model.safetensors")


def test_a_lean_bundle_leaves_out_scores_that_no_figure_reads(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    small = bundle(plan.root, tmp_path / "lean.zip", lean=True)
    assert small.bytes < made.stat().st_size
    unbundle(tmp_path / "lean.zip", other := tmp_path / "results")
    old, new = (
        pq.read_table(in_store(root, plan, "three") / "predictions.parquet").to_pylist()
        for root in (plan.root, other)
    )
    read = [row["split"] == "dev" and row["task"] == "para" for row in old]
    assert any(read) and not all(read)
    assert new == [
        row if kept else row | {"scores": None} for row, kept in zip(old, read, strict=True)
    ]
    assert unbundle(made, other).known == len(runs_of(plan)), "nothing in it contradicts the other"


def test_a_further_bundle_has_neither_runs_nor_rows_of_the_first(
    plan: Plan, tmp_path: Path
) -> None:
    """The first is imported first: it has the ids and labels of the other's predictions."""
    earlier = Path(shutil.copytree(plan.root, tmp_path / "earlier"))
    shutil.rmtree(in_store(earlier, plan, "three"))
    first, further = tmp_path / "first.zip", tmp_path / "further.zip"
    bundle(earlier, first)
    bundle(plan.root, further, without=[first])
    with zipfile.ZipFile(further) as archive:
        results = {str(Path(n).parent) for n in archive.namelist() if n.endswith(".parquet")}
    assert results == {str(run_folder(plan, "three").relative_to(plan.root / "store"))}
    with pytest.raises(UserError, match="no finished run to bundle"):
        bundle(plan.root, tmp_path / "none.zip", without=[first, further])
    target = tmp_path / "target"
    with pytest.raises(UserError, match=r"labels of a task may be in another bundle"):
        unbundle(further, target)
    unbundle(first, target)
    assert unbundle(further, target) == ImportResult(new=1, known=0)
    one, other = (in_store(root, plan, "three") for root in (plan.root, target))
    files = [pq.read_table(folder / "predictions.parquet") for folder in (one, other)]
    assert files[0].equals(files[1])


def test_what_cannot_be_bundled_or_taken_in(made: Path, tmp_path: Path) -> None:
    for name in ("resutls", "results"):
        with pytest.raises(UserError, match="no workflow was started"):
            bundle(tmp_path / name, tmp_path / "out.zip")
        (tmp_path / "results" / "store").mkdir(parents=True, exist_ok=True)
    with pytest.raises(UserError, match=r"runs\.zip: there is no such file"):
        unbundle(tmp_path / "runs.zip", tmp_path / "fresh")
    assert {path.name for path in tmp_path.iterdir()} == {"results"}, "a typing error makes none"
    with results_lock(tmp_path), pytest.raises(UserError, match="is in use"):
        unbundle(made, tmp_path)
    assert not (tmp_path / "store").exists()


def test_a_run_that_is_there_stays_as_it_is_and_one_that_is_not_finished_is_replaced(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    unbundle(made, tmp_path)
    run, half = (in_store(tmp_path, plan, variant) for variant in ("three", "frozen"))
    record = read_json(run / "run.json")
    record["outcome"]["seconds"] += 1
    write_json(run / "run.json", record)
    (half / "run.json").unlink()
    assert unbundle(made, tmp_path) == ImportResult(new=1, known=len(runs_of(plan)) - 1)
    assert read_json(run / "run.json") == record
    assert (half / "run.json").exists()
