"""What is said of a task is in the keys of what it decides, and in no others.

Each case changes one thing: a line of the package's own `tasks.yaml` (in a copy of the package), a
task of one's own in `config.yaml`, or a file of the data. The plan's files, which jobs read, say
what has another key afterwards. Expected is exactly what the change decides, and all made from it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
START = (
    "from pathlib import Path; from minbert.commands.plan import read_plan; "
    "from minbert.plan.describe import write; write(read_plan([Path('config.yaml')], [], Path()))"
)
"""Writes what jobs read, as a workflow's start does."""
CONFIG: dict[str, Any] = {
    **{"grids": ["g.yaml"], "backbone": "builtin", "data": "real", "course": "course"},
    **{"lmrd": "reviews.tar.gz", "labels": "labels"},
    "tasks": {
        "mine": {
            **{"kind": "classification", "classes": ["bad", "good"], "sentence1": "text"},
            **{"label": "mark", "id": "number", "title": "Mine", "dev": 0.2, "files": "mine.tsv"},
        },
        "far": {
            **{"kind": "binary", "sentence1": "a", "sentence2": "b", "label": "same", "dev": 0.2},
            "files": {"url": "https://one.example/far.tsv", "sha256": "0" * 64},
        },
    },
}
CROSS = {"loss": "binary_cross_entropy", "pairing": "cross"}
HOW: dict[str, dict[str, Any]] = {
    "sst": {"loss": "cross_entropy"},
    "para": CROSS,
    "sts": {"loss": "mse", "pairing": "cross"},
    "cfimdb": {"loss": "cross_entropy"},
    "lmrd": {"loss": "cross_entropy"},
    "mine": {"loss": "cross_entropy"},
    "far": CROSS,
}
GRID: dict[str, Any] = {
    **{"paper": "p", "title": "T", "overall": "plain"},
    "variants": {
        **{f"of-{task}": {"tasks": {task: how}} for task, how in HOW.items()},
        "all": {"tasks": {task: HOW[task] for task in ("sst", "para", "sts")}},
        "frozen": {"tasks": {"sts": HOW["sts"]}, "trainable": "heads"},
        "tuned": {"tasks": {"sst": HOW["sst"]}, "tune": {"optimiser.lr": [1e-5, 2e-5]}},
    },
    "figures": {
        "confusion": {"kind": "confusion-matrix", "title": "C", "variants": ["of-sst"]},
        "calibration": {"kind": "calibration", "title": "D", "variants": ["of-para", "all"]},
        "scatter": {"kind": "sts-scatter", "title": "S", "variants": ["of-sts"]},
        "architectures": {"kind": "architectures", "title": "A", "variants": ["all", "of-mine"]},
        "ranking": {"kind": "ranking", "title": "R"},
    },
    "claims": [{"text": "x", "section": "1", "variant": "all", "against": "of-sst", "task": "sst"}],
}
Name = tuple[str, str]
"""A node's kind, and what the plan calls it."""
Plan = dict[Name, dict[str, Any]]
"""The key of each node, and the nodes that it needs."""
Level = Callable[[Plan], Iterator[Name]]
"""The nodes that something decides; all that is made from them follows."""


@dataclass
class Project:
    """A folder with a copy of the package and a configuration that can be planned."""

    folder: Path
    plans: int = 0

    def plan(self, tasks: dict[str, Any], config: dict[str, Any], grid: dict[str, Any]) -> Plan:
        """Return the descriptions of all nodes by their names."""
        self.plans += 1
        results = self.folder / f"results-{self.plans}"
        (self.folder / "src/minbert/spec/tasks.yaml").write_text(
            yaml.safe_dump(tasks, sort_keys=False), encoding="utf-8"
        )
        for name, values in (
            ("config.yaml", config | {"results": results.name}),
            ("g.yaml", grid),
        ):
            (self.folder / name).write_text(yaml.safe_dump(values, sort_keys=False), "utf-8")
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src")}
        done = subprocess.run(
            [sys.executable, "-c", START],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-1000:]
        (record,) = (results / "store" / "plans").glob("*.json")
        found = {}
        for job, told in json.loads(record.read_text("utf-8"))["jobs"].items():
            described = json.loads((results / "store" / "spec" / f"{job}.json").read_text("utf-8"))
            needs = {**described["needs"], **told["needs"]}
            name = (described["kind"], _name(told["title"]))
            assert name not in found, f"two nodes are called {name}"
            found[name] = {"key": described["key"], "needs": needs}
        shutil.rmtree(results)
        return found


