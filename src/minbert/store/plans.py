"""What the jobs of a workflow read: a description for each key, and the record of its plan.

A description says what a node is: what its key is of, whoever plans it; then what it is called, as
the workflow that started last says. Else all that may differ under one key (devices, paths) is in
the record of the plan that a job belongs to, with what that plan publishes. Its name is a hash of
its content, so that plans of other settings, side by side on one results folder, do not meet.

Results have separate records: how a run came out, what a data set holds, what labels it got. A
damaged one stops nobody who can do without it.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json
from minbert.store.job import node_folder
from minbert.store.node import KINDS, canonical, digest

PUBLISHED = "published.json"  # beside the readable names: which plan they are of
ONLY = "only"  # where, below the results root, a part of the grids has its readable names
SCORES = "tables/scores.parquet"  # the readable name of the scores of all papers together
VARIANTS = "variants.tsv"  # the readable name of the list of every variant's stages
VARIANT_COLUMNS = ("paper", "variant", "stage", "tasks", "key", "start", "label", "row")
"""The columns of `VARIANTS`, and what the rows of a record's `variants` are."""
ADOPTED = "adopted.json"
"""Beside a result that was carried over from another key: a list of how, the oldest first."""
AGAIN = "`snakemake all --cores 2` writes it again"


def description_path(root: Path, kind: str, key: str) -> Path:
    """Return where a node's description lies under the results root."""
    return root / "store" / "spec" / f"{kind}-{key}.json"


def read_description(root: Path, kind: str, key: str) -> dict[str, Any]:
    """Read what the node of this key is, as `described_in`."""
    return described_in(description_path(root, kind, key))


def described_in(path: Path) -> dict[str, Any]:
    """Read a description; `UserError` if it is missing, damaged, or not of the file's name."""
    described = read_record(path)
    if path.stem != f"{described.get('kind')}-{described.get('key')}":
        raise UserError(f"{path}: is damaged, or was renamed; delete it: {AGAIN}")
    return described


def read_record(path: Path) -> dict[str, Any]:
    """Read a description or a record; `UserError` if it is missing or damaged."""
    try:
        return read_json(path)
    except FileNotFoundError:
        raise UserError(
            f"{path} is missing: never planned, or deleted by `minbert gc --delete`, which deletes "
            f"the weights too; {AGAIN}"
        ) from None
    except UserError as error:
        raise UserError(f"{error}; delete it: {AGAIN}") from None


def descriptions(root: Path, kind: str = "*") -> Iterator[dict[str, Any]]:
    """Yield every undamaged description under the results root, of all kinds or of one."""
    for path in sorted(description_path(root, "", "").parent.glob(f"{kind}-*.json")):
        with suppress(UserError):
            yield described_in(path)


def write_description(root: Path, described: Mapping[str, Any]) -> None:
    """Write the description of a node, unless it is there undamaged."""
    path = description_path(root, described["kind"], described["key"])
    if canonical(sound(path)) != canonical(described):
        write_json(path, described)


def plan_path(root: Path, plan: str) -> Path:
    """Return where the record of a plan lies under the results root."""
    return root / "store" / "plans" / f"{plan}.json"


def write_plan(root: Path, record: Mapping[str, Any]) -> str:
    """Write the record of a plan, as the newest one, and return its name: a hash of it."""
    name = digest(record)
    write_json(plan_path(root, name), {**record, "written": time.time()})
    return name


def read_plan(root: Path, plan: str) -> dict[str, Any]:
    """Read the record of a plan, as `read_record`."""
    return read_record(plan_path(root, plan))


def products(root: Path, record: Mapping[str, Any]) -> dict[str, Path]:
    """Return {readable name: keyed file} of what a plan publishes but scores, which are joined."""
    return {
        f"{name}{Path(file).suffix}": node_folder(root, kind, key) / file
        for name, kind, key in record["shown"]
        if name.startswith(("tables/", "figures/", "report"))
        for file in KINDS[kind].outputs
    }


def stage_rows(variants: Iterable[Sequence[str]]) -> list[dict[str, str]]:
    """Return the rows of a record's `variants`, each of one stage, by `VARIANT_COLUMNS`."""
    return [dict(zip(VARIANT_COLUMNS, row, strict=True)) for row in variants]


def published_plans(root: Path) -> dict[str, Path]:
    """Return {plan: folder} of the readable names of whole grids and of a part, the newer first."""
    plans = {manifest(folder).get("plan", ""): folder for folder in (root, root / ONLY)}
    there = {plan: folder for plan, folder in plans.items() if plan_path(root, plan).exists()}
    written = {plan: (sound(plan_path(root, plan)) or {}).get("written", 0) for plan in there}
    return {plan: there[plan] for plan in sorted(there, key=written.__getitem__, reverse=True)}


def manifest(folder: Path) -> dict[str, Any]:
    """Return what is said of the readable names in `folder`; nothing if it is missing or damaged.

    `plan` made them, and its `stamp` is "" unless all are in place; `names` are the readable names.
    """
    return sound(folder / PUBLISHED) or {}


def describe_job(root: Path, kind: str, key: str, plan: str | None = None) -> dict[str, Any]:
    """Return a node's description with what `plan` says of it besides (default: the newest plan).

    That is paths and devices, what it downloads, and the plan's `tasks` that are not built in.
    """
    described, name = read_description(root, kind, key), f"{kind}-{key}"
    found = (record for _, record in records(root)) if plan is None else [read_plan(root, plan)]
    for record in found:
        if told := record["jobs"].get(name):
            # What it downloads is in no key, so the description may be of other places.
            needs = {n: of for n, of in described["needs"].items() if of["kind"] != "fetch"}
            tasks = record.get("tasks", [])
            return {**described, **told, "tasks": tasks, "needs": needs | told["needs"]}
    raise UserError(f"{description_path(root, kind, key)}: no plan has this job; {AGAIN}")


def records(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name, record) of every undamaged plan under the results root, the newest first."""
    read = ((path.stem, sound(path)) for path in plan_path(root, "").parent.glob("*.json"))
    found = [(name, record) for name, record in read if record]
    yield from sorted(found, key=lambda named: named[1].get("written", 0), reverse=True)


def sound(path: Path) -> dict[str, Any] | None:
    """Return a record, or None if there is none or it is damaged."""
    try:
        return read_record(path)
    except UserError:
        return None


def adoptions(folder: Path) -> list[dict[str, Any]]:
    """Return how a result came to its folder."""
    path = folder / ADOPTED
    return list(json.loads(path.read_bytes())) if path.exists() else []
