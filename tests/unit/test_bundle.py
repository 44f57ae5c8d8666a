"""Bundles: what is in them, the same bytes each time, and taking them in."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlcroissant
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import trained_root
from own_tasks import NEWS, using
from trained_root import REPOSITORY, run_folder

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json
from minbert.base.locks import in_use
from minbert.data.course import course_files
from minbert.data.identity import sha256
from minbert.figures.calibration import binned, calibration_error
from minbert.figures.predicted import read_predicted
from minbert.plan.describe import write
from minbert.plan.pending import pending
from minbert.plan.plan import Plan
from minbert.publish.archive import MANIFEST
from minbert.publish.bundle import bundle
from minbert.publish.croissant import croissant
from minbert.publish.unbundle import Taken, unbundle
from minbert.report.predictions import over_seeds
from minbert.spec.protocol import COURSE_URL, LMRD_URL
from minbert.store.plans import ONLY, PUBLISHED, description_path, plan_path, records, write_plan

COURSE = {split: pin for split, (_, pin) in course_files("sst").items()}
FIGURES = "figures:\n  leakage: {kind: leakage, title: Leakage}\n"


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trained_root, "ONE", trained_root.ONE + FIGURES)
        made = trained_root.make_root(tmp_path_factory.mktemp("bundled"))
    for kind, key in [at for at in made.nodes if at[0] == "rows"]:
        trained_root.run_job(trained_root.load_job(made.root, kind, key, None, threads=1))
    return made


@pytest.fixture(scope="module")
def made(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "out.zip"
    bundle(plan.root, out, base=REPOSITORY)
    return out


def runs_of(plan: Plan) -> set[str]:
    return {
        str(path.parent.relative_to(plan.root / "store"))
        for path in (plan.root / "store" / "train").rglob("run.json")
    }


def test_a_bundle_has_all_that_is_shown_and_no_texts_or_weights(plan: Plan, made: Path) -> None:
    with zipfile.ZipFile(made) as archive:
        names = set(archive.namelist())
        manifest = json.loads(archive.read(MANIFEST))
        every = b"".join(archive.read(name) for name in names)
    runs = runs_of(plan)
    assert len(runs) > 5
    wanted = {f"{run}/{file}" for run in runs for file in RUN}
    described = {f"spec/{kind}-{key}.json" for kind, key in plan.nodes if kind in UNSHOWN}
    assert wanted | described <= names
    assert {name.rpartition("/")[2] for name in names}.isdisjoint(TEXTS)
    assert set(manifest["files"]) == names - {MANIFEST}
    texts = pq.read_table(plan.sources.data("sst").folder(plan.root) / "examples.parquet")
    assert not any(text.encode() in every for text in texts["sentence1"].to_pylist())


RUN = ("run.json", "history.parquet", "predictions.parquet")
UNSHOWN = ("data", "tokens", "backbone", "vocabulary", "train", "features", "rows")
TEXTS = {"model.safetensors", "examples.parquet", "tokens.parquet", "rejected.csv"}


def test_a_row_leads_to_its_run(plan: Plan, made: Path) -> None:
    """Without the store: what a reviewer needs to find where a number is from."""
    with zipfile.ZipFile(made) as archive:
        rows = read_csv_text(archive.read("variants.tsv").decode())
        page = archive.read("README.md").decode()
        record = json.loads(archive.read(f"{run_name(plan, 'three')}/run.json"))
    found = {(row["paper"], row["variant"], row["stage"]): row["key"] for row in rows}
    assert found["one", "three", "main"] == run_folder(plan, "three").parent.name
    assert len(found) == len(plan.stages)
    assert f"Trained by commit {record['environment']['commit']}.\n" in page


def read_csv_text(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), delimiter="\t"))


def run_name(plan: Plan, variant: str) -> str:
    return run_folder(plan, variant).relative_to(plan.root / "store").as_posix()


@pytest.mark.parametrize("published", [PUBLISHED, f"{ONLY}/{PUBLISHED}"])
def test_own_tasks_of_published_results_come_along_though_the_newest_plan_has_none(
    plan: Plan, tmp_path: Path, published: str
) -> None:
    root = tmp_path / "results"
    shutil.copytree(plan.root, root)
    newest, record = next(records(root))
    earlier = write_plan(root, record | {"tasks": [json.loads(json.dumps(asdict(NEWS)))]})
    path = plan_path(root, earlier)
    write_json(path, read_json(path) | {"written": 0})
    assert next(records(root))[0] == newest
    page = {"plans": {"one": earlier}, "stamps": {}, "options": {}, "names": []}
    (root / published).parent.mkdir(exist_ok=True)
    write_json(root / published, page)
    with using():
        bundle(root, tmp_path / "out.zip", base=REPOSITORY)
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        listed = json.loads(archive.read(MANIFEST))["tasks"]
    assert [task["name"] for task in listed] == ["news"]


def test_what_gc_deleted_of_a_published_plan_is_left_out(plan: Plan, tmp_path: Path) -> None:
    """With what needs it and was never made: `unbundle` takes only what is described."""
    root = tmp_path / "results"
    shutil.copytree(plan.root, root)
    started, follower = in_store(root, plan, "adapted", "a"), in_store(root, plan, "fused")
    for run in (started, follower):
        shutil.rmtree(run.parent)
    description_path(root, "train", started.parent.name).unlink()
    bundle(root, tmp_path / "out.zip", base=REPOSITORY)
    assert unbundle(tmp_path / "out.zip", tmp_path / "other").new == len(runs_of(plan)) - 2


def test_the_same_results_are_the_same_bytes(plan: Plan, made: Path, tmp_path: Path) -> None:
    bundle(plan.root, tmp_path / "again.zip", base=REPOSITORY)
    assert (tmp_path / "again.zip").read_bytes() == made.read_bytes()


def test_a_store_that_is_a_link_to_another_disk_takes_a_bundle_in(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    other = tmp_path / "results"
    other.mkdir()
    with TemporaryDirectory(dir=shared) as far:
        (other / "store").symlink_to(far)
        assert unbundle(made, other) == Taken(new=len(runs_of(plan)), known=0)
        assert all((Path(far) / run / "run.json").is_file() for run in runs_of(plan))


def test_what_was_taken_in_is_the_same_and_bundles_to_the_same_bytes(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    other = tmp_path / "results"
    (other / "store/.unbundle/store").mkdir(parents=True)  # What a killed one left.
    assert unbundle(made, other) == Taken(new=len(runs_of(plan)), known=0)
    for run in runs_of(plan):
        for file in RUN:
            one, new = plan.root / "store" / run / file, other / "store" / run / file
            if file == "run.json":
                assert new.read_bytes() == one.read_bytes()
            else:
                assert pq.read_table(new).equals(pq.read_table(one))
    assert not list(other.rglob(".unbundle*"))
    assert unbundle(made, other) == Taken(new=0, known=len(runs_of(plan)))
    moved = Plan.of(plan.config.model_copy(update={"results": str(other)}), plan.base)
    waiting = {moved.owners[node.key].variant for node, _ in pending(moved) if node.kind == "train"}
    assert waiting == set(trained_root.UNTRAINED)
    write(moved)
    bundle(other, tmp_path / "again.zip", base=REPOSITORY)
    assert (tmp_path / "again.zip").read_bytes() == made.read_bytes()


def test_a_disk_that_is_full_halfway_takes_nothing_in(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("minbert.publish.checks.pq.write_table", full)
    with pytest.raises(OSError, match="No space left") as caught:
        unbundle(made, tmp_path)
    assert Path(caught.value.filename).name == "predictions.parquet"
    assert not list((tmp_path / "store").iterdir())


def test_weights_come_if_they_are_asked_for(plan: Plan, made: Path, tmp_path: Path) -> None:
    bundle(plan.root, tmp_path / "with.zip", weights=True, base=REPOSITORY)
    other = tmp_path / "results"
    other.mkdir()
    unbundle(made, other)
    run = run_folder(plan, "three")
    new = other / "store" / run.relative_to(plan.root / "store")
    assert not (new / "model.safetensors").exists()
    found = unbundle(tmp_path / "with.zip", other)
    assert found == Taken(new=0, known=len(runs_of(plan))), "weights join runs that are there"
    assert sha256(new / "model.safetensors") == sha256(run / "model.safetensors")


def test_a_lean_bundle_leaves_out_scores_that_no_figure_reads(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    small = bundle(plan.root, tmp_path / "lean.zip", lean=True, base=REPOSITORY)
    assert small.bytes < made.stat().st_size
    other = tmp_path / "results"
    other.mkdir()
    unbundle(tmp_path / "lean.zip", other)
    run = run_folder(plan, "three")
    old = pq.read_table(run / "predictions.parquet").to_pylist()
    path = other / "store" / run.relative_to(plan.root / "store") / "predictions.parquet"
    new = pq.read_table(path).to_pylist()
    assert {row["split"] for row in old} == {"dev", "test"}
    assert {row["task"] for row in new if row["scores"]} == {"para"}
    assert all(row["scores"] == [row["prediction"]] for row in old if row["task"] == "sts")
    for one, other_row in zip(old, new, strict=True):
        read = one["split"] == "dev" and one["task"] == "para"
        assert other_row == (one if read else one | {"scores": None})
    assert unbundle(made, other).known == len(runs_of(plan)), "nothing in it contradicts the other"
    before = sha256(run / "predictions.parquet")
    assert unbundle(tmp_path / "lean.zip", plan.root).known == len(runs_of(plan))
    assert sha256(run / "predictions.parquet") == before, "what is there is more, and stays"


def test_a_binary_task_stays_one_in_a_lean_bundle_if_its_probabilities_are_its_classes(
    tmp_path: Path,
) -> None:
    """As of a run that is sure of everything; they look like those of a regression."""
    plan = trained_root.make_root(tmp_path / "made")
    path = run_folder(plan, "three") / "predictions.parquet"
    sure = [
        row | ({"scores": [row["prediction"]]} if row["task"] == "para" else {})
        for row in pq.read_table(path).to_pylist()
    ]
    pq.write_table(pa.Table.from_pylist(sure, schema=pq.read_schema(path)), path)
    bundle(plan.root, tmp_path / "lean.zip", lean=True, base=REPOSITORY)
    unbundle(tmp_path / "lean.zip", tmp_path / "other")
    new = tmp_path / "other" / path.relative_to(plan.root)
    for row in pq.read_table(new).to_pylist():
        read = row["split"] != "test" and row["task"] == "para"
        assert row["scores"] == ([row["prediction"]] if read else None)


def test_a_lean_bundle_of_an_earlier_version_can_be_shown(plan: Plan, tmp_path: Path) -> None:
    """They left out probabilities that equal predictions, as if the task were a regression."""
    table = pq.read_table(run_folder(plan, "three") / "predictions.parquet")
    lean = [row | {"scores": None} for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(lean, schema=table.schema), tmp_path / "lean.parquet")
    found = read_predicted({0: tmp_path / "lean.parquet"}, "para")
    assert found is not None
    assert over_seeds("para", found).right.sum() == (found.prediction == found.label).sum()
    assert calibration_error(binned(found.scores[0, :, 0], found.label, 10)) <= 1


def test_predictions_are_packed_by_the_rows_of_their_data(plan: Plan, made: Path) -> None:
    run = run_folder(plan, "three").relative_to(plan.root / "store")
    with zipfile.ZipFile(made) as archive:
        packed = pq.read_table(io.BytesIO(archive.read(f"{run}/predictions.parquet")))
        rows = [n for n in archive.namelist() if n.startswith("rows/")]
    assert len(rows) == 3
    assert {"id", "label"}.isdisjoint(packed.schema.names) and "row" in packed.schema.names


def test_a_results_folder_in_use_takes_nothing_in(made: Path, tmp_path: Path) -> None:
    with in_use(tmp_path), pytest.raises(UserError, match="is in use"):
        unbundle(made, tmp_path)
    assert not (tmp_path / "store").exists()


def test_a_disk_that_can_only_be_read_can_be_bundled(
    plan: Plan, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its lock as it is: nothing is written there."""
    opened = Path.open

    def open_to_read(path: Path, mode: str = "r", **how: Any) -> Any:
        if mode[0] != "r" and path.is_relative_to(plan.root):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, mode, **how)

    with in_use(plan.root):
        pass
    monkeypatch.setattr(Path, "open", open_to_read)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    bundle(plan.root, tmp_path / "out.zip", base=REPOSITORY)
    assert (tmp_path / "out.zip").read_bytes() == made.read_bytes()


