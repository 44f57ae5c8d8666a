"""The four papers' grids: every published row is there, and trains what its paper says."""

from __future__ import annotations

import pytest
from grid_texts import spec
from planning import REPOSITORY as ROOT

from minbert.figures.sweep import Spec as Sweep
from minbert.plan.cost import SIZES
from minbert.plan.figures import FIGURES
from minbert.spec.architecture import shared_depth
from minbert.spec.config import load_config
from minbert.spec.epochs import EPOCHS, Epoch
from minbert.spec.model import Spec
from minbert.spec.parts import PARTS
from minbert.spec.published import read_published
from minbert.spec.resolve import Grid, StageRef, resolve
from minbert.spec.stage import StageSpec
from minbert.spec.yaml import load_yaml

R9_DROPOUTS = "r9-dropout-0.4 r9-dropout-0.5 r9-dropout-0.6"
PUBLISHED = read_published(ROOT / "workflow" / "published.csv")


@pytest.fixture(scope="module")
def grids() -> dict[str, Grid]:
    found = resolve(load_config(ROOT / "config.yaml"), ROOT)
    return {grid.paper: grid for grid in found}


def test_every_published_row_has_its_variant(grids: dict[str, Grid]) -> None:
    assert len(PUBLISHED) == 56
    for row in PUBLISHED:
        variant = grids[row.paper].variants[row.variant]
        assert variant.test or row.split == "dev", row
        of = (grids[row.paper].variants[name] for name in (row.variant, *variant.best_of))
        scored = {task for each in of for task in each.scored}
        reported = {name for name in ("sst", "para", "sts") if row.figures[name] is not None}
        assert reported <= scored, row
        assert not row.other_task or row.other_task in scored, row


def test_every_part_is_used_by_some_row(grids: dict[str, Grid]) -> None:
    used = {
        part
        for grid in grids.values()
        for variant in grid.variants.values()
        for stage in variant.stages
        for part in stage.spec.parts()
    }
    over_all = load_yaml(ROOT / FIGURES)["figures"].values()
    kinds = {figure.kind for grid in grids.values() for figure in grid.figures.values()}
    used |= {f"figure:{kind}" for kind in kinds | {figure["kind"] for figure in over_all}}
    known = {f"{kind}:{name}" for kind, parts in PARTS.items() for name in parts}
    # What no paper has is compared with a reference each, in tests of their own.
    kinds = ("surgery:", "weighting:", "architecture:", "encoder:")
    others = {part for part in known if part.startswith(kinds)}
    others |= {"sampler:temperature", "sampler:annealed", "trainable:lora", "schedule:linear"}
    others |= {"figure:sweep"}
    assert known - used == others - {"surgery:pcgrad", "surgery:pytorch_pcgrad"}


def test_hybrid_bert_table_1(grids: dict[str, Grid]) -> None:
    grid = grids["hybrid-bert"]
    assert [name for name, v in grid.variants.items() if v.test] == ["hybrid-bert-40"]
    rows = {
        name: spec(grid, name) for name in ("1-bert", "3-bert", "hybrid-bert", "hybrid-bert-40")
    }
    assert {n: (s.shared_layers, s.surgery, s.epochs) for n, s in rows.items()} == {
        "1-bert": ("all", "pcgrad", 20),
        "3-bert": ("none", None, 20),
        "hybrid-bert": (0.5, "pcgrad", 20),
        "hybrid-bert-40": (0.5, "pcgrad", 40),
    }
    losses = ["cross_entropy", "binary_cross_entropy", "mse"]
    for row in rows.values():
        assert (row.trainable, row.sampler.name, row.optimiser.schedule.name) == (
            *("all", "unified", "constant"),
        )
        assert (row.optimiser.lr, row.optimiser.weight_decay) == (1e-5, 0.001)
        assert [row.tasks[t].loss for t in row.ordered_tasks] == losses
        assert [row.tasks[t].pairing for t in row.ordered_tasks] == [None, "cross", "cross"]
        assert {
            (t.head.depth, t.head.width, t.head.dropout, t.batch_size, t.pooling)
            for t in row.tasks.values()
        } == {(3, 256, 0.3, 16, "cls")}
    baseline = spec(grid, "baseline")
    assert (baseline.trainable, baseline.trained_tasks) == ("heads", ("sst",))
    assert (baseline.shared_layers, baseline.surgery, baseline.epochs) == ("all", None, 10)
    assert [baseline.tasks[t].features for t in ("sst", "para", "sts")] == [None, *[("u", "v")] * 2]
    assert {t.head.depth for t in baseline.tasks.values()} == {1}


