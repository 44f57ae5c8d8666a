"""The report: one page of findings, warnings, tables, claims, figures and worst examples."""

import base64
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from textwrap import shorten
from typing import Any, NamedTuple

import jinja2
import numpy as np
import yaml
from PIL import Image

from minbert.base.environment import commit
from minbert.base.files import write_text
from minbert.base.progress import counted, duration
from minbert.data.parquet import read_file
from minbert.evaluate import claims
from minbert.evaluate.index import in_words
from minbert.evaluate.reading import (
    FAVOURED,
    GUESS,
    Predicted,
    Score,
    Scores,
    over_runs,
    read_predicted,
    read_scores,
    score_title,
)
from minbert.evaluate.scoring import score_task
from minbert.evaluate.seeds import Interval, over_seeds, ranked
from minbert.evaluate.table import FAILED, SCORED, number, remarks, sections, table_rows
from minbert.evaluate.text import Line, one_line, read_csv
from minbert.spec.published import FIGURES
from minbert.spec.task import TASKS
from minbert.store.job import Job
from minbert.store.plans import read_description, sound

ENVIRONMENT = ("commit", "device", "precision", "threads", "python", "platform", "packages")
WORST = 15  # examples of each task
LONGEST = 300  # characters of a text that are shown; a review has thousands
TITLES = {"other": "Other tasks", "overall": "Overall"}
COMMAND = "command.txt"
"""The file in the logs with the command of the workflow that is running, or ran last."""


class Paper(NamedTuple):
    """A paper in a report: what the plan says `about` it (`plan.outputs`), its scores on dev."""

    name: str
    about: Line
    scores: Scores


def make(job: Job) -> None:
    """Write the report of all that is published.

    The page loads nothing from elsewhere, and text from data is escaped. Its policy lets nothing
    run but its own script, by the script's hash, which may not make HTML of text.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("minbert", "report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "duration": duration,
        "interval": Interval.in_words,
        # The verdict is second, for narrow screens.
        "early": lambda cells: (cells[0], cells[-1], *cells[1:-1]),
        "status": lambda status: {SCORED: "", FAILED: "failed"}.get(status, "absent"),
        "hash": _hash,
        "score": number,
    }
    page = environment.get_template("page.html.j2").render(_page(job))
    write_text(job.out / "report.html", page)


def _hash(text: str) -> str:
    """Return what a Content-Security-Policy calls an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _page(job: Job) -> dict[str, Any]:
    """Return what the templates show; files of data, runs and figures may be missing."""
    spec, papers, index = job.spec, list(read_papers(job)), read_csv(job.need("index"))
    command, runs = job.root / "logs" / COMMAND, records(job, "run")
    where = environments(runs)
    claimed = spec_of(job, "claims") if "claims" in job.described["needs"] else {}
    return {
        "spec": spec,
        "index": index,
        "in_words": in_words,
        "guess": GUESS,
        "favoured": FAVOURED[spec["selection_split"]],
        "against_papers": list(against_papers(index)),
        "unlearned": unlearned(papers),
        "cases": cases(job, papers, index, where["commit"]),
        "claims": claims,
        "claimed": claimed,
        "lines": read_csv(job.need("claims")) if claimed else [],
        "papers": [_paper(job, paper) for paper in papers],
        "pictures": [picture(job, name) for name in spec["figures"]],
        "runs": runs,
        "wanted": len(job.needs("run")),
        "environments": where,
        "config": yaml.safe_dump(
            spec["config"], default_flow_style=None, sort_keys=False, allow_unicode=True, width=96
        ),
        "command": command.read_text(encoding="utf-8") if command.is_file() else "",
        "commit": commit(),
    }


def _paper(job: Job, paper: Paper) -> dict[str, Any]:
    """Return what is shown of a paper, with its best variant by its own overall score on dev.

    `ours` is the mean of that, `published` the best such score that the paper gives.
    """
    about, rows = paper.about, table_rows(job, paper.about)
    best = next(iter(ranked(paper.scores, about["rule"])), None)
    published = (row["published"].get("overall") for row in rows if row["split"] == "dev")
    return {
        **paper._asdict(),
        "best": best and about["labels"][best.variant],
        "ours": best and over_seeds(paper.scores, about["overall_tasks"])[best],
        "published": max(filter(None, published), default=None),
        "rows": rows,
        "sections": sections(about, rows),
        "worst": list(worst(job, paper)),
        "remarks": [*remarks(about, rows), *about["footnotes"]],
    }


