"""`minbert adopt`: finished runs are accepted for planned ones, though their keys are others.

A refactoring changes keys and no result, and so does a bundle that other code made. A run is
accepted if it agrees with the planned one in all that decides it: the resolved spec, the seed, the
data (by the digests in its record), the backbone's tensors, and the runs that it starts from. Its
predictions must score what its history has. Code that has another digest is accepted if the file
`ACCEPTED` names it: whoever adds it there declares that it computes the same.
"""

import os
import shutil
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json, write_text
from minbert.base.locks import results_lock
from minbert.base.progress import counted, some
from minbert.commands.provenance import backbone_digest
from minbert.commands.steps import load_job, run_job
from minbert.data.digests import task_digests
from minbert.plan.describe import title, write
from minbert.plan.plan import Plan
from minbert.publish.checks import check_run, upgraded
from minbert.spec.architecture import WEIGHTS
from minbert.spec.yaml import load_yaml
from minbert.store.code import differs
from minbert.store.node import Node, canonical, digest, finished, seed_folders
from minbert.store.plans import ADOPTED, adoptions

ACCEPTED = Path("workflow/accepted.yaml")
"""Below the folder of the Snakefile: by the reason why its runs are accepted, other code."""

ORIGINS = {
    "data": ("data",),
    "rows": ("data",),
    "labels": ("labels", "data"),
    "tokens": ("data", "backbone"),
    "backbone": ("backbone",),
}
"""The nodes whose sources must be the same for a result to be the same."""

NOT_COMPARED = {"files", "forms", "source"}
"""Of such a node's spec: files are compared by their checksums, whatever they are called."""

Described = dict[str, Any]


def accepted_code(base: Path) -> dict[str, str]:
    """Return {digest of code: why its runs are accepted} of the file in `base`, if there is one."""
    path = base / ACCEPTED
    read = load_yaml(path) if path.exists() else {}
    return {code: reason for reason, codes in read.items() for code in str(codes).split()}


def _accept_code(base: Path, codes: list[str], reason: str) -> None:
    """Add codes to the file in `base`, to those with the same reason if there are any."""
    path = base / ACCEPTED
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    listed = textwrap.fill(" ".join(codes), 98, initial_indent="  ", subsequent_indent="  ")
    head = f"{canonical(reason)}: >-\n"
    before, _, after = text.partition(head)
    write_text(path, f"{before}{head}{listed}\n{after}")


class Accepted(NamedTuple):
    """A finished result that agrees with a planned one: its key, its folder, its code."""

    node: Node
    seed: int | None
    old: str
    folder: Path
    code: str
    reason: str