def _name(title: str) -> str:
    """Return a title that is the same in whatever order tasks are."""
    variant, *tasks = title.split(" . ")
    return " . ".join([variant, *("+".join(sorted(found.split("+"))) for found in tasks)])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("project")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(REPOSITORY / "src" / "minbert", folder / "src" / "minbert", ignore=ignored)
    for name in ("workflow", "course", "labels"):
        (folder / name).mkdir()
    shutil.copy2(REPOSITORY / "workflow" / "published.csv", folder / "workflow")
    for name in ("backbone", "builtin"):
        (folder / "workflow" / name).symlink_to(REPOSITORY / "workflow" / name)
    for task in ("ids-sst", "quora", "sts", "ids-cfimdb"):
        for split in ("train", "dev", "test-student"):
            (folder / "course" / f"{task}-{split}.csv").write_text(f"{task} {split}", "utf-8")
    (folder / "labels" / "sts.csv").write_text("labels", encoding="utf-8")
    for name in ("reviews.tar.gz", "mine.tsv"):
        (folder / name).write_text(name, encoding="utf-8")
    return Project(folder)


@pytest.fixture(scope="module")
def before(project: Project) -> Plan:
    return project.plan(own_lines(), CONFIG, GRID)


def own_lines() -> dict[str, Any]:
    """Return what the package's `tasks.yaml` says."""
    text = (REPOSITORY / "src/minbert/spec/tasks.yaml").read_text("utf-8")
    return dict(yaml.safe_load(text))


def with_all_made_from(seeds: Iterable[Name], plan: Plan) -> set[Name]:
    """Return nodes, and every node that is made from one of them."""
    at = {(kind, of["key"]): (kind, title) for (kind, title), of in plan.items()}
    found = set(seeds)
    assert found <= plan.keys(), found - plan.keys()
    while more := {
        name
        for name, of in plan.items()
        if name not in found
        and any(at[need["kind"], need["key"]] in found for need in of["needs"].values())
    }:
        found |= more
    return found


def data(task: str) -> Level:
    """The task's examples."""
    return lambda plan: iter([("data", task)])


def read_and_shown(task: str) -> Level:
    """The task's examples, and all that people read."""
    return lambda plan: chain(data(task)(plan), shown(plan))


def labels(task: str) -> Level:
    """The public labels of its test rows."""
    return lambda plan: iter([("labels", task)])


def learnt(task: str) -> Level:
    """Every training with the task."""

    def found(plan: Plan) -> Iterator[Name]:
        for kind, title in plan:
            if kind == "train" and task in title.split(" . ")[1].split("+"):
                yield kind, title

    return found


def joint(plan: Plan) -> Iterator[Name]:
    """Every training of several tasks, and all that is shown."""
    yield from ((kind, title) for kind, title in plan if kind == "train" and "+" in title)
    yield from shown(plan)


def shown(plan: Plan) -> Iterator[Name]:
    """All that people read of a paper."""
    kinds = ("table", "tuning", "claims", "figure", "report")
    yield from (name for name in plan if name[0] in kinds)


def nothing(plan: Plan) -> Iterator[Name]:
    return iter(())


Edit = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object]


def built_in(task: str, **said: Any) -> Edit:
    """Change the entry of a built-in task."""
    return lambda tasks, config, grid: tasks[task].update(said)


def own(task: str, **said: Any) -> Edit:
    """Change a task of one's own."""
    return lambda tasks, config, grid: config["tasks"][task].update(said)


def case(name: str, edit: Edit, decides: Level) -> Any:
    return pytest.param(edit, decides, id=name)


def swapped(tasks: dict[str, Any], config: object, grid: object) -> None:
    """Name the paraphrases before SST."""
    entries = {"para": tasks["para"], **tasks}
    tasks.clear()
    tasks.update(entries)


def as_binary(tasks: dict[str, Any], config: object, grid: dict[str, Any]) -> None:
    """Make CFIMDB a binary task, with the loss of one."""
    tasks["cfimdb"]["kind"] = "binary"
    grid["variants"]["of-cfimdb"]["tasks"]["cfimdb"] = {"loss": "binary_cross_entropy"}


def without_second(tasks: dict[str, Any], config: dict[str, Any], grid: dict[str, Any]) -> None:
    """Make a task of pairs one of single sentences."""
    del config["tasks"]["far"]["sentence2"]
    grid["variants"]["of-far"]["tasks"]["far"] = {"loss": "binary_cross_entropy"}


