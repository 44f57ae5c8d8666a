"""MLflow's pages as a person meets them: the table that `minbert ui` opens, the runs' curves."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

import pytest
from following import start, write_rows
from serving import free_port, serving

from minbert.evaluate.seeds import interval
from minbert.spec.protocol import Measured
from minbert.store.plans import write_plan
from minbert.track.follower import Follower
from minbert.track.store import Tag

from .chromium import Browser

SCORES = {"one": (0.25, 0.25), "two": (0.9, 0.1), "three": (0.6, 0.6)}
"""By variant and seed: the best run is of `two`, the best variant is `three`."""
FACTS = {
    **{"title": "The paper", "description": "", "rule": "normalised", "file": "paper.yaml"},
    **{"source": "builtin", "encoder": "builtin", "revision": None, "seeds": [0, 1]},
    **{"datasets": {"sst": "d"}, "labels": {name: name for name in SCORES}},
}
TASKS = ("overall", "sst")
POINTS = 7
PLOTS = "[...document.querySelectorAll('.js-plotly-plot')]"


@pytest.fixture(scope="module")
def addresses(started: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Serve three variants with two seeds each; return the addresses of rows and curves."""
    root = tmp_path_factory.mktemp("mlflow").resolve()
    for name, scores in SCORES.items():
        for seed, score in enumerate(scores):
            params = {"variant": name, "stage": "main", "tasks": "sst", "seed": str(seed)}
            journal = start(root, name, seed, params=params)
            for step in range(1, POINTS + 1):
                # The last epoch is the worst.
                value = score * step / POINTS if step < POINTS else -score
                for task, metric in (("overall", "normalised"), ("sst", "accuracy")):
                    journal.log(Measured(step, step, "dev", task, metric, value, step))
            best = {f"best/{task}": score for task in TASKS}
            tags = {Tag.NOT_LEARNED: "" if score > 0.3 else "sst"}
            journal.end("FINISHED", metrics=best, tags=tags)
    rows = {}
    for name, of in SCORES.items():
        ours = interval(of)
        rows[name] = {f"best/overall/{end}": getattr(ours, end) for end in ("low", "high")}
        rows[name] |= {f"{split}/{task}": ours.mean for split in ("best", "test") for task in TASKS}
        rows[name]["n"] = 2
    write_rows(root, **rows)
    plan = write_plan(root, {"papers": {"paper": FACTS}, "variants": []})
    Follower(root, plan).follow()
    with serving(root, free_port()) as lines:
        yield [
            line.partition(": ")[2] for line in lines if line.startswith(("paper: ", "curves: "))
        ]


def link_to(name: str) -> str:
    """Return the script that finds the address of the link with this text."""
    return f"[...document.querySelectorAll('a')].find(a => a.innerText == '{name}')?.href"


def test_the_table_opens_with_the_rows_and_the_score_columns(
    browser: Browser, addresses: list[str]
) -> None:
    browser.resize(1900, 1000)
    browser.open(addresses[0])
    browser.wait_for("document.body.innerText.includes('3 matching runs')")
    browser.wait_for("document.body.innerText.includes('best/overall')")
    browser.wait_for("document.body.innerText.includes('The paper.')")
    for column in ("best/sst", "best/overall/low", "test/sst", "not_learned"):
        browser.wait_for(f"document.body.innerText.includes('{column}')")
    text = browser.evaluate("document.body.innerText")
    # By the mean of the best epochs' overall scores, as everywhere.
    shown = [line for line in text.splitlines() if line in SCORES]
    assert shown == sorted(SCORES, key=lambda name: -fmean(SCORES[name]))
    link = browser.evaluate(link_to("two"))
    browser.open("about:blank#")
    browser.open(link)
    browser.wait_for("document.body.innerText.includes('Child runs')")
    for seed in (0, 1):
        browser.wait_for(link_to(f"two . s{seed}"))
    assert not [url for url in browser.requests() if "//127.0.0.1:" not in url]


def test_the_curves_of_all_seeds_are_drawn_side_by_side(
    browser: Browser, addresses: list[str]
) -> None:
    browser.open(addresses[1])
    whole = f"p.data.filter(d => d.y.length == {POINTS})"
    names = f"{whole}.map(d => d.name)"
    browser.wait_for(f"{PLOTS}.some(p => new Set({names}).size == {2 * len(SCORES)})")
    drawn = browser.evaluate(f"{PLOTS}.flatMap(p => {whole}.map(d => [d.name, Array.from(d.y)]))")
    for name, scores in SCORES.items():
        for seed, score in enumerate(scores):
            wanted = [score * step / POINTS for step in range(1, POINTS)] + [-score]
            of_run = [curve for of, curve in drawn if of.startswith(f"{name} . s{seed}")]
            assert any(curve == pytest.approx(wanted) for curve in of_run), of_run
