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
CONFIG: dict[str, Any] = yaml.safe_load("""\
grids: [g.yaml]
backbone: builtin
data: real
course: course
lmrd: reviews.tar.gz
labels: labels
tasks:
  mine: {kind: classification, classes: [bad, good], sentence1: text, label: mark, id: number,
    title: Mine, dev: 0.2, files: mine.tsv}
  far: {kind: binary, sentence1: a, sentence2: b, label: same, dev: 0.2,
    files: {url: "https://one.example/far.tsv",
      sha256: "0000000000000000000000000000000000000000000000000000000000000000"}}
""")
GRID: dict[str, Any] = yaml.safe_load("""\
paper: p
title: T
overall: plain
variants:
  of-sst: {tasks: {sst: &sst {loss: cross_entropy}}}
  of-para: {tasks: {para: &para {loss: binary_cross_entropy, pairing: cross}}}
  of-sts: {tasks: {sts: &sts {loss: mse, pairing: cross}}}
  of-cfimdb: {tasks: {cfimdb: {loss: cross_entropy}}}
  of-lmrd: {tasks: {lmrd: {loss: cross_entropy}}}
  of-mine: {tasks: {mine: {loss: cross_entropy}}}
  of-far: {tasks: {far: {loss: binary_cross_entropy, pairing: cross}}}
  all: {tasks: {sst: *sst, para: *para, sts: *sts}}
  frozen: {tasks: {sts: *sts}, trainable: heads}
  tuned: {tasks: {sst: *sst}, tune: {optimiser.lr: [0.00001, 0.00002]}}
figures:
  confusion: {kind: confusion-matrix, title: C, variants: [of-sst]}
  calibration: {kind: calibration, title: D, variants: [of-para, all]}
  scatter: {kind: sts-scatter, title: S, variants: [of-sts]}
  architectures: {kind: architectures, title: A, variants: [all, of-mine]}
  ranking: {kind: ranking, title: R}
claims:
  - {text: x, section: "1", variant: all, against: of-sst, task: sst}
""")
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


def data(*tasks: str) -> Level:
    """The tasks' examples."""
    return lambda plan: iter([("data", task) for task in tasks])


def read_and_shown(*tasks: str) -> Level:
    """The tasks' examples, and all that people read."""
    return lambda plan: chain(data(*tasks)(plan), shown(plan))


def learnt(*tasks: str) -> Level:
    """Every training with one of the tasks."""
    return lambda plan: (
        (kind, title)
        for kind, title in plan
        if kind == "train" and {*tasks} & {*title.split(" . ")[1].split("+")}
    )


def joint(plan: Plan) -> Iterator[Name]:
    """Every training of several tasks, and all that is shown."""
    yield from ((kind, title) for kind, title in plan if kind == "train" and "+" in title)
    yield from shown(plan)


def shown(plan: Plan) -> Iterator[Name]:
    """All that people read of a paper."""
    kinds = ("table", "tuning", "claims", "figure", "report")
    yield from (name for name in plan if name[0] in kinds)


Edit = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object]


def built_in(**entries: dict[str, Any]) -> Edit:
    """Change the entries of built-in tasks."""
    return lambda tasks, config, grid: [tasks[name].update(of) for name, of in entries.items()]


def own(**entries: dict[str, Any]) -> Edit:
    """Change tasks of one's own."""
    return lambda _, config, grid: [config["tasks"][n].update(of) for n, of in entries.items()]


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


def titled(*tasks: str) -> dict[str, dict[str, Any]]:
    return {key: {"title": "Other"} for key in tasks}


def named(classes: list[str], *tasks: str) -> dict[str, dict[str, Any]]:
    return {key: {"classes": classes} for key in tasks}