def test_hybrid_bert_table_3(grids: dict[str, Grid]) -> None:
    grid = grids["hybrid-bert"]
    named = {name for name in grid.variants if name.startswith("sequential")}
    rows = {n: spec(grid, n) for n in named - {"sequential-sts-first", "sequential-unified"}}
    assert {n: (s.optimiser.schedule.name, s.optimiser.weight_decay) for n, s in rows.items()} == {
        "sequential-onecycle": ("onecycle", 0.0),
        "sequential-cosine": ("cosine", 0.0),
        "sequential-cosine-wd1e-3": ("cosine", 1e-3),
        "sequential": ("constant", 0.0),
        "sequential-wd1e-4": ("constant", 1e-4),
        "sequential-wd1e-3": ("constant", 1e-3),
        "sequential-wd1e-2": ("constant", 1e-2),
    }
    for row in rows.values():
        assert row.sampler.name == "sequential" and row.sampler.order == ("sst", "para", "sts")
        assert (row.trainable, row.epochs, row.surgery) == ("all", 10, None)
        assert row.tasks == {
            name: task.model_copy(update={"trained": True})
            for name, task in spec(grid, "baseline").tasks.items()
        }


def test_hybrid_bert_in_words(grids: dict[str, Grid]) -> None:
    grid = grids["hybrid-bert"]
    frozen = spec(grid, "baseline").optimiser
    assert (frozen.lr, frozen.weight_decay) == (1e-3, 0.0)
    reverse, unified = (spec(grid, f"sequential-{name}") for name in ("sts-first", "unified"))
    assert changed(spec(grid, "sequential"), reverse) == {"sampler"}
    assert reverse.sampler.order == ("sts", "para", "sst")
    assert changed(spec(grid, "sequential"), unified) == {"sampler"}
    assert unified.sampler == spec(grid, "1-bert").sampler
    whole = spec(grid, "hybrid-bert")
    for same in ("depth-3", "dropout-0.3", "cross"):
        assert spec(grid, f"hybrid-bert-{same}") == whole
    depths = [spec(grid, f"hybrid-bert-depth-{n}").tasks["sts"].head.depth for n in (1, 2, 3, 4)]
    assert depths == [1, 2, 3, 4]
    assert spec(grid, "hybrid-bert-hadamard").tasks["para"].features == ("u", "v", "u*v")
    for name in ("1-bert", "hybrid-bert"):
        off = spec(grid, f"{name}-no-surgery")
        assert off == spec(grid, name).model_copy(update={"surgery": None})


