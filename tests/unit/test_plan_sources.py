"""The first nodes: what data and backbones are called, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import encoders
import pytest
from own_tasks import using

from minbert.base.errors import UserError
from minbert.base.files import write_json, write_text
from minbert.data import dataset
from minbert.data.identity import checksum, sha256
from minbert.plan.plan import Plan
from minbert.plan.sources import Sources
from minbert.spec.config import REVISION, load_config
from minbert.spec.protocol import LMRD_URL, SPLITS
from minbert.spec.resolve import StageRef
from minbert.spec.task import BUILT_IN, TASKS, Task
from minbert.store.job import Job
from minbert.store.node import Node, canonical, required_outputs
from minbert.store.plans import brought_path, description_path
from minbert.train import backbone

REPOSITORY = Path(__file__).parents[2]
URL = "http://localhost:1/data"
BERT = {
    "model_type": "bert",
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with small course files, which are those that are pinned."""
    place = tmp_path / "course"
    place.mkdir()
    for entry in BUILT_IN.values():
        for split in SPLITS if not entry.archive else ():
            file = getattr(entry.files, split)
            (place / file.path).write_text(f"the rows of {file.path}\n", encoding="utf-8")
            monkeypatch.setitem(file.__dict__, "git", checksum(place / file.path, "git")[4:])
    return place


def sources(root: Path, **config: Any) -> Sources:
    """Return the sources of a configuration with the built-in backbone."""
    values = {"grids": "hybrid-bert", "backbone": "builtin", "data": "real", **config}
    return Sources(load_config(values), root, Path(__file__).parents[2])


