"""The four papers' grids: every published row is there, and trains what its paper says."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest
from grid_texts import spec
from planning import REPOSITORY as ROOT

from minbert.plan.cost import SIZES
from minbert.spec.config import load_config
from minbert.spec.epochs import Epoch, epoch_of
from minbert.spec.published import read_published
from minbert.spec.resolve import Grid, Stage, resolve
from minbert.spec.stage import StageSpec

PUBLISHED = read_published(ROOT / "workflow" / "published.csv")


@pytest.fixture(scope="module")
def grids() -> dict[str, Grid]:
    found = resolve(load_config([ROOT / "config.yaml"]), ROOT)
    return {grid.paper: grid for grid in found}


def test_every_published_row_has_its_variant(grids: dict[str, Grid]) -> None:
    assert len(PUBLISHED) == 56
    for row in PUBLISHED:
        variant = grids[row.paper].variants[row.variant]
        assert variant.test or row.split == "dev", row
        of = (grids[row.paper].variants[name] for name in (row.variant, *variant.best_of))
        scored = {task for each in of for task in each.scored}
        reported = {name for name in ("sst", "para", "sts") if name in row.figures}
        assert reported <= scored, row
        assert not row.other_task or row.other_task in scored, row


ROWS: dict[str, dict[str, Any]] = {
    "hybrid-bert": {
        # Table 1.
        "1-bert 3-bert hybrid-bert hybrid-bert-40: optimiser.lr": 1e-5,
        "1-bert 3-bert hybrid-bert hybrid-bert-40: optimiser.weight_decay": 0.001,
        "1-bert 3-bert hybrid-bert hybrid-bert-40: tasks.*.head.depth": 3,
        "1-bert 3-bert hybrid-bert hybrid-bert-40: tasks.*.head.width": 256,
        "1-bert 3-bert hybrid-bert hybrid-bert-40: tasks.*.head.dropout": 0.3,
        "1-bert 3-bert hybrid-bert hybrid-bert-40: tasks.*.batch_size": 16,
        "1-bert: shared_layers": "all",
        "3-bert: shared_layers": "none",
        "hybrid-bert hybrid-bert-40: shared_layers": 0.5,
        "1-bert hybrid-bert hybrid-bert-40: surgery": "pcgrad",
        "1-bert 3-bert hybrid-bert: epochs": 20,
        "hybrid-bert-40: epochs": 40,
        "baseline: trainable": "heads",
        "baseline: trained_tasks": ("sst",),
        "baseline: optimiser.lr": 1e-3,
        "baseline sequential*: tasks.para.features": ("u", "v"),
        "baseline sequential*: tasks.*.head.depth": 1,
        # Table 3.
        "sequential sequential-[ocw]*: sampler.name": "sequential",
        "sequential sequential-[ocw]*: sampler.order": ("sst", "para", "sts"),
        "sequential-onecycle: optimiser.schedule.name": "onecycle",
        "baseline sequential *-onecycle *-cosine: optimiser.weight_decay": 0.0,
        "sequential-wd1e-4: optimiser.weight_decay": 1e-4,
        "sequential-wd1e-3 sequential-cosine-wd1e-3: optimiser.weight_decay": 1e-3,
        # In words.
        **{f"hybrid-bert-depth-{n}: tasks.sts.head.depth": n for n in (1, 2, 3, 4)},
    },
    "adapter-fusion": {
        **{f"*-to-{task}: trained_tasks": (task,) for task in ("sst", "para", "sts")},
        "lmrd-to-sst: tasks.sst.init_head_from": "lmrd",
        "full-mean/lmrd: epochs": 5,
        "last-linear full-mean: tasks.*.pooling": "mean",
        "last-linear-cls full-cls: tasks.*.pooling": "cls",
        "full-mean/para full-mean/sts: tasks.*.head.name": "cosine",
        "full-mean/sts: tasks.*.loss": "cosine_mse",
        "adapter: optimiser.lr": 1e-4,
        "adapter-fusion*: trainable": "fusion",
        "adapter-fusion*: optimiser.lr": 5e-5,
    },
    "minbert-downstream": {
        "cfimdb-finetune: tasks.cfimdb.batch_size": 8,
        "r1 r3 *-last-linear: optimiser.lr": 1e-3,
        "r1 r3 *-last-linear: trainable": "heads",
        "r4: reduction": "mean",
        "r11 *-finetune-dropout: dropout.sublayer": 0.1,
        "r4: tasks.sts.head.name": "cosine",
        "r4: tasks.sts.head.depth": 1,
        "r5/*: trained_tasks": {("para",), ("sst", "para", "sts")},
        "r9-*: epochs": 6,
        "deep-sts: tasks.sts.head.depth": 3,
        "smart-*: smart.weight": {1, 3, 5},
        "smart-sts-*: smart.regression": "symmetric_kl",
        "r6: smart.weight": 5,
        "r6 smart-sst-*: smart.divergence": "detached_kl",
        "r6 smart-sst-*: smart.reduction": "sum",
        "r6-means-kl: smart.regression": "symmetric_kl",
    },
    "minibert-unleashed": {
        "baseline/*: trained_tasks": {("sst",), ("sts",), ("para",)},
        "sr rss: epochs": 20,
        "sr: tasks.*.batch_size": 8,
        "rss: sampler.share": 0.495,
        "rss: tasks.para.batch_size": 128,
        "rss: tasks.sst.batch_size": 8,
        "rss-mtp-gs-cnn: tasks.*.pooling": "max",
        "rss-*gs*: surgery": "pcgrad",
        "rss-*res*: tasks.*.convolution.residual": True,
        "rss-*mlp1: tasks.*.head.depth": 2,
        "rss-*mlp2: tasks.*.head.depth": 3,
        "rss-*mlp?: tasks.*.head.width": 384,
        "rss rss-mp rss-mp-gs rss-*cnn rss-*res: tasks.*.head.depth": 1,
        "rss-mp-cs: tasks.sts.head.name": "cosine",
        "rss-mp-cs: tasks.sts.head.depth": 0,
        "rss-mp: tasks.para.features": ("u", "v", "|u-v|"),
    },
}
"""By paper: `VARIANT ...: KEY`, where `*` is any name, and the value or values of all."""


def matching(grid: Grid, patterns: str) -> list[Stage]:
    """Return the stages whose `VARIANT` or `VARIANT/STAGE` one of some patterns matches."""
    return [
        stage
        for variant in grid.variants.values()
        for stage in variant.stages
        for names in [(str(stage.ref), variant.name)]
        if any(fnmatchcase(name, each) for each in patterns.split() for name in names)
    ]


def values(of: Any, words: list[str]) -> Iterator[Any]:
    """Yield what `words` name below a spec; `*` is each task."""
    if not words:
        yield of
        return
    first, *rest = words
    found = (
        of.values() if first == "*" else [of[first] if isinstance(of, dict) else getattr(of, first)]
    )
    for each in found:
        yield from values(each, rest)


@pytest.mark.parametrize("paper", ROWS)
def test_rows_train_what_their_papers_say(grids: dict[str, Grid], paper: str) -> None:
    found = {}
    for place in ROWS[paper]:
        names, _, key = place.partition(": ")
        stages = matching(grids[paper], names)
        here = {value for stage in stages for value in values(stage.spec, key.split("."))}
        found[place] = here.pop() if len(here) == 1 else here
    assert found == ROWS[paper]


DIFFER = {
    "hybrid-bert": {
        ("1-bert", "1-bert-no-surgery"): {"surgery"},
        ("sequential", "sequential-unified"): {"sampler"},
    },
    "minbert-downstream": {
        ("r4", "r5/main"): {"start"},
        ("r4", "r6"): {"smart"},
        ("r4", "r7"): set(),
        ("r4", "r8-library"): {"surgery", "reduction"},
        ("cfimdb-finetune", "cfimdb-finetune-dropout"): {"dropout"},
    },
}


@pytest.mark.parametrize("paper", DIFFER)
def test_rows_differ_in_what_their_papers_say(grids: dict[str, Grid], paper: str) -> None:
    for names, changed in DIFFER[paper].items():
        one, other = (dict(matching(grids[paper], name)[0].spec) for name in names)
        assert {key for key in one if one[key] != other[key]} == changed, names


def test_stages_start_from_those_that_their_papers_say(grids: dict[str, Grid]) -> None:
    links = {
        str(stage.ref): [str(ref) for ref in stage.after]
        for grid in grids.values()
        for stage in matching(grid, "*")
        if stage.after
    }
    tasks = {"lmrd", "sst", "para", "sts"}
    fused = {"": ("lmrd", "sst", "para", "sts"), "-no-para": ("lmrd", "sst", "sts")}
    assert links == {
        **{f"{a}-to-{b}/main": [f"full-mean/{a}"] for a in tasks for b in tasks - {a, "lmrd"}},
        **{
            f"adapter-fusion{more}/{task}": [f"adapter/{name}" for name in names]
            for more, names in fused.items()
            for task in {"sst", "para", "sts"} & {*names}
        },
        "r5/main": ["r5/pretraining"],
        **{"baseline/sts": ["baseline/sst"], "baseline/para": ["baseline/sts"]},
    }


def test_what_is_chosen_scored_on_test_and_drawn(grids: dict[str, Grid]) -> None:
    tested = [name for name, variant in grids["hybrid-bert"].variants.items() if variant.test]
    assert tested == ["hybrid-bert-40"]
    best = grids["adapter-fusion"].variants["best"]
    assert best.best_by == "task" and best.test and "last-linear" not in best.best_of
    assert grids["adapter-fusion"].single == "full-mean"
    downstream = grids["minbert-downstream"]
    assert downstream.overall == "plain" and len(downstream.variants["r9"].best_of) == 6
    alternating, together = (epoch(spec(downstream, name)) for name in ("r4-alternating", "r4"))
    assert alternating.steps == 3 * together.steps
    # 1,094 steps are the paper's epoch (section 6.1), over twice as many pairs.
    assert epoch(spec(grids["minibert-unleashed"], "rss")).steps == 1094 // 2 + 1


@pytest.mark.parametrize(
    ("paper", "multitask"),
    [("hybrid-bert", "3-bert"), ("minbert-downstream", "r4"), ("minibert-unleashed", "rss-mp")],
)
def test_single_tasks_match_a_multitask(grids: dict[str, Grid], paper: str, multitask: str) -> None:
    grid = grids[paper]
    assert grid.single == "single-task"
    together = spec(grid, multitask)
    steps, examples = epoch(together)
    for stage in grid.variants["single-task"].stages:
        task, alone = stage.ref.stage, stage.spec
        assert alone.tasks == {task: together.tasks[task].model_copy(update={"trained": True})}
        kept = {key: getattr(together, key) for key in ("tasks", "sampler", "shared_layers")}
        assert alone.model_copy(update=kept) == together
        assert epoch(alone) == (steps, {task: examples[task]})


def epoch(of: StageSpec) -> Epoch:
    """Return the steps and examples of an epoch on the course's files."""
    return epoch_of(of, {task: SIZES[task].train for task in of.trained_tasks})
