"""`minbert adopt`: finished runs are accepted for planned ones, though their keys differ.

A refactoring changes keys and no result, and so does a bundle that other code made. A run is
accepted if it agrees with the planned one in all that decides it: the resolved spec, the seed, the
data (by the digests in its record), the backbone's tensors, and the runs that it starts from. Its
predictions must score what its history has. Code with a different digest is accepted if the file
`ACCEPTED` names it: whoever adds it there declares that it computes the same.
"""

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from minbert.base.errors import UserError
from minbert.base.files import write_json, write_text
from minbert.base.locks import check_results, results_lock
from minbert.base.progress import counted, some
from minbert.commands.steps import backbone_digest, load_job, run_job
from minbert.data.digests import task_digests
from minbert.plan.describe import title, write
from minbert.plan.plan import Plan
from minbert.publish.bundle import FILES
from minbert.publish.checks import check_run, put, upgraded
from minbert.spec.architecture import WEIGHTS
from minbert.spec.yaml import load_yaml
from minbert.store.code import differs
from minbert.store.job import node_folder
from minbert.store.node import Need, Node, canonical, digest, finished
from minbert.store.plans import ADOPTED, adoptions, descriptions

ACCEPTED = Path("workflow/accepted.yaml")
"""Below the folder of the Snakefile: by the reason why its runs are accepted, other code."""

NOT_COMPARED = {"derived", "forms"}
"""What of a spec follows from the rest, or is only what files are called."""

Described = dict[str, Any]


def accepted_code(base: Path) -> dict[str, str]:
    """Return {digest of code: why its runs are accepted} of the file in `base`, if there is one."""
    path = base / ACCEPTED
    read = load_yaml(path) if path.exists() else {}
    return {code: reason for reason, codes in read.items() for code in str(codes).split()}


def _accept_code(base: Path, codes: set[str], reason: str) -> None:
    """Add codes to the file in `base`, to those with the same reason if there are any."""
    path, head = base / ACCEPTED, f"{canonical(reason)}: >-\n"
    text = path.read_text(encoding="utf-8").rstrip() + "\n" if path.exists() else ""
    text += head * (head not in text)
    write_text(path, text.replace(head, head + "".join(f"  {code}\n" for code in sorted(codes))))


