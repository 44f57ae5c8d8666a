"""MLflow's pages as a person meets them: the table that `minbert ui` opens, a run's curves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import serving

from minbert.spec.protocol import Measured
from minbert.store.plans import write_plan
from minbert.track.follower import Follower
from minbert.track.journal import Journal
from minbert.track.store import GRID, Tag
from minbert.track.ui import free_port

from .chromium import Browser

SCORES = {"one": (0.25, 0.25), "two": (0.9, 0.1), "three": (0.6, 0.6)}
"""By variant and seed: the best run is of `two`, the best variant is `three`."""
FACTS = {
    **{"title": "The paper", "description": "", "rule": "normalised", "file": "paper.yaml"},
    **{"source": "builtin", "backbone": "builtin", "revision": None, "seeds": [0, 1]},
    **{"datasets": {"sst": "d"}, "variants": {name: {} for name in SCORES}},
}
POINTS = 7
PLOTS = "[...document.querySelectorAll('.js-plotly-plot')]"


@pytest.fixture(scope="module")
def addresses(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Serve three variants and the grid's own run; return what `minbert ui` prints."""
    root = tmp_path_factory.mktemp("mlflow").resolve()
    uri = f"sqlite:///{root / 'mlflow.db'}"
    for name, scores in SCORES.items():
        for seed, score in enumerate(scores):
            params = {"variant": name, "stage": "main", "tasks": "sst", "seed": str(seed)}
            run = {"experiment": "paper", "key": name, "name": f"{name} . sst . s{seed}"}
            journal = Journal.start(root, {**run, "seed": seed, "params": params})
            for step in range(1, POINTS + 1):
                # The last epoch is the worst.
                value = score * step / POINTS if step < POINTS else -score
                for task, metric in (("overall", "normalised"), ("sst", "accuracy")):
                    journal.log(Measured(step, step, "dev", task, metric, value, step))
            rows = [Measured(1, 1, "best", task, "", score, 1) for task in ("overall", "sst")]
            tags = {"learned" if score > 0.3 else "not_learned": "sst"}
            journal.end("FINISHED", rows=rows, tags=tags)
    run = {"experiment": "paper", "key": "grid-paper", "seed": "all", "name": "grid . best: three"}
    about = {"tags": {Tag.KIND: GRID}, "params": {"variant": "three", "stage": GRID}}
    rows = [Measured(0, 0, "best", "overall", "", 0.6, 1)]
    Journal.start(root, {**run, **about}).end("FINISHED", rows=rows)
    plan = write_plan(root, {"papers": {"paper": FACTS}})
    Follower(root, uri, plan).finish()
    with serving(root, free_port("127.0.0.1", 5800)) as lines:
        yield [line.partition(": ")[2] for line in lines if line.startswith("paper: ")]


def test_the_table_opens_with_the_runs_and_the_score_columns(
    browser: Browser, addresses: list[str]
) -> None:
    browser.resize(1900, 1000)
    (address,) = addresses
    browser.open(address)
    browser.wait_for("document.body.innerText.includes('three . sst . s0')")
    browser.wait_for("document.body.innerText.includes('best/overall')")
    browser.wait_for("document.body.innerText.includes('The paper.')")
    text = browser.evaluate("document.body.innerText")
    for column in ("variant", "stage", "tasks", "seed", "best/sst", "learned", "not_learned"):
        assert column in text
    # By the mean of the best epochs' overall scores, as everywhere.
    names = ("grid . best: three", "three . sst . s0", "two . sst . s0", "one . sst . s0")
    places = [text.index(name) for name in names]
    assert places == sorted(places)
    assert not [url for url in browser.requests() if "//127.0.0.1:" not in url]


def test_a_runs_page_shows_its_curve(browser: Browser, addresses: list[str]) -> None:
    (address,) = addresses
    browser.open(address)
    link = browser.wait_for(
        "[...document.querySelectorAll('a')].find(a => a.innerText == 'two . sst . s0')?.href"
    )
    browser.call("Page.navigate", url="about:blank")
    browser.wait_for("location.href == 'about:blank'")
    browser.call("Page.navigate", url=f"{link.partition('?')[0]}/model-metrics")
    browser.resize(1600, 2600)  # the plots of what a run came to stand first
    browser.wait_for(f"{PLOTS}.some(p => p.data.some(d => d.y.length > 1))")
    drawn = browser.evaluate(f"{PLOTS}.flatMap(p => p.data.map(d => Array.from(d.y)))")
    score = SCORES["two"][0]
    wanted = [score * step / POINTS for step in range(1, POINTS)] + [-score]
    assert any(curve == pytest.approx(wanted) for curve in drawn), drawn
