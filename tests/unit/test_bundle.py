"""Bundles: what is in them, the same bytes each time, taking them in, and refusing forged ones."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import trained_root
from own_tasks import NEWS
from trained_root import run_folder

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json
from minbert.base.locks import results_lock
from minbert.plan.describe import write
from minbert.plan.outputs import load_plan
from minbert.plan.pending import pending
from minbert.plan.plan import Plan
from minbert.publish.bundle import FORMAT, MANIFEST, bundle, unbundle
from minbert.store.plans import ONLY, PUBLISHED, description_path, plan_path, records, write_plan

RUNS = 7
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
    assert f"{out}: {RUNS} runs, " in bundle(plan.root, out)
    return out


@pytest.fixture
def copied(plan: Plan, tmp_path: Path) -> Path:
    """Return a copy of the results, to change."""
    return Path(shutil.copytree(plan.root, tmp_path / "copied"))


def in_store(root: Path, plan: Plan, variant: str, stage: str = "main") -> Path:
    return root / run_folder(plan, variant, stage).relative_to(plan.root)


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_bundle_has_all_that_is_shown_and_no_texts_or_weights(plan: Plan, made: Path) -> None:
    """Ids and labels are in it once."""
    files = contents(made)
    listed = json.loads(files.pop(MANIFEST))["files"]
    assert listed.keys() == files.keys()
    assert {name.rpartition("/")[2] for name in files}.isdisjoint(TEXTS)
    keys = {name.split("/")[1] for name in files if name.endswith("/run.json")}
    needs = {need.node for key in keys for need in plan.nodes["train", key].needs.values()}
    assert {f"spec/{node.kind}-{node.key}.json" for node in needs} <= files.keys()
    texts = pq.read_table(plan.sources.data("sst").folder(plan.root) / "examples.parquet")
    every = b""
    for name, content in files.items():  # in a table, texts would be compressed
        table = name.endswith(".parquet") and pq.read_table(io.BytesIO(content)).to_pylist()
        every += str(table).encode() if table else content
    assert not any(text.encode() in every for text in texts["sentence1"].to_pylist())
    at = f"train/{run_folder(plan, 'three').parent.name}/seed0/predictions.parquet"
    packed = pq.read_table(io.BytesIO(files[at])).schema.names
    assert {"id", "label"}.isdisjoint(packed) and "row" in packed


def test_own_tasks_of_published_results_come_along_though_the_newest_plan_has_none(
    copied: Path, tmp_path: Path
) -> None:
    newest, record = next(records(copied))
    earlier = write_plan(copied, record | {"tasks": [NEWS.model_dump(mode="json")]})
    path = plan_path(copied, earlier)
    write_json(path, read_json(path) | {"written": 0})
    assert next(records(copied))[0] == newest
    write_json(copied / ONLY / PUBLISHED, {"plan": earlier, "stamp": "", "names": []})
    bundle(copied, tmp_path / "out.zip")
    listed = json.loads(contents(tmp_path / "out.zip")[MANIFEST])["tasks"]
    assert [task["name"] for task in listed] == ["news"]


def test_the_configuration_is_that_of_whole_grids_though_a_part_was_planned_last(
    plan: Plan, copied: Path, tmp_path: Path
) -> None:
    own = {"results": str(copied), "only": ["one/three"]}
    write(part := load_plan(plan.config.model_dump() | own, plan.base))
    trained_root._make(part, "report", part.shown["report"].key)
    (newest, record), (_, earlier) = [*records(copied)][:2]
    assert record["below"] == ONLY and not earlier["below"]
    write_json(plan_path(copied, newest), record | {"checksums": {"a.csv": "sha256:1"}})
    bundle(copied, tmp_path / "out.zip")
    said = json.loads(contents(tmp_path / "out.zip")["config.json"])
    assert said.pop("checksums")["a.csv"] == "sha256:1"
    # Defaults, too: the receiver's config.yaml may say otherwise.
    assert said == plan.config.model_dump(mode="json", include=said.keys())
    assert {"only", "seeds", "course", "lmrd", "labels", "backbone", "scale"} <= said.keys()


def test_what_gc_deleted_of_a_published_plan_is_left_out(
    plan: Plan, copied: Path, tmp_path: Path
) -> None:
    """With what needs it and was never made."""
    started, follower = in_store(copied, plan, "adapted", "a"), in_store(copied, plan, "fused")
    for run in (started, follower):
        shutil.rmtree(run.parent)
    description_path(copied, "train", started.parent.name).unlink()
    bundle(copied, tmp_path / "out.zip")
    assert f"{RUNS - 2} runs imported, 0 already" in unbundle(
        tmp_path / "other", tmp_path / "out.zip"
    )


def test_what_was_taken_in_is_the_same_and_bundles_to_the_same_bytes(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    """The store may be on another disk."""
    other, memory = tmp_path / "results", Path("/dev/shm")
    other.mkdir()
    with TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as far:
        (other / "store").symlink_to(far)
        (other / "store/.unbundle/store").mkdir(parents=True)  # What a killed one left.
        assert f"{RUNS} runs imported, 0 already" in unbundle(other, made)
        one, new = (in_store(root, plan, "three") for root in (plan.root, other))
        assert (new / "run.json").read_bytes() == (one / "run.json").read_bytes()
        for file in ("history.parquet", "predictions.parquet"):
            assert pq.read_table(new / file).equals(pq.read_table(one / file))
        assert not list(other.rglob(".unbundle*"))
        moved = load_plan(plan.config.model_dump() | {"results": str(other)}, plan.base)
        trained = (node for node, _ in pending(moved) if node.kind == "train")
        assert {moved.owners[node.key].variant for node in trained} == {*trained_root.UNTRAINED}
        write(moved)
        bundle(other, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == made.read_bytes()


def test_weights_come_if_they_are_asked_for_and_a_lean_bundle_has_only_scores_that_are_read(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    lean, other = tmp_path / "lean.zip", tmp_path / "results"
    bundle(plan.root, lean, weights=True, lean=True)
    assert sum(name.endswith(".safetensors") for name in contents(lean)) == RUNS, "no backbone's"
    unbundle(other, lean)
    old, new = (in_store(root, plan, "three") for root in (plan.root, other))
    assert (old / "model.safetensors").read_bytes() == (new / "model.safetensors").read_bytes()
    before, found = (
        pq.read_table(folder / "predictions.parquet").to_pylist() for folder in (old, new)
    )
    read = [row["split"] == "dev" and row["task"] == "para" for row in before]
    assert any(read) and not all(read)
    pairs = zip(before, read, strict=True)
    assert found == [row if kept else row | {"scores": None} for row, kept in pairs]
    assert f"0 runs imported, {RUNS} already" in unbundle(other, made), (
        "nothing in it contradicts the other"
    )


def test_a_further_bundle_has_neither_runs_nor_rows_of_the_first(
    plan: Plan, copied: Path, tmp_path: Path
) -> None:
    """The first is imported first: it has the ids and labels of the other's predictions."""
    first, further, target = tmp_path / "first.zip", tmp_path / "further.zip", tmp_path / "target"
    shutil.rmtree(in_store(copied, plan, "three"))
    bundle(copied, first)
    assert ": 1 run, " in bundle(plan.root, further, without=[first])
    names = contents(further)
    assert sum(name.endswith(".parquet") for name in names) == 2
    assert sum(name.startswith("spec/train-") for name in names) == 1
    with pytest.raises(UserError, match="has no finished run"):
        bundle(plan.root, tmp_path / "none.zip", without=[first, further])
    with pytest.raises(UserError, match="first import the bundle that it was made without"):
        unbundle(target, further)
    unbundle(target, first)
    assert "1 run imported, 0 already" in unbundle(target, further)
    one, other = (in_store(root, plan, "three") for root in (plan.root, target))
    files = [pq.read_table(folder / "predictions.parquet") for folder in (one, other)]
    assert files[0].equals(files[1])


