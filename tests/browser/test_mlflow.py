"""MLflow's pages as a person meets them: the table that `minbert ui` opens, a run's curves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import serving

from minbert.spec.protocol import Measured
from minbert.track.follower import Follower
from minbert.track.journal import Journal
from minbert.track.ui import free_port

from .chromium import Browser

SCORES = {"one": 0.25, "two": 0.75, "three": 0.5}
POINTS = 7
PLOTS = "[...document.querySelectorAll('.js-plotly-plot')]"


@pytest.fixture(scope="module")
def addresses(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Serve three runs; return the addresses that `minbert ui` prints."""
    root = tmp_path_factory.mktemp("mlflow").resolve()
    uri = f"sqlite:///{root / 'mlflow.db'}"
    for name, score in SCORES.items():
        params = {"variant": name, "stage": "main", "tasks": "sst", "seed": "0"}
        run = {"experiment": "paper", "key": name, "seed": 0, "name": f"{name} . sst . s0"}
        journal = Journal.start(root, {**run, "params": params})
        for step in range(1, POINTS + 1):
            value = score * step / POINTS
            for task, metric in (("overall", "normalised"), ("sst", "accuracy")):
                journal.log(Measured(step, step, "dev", task, metric, value, step))
        journal.end("FINISHED")
    Follower(root, uri).finish()
    with serving(root, free_port("127.0.0.1", 5800)) as lines:
        yield [line.partition(": ")[2] for line in lines if line.startswith("paper: ")]


def test_the_table_opens_with_the_runs_and_the_score_columns(
    browser: Browser, addresses: list[str]
) -> None:
    browser.resize(1900, 1000)
    (address,) = addresses
    browser.open(address)
    browser.wait_for("document.body.innerText.includes('three . sst . s0')")
    browser.wait_for("document.body.innerText.includes('dev/overall/normalised')")
    browser.wait_for("document.body.innerText.includes('One run for each stage and seed')")
    text = browser.evaluate("document.body.innerText")
    for column in ("variant", "stage", "tasks", "seed", "dev/sst/accuracy"):
        assert column in text
    # Sorted by the overall score, the best above.
    best_first = sorted(SCORES, key=lambda name: -SCORES[name])
    places = [text.index(f"{name} . sst . s0") for name in best_first]
    assert places == sorted(places)
    assert not [url for url in browser.requests() if "//127.0.0.1:" not in url]


def test_a_runs_page_shows_its_curve(browser: Browser, addresses: list[str]) -> None:
    (address,) = addresses
    browser.open(address)
    link = browser.wait_for(
        "[...document.querySelectorAll('a')].find(a => a.innerText.includes('two . sst'))?.href"
    )
    browser.call("Page.navigate", url="about:blank")
    browser.wait_for("location.href == 'about:blank'")
    browser.call("Page.navigate", url=f"{link.partition('?')[0]}/model-metrics")
    browser.wait_for(f"{PLOTS}.some(p => p.querySelector('.scatterlayer .trace path'))")
    drawn = browser.evaluate(f"{PLOTS}.flatMap(p => p.data.map(d => Array.from(d.y)))")
    wanted = [SCORES["two"] * step / POINTS for step in range(1, POINTS + 1)]
    assert any(curve == pytest.approx(wanted) for curve in drawn), drawn