class Acceptance:
    """What of a store is accepted for a plan, and what is not, and why.

    Code that is not `accepted` is so for `reason`. Makes the tokens of the plan where they are
    needed to compare data and their source is here.
    """

    def __init__(self, plan: Plan, accepted: Mapping[str, str], reason: str = "") -> None:
        self.plan, self._accepted, self._reason = plan, accepted, reason
        self._store = plan.root / "store"
        self._described = {at: node.describe() for at, node in plan.nodes.items()}
        self._digests: dict[str, Any] = {}
        self.found: dict[tuple[str, int | None], Accepted] = {}
        """What agrees, by new key and seed; what it starts from before it."""
        self.refused: dict[str, str] = {}
        """{title: why} of the runs for which there is one that does not agree."""
        self.other_code: dict[str, str] = {}
        """A run that agrees, and where its code differs, by the digests that are not accepted."""
        alike: dict[str, list[Described]] = defaultdict(list)
        for path in sorted((self._store / "spec").glob("*.json")):
            with suppress(UserError, KeyError):  # damaged, or of settings that are unknown here
                described = read_json(path)
                at = described["kind"], described["key"]
                if self._described.setdefault(at, described) is described and at[0] == "train":
                    alike[_meaning(described)].append(described)
        for node in plan.nodes.values():
            if node.kind == "train":
                for seed in plan.config.seeds:
                    if not node.done(plan.root, seed):
                        self._accept_run(node, seed, alike[_meaning(node.describe())])
            elif node.kind in ORIGINS and not node.done(plan.root) and self._is_absent(node):
                self._accept_source(node)

    def _accept_run(self, node: Node, seed: int, alike: list[Described]) -> None:
        """Accept the first run of those `alike` that agrees; else say why the first does not."""
        name = f"{title(self.plan, node)} . s{seed}"
        for old in alike:
            folder = seed_folders(self._store / "train" / old["key"]).get(seed)
            if not (folder and finished("train", folder)):
                continue
            try:
                record = check_run(folder, old)
                self._check_agreement(node, seed, old, record)
            except UserError as error:
                self.refused.setdefault(name, str(error))
                continue
            codes = [(record["code"], digest(node.code))]
            for _, features, was in self._inputs(node, old, "features"):
                codes.append((digest(was["code"]), digest(features.code)))
            other = [code for code, now in codes if code != now]
            where = f"{name} (differs in {some(differs(old['code'], node.code))})"
            for code in other:
                if code not in self._accepted:
                    self.other_code.setdefault(code, where)
            for task, tokens, _ in self._inputs(node, old, "tokens"):
                self._digests[tokens.key] = record["data"][task]
            reasons = dict.fromkeys(self._accepted.get(code, self._reason) for code in other)
            why = "; ".join(reasons) or "its code is the same"
            self.found[node.key, seed] = Accepted(
                node, seed, old["key"], folder, record["code"], why
            )
            self.refused.pop(name, None)
            return

    def _check_agreement(
        self, node: Node, seed: int, old: Described, record: Mapping[str, Any]
    ) -> None:
        """Raise `UserError` unless a run has the data, backbone and starts of `node`."""
        if not record.get("data") or "code" not in record:
            raise UserError(
                "its record does not say what it was trained on; a bundle of it can be imported "
                "with `--digests`"
            )
        for task, tokens, was in self._inputs(node, old, "tokens"):
            path = tokens.folder(self.plan.root) / "tokens.parquet"
            if tokens.key not in self._digests and self._is_there(path, tokens, was):
                self._digests[tokens.key] = task_digests(path)
            if self._digests.get(tokens.key, record["data"][task]) != record["data"][task]:
                raise UserError(f"was trained on other data of '{task}'")
        for file, backbone, was in self._inputs(node, old, "backbone"):
            path = backbone.folder(self.plan.root) / WEIGHTS
            there = file == WEIGHTS and self._is_there(path, backbone, was)
            if there and backbone_digest(path) != record["backbone"]:
                raise UserError("started from a backbone with other weights")
        for name, need in node.needs.items():
            if need.node.kind == "train":
                was, of = old["needs"][name], need.seed_for(seed)
                new = self.found.get((need.node.key, of))
                new_key = new.old if new else need.node.key
                if self._lineage(was["key"], of).isdisjoint(self._lineage(new_key, of)):
                    raise UserError(
                        f"starts from train {was['key']} ({name}), which is not accepted for "
                        f"{need.node.key}, or was trained again"
                    )

    def _is_there(self, path: Path, node: Node, was: Described) -> bool:
        """Whether a node's file is there to be compared with what a run needed, or can be made.

        If not, it is of the same key, or of the same sources as that.
        """
        if not path.exists() and was["key"] != node.key:
            if not self._is_absent(node):
                self._make(node)
            elif not self._same_sources(was, node.describe()):
                raise UserError(
                    f"was made from a {was['kind']} of other files than those that the "
                    "configuration names, which are not here"
                )
        return path.exists()

    def _accept_source(self, node: Node) -> None:
        """Accept what is finished of the same files for a node whose source is absent."""
        described, reason = node.describe(), "made from the same files, which are not here"
        for (kind, key), old in self._described.items():
            folder = self._store / kind / key
            known = (kind, key) in self.plan.nodes or kind not in ORIGINS
            if finished(node.kind, folder) and not known and self._same_sources(old, described):
                self.found[node.key, None] = Accepted(
                    node, None, key, folder, digest(described), reason
                )

    def _inputs(
        self, node: Node, old: Described, kind: str
    ) -> Iterator[tuple[str, Node, Described]]:
        """Yield the inputs called `kind.NAME`: the name, the new node and the old description."""
        for name, need in node.needs.items():
            before, _, of = name.partition(".")
            if before == kind:
                was = old["needs"][name]
                if (was["kind"], was["key"]) not in self._described:
                    raise UserError(f"needs {was['kind']} {was['key']}, which is not described")
                yield of, need.node, self._described[was["kind"], was["key"]]

    def _same_sources(self, old: Described, new: Described) -> bool:
        kinds = ORIGINS[new["kind"]]
        pairs = [(self._origin(old, kind), self._origin(new, kind)) for kind in kinds]
        return all(one and two and _same_source(one, two) for one, two in pairs)

    def _origin(self, described: Described, kind: str) -> Described | None:
        """Return the node of a kind that a node is, or is made from, at any depth."""
        if described["kind"] == kind:
            return described
        below = (self._described.get((n["kind"], n["key"])) for n in described["needs"].values())
        found = (self._origin(each, kind) for each in below if each)
        return next(filter(None, found), None)

    def _is_absent(self, node: Node) -> bool:
        """Whether a node's source is configured by paths at which there is nothing."""
        kind = ORIGINS[node.kind][0]
        origin = self._origin(node.describe(), kind)
        paths = self.plan.nodes[kind, origin["key"]].extra.get("paths", {}) if origin else {}
        return bool(paths) and not any(Path(path).exists() for path in paths.values())

    def _lineage(self, key: str, seed: int | None) -> set[str]:
        """Return the key of a run, and those that it was carried over from."""
        folder = self._store / "train" / key / f"seed{seed}"
        carried = adoptions(folder) if folder.is_dir() else []
        return {key, *(each["from"] for each in carried)}

    def _make(self, node: Node) -> None:
        """Make a node and what it needs, as the workflow would."""
        if not all((node.folder(self.plan.root) / file).exists() for file in node.outputs):
            for need in node.needs.values():
                self._make(need.node)
            run_job(load_job(self.plan.root, node.kind, node.key, None, threads=1))