def test_what_cannot_be_bundled_or_taken_in(plan: Plan, made: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no workflow has run there"):
        bundle(tmp_path / "resutls", tmp_path / "out.zip")
    assert not (tmp_path / "resutls").exists()
    with pytest.raises(UserError, match=r"runs\.zip: .*No such file"):
        unbundle(tmp_path, tmp_path / "runs.zip")
    with pytest.raises(UserError, match="has no finished run of seed 77 to put into the bundle"):
        bundle(plan.root, tmp_path / "out.zip", seeds=[0, 77])
    with results_lock(tmp_path), pytest.raises(UserError, match="is in use"):
        unbundle(tmp_path, made)


@pytest.mark.parametrize(
    ("other", "largest", "message"),
    [
        ({"version": 0}, 1 << 20, "bundle.json has a format other than"),
        ({"tasks": [NEWS.model_dump(mode="json") | {"name": "sst"}]}, 1 << 20, "'sst', which is b"),
        ({}, 10, r"\.json has [0-9,]+ bytes, allowed are 10"),
    ],
)
def test_a_bundle_of_another_kind_is_refused(
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    other: dict[str, Any],
    largest: int,
    message: str,
) -> None:
    monkeypatch.setattr("minbert.publish.bundle._MOST", largest)
    files = contents(made)
    page = json.dumps(json.loads(files[MANIFEST]) | other).encode()
    refuse(zipped(tmp_path / "other.zip", files | {MANIFEST: page}), tmp_path / "results", message)


def test_a_run_that_is_there_stays_as_it_is_and_one_that_is_not_finished_is_replaced(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    unbundle(tmp_path, made)
    run, half = (in_store(tmp_path, plan, variant) for variant in ("three", "frozen"))
    record = read_json(run / "run.json")
    record["outcome"]["seconds"] += 1
    write_json(run / "run.json", record)
    (half / "run.json").unlink()
    assert f"1 run imported, {RUNS - 1} already" in unbundle(tmp_path, made)
    assert read_json(run / "run.json") == record
    assert (half / "run.json").exists()


Change = Callable[[dict[str, bytes], str], object]
"""What forges the files of a bundle; the folder of a run is named."""


def page(file: str, change: Callable[[dict[str, Any]], object]) -> Change:
    """Edit a page of JSON: the run's, or its description if `file` is ""."""

    def edited(files: dict[str, bytes], run: str) -> None:
        name = f"{run}/{file}" if file else f"spec/train-{run.split('/')[1]}.json"
        found = json.loads(files[name])
        change(found)
        files[name] = json.dumps(found).encode()

    return edited


def column(file: str, name: str, change: Callable[[pa.Table], Any]) -> Change:
    """Edit a column of a table of the run."""

    def edited(files: dict[str, bytes], run: str) -> None:
        table = pq.read_table(io.BytesIO(files[f"{run}/{file}.parquet"]))
        at, sink = table.schema.get_field_index(name), io.BytesIO()
        pq.write_table(table.set_column(at, table.schema.field(at), change(table)), sink)
        files[f"{run}/{file}.parquet"] = sink.getvalue()

    return edited


def nearly(table: pa.Table) -> pa.Array:
    """Change predictions by less than a GPU's rounding may change a score."""
    rows = zip(table["task"].to_pylist(), table["prediction"].to_pylist(), strict=True)
    return pa.array([of + 1e-4 * (n % 3) * (task == "sts") for n, (task, of) in enumerate(rows)])


def moved(to: str) -> Change:
    """Put the run where it does not belong."""

    def change(files: dict[str, bytes], run: str) -> None:
        for name in [name for name in files if name.startswith(run)]:
            files[name.replace(run, to.format(key=run.split("/")[1]))] = files.pop(name)

    return change


REFUSED: dict[str, tuple[Change, str]] = {
    "edited settings": (
        page("", lambda of: of["spec"]["stage"].update(epochs=99)),
        "does not match its key: its content has",
    ),
    "a damaged description": (page("", lambda of: of.pop("needs")), "KeyError.*needs"),
    "half a run": (lambda files, run: files.pop(f"{run}/history.parquet"), "is missing"),
    "other settings in the record": (
        page("run.json", lambda record: record["spec"].update(epochs=99)),
        "has settings that do not match its key",
    ),
    "other code": (
        page("run.json", lambda record: record.update(code="0")),
        "has code that does not match",
    ),
    "a record of minbert 0.2": (page("run.json", lambda of: of.pop("data")), "KeyError.*data"),
    "a run under another seed": (moved("train/{key}/seed1"), "has the record of another seed"),
    "other examples": (
        page("run.json", lambda record: record["data"]["sst"]["dev"].update(ids="0")),
        "examples of 'sst' on dev are not those",
    ),
    "edited predictions": (
        column("predictions", "prediction", lambda t: pc.add(t["prediction"], 1)),
        "one of them was edited",
    ),
    "predictions that round as on a GPU": (
        column("predictions", "prediction", nearly),
        "one of them was edited",
    ),
    "an edited history": (
        column("history", "value", lambda t: pc.multiply(t["value"], 0.5)),
        "one of them was edited",
    ),
    "a history without scores": (
        column("history", "split", lambda t: pa.array(["train"] * len(t))),
        "KeyError",
    ),
}


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("how", [*REFUSED, ""])
def test_a_forged_bundle_is_refused(how: str, plan: Plan, made: Path, tmp_path: Path) -> None:
    """One that is only listed anew is not. Files of other names are passed over."""
    change, message = REFUSED.get(how, (lambda *_: None, ""))
    files = contents(made) | {"../evil": b"", "train/evil.json": b"", "spec/../../evil": b""}
    about = json.loads(files.pop(MANIFEST)) | {"sources": "of an earlier version"}
    change(files, str(run_folder(plan, "three").relative_to(plan.root / "store")))
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    about["files"] = {n: {"bytes": len(files[n]), "sha256": of} for n, of in hashes.items()}
    path = zipped(tmp_path / "evil.zip", files | {MANIFEST: json.dumps(about).encode()})
    if how:
        refuse(path, tmp_path / "results", message)
    else:
        assert f"{RUNS} runs imported, 0 already" in unbundle(tmp_path / "results", path)
    assert not [*tmp_path.parent.rglob("evil"), *tmp_path.rglob("evil.json")]


def refuse(path: Path, root: Path, message: str) -> None:
    """Check that a bundle is refused with a message, and leaves nothing."""
    with pytest.raises(UserError, match=f"nothing is imported: .*{message}"):
        unbundle(root, path)
    left = {path.relative_to(root).as_posix() for path in root.rglob("*")}
    assert left == {"store", "work", "work/lock"}


def test_a_bundle_that_is_cut_off_or_edited_is_refused(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    content = made.read_bytes()
    for at, share in enumerate((0.1, 0.99)):
        (tmp_path / f"cut-{at}.zip").write_bytes(content[: int(len(content) * share)])
        refuse(tmp_path / f"cut-{at}.zip", tmp_path / f"results-{at}", "BadZipFile")
    edited = {n: of.replace(b'"epochs": 1', b'"epochs": 2') for n, of in contents(made).items()}
    path = zipped(tmp_path / "edited.zip", edited)
    refuse(path, tmp_path / "results", "was changed: its SHA-256 is not the listed")
    listed = zipped(tmp_path / "nothing.zip", {MANIFEST: json.dumps(FORMAT).encode()})
    with pytest.raises(UserError, match=r"nothing\.zip: KeyError"):
        bundle(plan.root, tmp_path / "out.zip", without=[listed])