NAMES = ["lowest", "low", "middle", "high", "highest"]
URL = "https://two.example/far.tsv"
# Changes of several tasks are made at once where what they decide has nothing in common.
CASES: dict[str, tuple[Edit, Level]] = {
    "titles": (built_in(**titled("sst", "cfimdb", "lmrd")), shown),
    "names of classes": (
        built_in(**named(NAMES, "sst", "lmrd"), **named(["no", "yes"], "para", "cfimdb")),
        read_and_shown("sst", "para", "cfimdb", "lmrd"),
    ),
    "numbers of classes": (
        built_in(**named([*NAMES, "best"], "sst"), **named(NAMES[:4], "lmrd")),
        read_and_shown("sst", "lmrd"),
    ),
    "range of sts": (built_in(sts={"range": [0, 10]}), data("sts")),
    "kind of cfimdb": (as_binary, data("cfimdb")),
    "metric of sst": (built_in(sst={"metric": "macro_f1"}), learnt("sst")),
    "metrics of pairs": (
        built_in(para={"metric": "f1"}, sts={"metric": "spearman"}),
        learnt("para", "sts"),
    ),
    "the default metric, written down": (built_in(sts={"metric": "pearson"}), data()),
    "columns": (
        built_in(
            sst={"sentence1": "other"},
            para={"sentence2": "other"},
            sts={"id": "other"},
            cfimdb={"label": "other"},
            lmrd={"label": "other"},
        ),
        data("sst", "para", "sts", "cfimdb", "lmrd"),
    ),
    "order of tasks": (swapped, joint),
    "own titles": (own(**titled("mine", "far")), shown),
    "own names of classes": (
        own(mine={"classes": ["a", "b"]}, far={"classes": ["no", "yes"]}),
        read_and_shown("mine", "far"),
    ),
    "a number of classes in place of names": (own(mine={"classes": 2}), read_and_shown("mine")),
    "own columns": (
        own(mine={"sentence1": "other"}, far={"sentence2": "other"}),
        data("mine", "far"),
    ),
    "own labels": (own(mine={"label": "other"}, far={"ignore": ["-"]}), data("mine", "far")),
    "own ids and shares": (own(mine={"id": None}, far={"test": 0.1}), data("mine", "far")),
    "no second sentences": (without_second, data("far")),
    "own metric": (own(mine={"metric": "macro_f1"}), learnt("mine")),
    "another address": (own(far={"files": {"url": URL, "sha256": "0" * 64}}), data()),
    "another checksum": (
        own(far={"files": {"url": URL, "sha256": "1" * 64}}),
        lambda plan: iter([("fetch", "far.tsv")]),
    ),
}


def changed(before: Plan, after: Plan) -> set[Name]:
    """Return the nodes with another key, and those that only one of two plans has."""
    names = before.keys() | after.keys()
    return {n for n in names if before.get(n, {}).get("key") != after.get(n, {}).get("key")}


@pytest.mark.parametrize("name", CASES)
def test_a_fact_is_in_the_keys_of_what_it_decides(
    name: str, project: Project, before: Plan
) -> None:
    edit, decides = CASES[name]
    copies = json.loads(json.dumps([own_lines(), CONFIG, GRID]))
    edit(*copies)
    found = changed(before, project.plan(*copies))
    assert found == with_all_made_from(decides(before), before)


def test_files_are_in_the_keys_of_what_they_decide_but_not_where_they_lie(
    project: Project, before: Plan
) -> None:
    folder = project.folder / "elsewhere"
    for name in ("course", "labels"):
        shutil.copytree(project.folder / name, folder / name)
    moved = CONFIG | {name: f"elsewhere/{name}" for name in ("course", "labels")}
    assert changed(before, project.plan(own_lines(), moved, GRID)) == set()
    other = ("course/sts-dev.csv", "course/ids-sst-train.csv", "labels/sts.csv")
    for path in (*(folder / name for name in other), project.folder / "reviews.tar.gz"):
        path.write_text("other", encoding="utf-8")
    decided = {*data("sts", "sst", "lmrd")(before), ("labels", "sts")}
    found = changed(before, project.plan(own_lines(), moved, GRID))
    assert found == with_all_made_from(decided, before)