def test_files_have_one_key_wherever_they_come_from(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    places = [str(folder), str(moved), URL, URL + "/"]
    made = [sources(tmp_path, course=place) for place in places]
    for task in ("sst", "para", "sts", "cfimdb"):
        assert len({each.data(task).key for each in made}) == 1
        assert len({each.tokens(task).key for each in made}) == 1
    fetched = made[2].data("sst").needs["train"].node
    assert fetched.kind == "fetch"
    assert fetched.extra["url"] == f"{URL}/ids-sst-train.csv"
    assert fetched.spec["checksum"] == checksum(folder / "ids-sst-train.csv", "git")
    (folder / "quora-dev.csv").write_text("other rows\n", encoding="utf-8")
    after = sources(tmp_path, course=str(folder))
    assert after.data("sst").key == made[0].data("sst").key
    assert after.data("para").key != made[0].data("para").key


def test_a_limit_is_in_the_key_of_data_from_any_source(folder: Path, tmp_path: Path) -> None:
    places: list[tuple[str, dict[str, Any]]] = [
        *((task, {"data": "builtin"}) for task in ("sst", "lmrd")),
        *(("sst", {"course": place}) for place in (str(folder), URL)),
        ("lmrd", {}),
    ]
    for task, place in places:
        keys = {sources(tmp_path, limit=n, **place).data(task).key for n in (None, 4, 5)}
        assert len(keys) == 3, (task, place)


@pytest.mark.parametrize(
    ("task", "place", "there", "message"),
    [
        ("lmrd", "https://example.org/reviews.tar.gz", None, r"only https://.* has a known checks"),
        ("lmrd", "none", None, "none: there is no such file; check the path"),
        ("sst", "given", None, r"train: .*-train\.csv: there is no such file; check the path"),
        (
            "sst",
            "given",
            "ids-sst-trian.csv",
            r"no such file; .* Did you mean 'ids-sst-tri",
        ),
        ("sst", "given", "x", r"no such file; check the path\. Copy it there, or download it from"),
    ],
)
def test_files_that_are_not_there_are_named(
    task: str, place: str, there: str | None, message: str, tmp_path: Path
) -> None:
    if there:
        write_text(tmp_path / "given" / there, "")
    at = place if "://" in place else str(tmp_path / place)
    with pytest.raises(UserError, match=message):
        sources(tmp_path, **{"lmrd" if task == "lmrd" else "course": at}).data(task)


def test_what_changed_since_the_plan_is_refused(folder: Path, tmp_path: Path) -> None:
    """It would get the key of the data that was planned."""
    (tmp_path / "l.tar").write_bytes(b"reviews")
    bert = tmp_path / "bert"
    write_json(bert / "config.json", BERT)
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
            write_json(bert / "config.json", BERT)


def test_reviews_are_fetched_or_read(tmp_path: Path) -> None:
    node = sources(tmp_path, lmrd=LMRD_URL).data("lmrd")
    assert node.needs["archive"].node.extra["url"] == LMRD_URL
    first = sources(tmp_path, lmrd=archive(tmp_path / "one.tar.gz", "Good.")).data("lmrd")
    again = sources(tmp_path, lmrd=archive(tmp_path / "two.tar.gz", "Good.")).data("lmrd")
    other = sources(tmp_path, lmrd=archive(tmp_path / "two.tar.gz", "Good!!")).data("lmrd")
    assert first.key == again.key != other.key


def archive(path: Path, text: str) -> str:
    write_text(path, text)  # which is not read
    return str(path)


def test_a_backbone_folder_is_named_by_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "bert"
    folder.mkdir()
    write_json(folder / "config.json", BERT)
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
    (folder / "model.safetensors").write_bytes(b"weights")  # which counts, if it is there
    files = sources(tmp_path, backbone=str(folder)).backbone.spec["files"]
    assert set(files) == {"config.json", "model.safetensors"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"backbone": "./none"}, "no such folder.*a hub name .*, or 'builtin'"),
        ({"backbone": "/"}, r"/config\.json: no such file"),
        ({"backbone": "a/b/c"}, "no such folder"),
        ({"backbone": "a b/c;rm"}, r"no such folder\. .* a hub name \(letters, digits"),
        (
            {"backbone": "bert-base-uncased", "revision": "HEAD"},
            r"no such folder.*found 'HEAD'\)\.$",
        ),
        ({"backbone": "bert-base-uncased", "revision": "main"}, "40 hex digits.*found 'main'"),
        ({"backbone": "google-bert/bert-base-uncase"}, "Did you mean 'google-bert/bert-base-unc"),
        (
            {"backbone": "models/minilm", "revision": REVISION},  # of config.yaml, left as it is
            r"no such folder, .* a `revision` of its own: found 86b5\w*, the commit of",
        ),
    ],
)
def test_backbones_that_cannot_be_are_refused(
    config: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        sources(tmp_path, **config)


@pytest.mark.parametrize("kind", ["bert", "electra", "modernbert", "some/encoder", "google-bert/b"])
def test_a_key_covers_the_backbones_kind_of_encoder_and_no_other(kind: str, tmp_path: Path) -> None:
    """Of a hub's unknown encoder it covers all kinds."""
    values: dict[str, Any] = {"grids": "hybrid-bert", "data": "builtin", "results": str(tmp_path)}
    covered = {kind} - {"bert"}
    if "/" in kind:
        known = kind.startswith("google")
        name = "google-bert/bert-base-uncased" if known else kind
        values |= {"backbone": name, "revision": "0" * 40}
        covered = set() if known else {"distilbert", "roberta", "electra", "modernbert"}
    else:
        encoders.make(encoders.CONFIGS[kind], tmp_path / "encoder")
        values["backbone"] = str(tmp_path / "encoder")
    plan = Plan.load(values, REPOSITORY)
    ref = StageRef("hybrid-bert", "hybrid-bert", "main")
    features = plan.sources.features("sst", plan.stages[ref].spec)
    for node in (plan.train(ref), plan.sources.backbone, features):
        assert _encoders(node.code) == covered


def _encoders(code: Mapping[str, str]) -> set[str]:
    """Return the encoders that are no BERT among modules."""
    names = {name.rpartition(".")[2] for name in code if ".spec.encoders." in name}
    assert ("minbert.model.modernbert" in code) == ("modernbert" in names)
    return names


CALLED = {
    "sst": ("course", "given"),
    "lmrd": ("lmrd", "reviews.tar"),
    "mine": ("tasks", "mine"),
    "each": ("tasks", "each/train.csv, each/dev.csv"),
    "labels": ("labels", "labels"),
    "backbone": ("backbone", "model"),
}
"""What a node is of: the key of the configuration, and what that calls it."""


class Absent:
    """Finished nodes of every kind of source, as a bundle leaves them, and no source there."""

    def __init__(self, place: Path) -> None:
        self.place, self.root = place, place / "results"
        entry = {"kind": "binary", "sentence1": "a", "label": "b"}
        files = {split: f"each/{split}.csv" for split in ("train", "dev")}
        self.config: dict[str, Any] = {
            "tasks": {"mine": entry | {"files": "mine"}, "each": entry | {"files": files}},
            "course": "given",
            "lmrd": "reviews.tar",
            "backbone": "model",
            "labels": "labels",
        }
        for name in ("mine", "each"):
            for split in ("train", "dev"):
                write_text(place / name / f"{split}.csv", "a,b\nx,1\n")
        write_text(place / "reviews.tar", "reviews")
        write_json(place / "model" / "config.json", BERT)
        write_text(place / "model" / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
        write_text(place / "model" / "model.safetensors", "weights")
        write_text(place / "labels" / "para.csv", "id,label\n")
        TASKS.use(Task.of(*each) for each in load_config(self.values()).tasks.items())
        self.made = self.sources()
        self.nodes = {name: node_of(self.made, name) for name in CALLED}
        for node in self.nodes.values():
            self.leave(node)
        (place / "away").mkdir()
        for name in ("given", "reviews.tar", "mine", "each", "model", "labels"):
            (place / name).rename(place / "away" / name)

    def leave(self, node: Node) -> None:
        """Leave what a bundle has of a finished node: its description, and files without texts."""
        described = json.loads(canonical(node.describe()))
        write_json(description_path(self.root, node.kind, node.key), described)
        for file in required_outputs(node.kind, node.spec):
            write_text(node.folder(self.root) / file, "{}")
        if node.kind == "backbone" and self.made.architecture:
            write_json(node.folder(self.root) / "config.json", self.made.architecture.model_dump())

    def values(self, **config: Any) -> dict[str, Any]:
        return {"grids": "hybrid-bert", "data": "real", **self.config, **config}

    def sources(self, *there: str, **config: Any) -> Sources:
        """Return the sources of the configuration; those `there` come back before."""
        for name in there:
            (self.place / "away" / name).rename(self.place / name)
        return Sources(load_config(self.values(**config)), self.root, REPOSITORY)

    def brought(self, *names: str, called: str = "") -> None:
        """Note that a bundle brought the nodes for their sources, or for what is `called` so."""
        of = [(self.nodes[name], called or CALLED[name][1]) for name in names]
        write_json(brought_path(self.root), {f"{n.kind}-{n.key}": [source] for n, source in of})

    def key(self, name: str, **config: Any) -> str | None:
        """Return the key that is planned for a node whose own source is not there."""
        there = {"backbone": [], "labels": ["model", "given"]}.get(name, ["model"])
        node = node_of(self.sources(*there, **config), name)
        return node and node.key


def node_of(made: Sources, name: str) -> Any:
    if name == "labels":
        return made.labels("para")
    return made.backbone if name == "backbone" else made.data(name)


@pytest.fixture
def absent(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Absent]:
    monkeypatch.chdir(tmp_path)
    folder.rename(tmp_path / "given")
    with using(*TASKS.own):
        yield Absent(tmp_path)


@pytest.mark.parametrize("name", CALLED)
def test_a_source_that_is_not_there_gets_no_results_of_another(absent: Absent, name: str) -> None:
    """Neither any that are there, nor those that a bundle brought for a source of another name."""
    with pytest.raises(UserError, match=r"no such|there is no|cannot read"):
        absent.key(name)
    absent.brought(name, called="another")
    for back in {"model", "given"} & {path.name for path in absent.place.iterdir()}:
        (absent.place / back).rename(absent.place / "away" / back)
    with pytest.raises(UserError, match=r"no such|there is no|cannot read"):
        absent.key(name)


@pytest.mark.parametrize("revision", [None, "0" * 40])
@pytest.mark.parametrize("called", ["google-bert/bert-base-uncased", "bert-large-folder"])
def test_a_name_of_the_hub_gets_no_results_of_another_backbone(
    absent: Absent, called: str, revision: str | None
) -> None:
    absent.brought("backbone")
    if revision:
        made = absent.sources(backbone=called, revision=revision)
        assert made.backbone.spec == {"hub": called, "revision": revision}
    else:
        with pytest.raises(UserError, match=r"no such folder\. If it is a hub name, pin it"):
            absent.sources(backbone=called, revision=None)


@pytest.mark.parametrize("name", ["lmrd", "each", "labels", "backbone"])
def test_what_a_bundle_brought_for_a_source_stands_for_it(absent: Absent, name: str) -> None:
    """Also when other code made it once more; not when another one is of the same name."""
    node = absent.nodes[name]
    again = Node(node.kind, node.spec, "minbert.data.rows", needs=node.needs)
    other = Node(node.kind, {**node.spec, "files": {"train": "sha256:0"}}, node.maker)
    for more in (again, other):
        absent.leave(more)
    source = CALLED[name][1]
    names = [f"{node.kind}-{of.key}" for of in (node, again)]
    write_json(brought_path(absent.root), {at: [source] for at in names})
    assert absent.key(name) == node.key
    if name == "backbone":
        assert absent.sources().architecture == absent.made.architecture
    if name == "labels":
        assert absent.sources().labels("sst") is None
    names.append(f"{node.kind}-{other.key}")
    write_json(brought_path(absent.root), {at: [source] for at in names})
    with pytest.raises(UserError, match=rf"{source}, are not there, .* from several: .*Give the"):
        node_of(absent.sources(), name)


def test_of_a_source_in_several_forms_the_configuration_says_which(absent: Absent) -> None:
    node = absent.nodes["each"]
    other = Node(
        node.kind, {**node.spec, "forms": dict.fromkeys(node.spec["forms"], "tsv")}, node.maker
    )
    unsaid = Node(node.kind, {**node.spec, "forms": {}}, node.maker)  # of an earlier version
    names = []
    for made in (unsaid, node, other):
        absent.leave(made)
        names.append(f"{made.kind}-{made.key}")
        write_json(brought_path(absent.root), {name: [CALLED["each"][1]] for name in names})
        if made is other:
            with pytest.raises(UserError, match=r"not there, .* from several: .* their `format`"):
                absent.key("each")
        else:
            assert absent.key("each") == node.key
            absent.place.joinpath("model").rename(absent.place / "away" / "model")
    for form, key in (("csv", node.key), ("tsv", other.key)):
        absent.config["tasks"]["each"]["format"] = form
        assert node_of(absent.sources(), "each").key == key


def stated(absent: Absent, name: str) -> dict[str, Any]:
    """Return a configuration that states the checksums of the files that a node is made of."""
    files = absent.nodes[name].spec["files"]
    if name in ("mine", "each"):
        return {"checksums": {f"{name}/{split}.csv": of for split, of in files.items()}}
    if name == "lmrd":
        return {"checksums": {"reviews.tar": files["archive"]}}
    if name == "backbone":
        return {"checksums": {f"model/{file}": f"sha256:{of}" for file, of in files.items()}}
    at = {split: f"./given/{getattr(BUILT_IN['sst'].files, split).path}" for split in files}
    return {"checksums": {at[split]: of for split, of in files.items()}}


@pytest.mark.parametrize("name", ["sst", "lmrd", "mine", "backbone"])
def test_results_of_stated_checksums_stand_for_a_source(absent: Absent, name: str) -> None:
    """They count before what a bundle said, and files that are there must have them."""
    config = stated(absent, name)
    assert absent.key(name, **config) == absent.nodes[name].key
    other = re.sub("[0-9a-f]{32,}", lambda of: "f" * len(of[0]), json.dumps(config), count=1)
    wrong = json.loads(other)
    absent.brought(name)
    with pytest.raises(UserError, match=r"are not there, and .* none of the stated checksums"):
        node_of(absent.sources(**wrong), name)
    source = CALLED[name][1].partition("/")[0]
    assert node_of(absent.sources(source, **config), name).key == absent.nodes[name].key
    with pytest.raises(
        UserError, match=r"its checksum is .*, and the configuration states .*f{32}"
    ):
        node_of(absent.sources(**wrong), name)


@pytest.mark.parametrize("way", ["{place}/model", "model/../model", "./model"])
def test_a_checksum_is_of_one_file_however_its_path_is_written(absent: Absent, way: str) -> None:
    config = stated(absent, "backbone") | {"backbone": way.format(place=absent.place)}
    assert absent.key("backbone", **config) == absent.nodes["backbone"].key
    config["checksums"]["model/vocab.txt"] = "sha256:" + "f" * 64
    with pytest.raises(UserError, match=r"the configuration states sha256:f{64}"):
        absent.sources("model", **config)


def test_a_folder_with_stated_checksums_is_none_of_the_hub(absent: Absent) -> None:
    config = stated(absent, "backbone") | {"revision": "0" * 40}
    assert absent.key("backbone", **config) == absent.nodes["backbone"].key


def test_a_stated_file_that_a_folder_lacks_is_named(absent: Absent) -> None:
    config = stated(absent, "backbone")
    (absent.place / "away" / "model" / "vocab.txt").unlink()
    with pytest.raises(UserError, match=r"cannot read .*model/vocab\.txt"):
        absent.sources("model", **config)


def test_an_encoder_is_named_by_what_it_is(absent: Absent) -> None:
    weights = sha256(absent.place / "away" / "model" / "model.safetensors")[:8]
    assert absent.made.encoder == f"bert, 2 layers, 32 wide, weights {weights} (model)"
    hub = {"backbone": "google-bert/bert-base-uncased", "revision": "0" * 40}
    named = "bert, 12 layers, 768 wide, commit 00000000 (google-bert/bert-base-uncased)"
    assert absent.sources(**hub).encoder == named
