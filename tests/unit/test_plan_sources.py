"""The first nodes: what data and backbones are called, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from factories import finish, make_plan, put

from minbert.base.errors import UserError
from minbert.base.files import write_json, write_text
from minbert.commands.plan import plan_text
from minbert.data import dataset
from minbert.data.identity import checksum
from minbert.plan.describe import record_of
from minbert.plan.pending import check_sources, pending
from minbert.plan.sources import Sources
from minbert.spec.config import REVISION, load_config
from minbert.spec.protocol import LMRD_URL, SPLITS
from minbert.spec.task import BUILT_IN, TASKS, Task
from minbert.store.job import Job
from minbert.store.node import Node, canonical
from minbert.store.plans import description_path
from minbert.train import backbone

URL = "http://localhost:1/data"
BERT = {
    **{"model_type": "bert", "vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2},
    **{"num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64},
    **{"type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with small course files, which are those that are pinned."""
    place = tmp_path / "course"
    place.mkdir()
    for entry in BUILT_IN.values():
        for split in SPLITS if not entry.archive else ():
            file = entry.files[split]
            (place / file.path).write_text(f"the rows of {file.path}\n", encoding="utf-8")
            monkeypatch.setitem(file.__dict__, "git", checksum(place / file.path, "git")[4:])
    return place


def sources(root: Path, **config: Any) -> Sources:
    """Return the sources of a configuration with the built-in backbone."""
    values = {"grids": "hybrid-bert", "backbone": "builtin", "data": "real", **config}
    return Sources(load_config(values | {"results": str(root)}), Path(__file__).parents[2])


def encoder(folder: Path, **shapes: Any) -> Path:
    """Write what a plan reads of a backbone's folder."""
    write_json(folder / "config.json", BERT | shapes | {"tokenizer_class": "BertTokenizer"})
    write_text(folder / "vocab.txt", "[CLS]\n[SEP]\n[PAD]\n[UNK]\n[MASK]\na\n")
    write_text(folder / "model.safetensors", "weights")
    return folder


