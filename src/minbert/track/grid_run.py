"""The grid's own run: a paper's tables, figures and best model, told as a job tells its run.

`publish` leaves these files; the follower stores them like any other run. So nothing here imports
mlflow, a kill loses nothing, and what is published again as it was makes no second run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minbert.common.environment import commit
from minbert.common.files import read_json, write_text
from minbert.evaluate.winner import Winner, winners
from minbert.grid.node import description_path, node_folder
from minbert.track.attempts import attempts
from minbert.track.card import model_card
from minbert.track.describe import GRID, KIND_TAG, NOTE_TAG, SCORE_TAG, tasks_of
from minbert.track.journal import Journal

ALL = "all"
_CONTENT = "minbert.content"
_BACKBONE = ("config.json", "tokenizer.json")


def record_grids(root: Path, listed: Mapping[str, Any], complete: bool) -> None:
    """Leave a run for each paper of `listed`, what is published now under `root`.

    Not `complete`: some rows are missing, and the run says so.
    """
    scores = root / "tables" / "scores.parquet"
    rules = {paper: facts["rule"] for paper, facts in listed["papers"].items()}
    best = winners(scores, rules)
    for paper, facts in listed["papers"].items():
        shown = _shown(root, listed, paper, complete)
        one = best.get(paper)
        model = _model(root, facts, one) if one else {}
        card = model_card(root, facts, one) if one and model else ""
        content = _digest(shown, model, f"{complete}\n{card}")
        if not _is_told(root, paper, content):
            _tell(root, paper, facts, shown | model, (one, card), content, complete)


def _tell(
    root: Path,
    paper: str,
    facts: Mapping[str, Any],
    files: dict[str, Path],
    winner: tuple[Winner | None, str],
    content: str,
    complete: bool,
) -> None:
    one, card = winner
    seeds = ",".join(map(str, facts["seeds"]))
    tags = {KIND_TAG: GRID, "minbert.select": facts["rule"], "minbert.stage": GRID}
    run = {
        "experiment": paper,
        "key": _key(paper),
        "seed": ALL,
        "name": f"{GRID} . tables, figures, best model",
        "params": {"variant": "(all)", "stage": GRID, "tasks": "+".join(tasks_of(facts))}
        | {"seed": seeds},
        "tags": {**tags, _CONTENT: content, "commit": commit(), "minbert.complete": str(complete)},
    }
    journal = Journal.start(root, run)
    said = {}
    if one and card:
        write_text(journal.folder / "card.md", card)
        files = files | {"model/README.md": journal.folder / "card.md"}
        score = f"{one.dev[one.seed]:.6f}"
        said = {SCORE_TAG: score, "minbert.best": one.variant, NOTE_TAG: card}
        said["minbert.best_seed"] = str(one.seed)
    journal.end("FINISHED", artifacts=files, tags=said)


def _key(paper: str) -> str:
    return f"{GRID}-{paper}"


def _shown(root: Path, listed: Mapping[str, Any], paper: str, complete: bool) -> dict[str, Path]:
    """Return the paper's tables and figures, and those of all papers, by name in the run.

    Keyed paths where all is complete, as they keep their content; else the plain ones.
    """
    found = {}
    for name, keyed in listed["products"].items():
        kind, _, rest = name.partition("/")
        if kind == "figures" and rest.startswith(f"{paper}/"):
            as_named = f"figures/{rest.removeprefix(f'{paper}/')}"
        elif rest.startswith((f"{paper}.", "claims.", f"{ALL}/")):
            as_named = name
        else:
            continue
        path = Path(keyed) if complete else root / name
        if path.exists():
            found[as_named] = path
    return found


def _model(root: Path, facts: Mapping[str, Any], best: Winner) -> dict[str, Path]:
    """Return the files of the best seed's model; nothing if any of its weights were let go."""
    keys: dict[str, str] = facts["variants"][best.variant]["tasks"]
    alone = len(set(keys.values())) == 1
    found = {}
    for task, key in keys.items():
        folder = node_folder(root, "train", key, best.seed)
        if not (folder / "model.safetensors").exists():
            return {}
        found[f"model/{'model' if alone else task}.safetensors"] = folder / "model.safetensors"
        found[f"model/{'run' if alone else task}.json"] = folder / "run.json"
        needs = read_json(description_path(root, "train", key))["needs"]
        for name in _BACKBONE:
            need = needs[f"backbone.{name}"]
            found[f"model/{name}"] = node_folder(root, need["kind"], need["key"]) / name
    return found


def _digest(shown: Mapping[str, Path], model: Mapping[str, Path], said: str) -> str:
    """Return a hash of all that the run shows and says; a model's keyed paths say what it is."""
    whole = hashlib.sha256(said.encode())
    for name, path in sorted(shown.items()):
        whole.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    for name, path in sorted(model.items()):
        whole.update(f"{name} {path}\n".encode())
    return whole.hexdigest()[:16]


def _is_told(root: Path, paper: str, content: str) -> bool:
    """Whether the paper's newest grid run has this content, and was told to its end."""
    of_paper = [a for a in attempts(root) if a.group == (_key(paper), ALL)]
    if not of_paper or of_paper[-1].end() is None:
        return False
    return bool(of_paper[-1].run["tags"].get(_CONTENT) == content)