def test_adapter_fusion(grids: dict[str, Grid]) -> None:
    grid = grids["adapter-fusion"]
    names = {"lmrd": ("sst", "para", "sts"), "sst": ("para", "sts"), "para": ("sst", "sts")}
    names["sts"] = ("sst", "para")
    for start, targets in names.items():
        for target in targets:
            (stage,) = grid.variants[f"{start}-to-{target}"].stages
            assert stage.start == StageRef("adapter-fusion", "full-mean", start)
            assert stage.spec.trained_tasks == (target,)
            assert set(stage.spec.tasks) == {start, target}
            assert (stage.spec.epochs, stage.spec.optimiser.lr) == (10, 1e-5)
    assert spec(grid, "lmrd-to-sst").tasks["sst"].init_head_from == "lmrd"
    assert [s.spec.epochs for s in grid.variants["full-mean"].stages] == [5, 10, 10, 10]
    (of_last,) = {task.pooling for task in spec(grid, "last-linear").tasks.values()}
    (of_cls,) = {task.pooling for task in spec(grid, "last-linear-cls").tasks.values()}
    assert (of_last, of_cls) == ("mean", "cls")
    for name, pooling in (("full-cls", "cls"), ("full-mean", "mean")):
        for stage in grid.variants[name].stages:
            (task,) = stage.spec.tasks.values()
            assert (task.pooling, task.batch_size, stage.start) == (pooling, 16, None)
    para, sts = (spec(grid, "full-mean", name).tasks[name] for name in ("para", "sts"))
    assert (para.head.name, para.head.depth, para.loss) == ("cosine", 0, "cosine_embedding")
    assert (sts.head.name, sts.head.depth, sts.loss) == ("cosine", 0, "cosine_mse")
    adapters = {s.ref.stage: s for s in grid.variants["adapter"].stages}
    assert list(adapters) == ["lmrd", "sst", "para", "sts"]
    assert {s.spec.optimiser.lr for s in adapters.values()} == {1e-4}
    assert {s.spec.adapter.width for s in adapters.values() if s.spec.adapter} == {64}
    for name, fused in (("", list(adapters)), ("-no-para", ["lmrd", "sst", "sts"])):
        for stage in grid.variants[f"adapter-fusion{name}"].stages:
            assert stage.fused == tuple(adapters[each].ref for each in fused)
            assert (stage.spec.trainable, stage.spec.optimiser.lr) == ("fusion", 5e-5)
    assert grid.single == "full-mean"
    best = grid.variants["best"]
    assert best.best_by == "task" and best.test and "last-linear" not in best.best_of


def test_minbert_downstream(grids: dict[str, Grid]) -> None:
    grid = grids["minbert-downstream"]
    assert grid.overall == "plain"
    assert spec(grid, "sst-finetune").tasks["sst"].batch_size == 64
    assert spec(grid, "cfimdb-finetune").tasks["cfimdb"].batch_size == 8
    assert {spec(grid, n).optimiser.lr for n in ("r1", "r3", "sst-last-linear")} == {1e-3}
    assert {spec(grid, n).trainable for n in ("r1", "r3", "cfimdb-last-linear")} == {"heads"}
    r2, r4 = spec(grid, "r2"), spec(grid, "r4")
    assert (r4.reduction, r4.sampler.name, r4.epochs, r4.select) == ("mean", "unified", 10, "plain")
    assert (r4.dropout.sublayer, spec(grid, "r11").dropout.sublayer) == (0.0, 0.1)
    assert r2.tasks["sts"].head.name == "mlp"
    assert changed(r2.tasks["sts"], r4.tasks["sts"]) == {"pooling", "head", "loss"}
    assert (r4.tasks["sts"].head.name, r4.tasks["sts"].head.depth) == ("cosine", 1)
    assert spec(grid, "r7") == r4
    assert changed(r4, spec(grid, "r6")) == {"smart"}
    assert changed(r4, spec(grid, "r8")) == {"surgery"}
    assert changed(r4, spec(grid, "r8-library")) == {"surgery", "reduction"}
    assert changed(r4, spec(grid, "r4-alternating")) == {"sampler"}
    assert epoch(spec(grid, "r4-alternating")).steps == 3 * epoch(r4).steps
    for task in ("sst", "cfimdb"):
        one, fixed = (spec(grid, f"{task}-finetune{more}") for more in ("", "-dropout"))
        assert (one.dropout, changed(one, fixed)) == (r4.dropout, {"dropout"})
        assert fixed.dropout == spec(grid, "r11").dropout
    first, second = grid.variants["r5"].stages
    assert first.spec.trained_tasks == ("para",) and second.start == first.ref
    assert changed(r4, second.spec) == {"start"}
    tried = [spec(grid, name) for name in grid.variants["r9"].best_of]
    assert {s.optimiser.lr for s in tried} == {1e-4, 1e-5, 1e-6, 1e-7}
    assert {s.tasks["sst"].head.dropout for s in tried} == {0.3, 0.4, 0.5, 0.6}
    assert {s.epochs for s in tried} == {6}
    assert spec(grid, "shallow-para").tasks["para"].head.depth == 1
    assert spec(grid, "deep-sts").tasks["sts"].head.depth == 3
    smart = {n: spec(grid, n).smart for n in grid.variants if n.startswith("smart-")}
    assert {s.weight for s in smart.values() if s} == {1, 3, 5} and len(smart) == 6
    summed, means, kl = (spec(grid, f"r6{more}").smart for more in ("", "-means", "-means-kl"))
    assert summed and means and changed(means, summed) == {"divergence", "reduction"}
    assert kl and changed(means, kl) == {"regression"} and kl.regression == "symmetric_kl"
    assert (summed.weight, summed.divergence, summed.reduction) == (5, "detached_kl", "sum")
    assert {
        n for n, s in smart.items() if s and (s.divergence, s.reduction) == ("detached_kl", "sum")
    } == {f"smart-sst-{weight}" for weight in (1, 3, 5)}
    for chosen in (summed, *smart.values()):
        assert chosen and (chosen.normalise, chosen.noise, chosen.step) == ("token", 1e-5, 1e-3)
        assert chosen.ascents == 1
    assert {s.regression for n, s in smart.items() if s and "sts" in n} == {"symmetric_kl"}
    assert {t.pooling for n in ("r1", "r2") for t in spec(grid, n).tasks.values()} == {"cls"}