def picture(job: Job, name: str) -> dict[str, Any]:
    """Return a figure; its `source` in the page is a data URL, "" if it was not drawn."""
    spec, path = spec_of(job, f"figure.{name}"), job.need(f"figure.{name}")
    found = {"name": name, "paper": spec["paper"], "source": "", **spec["draw"]}
    if path.is_file():
        packed, size = webp(path, 2)  # sharp on a screen; the page links the file for print
        found["source"] = "data:image/webp;base64," + base64.b64encode(packed).decode()
        found["width"], found["height"] = size
    return found


def webp(path: Path, shrink: int = 1) -> tuple[bytes, tuple[int, int]]:
    """Return a figure as a WebP file of at most 128 colours, and its size, divided by `shrink`."""
    packed = io.BytesIO()
    with Image.open(path) as image:
        small = image.convert("RGB").reduce(shrink).quantize(128, dither=Image.Dither.NONE)
        small.convert("RGB").save(packed, "WEBP", lossless=True)
        return packed.getvalue(), small.size


def spec_of(job: Job, name: str) -> dict[str, Any]:
    """Return the spec of the node that a need comes from."""
    need = job.described["needs"][name]
    return read_description(job.root, need["kind"], need["key"])["spec"]


def records(job: Job, prefix: str) -> dict[str, dict[str, Any]]:
    """Return the record of each need `PREFIX.` that can be read, by the rest of its name."""
    paths = job.needs(prefix).items()
    return {name: record for name, path in paths if (record := sound(path))}


def read_papers(job: Job) -> Iterator[Paper]:
    """Yield the papers of a report in the order of the grids."""
    for name in job.spec["papers"]:
        about = spec_of(job, f"table.{name}")
        every = read_scores(job.need(f"scores.{name}"), name).items()
        yield Paper(name, about, {of: by_seed for of, by_seed in every if of.split == "dev"})


def predicted(job: Job, paper: Paper, task: str) -> Predicted:
    """Return what the runs of a paper predict of a task, each run once."""
    runs = {
        job.need(f"run.{score.key}.{seed}").with_name("predictions.parquet"): None
        for of, by_seed in paper.scores.items()
        if of.measure == task
        for seed, score in by_seed.items()
    }
    return read_predicted(runs, task)


def against_papers(index: Sequence[Line]) -> Iterator[str]:
    """Yield the medians over rows of our scores on dev minus the papers'."""
    lines = [line for line in index if line["split"] == "dev"]
    for name in FIGURES:
        pairs = ((line[f"{name}_ours"], line[f"{name}_published"]) for line in lines)
        if gaps := [float(ours) - float(theirs) for ours, theirs in pairs if ours and theirs]:
            title = TASKS[name].title if name in TASKS else TITLES[name]
            said = f"{title} {median(gaps):+.3f} ({counted(len(gaps), 'row')})"
            yield said.replace("-", "\N{MINUS SIGN}")


def unlearned(papers: Sequence[Paper]) -> dict[str, Any]:
    """Return the scores that are not clearly above their floor, from the dev scores of all runs.

    `tested` counts the distinct scores of a run on a task, `above` those clearly above their
    floor, and `single` those below whose run predicts one class or number. `constant` and `low`
    name the cases below, variant by variant; the first those whose run predicts one class.
    """
    runs: dict[tuple[str, str, int], Score] = {}
    cases: dict[bool, list[str]] = {True: [], False: []}  # by whether all predictions are the same
    for paper in papers:
        trained = {of["name"] for of in paper.about["variants"] if of["tasks"] or of["tried"]}
        of_trained = {of: seeds for of, seeds in paper.scores.items() if of.variant in trained}
        for of, by_seed in of_trained.items():
            tested = {seed: one for seed, one in by_seed.items() if one.learned is not None}
            runs |= {(of.measure, one.key, seed): one for seed, one in tested.items()}
            low = {seed: score for seed, score in tested.items() if not score.learned}
            for constant, found in cases.items():
                seeds = [seed for seed in low if bool(low[seed].constant) is constant]
                if seeds:
                    values = ", ".join(f"{low[seed].value:.3f}" for seed in seeds)
                    found.append(
                        f"{paper.name} / {paper.about['labels'][of.variant]}: "
                        f"{TASKS[of.measure].title} {values}; floor {low[seeds[0]].floor:.3f} "
                        f"(seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))})"
                    )
    below = [bool(one.constant) for one in runs.values() if not one.learned]
    counts = {"tested": len(runs), "above": len(runs) - len(below), "single": sum(below)}
    return {**counts, "constant": cases[True], "low": cases[False]}