def test_files_have_one_key_wherever_they_come_from(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    for name in ("one", "two"):
        write_text(tmp_path / name, "reviews")
    places = [str(folder), str(moved), URL, URL + "/"]
    made = [sources(tmp_path, course=place, lmrd=str(tmp_path / "one")) for place in places]
    made[1] = sources(tmp_path, course=places[1], lmrd=str(tmp_path / "two"))
    for task in BUILT_IN:
        assert len({each.data(task).key for each in made}) == 1
        assert len({each.tokens(task).key for each in made}) == 1
        limited = sources(tmp_path, course=places[0], lmrd=str(tmp_path / "one"), limit=4)
        assert limited.data(task).key != made[0].data(task).key
    fetched = made[2].data("sst").needs["train"].node
    assert fetched.extra["url"] == f"{URL}/ids-sst-train.csv"
    assert fetched.spec["checksum"] == checksum(folder / "ids-sst-train.csv", "git")
    assert sources(tmp_path).data("lmrd").needs["archive"].node.extra["url"] == LMRD_URL


@pytest.mark.parametrize(
    ("task", "config", "message"),
    [
        ("lmrd", {"lmrd": "none"}, "none: there is no such file"),
        ("sst", {"course": "none"}, r"train: none/ids-sst-train\.csv: there is no such file"),
    ],
)
def test_absent_files(task: str, config: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        sources(tmp_path, **config).data(task)


def test_a_file_of_nearly_that_name_is_offered(folder: Path, tmp_path: Path) -> None:
    (folder / "ids-sst-train.csv").rename(folder / "ids-sst-trian.csv")
    with pytest.raises(UserError, match=r"Did you mean 'ids-sst-trian.csv'"):
        sources(tmp_path, course=str(folder)).data("sst")


def test_what_changed_since_the_plan_is_refused(folder: Path, tmp_path: Path) -> None:
    """It would get the key of the data that was planned."""
    (tmp_path / "l.tar").write_bytes(b"reviews")
    bert = encoder(tmp_path / "bert")
    made = sources(tmp_path, course=str(folder), lmrd=str(tmp_path / "l.tar"), backbone=str(bert))
    jobs: list[tuple[Any, Node, Path]] = [
        (dataset, made.data("sst"), folder / "ids-sst-train.csv"),
        (dataset, made.data("lmrd"), tmp_path / "l.tar"),
        (backbone, made.backbone, bert / "config.json"),
        (backbone, made.backbone, bert / "tokenizer.json"),
    ]
    for maker, node, path in jobs:
        write_text(path, "edited")
        with pytest.raises(
            UserError, match=r"changed since the plan \(planned .*; run snakemake again"
        ):
            maker.make(Job(tmp_path, {**node.describe(), "extra": node.extra}, None, 1))
        if maker is backbone:
            encoder(bert)


def test_a_backbone_folder_is_named_by_its_files(tmp_path: Path) -> None:
    folder = encoder(tmp_path / "bert")
    (folder / "model.safetensors").unlink()
    shards = [folder / f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    for number, path in enumerate(shards):
        path.write_bytes(b"weights" * (number + 1))
    index = {"weight_map": {"a": shards[0].name, "b": shards[1].name, "c": shards[0].name}}
    write_json(folder / "model.safetensors.index.json", index)
    first = sources(tmp_path, backbone=str(folder)).backbone
    assert set(first.spec["files"]) >= {path.name for path in shards}
    shards[1].write_bytes(b"other weights.")
    shutil.copytree(folder, tmp_path / "copy")
    second, copied = (sources(tmp_path, backbone=str(tmp_path / n)) for n in ("bert", "copy"))
    assert first.key != second.backbone.key == copied.backbone.key
    assert copied.architecture is not None and copied.architecture.layers == 2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"backbone": "./none"}, "no such folder.*a name on its hub .*, or 'builtin'"),
        ({"backbone": "/"}, r"/config\.json: no such file"),
        ({"backbone": "bert-base-uncased", "revision": "main"}, "40 hex digits.*found 'main'"),
        ({"backbone": "google-bert/bert-base-uncase"}, "Did you mean 'google-bert/bert-base-unc"),
        (
            {"backbone": "models/minilm", "revision": REVISION},  # of config.yaml, left as it is
            r"no such folder.* 40 hex digits of that model \(found '86b5",
        ),
    ],
)
def test_impossible_backbones(config: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        sources(tmp_path, **config)


@pytest.mark.parametrize(
    ("gone", "name", "said"),
    [
        ("vocab.txt", "vocab.txt", r"a file in it cannot be read: UnicodeDecodeError\("),
        ("model.safetensors", "model.safetensors.index.json", r"cannot be read: TypeError\("),
        ("model.safetensors", "pytorch_model.bin", r"has no model\.safetensors; weights in"),
        ("vocab.txt", "vocab.json", "has neither tokenizer.json nor vocab.txt"),
    ],
)
def test_unfit_backbone_folders(tmp_path: Path, gone: str, name: str, said: str) -> None:
    folder = encoder(tmp_path / "bert")
    (folder / gone).unlink()
    (folder / name).write_bytes(b"\xe9" if name == "vocab.txt" else b'{"weight_map": {"a": 3}}')
    with pytest.raises(UserError, match=f"/bert: .*{said}"):
        sources(tmp_path, backbone=str(folder))


@pytest.mark.parametrize(
    ("backbone", "covered"),
    [
        ("builtin", set()),
        ("modernbert", {"modernbert"}),
        ("google-bert/bert-base-uncased", set()),
        ("some/encoder", {"bert_like", "modernbert"}),  # any, not known yet
    ],
)
def test_keys_cover_the_kind_of_encoder(backbone: str, covered: set[str], tmp_path: Path) -> None:
    config = {"backbone": backbone, "revision": "0" * 40 if "/" in backbone else None}
    if backbone == "modernbert":
        shapes = {"model_type": "modernbert", "cls_token_id": 0, "sep_token_id": 1}
        shapes |= {"local_attention": 8, "global_attn_every_n_layers": 3}
        shapes |= {"global_rope_theta": 1e4, "local_rope_theta": 1e4}
        config["backbone"] = str(encoder(tmp_path / "encoder", **shapes))
    made = make_plan(tmp_path, **config)
    ref, stage = next(iter(made.stages.items()))
    features = made.sources.features("sst", stage.spec)
    for node in (made.train(ref), made.sources.backbone, features):
        modules = [name.rpartition(".")[2] for name in node.code if ".spec.encoders." in name]
        assert set(modules) == covered


@pytest.fixture
def given(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a configuration with every kind of source, by paths in the working folder."""
    monkeypatch.chdir(tmp_path)
    mine = {"kind": "binary", "sentence1": "a", "label": "b", "files": "mine"}
    config = {"tasks": {"mine": mine}, "course": "course", "lmrd": "reviews.tar"}
    config |= {"backbone": "model", "labels": "labels"}
    for split in ("train", "dev"):
        put(tmp_path / "mine" / f"{split}.csv", "a,b\nx,1\n")
    put(tmp_path / "reviews.tar", "reviews")
    put(tmp_path / "model" / "config.json", json.dumps(BERT))
    put(tmp_path / "model" / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    put(tmp_path / "model" / "model.safetensors", "weights")
    put(tmp_path / "labels" / "para.csv", "id,label\n")
    TASKS.use(Task.of(*each) for each in load_config({"grids": "g", **config}).tasks.items())
    return config


def test_stated_checksums_stand_for_absent_files(given: dict[str, Any], tmp_path: Path) -> None:
    """A plan tells those of all its files. Those that are there must have them."""

    def keys(**config: Any) -> list[str]:
        made = sources(tmp_path, **given, **config)
        labels = made.labels(["para"], "labels.parquet")["labels.para"]
        nodes = [made.backbone, labels.node, *map(made.data, ("mine", "sst", "lmrd"))]
        found.update(made.checksums)
        return [node.key for node in nodes]

    found: dict[str, str] = {}
    there = keys()
    stated = {"checksums": dict(found)}
    made = sources(tmp_path, **given)
    assert keys(**stated) == there and made.architecture
    wrong = {
        path: re.sub("[0-9a-f]{32,}", lambda d: "f" * len(d[0]), o) for path, o in found.items()
    }
    for path in found:
        with pytest.raises(UserError, match=f"{path}: its checksum is .*, but the conf"):
            keys(checksums=stated["checksums"] | {path: wrong[path]})

    node = made.backbone  # as a bundle leaves it: its shapes are those of a result
    put(description_path(tmp_path, "backbone", node.key), canonical(node.describe()))
    write_json(node.folder(tmp_path) / "config.json", made.architecture.model_dump())
    for name in ("course", "reviews.tar", "model", "mine", "labels"):
        (tmp_path / name).rename(tmp_path / f"{name} away")
    assert keys(**stated) == keys(revision="0" * 40, **stated) == there
    with pytest.raises(UserError, match=r"nor a result .* with its stated checksums"):
        keys(checksums=wrong)
    model = {path: of for path, of in wrong.items() if path.startswith("model/")}
    others = keys(checksums=wrong | {path: found[path] for path in model})
    assert others[0] == there[0] and {*others[1:]}.isdisjoint(there)


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("course/ids-sst-trian.csv", "course/ids-sst-train.csv"),
        ("model/vocb.txt", "model/vocab.txt"),
        ("mine/trian.csv", "mine/train.csv"),
    ],
)
def test_a_checksum_of_no_file_is_refused(
    path: str, near: str, given: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(UserError) as refused:
        sources(tmp_path, **given, checksums={path: f"git:{'0' * 40}"})
    said = f"checksums: {path}: no file that is read has this path. Did you mean '{near}'?"
    assert str(refused.value) == said
    assert sources(tmp_path, **given, checksums={f"sender/{path}": f"git:{'0' * 40}"})


def test_an_encoder_is_named_by_what_it_is(given: dict[str, Any], tmp_path: Path) -> None:
    weights = checksum(tmp_path / "model" / "model.safetensors", "sha256:")[7:15]
    named = f"bert, 2 layers, 32 wide, weights {weights} (model)"
    assert sources(tmp_path, **given).encoder == named
    hub = sources(tmp_path, backbone="google-bert/bert-base-uncased", revision="0" * 40)
    named = "bert, 12 layers, 768 wide, commit 00000000 (google-bert/bert-base-uncased)"
    assert hub.encoder == named


AWAY = {
    f"away/{BUILT_IN[task].files[split].path}": f"git:{'0' * 40}"
    for task in ("sst", "cfimdb")
    for split in SPLITS
}


def test_a_plan_keeps_its_name_though_runs_of_other_tasks_are_looked_at(tmp_path: Path) -> None:
    before = record_of(made := make_plan(tmp_path, data="real", course="away", checksums=AWAY))
    made.sources.data("cfimdb")
    assert record_of(made) == before and len(before["checksums"]) == 3


def test_a_job_without_its_source_is_refused_before_anything_runs(tmp_path: Path) -> None:
    made = make_plan(tmp_path, data="real", course="away", checksums=AWAY)
    with pytest.raises(UserError, match=r"away/ids-sst-train.csv is missing, and .* no finished"):
        check_sources(pending(made))
    assert "Snakemake would refuse to start: " in plan_text(made)
    finish(made)
    check_sources(pending(made))