class Acceptance:
    """What of a store is accepted for a plan, and what is not, and why.

    Code that is not `accepted` is so for the `reason`, if there is one. Makes the tokens of the
    plan where their source is here, to compare data.
    """

    def __init__(self, plan: Plan, accepted: Mapping[str, str], reason: str | None) -> None:
        self.plan, self._accepted, self._reason = plan, accepted, reason
        self.found: dict[tuple[str, int | None], list[dict[str, Any]]] = {}
        """By key and seed of what is planned, how a result gets there, as in its `ADOPTED`."""
        self.refused: dict[str, list[str]] = defaultdict(list)
        """By why not, the names of runs for which there is only one that does not agree."""
        self.declared = set[str]()
        """The digests of code that is accepted for the `reason`."""
        self._described: dict[tuple[str, str], Described] = {}
        for described in descriptions(plan.root):
            with suppress(UserError):  # of settings that are unknown here
                described["settings"] = _settings(described["spec"])
                self._described[described["kind"], described["key"]] = described
        known = [of for at, of in self._described.items() if at not in plan.nodes]
        for node in plan.nodes.values():
            for seed in plan.config.seeds if node.kind == "train" else [None]:
                if node.kind in FILES and not node.done(plan.root, seed):
                    whys: list[str] = []
                    found = any(self._accepts(node, seed, old, whys) for old in known)
                    if whys and not found and node.kind == "train":
                        self.refused[whys[0]].append(f"{title(plan, node)} . s{seed}")

    def _accepts(self, node: Node, seed: int | None, old: Described, whys: list[str]) -> bool:
        """Whether the result of a described node is accepted for a planned one; add why not.

        Besides runs, what is made from sources that are not here needs to be.
        """
        folder = node_folder(self.plan.root, node.kind, old["key"], seed)
        if not (self._is_alike(node, old) and finished(node.kind, folder)):
            return False
        if node.kind != "train" and self._makes(Need(node, node.outputs[0])):
            return False
        try:
            said = {"code": digest(old["code"])}
            if node.kind == "train":
                record = check_run(folder, old)
                said = {"code": record["code"], f"backbone.{WEIGHTS}": record["backbone"]}
                said |= {f"tokens.{task}": of for task, of in record["data"].items()}
            codes = self._other_code(node, seed, old, said)
            unknown = codes.keys() - self._accepted.keys()
            if unknown and not self._reason:
                listed = ", ".join(codes[code] for code in sorted(unknown))
                raise UserError(
                    f"`--reason TEXT` declares that other code computes the same: {listed}"
                )
        except (UserError, KeyError) as error:
            lacks = " is not in its record or description" * isinstance(error, KeyError)
            whys.append(f"{error}{lacks}")
            return False
        self.declared |= unknown
        why = dict.fromkeys(self._accepted.get(code, str(self._reason)) for code in codes)
        how = {"kind": node.kind, "seed": seed, "from": old["key"], "to": node.key}
        how |= {"code": said["code"], "reason": "; ".join(why) or "its code is the same"}
        self.found[node.key, seed] = [*adoptions(folder), how]
        return True

    def _is_alike(self, node: Node, old: Described) -> bool:
        """Whether a described node has a planned one's settings, and files with its checksums.

        Settings that only one of them has do not count: the other is of a version without them.
        """
        one, two = old["settings"], self._described[node.kind, node.key]["settings"]
        return old["kind"] == node.kind and all(one[n] == two[n] for n in one.keys() & two.keys())

    def _other_code(
        self, node: Node, seed: int | None, old: Described, said: Mapping[str, Any]
    ) -> dict[str, str]:
        """Return {digest: where it differs} of code that a result is of, and a planned one not.

        `said` has the digest of its own, and those of data and a backbone that it started from, by
        the names of needs: if these are here, they are compared, otherwise the checksums of their
        files. Raises `UserError` if more than code differs.
        """
        codes, code = dict[str, str](), said["code"]
        if node.kind in ("train", "features") and code != digest(node.code):
            codes[code] = f"{code} ({some(differs(old['code'], node.code))})"
        for name, need in node.needs.items():
            was = old["needs"][name]
            if name in said and self._makes(need):
                if _digest(need.node.folder(self.plan.root) / need.file) != said[name]:
                    raise UserError(f"was trained with different {name}")
            elif need.node.kind == "train":
                if self._lineage(was["key"], seed).isdisjoint(self._lineage(need.node.key, seed)):
                    raise UserError(
                        f"starts from train {was['key']} ({name}), which is not accepted for "
                        f"{need.node.key}, or was trained again"
                    )
            elif was["key"] != need.node.key and need.node.kind != "fetch":
                before = self._described[was["kind"], was["key"]]
                if not self._is_alike(need.node, before):
                    raise UserError(f"was made with different {name}")
                codes |= self._other_code(need.node, None, before, {"code": digest(before["code"])})
        return codes

    def _lineage(self, key: str, seed: int | None) -> set[str]:
        """Return the key of a run, and those that it was carried over from."""
        folder = node_folder(self.plan.root, "train", key, seed)
        return {key, *(step["from"] for step in self.found.get((key, seed)) or adoptions(folder))}

    def _makes(self, need: Need) -> bool:
        """Make a file and what it needs, but download nothing; False if a source is not here."""
        root, node = self.plan.root, need.node
        if not (node.folder(root) / need.file).exists():
            paths, needs = node.extra.get("paths", {}).values(), node.needs.values()
            here = (paths or needs) and all(map(os.path.exists, paths))
            if not (here and all(map(self._makes, needs))):
                return False
            run_job(load_job(root, node.kind, node.key))
        return True


def _settings(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a spec says by today's names; of files, whatever they are called, checksums."""
    found = {name: of for name, of in spec.items() if name not in NOT_COMPARED}
    if "stage" in spec:
        found["stage"] = upgraded(spec["stage"])
    found["files"] = {*re.findall("[0-9a-f]{32,}", canonical(spec.get("files")))}
    return {"limit": None, **found}


@cache
def _digest(path: Path) -> Any:
    return backbone_digest(path) if path.name == WEIGHTS else task_digests(path)


def _link(old: str, new: str) -> None:
    """Link a file, as files here are never edited; copy it where the disk knows no links."""
    try:
        os.link(old, new)
    except OSError:
        shutil.copy2(old, new)


def _place(root: Path, history: list[dict[str, Any]]) -> None:
    """Link a result to its new key; `history` says how it gets there."""
    how = history[-1]
    old, new = (node_folder(root, how["kind"], how[at], how["seed"]) for at in ("from", "to"))
    copy = new.with_name(f".{new.name}.part")
    shutil.rmtree(copy, ignore_errors=True)  # of one that was killed
    shutil.copytree(old, copy, copy_function=_link)
    write_json(copy / ADOPTED, history)
    put(copy, new)


def report(plan: Plan, reason: str | None, *, apply: bool) -> Iterator[str]:
    """Yield what is accepted, and what is not; with `apply`, carry it over.

    A `reason` is added to `ACCEPTED` with the code that is not accepted yet; without one, results
    of such code stay where they are. Raises `UserError` while a workflow or a job runs.
    """
    check_results(plan.root)
    with results_lock(plan.root, alone=True):
        plan.check_names()
        write(plan)
        made = Acceptance(plan, accepted_code(plan.base), reason)
        if apply and reason and made.declared:
            _accept_code(plan.base, made.declared, reason)
        for history in made.found.values() if apply else ():
            _place(plan.root, history)
    yield from (f"not accepted: {some(names)}: {why}" for why, names in made.refused.items())
    done = "carried over" if apply else "can be carried over, by --apply"
    yield f"{counted(len(made.found), 'result')} {done}"