def test_there_must_be_something_to_bundle(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no workflow was started"):
        bundle(tmp_path / "resutls", tmp_path / "out.zip", base=REPOSITORY)
    (tmp_path / "results" / "store").mkdir(parents=True)
    with pytest.raises(UserError, match="no workflow was started"):
        bundle(tmp_path / "results", tmp_path / "out.zip", base=REPOSITORY)
    with pytest.raises(UserError, match=r"runs\.zip: there is no such file"):
        unbundle(tmp_path / "runs.zip", tmp_path / "fresh")
    assert {path.name for path in tmp_path.iterdir()} == {"results"}, "a typing error makes none"
    with pytest.raises(UserError, match="has no Snakefile; give the folder"):
        bundle(plan.root, tmp_path / "out.zip", base=tmp_path)
    assert not (tmp_path / "out.zip").exists()


def test_rules_of_ones_own_come_along_or_are_refused(plan: Plan, tmp_path: Path) -> None:
    """What `bundle` writes, `unbundle` takes in."""
    rules = tmp_path / "base" / "workflow" / "rules"
    rules.mkdir(parents=True)
    for path in (tmp_path / "base" / "Snakefile", rules / "My_rules-2.smk"):
        path.touch()
    bundle(plan.root, tmp_path / "out.zip", base=tmp_path / "base")
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert "workflow/rules/My_rules-2.smk" in archive.namelist()
    assert unbundle(tmp_path / "out.zip", tmp_path / "results").new == len(runs_of(plan))
    (rules / "my rules.smk").touch()
    with pytest.raises(UserError, match=r"my rules\.smk: cannot be in a bundle.*is not part of a"):
        bundle(plan.root, tmp_path / "refused.zip", base=tmp_path / "base")
    assert not (tmp_path / "refused.zip").exists()


def test_croissants_are_valid_and_read_the_rows(plan: Plan, made: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(made) as archive:
        archive.extractall(tmp_path)
    pages = sorted((tmp_path / "croissant").iterdir())
    assert [page.name.partition("-")[0] for page in pages] == ["cfimdb", "para", "sst", "sts"]
    for page in pages:
        data = mlcroissant.Dataset(jsonld=page)
        assert not data.metadata.ctx.issues.errors
    (sst,) = [page for page in pages if page.name.startswith("sst")]
    found = [
        (row["held-out/id"].decode(), row["held-out/split"].decode(), row["held-out/label"])
        for row in mlcroissant.Dataset(jsonld=sst).records("held-out")
    ]
    examples = pq.read_table(plan.sources.data("sst").folder(plan.root) / "examples.parquet")
    wanted = [
        (row["id"], row["split"], row["label"])
        for row in examples.to_pylist()
        if row["split"] != "train"
    ]
    assert found == wanted


@pytest.mark.parametrize(
    ("spec", "origin"),
    [
        ({"source": "course", "task": "sst", "files": COURSE}, f"{COURSE_URL}/ids-sst-dev.csv"),
        (
            {"source": "course", "task": "sst", "files": COURSE | {"dev": "git:0"}},
            "ids-sst-dev.csv",
        ),
        ({"source": "own", "task": "news", "files": {"dev": "sha256:0"}}, "news, dev"),
        ({"source": "lmrd", "task": "lmrd", "files": "md5:0"}, LMRD_URL),
    ],
)
def test_a_croissant_says_what_data_of_any_source_were_made_from(
    spec: dict[str, Any], origin: str, tmp_path: Path
) -> None:
    """With the checksums that its key counts, and no rows where a figure needed none."""
    page = croissant({"spec": spec, "key": "0" * 16}, {"rows": {"dev": 2}}, "", None)
    write_json(tmp_path / "page.json", page)
    assert not mlcroissant.Dataset(jsonld=tmp_path / "page.json").metadata.ctx.issues.errors
    named = {each["name"]: each["identifier"] for each in page["isBasedOn"]}
    files = spec["files"]
    assert named[origin] == (files if isinstance(files, str) else files["dev"])


def test_the_licence_of_the_code_is_not_that_of_the_runs(made: Path) -> None:
    """Nobody gave it to ids and labels of the data."""
    with zipfile.ZipFile(made) as archive:
        graph = json.loads(archive.read("ro-crate-metadata.json"))["@graph"]
    terms = {each["@id"]: each["license"]["@id"] for each in graph if "license" in each}
    assert terms.pop("./") == "#terms"
    assert {name.partition("/")[0] for name in terms} == {"Snakefile", "workflow"}
    assert all(terms[name].endswith("LICENSE-2.0") for name in terms)


VALIDATOR = REPOSITORY / "tests" / "crate_validator.py"
PYTHON = REPOSITORY / ".venv-crate" / "bin" / "python"


@pytest.mark.skipif(not PYTHON.exists(), reason="needs `make .venv-crate/.installed`")
def test_the_crate_is_a_valid_workflow_run(made: Path, tmp_path: Path) -> None:
    """Its metadata has no error; and the validator finds one that is made."""
    with zipfile.ZipFile(made) as archive:
        archive.extractall(tmp_path)
    command = [str(PYTHON), str(VALIDATOR), str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert len(re.findall(r"(?m)^[\w.-]+: 0 errors", found.stdout)) == 3
    page = read_json(tmp_path / "ro-crate-metadata.json")
    page["@graph"] = [each for each in page["@graph"] if each["@id"] != "Snakefile"]
    write_json(tmp_path / "ro-crate-metadata.json", page)
    broken = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert broken.returncode == 1, broken.stdout + broken.stderr


def in_store(root: Path, plan: Plan, variant: str, stage: str = "main") -> Path:
    return root / "store" / run_folder(plan, variant, stage).relative_to(plan.root / "store")


def rescored(run: Path) -> bytes:
    """Give a run other predictions, as one that was made on another machine has."""
    path = run / "predictions.parquet"
    table = pq.read_table(path)
    other = pc.add(table["prediction"], 1e-9)
    pq.write_table(table.set_column(3, "prediction", other), path)
    return path.read_bytes()


def test_a_result_that_is_there_with_other_content_is_a_conflict(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    unbundle(made, tmp_path)
    run = in_store(tmp_path, plan, "three")
    before = rescored(run)
    with pytest.raises(
        UserError, match=r"some of its files exist here with other content.*predictions"
    ):
        unbundle(made, tmp_path)
    assert (run / "predictions.parquet").read_bytes() == before
    report = next((tmp_path / "store" / "data").rglob("report.json"))
    report.write_text("{}", encoding="utf-8")
    with pytest.raises(UserError, match=r"some of its files exist here .*data/\w+/report\.json"):
        unbundle(made, tmp_path, keep=True)


def test_runs_that_are_there_can_be_kept_and_no_other_run_starts_from_those_left_out(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    unbundle(made, tmp_path)
    run = in_store(tmp_path, plan, "adapted", "a")
    before, follower = rescored(run), in_store(tmp_path, plan, "fused")
    other = in_store(tmp_path, plan, "frozen")
    shutil.rmtree(follower)
    shutil.rmtree(other)
    taken = unbundle(made, tmp_path, keep=True)
    assert (run / "predictions.parquet").read_bytes() == before
    assert other.exists() and not follower.exists(), "it starts from the run that was left out"
    assert (taken.new, taken.left) == (1, 2)


def test_a_run_that_came_out_the_same_is_no_conflict(
    plan: Plan, made: Path, tmp_path: Path
) -> None:
    """Two that train the same differ in times, seconds and machines."""
    unbundle(made, tmp_path)
    run = in_store(tmp_path, plan, "three")
    record = read_json(run / "run.json")
    record["outcome"]["seconds"] += 1
    write_json(run / "run.json", record)
    history = pq.read_table(run / "history.parquet")
    later = pc.add(history["time"], 3600.0)
    pq.write_table(history.set_column(6, "time", later), run / "history.parquet")
    before = [path.read_bytes() for path in sorted(run.iterdir())]
    assert unbundle(made, tmp_path).new == 0
    assert [path.read_bytes() for path in sorted(run.iterdir())] == before