def leaked(job: Job, papers: Sequence[Paper]) -> Iterator[str]:
    """Yield for each task and paper how runs' scores on dev change without what train has, too.

    Whether train has a text is known without the texts, as in bundles. All of dev is not all, if a
    half of it chose the epochs.
    """
    wanted = {"split": "dev", "in_train": True}
    for task, path in job.needs("rows").items():
        ids = read_file(path, ["id"], wanted)["id"].to_pylist() if path.is_file() else []
        for paper in papers:
            if not ids or task not in {of.measure for of in paper.scores}:
                continue
            one = predicted(job, paper, task)
            clean = ~np.isin(one.ids, ids)
            if 0 < np.sum(clean) < len(clean):
                changes = [
                    score_task(task, said[clean], one.label[clean])
                    - score_task(task, said, one.label)
                    for said in one.prediction
                ]
                yield (
                    f"{paper.name}: {score_title(task)} without {np.sum(~clean):,} of "
                    f"{len(clean):,} examples: median {median(changes):+.4f}, from "
                    f"{min(changes):+.4f} to {max(changes):+.4f}"
                )


def environments(runs: Mapping[str, Line]) -> dict[str, list[str]]:
    """Return each distinct value of what the runs with these records ran on."""
    places = [
        of | {"packages": ", ".join(f"{name} {o}" for name, o in sorted(of["packages"].items()))}
        for of in (record["environment"] for record in runs.values())
    ]
    return {name: [*dict.fromkeys(str(of[name]) for of in places)] for name in ENVIRONMENT}


def cases(
    job: Job, papers: Sequence[Paper], index: Sequence[Line], commits: Iterable[str]
) -> dict[str, list[str]]:
    """Return what each warning of the page is about, by its name there."""
    data = {TASKS[task].title: report for task, report in records(job, "data").items()}

    def counts(name: str, noun: str) -> list[str]:
        return [
            f"{task}: {counted(n, noun)} of {where}"
            for task, report in data.items()
            for where, n in report.get(name, {}).items()
            if n
        ]

    return {
        "failed": [f"{paper} / {name}: {why}" for (paper, name), why in job.failures.items()],
        "missing": [
            f"{line['paper']} / {line['row']} ({line['split']}): "
            + "; ".join(filter(None, (line["status"], line["reason"])))
            for line in index
            if line["status"] != SCORED
        ],
        "overlaps": counts("overlaps", "text"),
        "leaked": list(leaked(job, papers)),
        "rejected": counts("rejected", "row"),
        "unlearnable": [
            f"{t}: {said}" for t, of in data.items() for said in of.get("warnings", [])
        ],
        "textless": [
            TASKS[task].title for task, path in job.needs("examples").items() if not path.is_file()
        ],
        "labelled": [
            f"{TASKS[task].title}: {of['labelled']:,} of {of['rows']:,} test rows"
            for task, of in records(job, "labels").items()
        ],
        "uncommitted": [commit for commit in commits if commit.endswith("+")],
    }


def worst(job: Job, paper: Paper) -> Iterator[dict[str, Any]]:
    """Yield the examples with the largest mean error over all runs of the paper, task by task.

    Tasks without texts, as from a bundle, have none: ids alone tell nothing.
    """
    has = {of.measure for of in paper.scores}
    for task, known in TASKS.items():
        if task not in has or not (examples := job.need(f"examples.{task}")).is_file():
            continue
        one = predicted(job, paper, task)
        over, runs = over_runs(task, one), len(one.prediction)
        chosen = np.argsort(-over.error, kind="stable")[:WORST].tolist()
        wanted = {"id": [one.ids[n] for n in chosen]}
        table = read_file(examples, ("id", "sentence1", "sentence2"), wanted).to_pylist()
        texts = {row.pop("id"): [one_line(of) for of in row.values() if of] for row in table}
        for n in chosen:
            values = one.label[n], over.said[n]
            label, said = (known.names[int(of)] if known.names else f"{of:.3g}" for of in values)
            yield {
                "texts": [shorten(text, LONGEST, placeholder="…") for text in texts[one.ids[n]]],
                "task": known.title,
                "label": label,
                "said": said,
                "error": f"{over.error[n]:.2f}",
                "right": f"{over.right[n] * runs:.0f} of {runs}",
            }