RENAMED = ["lowest", "low", "middle", "high", "highest"]
ENTRIES = [
    *(case(f"title of {t}", built_in(t, title="Other"), shown) for t in ("sst", "cfimdb", "lmrd")),
    case("names of sst's classes", built_in("sst", classes=RENAMED), read_and_shown("sst")),
    case(
        "names of para's classes", built_in("para", classes=["no", "yes"]), read_and_shown("para")
    ),
    case(
        "names of cfimdb's classes",
        built_in("cfimdb", classes=["no", "yes"]),
        read_and_shown("cfimdb"),
    ),
    case("names of lmrd's classes", built_in("lmrd", classes=RENAMED), read_and_shown("lmrd")),
    case(
        "number of sst's classes",
        built_in("sst", classes=[*RENAMED, "best"]),
        read_and_shown("sst"),
    ),
    case("number of lmrd's classes", built_in("lmrd", classes=RENAMED[:4]), read_and_shown("lmrd")),
    case("range of sts", built_in("sts", range=[0, 10]), data("sts")),
    case("kind of cfimdb", as_binary, data("cfimdb")),
    case("metric of sst", built_in("sst", metric="macro_f1"), learnt("sst")),
    case("metric of para", built_in("para", metric="f1"), learnt("para")),
    case("metric of sts", built_in("sts", metric="spearman"), learnt("sts")),
    case("default metric, written down", built_in("sts", metric="pearson"), nothing),
    *(
        case(f"{column} of {task}", built_in(task, **{column: "other"}), data(task))
        for task, columns in (
            ("sts", ("sentence1", "sentence2", "label", "id")),
            *((each, ("label",)) for each in ("sst", "para", "cfimdb")),
        )
        for column in columns
    ),
    case("sentence1 of lmrd", built_in("lmrd", sentence1="other"), data("lmrd")),
    case("label of lmrd", built_in("lmrd", label="other"), data("lmrd")),
    case("order of tasks", swapped, joint),
]
OWN = [
    case("title", own("mine", title="Other"), shown),
    case(
        "names of classes, which labels are read by",
        own("mine", classes=["a", "b"]),
        read_and_shown("mine"),
    ),
    case("number of classes in place of names", own("mine", classes=2), read_and_shown("mine")),
    case(
        "names of a binary task's classes", own("far", classes=["no", "yes"]), read_and_shown("far")
    ),
    case("column of sentences", own("mine", sentence1="other"), data("mine")),
    case("column of labels", own("mine", label="other"), data("mine")),
    case("column of ids", own("mine", id="other"), data("mine")),
    case("no column of ids", own("mine", id=None), data("mine")),
    case("column of second sentences", own("far", sentence2="other"), data("far")),
    case("no second sentences", without_second, data("far")),
    case("share that becomes dev", own("mine", dev=0.3), data("mine")),
    case("share that becomes test", own("mine", test=0.1), data("mine")),
    case("metric", own("mine", metric="macro_f1"), learnt("mine")),
    case("labels that are left out", own("mine", ignore=["-"]), data("mine")),
    case(
        "another address",
        own("far", files={"url": "https://two.example/far.tsv", "sha256": "0" * 64}),
        nothing,
    ),
    case(
        "another checksum",
        own("far", files={"url": "https://one.example/far.tsv", "sha256": "1" * 64}),
        lambda plan: iter([("fetch", "far.tsv")]),
    ),
]


def changed(before: Plan, after: Plan) -> set[Name]:
    """Return the nodes with another key, and those that only one of two plans has."""
    names = before.keys() | after.keys()
    return {n for n in names if before.get(n, {}).get("key") != after.get(n, {}).get("key")}


@pytest.mark.parametrize(("edit", "decides"), ENTRIES + OWN)
def test_a_fact_is_in_the_keys_of_what_it_decides(
    edit: Edit, decides: Level, project: Project, before: Plan
) -> None:
    copies = json.loads(json.dumps([own_lines(), CONFIG, GRID]))
    edit(*copies)
    found = changed(before, project.plan(*copies))
    assert found == with_all_made_from(decides(before), before)


@pytest.mark.parametrize(
    ("name", "decides"),
    [
        ("course/sts-dev.csv", data("sts")),
        ("course/ids-sst-train.csv", data("sst")),
        ("reviews.tar.gz", data("lmrd")),
        ("mine.tsv", data("mine")),
        ("labels/sts.csv", labels("sts")),
    ],
)
def test_a_file_is_in_the_keys_of_what_it_decides(
    name: str, decides: Level, project: Project, before: Plan
) -> None:
    path = project.folder / name
    content = path.read_bytes()
    path.write_text("other", encoding="utf-8")
    try:
        after = project.plan(own_lines(), CONFIG, GRID)
    finally:
        path.write_bytes(content)
    assert changed(before, after) == with_all_made_from(decides(before), before)


def test_where_files_lie_is_in_no_key(project: Project, before: Plan) -> None:
    folder = project.folder / "elsewhere"
    for name in ("course", "labels"):
        shutil.copytree(project.folder / name, folder / name)
    moved = {name: f"elsewhere/{name}" for name in ("course", "labels")}
    assert changed(before, project.plan(own_lines(), CONFIG | moved, GRID)) == set()