def _meaning(described: Described) -> str:
    """Return what a training is by its settings and the facts of its tasks."""
    return canonical([upgraded(described["spec"]["stage"]), described["spec"]["tasks"]])


def _same_source(old: Described, new: Described) -> bool:
    """Whether two nodes are of files with the same checksums, read by the same settings.

    Settings that only one of them has do not count: the other is of a version without them.
    """
    one, two = old["spec"], new["spec"]
    both = (one.keys() & two.keys()) - NOT_COMPARED
    alike = canonical({n: one[n] for n in both}) == canonical({n: two[n] for n in both})
    return alike and _checksums(one.get("files")) == _checksums(two.get("files"))


def _checksums(files: Any) -> set[str]:
    """Return the checksums of `files`, without their kinds."""
    every = files.values() if isinstance(files, Mapping) else [files]
    return {str(each).rpartition(":")[2] for each in every}


def _place(root: Path, each: Accepted) -> None:
    target = each.node.folder(root, each.seed)
    if target.is_dir() and any(target.iterdir()):
        raise UserError(f"{target} is not empty, and nothing is overwritten; delete it first")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    temporary.mkdir(parents=True)
    try:
        for path in (each.folder / name for name in each.node.outputs):
            if path.exists():
                try:  # Files here are replaced, never edited.
                    os.link(path, temporary / path.name)
                except OSError:  # a disk without links
                    shutil.copy2(path, temporary / path.name)
        how = {"kind": each.node.kind, "seed": each.seed, "from": each.old, "to": each.node.key}
        how |= {"code": each.code, "reason": each.reason}
        how |= {"date": datetime.now(UTC).isoformat(timespec="seconds")}
        write_json(temporary / ADOPTED, [*adoptions(each.folder), how])
        if target.exists():
            target.rmdir()  # empty: a job that failed left it
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def report(plan: Plan, reason: str | None, *, apply: bool) -> Iterator[str]:
    """Yield what is accepted, and what is not; with `apply`, carry it over.

    A `reason` is added to `ACCEPTED` with the code that is not accepted yet; without one, nothing
    is carried over as long as there is such code.
    Raises `UserError` while a workflow or a job runs.
    """
    with results_lock(plan.root, alone=True):
        write(plan)
        found = Acceptance(plan, accepted_code(plan.base), reason or "")
        ready = found.found.values() if reason or not found.other_code else ()
        if apply and reason and found.other_code:
            _accept_code(plan.base, sorted(found.other_code), reason)
        for each in ready if apply else ():
            _place(plan.root, each)
    command = f"minbert adopt {plan.options} --apply".replace("  ", " ")
    for code, where in found.other_code.items():
        yield f"{code}: other code, such as that of {where}"
    for name, why in found.refused.items():
        yield f"not accepted: {name}: {why}"
    if apply and ready:
        yield f"{counted(len(ready), 'result')} carried over; {ADOPTED} beside each says so"
    elif ready:
        yield f"{counted(len(ready), 'result')} can be carried over: `{command}`"
    elif not found.other_code:
        yield f"nothing under {plan.root}/store can be carried over to a new key"
    if found.other_code and not (apply and reason):
        yield f"If other code computes the same, `{command} --reason TEXT` names it in {ACCEPTED}"
