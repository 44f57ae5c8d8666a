"""`minbert adopt`: finished runs are accepted for planned ones, though their keys are others.

A refactoring changes keys and no result, and so does a bundle that other code made. A run is
accepted if it agrees with the planned one in all that decides it: the resolved spec, the seed, the
data (by the digests in its record), the backbone's tensors, and the runs that it starts from. Its
predictions must score what its history has. Code that has another digest is accepted if the file
`ACCEPTED` names it: whoever adds it there declares that it computes the same.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.files import read_json, write_json, write_text
from minbert.base.locks import results_lock
from minbert.base.progress import counted, some
from minbert.commands.provenance import backbone_digest
from minbert.commands.steps import load_job, run_job
from minbert.data.digests import task_digests
from minbert.plan.describe import title, write
from minbert.plan.plan import Plan
from minbert.publish.checks import check_run, put, refusing, upgraded
from minbert.spec.architecture import WEIGHTS
from minbert.spec.yaml import load_yaml
from minbert.store.code import differs
from minbert.store.job import node_folder
from minbert.store.node import Node, canonical, digest, finished
from minbert.store.plans import ADOPTED, adoptions

ACCEPTED = Path("workflow/accepted.yaml")
"""Below the folder of the Snakefile: by the reason why its runs are accepted, other code."""

GIVEN = ("data", "labels", "rows", "tokens", "backbone")
"""The kinds of nodes that are made of files alone."""

NOT_COMPARED = {"derived", "forms", "source"}
"""What of a spec follows from the rest, or is only what files are called."""

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
    head = f"{canonical(reason)}: >-\n"
    before, _, after = text.partition(head)
    write_text(path, "".join([before, head, *(f"  {code}\n" for code in codes), after]))


class Acceptance:
    """What of a store is accepted for a plan, and what is not, and why.

    Code that is not `accepted` is so for `reason`. Makes the tokens of the plan where they are
    needed to compare data and their source is here.
    """

    def __init__(self, plan: Plan, accepted: Mapping[str, str], reason: str = "") -> None:
        self.plan, self.root, self._accepted, self._reason = plan, plan.root, accepted, reason
        self.found: dict[tuple[str, int | None], list[dict[str, Any]]] = {}
        """By key and seed of what is planned, how a result gets there, as in its `ADOPTED`."""
        self.refused: dict[str, str] = {}
        """Why not, by the name of a run for which there is one that does not agree."""
        self.other_code: dict[str, str] = {}
        """A run that agrees, and where its code differs, by the digests that are not accepted."""
        self._described: dict[tuple[str, str], Described] = {}
        for path in sorted((self.root / "store" / "spec").glob("*.json")):
            with suppress(UserError):  # of settings that are unknown here
                described = read_json(path)
                described["settings"] = _settings(described["spec"])
                self._described[described["kind"], described["key"]] = described
        known = [of for at, of in self._described.items() if at not in plan.nodes]
        for node in plan.nodes.values():
            for seed in plan.config.seeds if node.kind == "train" else [None]:
                wanted = node.kind == "train" or (node.kind in GIVEN and _is_absent(node))
                if wanted and not node.done(self.root, seed):
                    any(self._accepts(node, seed, old) for old in known)

    def _accepts(self, node: Node, seed: int | None, old: Described) -> bool:
        """Whether the result of a described node is accepted for a planned one."""
        folder = node_folder(self.root, node.kind, old["key"], seed)
        if old["kind"] != node.kind or not finished(node.kind, folder):
            return False
        name = f"{title(self.plan, node)} . s{seed}"
        how = {"kind": node.kind, "seed": seed, "from": old["key"], "to": node.key}
        how |= {"reason": "made from the same files, which are not here"}
        try:
            with refusing(name):
                if not self._is_alike(node, old):
                    return False
                if node.kind == "train":
                    how |= self._check(node, seed, old, check_run(folder, old))
        except UserError as error:
            self.refused.setdefault(name, str(error))
            return False
        self.refused.pop(name, None)
        self.found[node.key, seed] = [*adoptions(folder), how]
        return True

    def _is_alike(self, node: Node, old: Described) -> bool:
        """Whether a described node has a planned one's settings, and files with its checksums.

        Settings that only one of them has do not count: the other is of a version without them.
        """
        one, two = old["settings"], self._described[node.kind, node.key]["settings"]
        needs = node.needs.items() if node.kind in GIVEN else ()
        return all(one[n] == two[n] for n in one.keys() & two.keys()) and all(
            self._is_alike(need.node, self._need(old, name)) for name, need in needs
        )

    def _need(self, described: Described, name: str) -> Described:
        need = described["needs"][name]
        return self._described[need["kind"], need["key"]]

    def _check(
        self, node: Node, seed: int | None, old: Described, record: Mapping[str, Any]
    ) -> dict[str, str]:
        """Return the code of a run, and why it is accepted. Raises `UserError` if it is not."""
        codes = {record["code"]: digest(node.code)}
        said = {f"tokens.{task}": of for task, of in record["data"].items()}
        said[f"backbone.{WEIGHTS}"] = record["backbone"]
        for name, need in node.needs.items():
            if need.node.kind == "train":
                before, of = old["needs"][name]["key"], need.seed_for(seed)
                if self._lineage(before, of).isdisjoint(self._lineage(need.node.key, of)):
                    raise UserError(
                        f"starts from train {before} ({name}), which is not accepted for "
                        f"{need.node.key}, or was trained again"
                    )
            elif need.node.kind == "features":
                codes[digest(self._need(old, name)["code"])] = digest(need.node.code)
            elif name in said:
                path = need.node.folder(self.root) / need.file
                if not (path.exists() or _is_absent(need.node)):
                    self._make(need.node)
                if path.exists():
                    same = _digest(path) == said[name]
                else:
                    same = self._is_alike(need.node, self._need(old, name))
                if not same:
                    raise UserError(f"was trained with other {name}")
        other = [code for code, now in codes.items() if code != now]
        where = f"{title(self.plan, node)} (differs in {some(differs(old['code'], node.code))})"
        self.other_code |= {code: where for code in other if code not in self._accepted}
        reasons = dict.fromkeys(self._accepted.get(code, self._reason) for code in other)
        return {"code": record["code"], "reason": "; ".join(reasons) or "its code is the same"}

    def _lineage(self, key: str, seed: int | None) -> set[str]:
        """Return the key of a run, and those that it was carried over from."""
        folder = node_folder(self.root, "train", key, seed)
        return {key, *(step["from"] for step in self.found.get((key, seed)) or adoptions(folder))}

    def _make(self, node: Node) -> None:
        """Make a node and what it needs, as the workflow would."""
        if not all((node.folder(self.root) / file).exists() for file in node.outputs):
            for need in node.needs.values():
                self._make(need.node)
            run_job(load_job(self.root, node.kind, node.key, None, threads=1))


def _settings(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a spec says by today's names; of files, whatever they are called, checksums."""
    found = {name: of for name, of in spec.items() if name not in NOT_COMPARED}
    if "stage" in spec:
        found["stage"] = upgraded(spec["stage"])
    return found | {"files": {*re.findall("[0-9a-f]{32,}", canonical(spec.get("files")))}}


