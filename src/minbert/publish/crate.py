"""What a bundle says of itself: a Workflow Run RO-Crate (profile 0.5), and a page for people.

`ro-crate-metadata.json` names the workflow, each run as an action with its time and environment,
and each file. Source: RO-Crate 1.1; Leo et al., 2024, on the profiles of runs.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from minbert.base.version import VERSION

Entity = dict[str, Any]

_CRATE = "https://w3id.org/ro/crate/1.1"
_WORKFLOW = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    _WORKFLOW: ("Workflow RO-Crate", "1.0"),
}
_LICENCE = "https://www.apache.org/licenses/LICENSE-2.0"
_TERMS = (
    "The workflow's files are under the Apache License 2.0. Ids and labels of the data stay under "
    "the terms of their sources; what these allow for the runs is for their publisher to say."
)
_SNAKEMAKE = "https://w3id.org/workflowhub/workflow-ro-crate#snakemake"
_DONE = "http://schema.org/CompletedActionStatus"
_FORMATS = {
    ".json": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".safetensors": "application/octet-stream",
    ".tsv": "text/tab-separated-values",
}


class Run(NamedTuple):
    """A run: its folder in the bundle, its title, `run.json`, and when it ended (unix seconds)."""

    name: str
    title: str
    record: Mapping[str, Any]
    ended: float


def crate(files: Iterable[str], runs: Iterable[Run]) -> Entity:
    """Return the metadata of a bundle with these `files`, in JSON-LD."""
    names, runs = sorted(files), sorted(runs)
    ended = max((run.ended for run in runs), default=0.0)
    actions = [_action(run, names) for run in runs]
    commands = "command.txt" in names
    whole: Entity = {
        "@id": "#workflow-run",
        "@type": "CreateAction",
        "name": "The workflow that made the results",
        "description": "Its command is in command.txt." if commands else "Its command is unknown.",
        "instrument": _to("Snakefile"),
        "endTime": _time(ended),
        "actionStatus": _DONE,
        "object": _to("config.json"),
        "result": _all(name for name in names if name.startswith(("train/", "data/", "rows/"))),
    }
    root: Entity = {
        "@id": "./",
        "@type": "Dataset",
        "name": "Runs of minbert",
        "description": "Finished runs of ablation grids on multitask BERT fine-tuning: histories, "
        "predictions, records. `minbert unbundle` imports them into a results folder.",
        "datePublished": _time(ended),
        "license": _to("#terms"),
        "conformsTo": _all(_PROFILES),
        "hasPart": _all(names),
        "mainEntity": _to("Snakefile"),
        "mentions": _all([whole["@id"], *(action["@id"] for action in actions)]),
    }
    graph = [
        {
            "@id": "ro-crate-metadata.json",
            "@type": "CreativeWork",
            "about": _to("./"),
            "conformsTo": _all([_CRATE, _WORKFLOW]),
        },
        root,
        {"@id": "#terms", "@type": "CreativeWork", "name": "Several terms", "description": _TERMS},
        {"@id": _LICENCE, "@type": "CreativeWork", "name": "Apache License 2.0"},
        *(
            {"@id": of, "@type": "CreativeWork", "name": name, "version": version}
            for of, (name, version) in _PROFILES.items()
        ),
        {
            "@id": _SNAKEMAKE,
            "@type": "ComputerLanguage",
            "name": "Snakemake",
            "identifier": _to("https://doi.org/10.12688/f1000research.29032"),
            "url": _to("https://snakemake.github.io"),
        },
        {
            "@id": "#minbert",
            "@type": "SoftwareApplication",
            "name": "minbert train",
            "softwareVersion": VERSION,
        },
        *(_file(name) for name in names),
        whole,
        *actions,
    ]
    return {"@context": f"{_CRATE}/context", "@graph": graph}


def _file(name: str) -> Entity:
    found: Entity = {"@id": name, "@type": "File", "name": name}
    found["encodingFormat"] = _FORMATS.get(Path(name).suffix, "text/plain")
    if name == "Snakefile":
        found["@type"] = ["File", "SoftwareSourceCode", "ComputationalWorkflow"]
        found |= {"name": "minbert", "programmingLanguage": _to(_SNAKEMAKE)}
        found["version"] = VERSION
    if name == "Snakefile" or name.startswith("workflow/"):
        found["license"] = _to(_LICENCE)
    if name == "README.md":
        found["about"] = _to("./")
    if name.startswith("croissant/"):
        found["conformsTo"] = _to("http://mlcommons.org/croissant/1.0")
    return found


def _action(run: Run, names: Iterable[str]) -> Entity:
    """Return one training with one seed: its key is its id, its environment is in words."""
    key = run.name.split("/")[1]
    ran_on = run.record.get("environment", {})
    packages = ran_on.get("packages", {})
    words = [f"{name} {ran_on[name]}" for name in _RAN_ON if name in ran_on]
    words += [f"{name} {version}" for name, version in sorted(packages.items())]
    seconds = run.record["outcome"]["seconds"]
    return {
        "@id": f"#{run.name}",
        "@type": "CreateAction",
        "name": f"{run.title}, seed {run.name.rpartition('seed')[2]}",
        "description": f"`minbert train {key}`, {seconds:.0f} s; {', '.join(words)}",
        "instrument": _to("#minbert"),
        "startTime": _time(run.ended - seconds),
        "endTime": _time(run.ended),
        "actionStatus": _DONE,
        "object": _to(f"spec/train-{key}.json"),
        "result": _all(name for name in names if name.startswith(f"{run.name}/")),
    }


_RAN_ON = ("python", "platform", "device", "precision", "threads", "commit")


def readme(runs: Iterable[Run], *, lean: bool) -> str:
    """Return the page for people."""
    runs = list(runs)
    where = Counter(run.record.get("environment", {}).get("device", "unknown") for run in runs)
    made_on = ", ".join(f"{count} on {device}" for device, count in sorted(where.items()))
    by = {run.record.get("environment", {}).get("commit", "unknown") for run in runs}
    scores = (
        " Probabilities are kept only of dev predictions, and only of binary tasks." if lean else ""
    )
    return f"""# Runs of minbert

{len(runs)} finished runs ({made_on}), without texts. Tables, figures and claims are made from them.
Trained by commit {", ".join(sorted(by))}.

In a checkout of that commit, with its `config.yaml` unchanged, these commands import the runs into
a results folder and make tables, figures and report again, without training:

```
minbert unbundle FILE --results results
unzip FILE config.json
snakemake all --cores 2 --configfile config.json
```

The maker's own grids and tasks, and the paths of data and labels, are not in `config.json`.

- `variants.tsv` lists the KEY of each stage of a paper's variant. A number in a table is the mean
  score, over seeds, of the predictions of that KEY on the task.
- `spec/KIND-KEY.json` describes each node: its settings, the digests of its code, what it needs.
- `train/KEY/seedN` has a run: `run.json`, `history.parquet` and `predictions.parquet`, whose column
  `row` is the task's row number, from 0, in `rows/KEY/rows.parquet`.{scores}
- `data/KEY/report.json` has the counts of a data set; `croissant` describes it for machines.
- `config.json` is the configuration, `command.txt` the command; `bundle.json` has checksums.
"""


def _to(of: str) -> Entity:
    return {"@id": of}


def _all(names: Iterable[str]) -> Entity | list[Entity]:
    """Return references; JSON-LD wants one alone without a list."""
    found = [_to(name) for name in names]
    return found[0] if len(found) == 1 else found


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(round(seconds), UTC).isoformat()
