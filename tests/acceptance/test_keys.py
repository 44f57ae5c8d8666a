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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).parents[2]
START = (
    "from pathlib import Path; from minbert.plan.outputs import load_plan; "
    "from minbert.plan.describe import write; write(load_plan([Path('config.yaml')], Path()))"
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
SHOWN = ("table", "tuning", "claims", "figure", "report")


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
            name = (described["kind"], _name(described["title"]))
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


def decided(plan: Plan, words: str) -> Iterator[Name]:
    """Yield the nodes that something decides: KIND:TITLE, or one of these words for several.

    `learned:TASK` is every training with the task, `joint` every one of several tasks, and `shown`
    all that people read of a paper.
    """
    for word in words.split():
        kind, _, title = word.partition(":")
        trained = [name for name in plan if name[0] == "train"]
        if kind == "shown":
            yield from (name for name in plan if name[0] in SHOWN)
        elif kind == "joint":
            yield from (name for name in trained if "+" in name[1])
        elif kind == "learned":
            yield from (n for n in trained if title in n[1].split(" . ")[1].split("+"))
        else:
            yield kind, title


def merged(old: Any, edit: Any) -> Any:
    """Return settings after an edit; null takes a key away."""
    if not isinstance(old, dict) or not isinstance(edit, dict):
        return edit
    found = {name: merged(of, edit[name]) if name in edit else of for name, of in old.items()}
    found |= {name: of for name, of in edit.items() if name not in old}
    return {name: of for name, of in found.items() if of is not None}


# Changes of several tasks are made at once where what they decide has nothing in common.
CASES = {
    "titles": (
        "tasks: {sst: &other {title: Other}, cfimdb: *other, lmrd: *other}\n"
        "config: {tasks: {mine: *other, far: *other}}",
        "shown",
    ),
    "names of classes": (
        "tasks: {sst: &five {classes: [a, b, c, d, e]}, lmrd: *five, "
        "para: &two {classes: ['no', 'yes']}, cfimdb: *two}\n"
        "config: {tasks: {mine: *two, far: *two}}",
        "data:sst data:lmrd data:para data:cfimdb data:mine data:far shown",
    ),
    "numbers of classes": (
        "tasks: {sst: {classes: [a, b, c, d, e, f]}, lmrd: {classes: [a, b, c, d]}}\n"
        "config: {tasks: {mine: {classes: 2}}}",
        "data:sst data:lmrd data:mine shown",
    ),
    "range, kind, second sentence": (
        "tasks: {sts: {range: [0, 10]}, cfimdb: {kind: binary}}\n"
        "config: {tasks: {far: {sentence2: null}}}\n"
        "grid: {variants: {of-far: {tasks: {far: {pairing: null}}},"
        " of-cfimdb: {tasks: {cfimdb: {loss: binary_cross_entropy}}}}}",
        "data:sts data:cfimdb data:far",
    ),
    "metrics, one of them the default": (
        "tasks: {sst: {metric: macro_f1}, para: {metric: f1}, cfimdb: {metric: accuracy}}\n"
        "config: {tasks: {mine: {metric: macro_f1}}}",
        "learned:sst learned:para learned:mine",
    ),
    "columns": (
        "tasks: {sst: {sentence1: other}, para: {sentence2: other}, sts: {id: other}, "
        "cfimdb: {label: other}, lmrd: {label: other}}\n"
        "config: {tasks: {mine: {sentence1: other}, far: {sentence2: other}}}",
        "data:sst data:para data:sts data:cfimdb data:lmrd data:mine data:far",
    ),
    "own labels and shares": (
        "config: {tasks: {mine: {label: other}, far: {test: 0.1}}}",
        "data:mine data:far",
    ),
    "own ids and what is left out": (
        "config: {tasks: {mine: {id: null}, far: {ignore: ['-']}}}",
        "data:mine data:far",
    ),
    "another address": (
        "config: {tasks: {far: {files: {url: 'https://two.example/far.tsv'}}}}",
        "",
    ),
    "another checksum": (
        f"config: {{tasks: {{far: {{files: {{sha256: '{'1' * 64}'}}}}}}}}",
        "fetch:far.tsv",
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
    given = {"tasks": own_lines(), "config": CONFIG, "grid": GRID}
    found = changed(before, project.plan(**merged(given, yaml.safe_load(edit))))
    assert found == with_all_made_from(decided(before, decides), before)


def test_the_order_of_tasks_is_in_the_keys_of_what_has_several(
    project: Project, before: Plan
) -> None:
    lines = own_lines()
    found = changed(before, project.plan({"para": lines["para"], **lines}, CONFIG, GRID))
    assert found == with_all_made_from(decided(before, "joint shown"), before)


def test_files_are_in_the_keys_of_what_they_decide_but_not_where_they_lie(
    project: Project, before: Plan
) -> None:
    folder = project.folder / "elsewhere"
    for name in ("course", "labels"):
        shutil.copytree(project.folder / name, folder / name)
    shutil.copy2(project.folder / "mine.tsv", folder)
    moved = CONFIG | {name: f"elsewhere/{name}" for name in ("course", "labels")}
    moved = merged(moved, {"tasks": {"mine": {"files": "elsewhere/mine.tsv"}}})
    assert changed(before, project.plan(own_lines(), moved, GRID)) == set()
    other = ("course/sts-dev.csv", "course/ids-sst-train.csv", "labels/sts.csv")
    for path in (*(folder / name for name in other), project.folder / "reviews.tar.gz"):
        path.write_text("other", encoding="utf-8")
    found = changed(before, project.plan(own_lines(), moved, GRID))
    decides = "data:sts data:sst data:lmrd labels:sts"
    assert found == with_all_made_from(decided(before, decides), before)