def _is_absent(node: Node) -> bool:
    """Whether a node cannot be made, as a file is not there that it is made from."""
    here = all(map(os.path.exists, node.extra.get("paths", {}).values()))
    return not here or any(_is_absent(need.node) for need in node.needs.values())


@cache
def _digest(path: Path) -> Any:
    return backbone_digest(path) if path.name == WEIGHTS else task_digests(path)


def _place(root: Path, history: list[dict[str, Any]]) -> None:
    """Link a result to its new key; `history` says how it gets there."""
    how = history[-1]
    old, new = (node_folder(root, how["kind"], how[at], how["seed"]) for at in ("from", "to"))
    copy = new.with_name(f".{new.name}.part")
    shutil.rmtree(copy, ignore_errors=True)  # of one that was killed
    shutil.copytree(old, copy, copy_function=os.link)  # Files here are replaced, never edited.
    write_json(copy / ADOPTED, history)
    put(copy, new)


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
        for history in ready if apply else ():
            _place(plan.root, history)
    yield from (f"not accepted: {why}" for why in found.refused.values())
    yield from (f"other code, {code}: {where}" for code, where in found.other_code.items())
    if found.other_code and not reason:
        yield f"If it computes the same, `--apply --reason TEXT` names it in {ACCEPTED}"
    done = (
        f"carried over; {ADOPTED} beside each says so" if apply else "can be carried over: --apply"
    )
    yield f"{counted(len(ready), 'result')} {done}"
