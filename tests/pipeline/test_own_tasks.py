"""Data of one's own without code: what docs/adding.md tells a newcomer, followed to the end."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

import minbert
from minbert.commands.cli import main

from . import own_data
from .project import CHECKOUT, Project, copy_workflow

pytestmark = pytest.mark.pipeline

CONFIG = """\
grids: [mine]
data: builtin
backbone: builtin
limit: 400
device: cpu
precision: fp32
threads: 1
scale: {learning_rate: 60}
"""


def own_task() -> list[str]:
    """Return the YAML of the page's section on a task of one's own: of config.yaml, of a grid."""
    text = (CHECKOUT / "docs" / "adding.md").read_text(encoding="utf-8")
    section = text.partition("\n## Your own task\n")[2].partition("\n## ")[0]
    return re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[:2]


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A newcomer's folder, with all that the page says, after one run."""
    folder = tmp_path_factory.mktemp("own") / "checkout"
    copy_workflow(folder)
    (folder / "workflow" / "figures.yaml").unlink()
    project = Project(folder)
    own_data.write(folder)
    tasks, grid = own_task()
    lines = [*tasks.splitlines(), *grid.splitlines()]
    assert len([line for line in lines if line.strip()]) < 15, "of YAML"
    (folder / "config.yaml").write_text(CONFIG + tasks, encoding="utf-8")
    (folder / "workflow/grids/mine.yaml").write_text(grid, encoding="utf-8")
    project.snakemake("all")
    return project


def test_the_table_has_the_papers_tasks_and_no_others(mine: Project) -> None:
    (line,) = mine.table("mine")
    assert line["status"] == "scored" and line["variant"] == "shared"
    for task in ("sts", "news", "mrpc"):
        assert line[f"{task}_mean"] and line[f"{task}_floor"]
    assert "sst_mean" not in line and "para_mean" not in line
    assert float(line["news_mean"]) > float(line["news_floor"]) + 0.2, "it learned the topics"
    mean = [float(line["news_mean"]), float(line["mrpc_mean"]), (1 + float(line["sts_mean"])) / 2]
    assert float(line["overall_normalised_mean"]) == pytest.approx(sum(mean) / 3)
    text = (mine.root / "tables" / "mine.md").read_text(encoding="utf-8")
    head = [cell.strip() for cell in text.splitlines()[2].split("|")]
    assert head[3:6] == ["STS ours", "mrpc ours", "News topics ours"]
    assert "not run" not in text and not any(cell.endswith("paper") for cell in head)
    assert "mrpc F1" in text
    assert "Data: builtin; own files: mrpc and News topics." in text
    assert "Floors of other metrics: docs/statistics.md" in text


def test_mlflow_has_its_runs(mine: Project) -> None:
    client = MlflowClient(f"sqlite:///{mine.root / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("mine")
    runs = client.search_runs([experiment.experiment_id])
    (run,) = [run for run in runs if run.data.params.get("stage") == "main"]
    assert run.data.params["tasks"] == "sts+mrpc+news"
    for name in ("news", "mrpc", "sts", "overall"):
        assert f"best/{name}" in run.data.metrics
    assert "dev/mrpc/f1" in run.data.metrics and "dev/overall/normalised" in run.data.metrics
    assert "news" not in run.data.tags["not_learned"]


def test_it_predicts_as_it_was_scored(
    mine: Project, own_folder: None, capsys: pytest.CaptureFixture[str]
) -> None:
    def predicted(*words: str) -> list[dict[str, Any]]:
        main(["predict", "shared", *words, "--results", str(mine.root)])
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    news = mine.folder / "news" / "dev.tsv"
    rows = predicted("--task", "news", "--in", str(news))
    lines = [line.partition("\t") for line in news.read_text("utf-8").splitlines()[1:]]
    right = [row["label"] == topic for row, (topic, *_) in zip(rows, lines, strict=True)]
    (line,) = mine.table("mine")
    assert sum(right) / len(right) == pytest.approx(float(line["news_mean"]))
    assert len(rows[0]["probabilities"]) == 4
    run = minbert.open(mine.root).run("shared")
    assert run.model("news")([lines[0][2]])["label"].tolist() == [rows[0]["label"]]
    mrpc = predicted("--task", "mrpc", "--in", str(mine.folder / "mrpc.tsv"))
    pairs = {row["id"]: row for row in mrpc}
    dev = run.predictions.query("task == 'mrpc' and split == 'dev'").to_dict("records")
    assert len(dev) > 20
    for row in dev:
        assert pairs[row["id"]]["prediction"] == row["prediction"]
        assert pairs[row["id"]]["sentence2"] == row["sentence2"]


def test_its_figures_are_drawn_and_nothing_is_left_to_do(mine: Project) -> None:
    for path in ("topics", "pairs", "similarity", "ranking"):
        assert (mine.root / "figures" / "mine" / f"{path}.png").stat().st_size > 5000
    assert mine.jobs() == set()