def changed(one: Spec, other: Spec) -> set[str]:
    return {name for name in type(one).model_fields if getattr(one, name) != getattr(other, name)}


def test_minibert_unleashed(grids: dict[str, Grid]) -> None:
    grid = grids["minibert-unleashed"]
    stages = grid.variants["baseline"].stages
    assert [s.spec.trained_tasks for s in stages] == [("sst",), ("sts",), ("para",)]
    assert set(stages[-1].spec.tasks) == {"sst", "sts", "para"}
    assert [s.start for s in stages] == [None, stages[0].ref, stages[1].ref]
    sr, rss = spec(grid, "sr"), spec(grid, "rss")
    assert {t.batch_size for t in sr.tasks.values()} == {8} and sr.sampler.examples is None
    assert (rss.sampler.name, rss.sampler.share) == ("recycled", 0.495)
    assert {n: t.batch_size for n, t in rss.tasks.items()} == {"sst": 8, "para": 128, "sts": 8}
    rows = [v.name for v in grid.variants.values() if v.name.startswith("rss")]
    # 1,094 steps are the paper's epoch (section 6.1), over twice as many pairs.
    assert (stages[-1].spec.epochs, sr.epochs, rss.epochs) == (20, 20, 20)
    assert epoch(rss).steps == 1094 // 2 + 1
    apart = [rows.pop(rows.index(name)) for name in ("rss-mean", "rss-distance")]
    poolings = {name: {t.pooling for t in spec(grid, name).tasks.values()} for name in rows}
    assert poolings.pop("rss") == {"cls"} and poolings.pop("rss-mtp-gs-cnn") == {"max"}
    assert set.union(*poolings.values()) == {"mean"}
    assert [n for n in rows if spec(grid, n).surgery] == rows[3:]
    both = {task: changed(rss.tasks[task], spec(grid, "rss-mp").tasks[task]) for task in rss.tasks}
    assert both == {"sst": {"pooling"}, "para": (two := {"pooling", "features"}), "sts": two}
    for name, one in zip(apart, ("pooling", "features"), strict=True):
        alone = spec(grid, name).tasks
        assert all(changed(rss.tasks[task], alone[task]) == {one} & both[task] for task in both)
    for name in rows:
        for task in spec(grid, name).tasks.values():
            residual = {None: None, True: True, False: False}[
                task.convolution.residual if task.convolution else None
            ]
            assert residual == (None if "cnn" not in name else "res" in name)
            depth = {"1": 2, "2": 3}.get(name[-1] if "mlp" in name else "", 1)
            assert task.head.name == "cosine" or task.head.depth == depth
            assert depth == 1 or task.head.width == 384
    sts = spec(grid, "rss-mp-cs").tasks["sts"]
    assert (sts.head.name, sts.head.depth, sts.loss) == ("cosine", 0, "mse")
    for name, features in (("baseline", ()), ("sr", ()), ("rss", ()), ("rss-mp", ("|u-v|",))):
        for stage in grid.variants[name].stages:
            pairs = [stage.spec.tasks[task] for task in ("para", "sts") if task in stage.spec.tasks]
            assert {task.features for task in pairs} <= {("u", "v", *features)}, name


@pytest.mark.parametrize(
    ("of", "against", "task", "direction", "margin"),
    [
        ("hybrid-bert/sequential-onecycle", "sequential-cosine", "sst", "higher", None),
        ("hybrid-bert/sequential-unified", "sequential", "overall", "higher", None),
        ("adapter-fusion/sts-to-sst", "full-mean", "sst", "same", 0.03),
        ("adapter-fusion/lmrd-to-sts", "full-mean", "sts", "same", 0.02),
        ("adapter-fusion/full-mean", "lmrd-to-para sst-to-para sts-to-para", "para", "same", 0.05),
        ("minbert-downstream/r6", "r7", "para", "same", 0.01),
        ("minbert-downstream/r6-means", "r6-means-kl", "sts", "lower", None),
        ("minbert-downstream/r4", R9_DROPOUTS, "overall", "same", 0.02),
        ("minibert-unleashed/rss-mtp-gs-cnn", "rss-mp-gs-cnn", "overall", "same", 0.02),
    ],
)
def test_claims_have_the_task_and_the_margin_that_the_text_needs(
    grids: dict[str, Grid],
    of: str,
    against: str,
    task: str,
    direction: str,
    margin: float | None,
) -> None:
    paper, _, variant = of.partition("/")
    found = [
        (claim.direction, claim.margin if margin else None)
        for claim in grids[paper].claims
        if (claim.variant, " ".join(claim.others), claim.measure) == (variant, against, "score")
        and task in claim.tasks
    ]
    assert (direction, margin) in found


def test_a_misprint_is_told_beside_its_row(grids: dict[str, Grid]) -> None:
    (row,) = (row for row in PUBLISHED if row.variant == "r3")
    assert (row.figures["sts"], row.figures["overall"]) == (0.397, None)
    note = grids["minbert-downstream"].variants["r3"].note or ""
    assert "-0.048" in note and "-0.048" in row.note


@pytest.mark.parametrize(
    ("paper", "multitask"),
    [("hybrid-bert", "3-bert"), ("minbert-downstream", "r4"), ("minibert-unleashed", "rss-mp")],
)
def test_single_tasks_are_those_of_a_multitask_row_in_as_many_steps(
    grids: dict[str, Grid], paper: str, multitask: str
) -> None:
    grid = grids[paper]
    assert grid.single == "single-task"
    together = spec(grid, multitask)
    examples = epoch(together)
    for stage in grid.variants["single-task"].stages:
        task, alone = stage.ref.stage, stage.spec
        assert stage.start is None
        assert alone.tasks == {task: together.tasks[task].model_copy(update={"trained": True})}
        assert changed(together, alone) <= {"tasks", "sampler", "shared_layers"}
        assert epoch(alone) == (examples[0], {task: examples[1][task]})


def epoch(of: StageSpec) -> Epoch:
    """Return the steps and examples of an epoch on the course's files."""
    return EPOCHS[of.sampler.name](of, {task: SIZES[task].train for task in of.trained_tasks})


@pytest.mark.parametrize(("name", "layers"), [("depths", 6), ("gte", 12)])
def test_each_model_of_the_study_stands_at_the_layers_that_it_shares(
    name: str, layers: int
) -> None:
    study = (ROOT / "study" / f"{of}.yaml" for of in ("v1/settings", "minilm", name))
    found = resolve(load_config(list(study)), ROOT)
    (grid,) = (grid for grid in found if grid.paper == "hybrid-bert")
    options = grid.figures["sharing-depth"].options
    lines = Sweep(title="T", stamp="", variants=dict.fromkeys(grid.variants, "V"), **options).lines
    for label, places in lines.items():
        assert set(places.values()) >= {0, layers / 2, layers}
        for variant, place in places.items():
            ((stage),) = grid.variants[variant].stages
            assert place == (shared_depth(stage.spec.shared_layers, layers) or 0), variant
            assert place == 0 or bool(stage.spec.surgery) == (label == "with PCGrad"), variant
