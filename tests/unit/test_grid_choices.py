"""Which tasks a stage trains and carries, what a variant chooses from, and what stages fuse."""

from pathlib import Path
from typing import Any

import pytest

from minbert.base.errors import UserError
from minbert.spec.config import load_config
from minbert.spec.resolve import Grid, resolve
from minbert.spec.stage import StageSpec

TEXT = """
paper: demo
title: A demo
overall: plain
templates:
  all:
    tasks:
      sst: {loss: cross_entropy}
      lmrd: {loss: cross_entropy}
      para: {pairing: siamese, features: [u, v], loss: binary_cross_entropy}
  adapted: {extends: all, trainable: adapters, adapter: {width: 4}}
variants:
"""


def grid(tmp_path: Path, variants: str, **config: Any) -> Grid:
    (tmp_path / "g.yaml").write_text(TEXT + variants)
    (found,) = resolve(load_config({"grids": ["g.yaml"], **config}), tmp_path)
    return found


def spec(found: Grid, variant: str, stage: str = "main") -> StageSpec:
    return {s.ref.stage: s.spec for s in found.variants[variant].stages}[stage]


def problem(tmp_path: Path, variants: str, **config: Any) -> str:
    with pytest.raises(UserError) as error:
        grid(tmp_path, variants, **config)
    return str(error.value)


def test_train_takes_tasks_and_also_score_carries_them(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        """
  one: {extends: all, train: sst}
  two: {extends: all, train: [para, sst], also_score: lmrd}
  rest: {extends: all, also_score: [para]}
  held: {extends: all, also_score: para, tasks: {lmrd: {trained: false}}}
  again: {extends: held, train: [sst, lmrd]}
  row:
    extends: all
    stages:
      - {name: first, train: sst}
      - {name: second, train: para, also_score: sst, start: first}
""",
    )
    assert list(spec(found, "one").tasks) == ["sst"]
    assert spec(found, "two").trained_tasks == ("sst", "para")
    assert spec(found, "two").ordered_tasks == ("sst", "para", "lmrd")
    assert spec(found, "rest").trained_tasks == ("sst", "lmrd")
    assert spec(found, "held").trained_tasks == ("sst",)
    assert spec(found, "again").trained_tasks == ("sst", "lmrd")
    assert spec(found, "row", "first").ordered_tasks == ("sst",)
    assert spec(found, "row", "second").trained_tasks == ("para",)
    assert found.variants["row"].scored["sst"] == found.variants["row"].stages[1]


def test_train_can_be_expanded(tmp_path: Path) -> None:
    found = grid(tmp_path, "  a-{train}: {extends: all, expand: {train: [sst, para]}}\n")
    assert {n: v.stages[0].spec.trained_tasks for n, v in found.variants.items()} == {
        "a-sst": ("sst",),
        "a-para": ("para",),
    }


def test_a_choice_among_variants(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        "  a: {extends: all}\n  b: {extends: all, epochs: 3}\n"
        "  c: {best_of: [a, b], best_by: task, test: true, note: n}\n",
    )
    chosen = found.variants["c"]
    assert (chosen.best_of, chosen.best_by, chosen.test) == (("a", "b"), "task", True)
    assert chosen.stages == () and found.variants["a"].best_of == ()


def test_fused_stages_are_found(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        """
  ad: {extends: adapted, stages: [{name: sst, train: sst}, {name: para, train: para}]}
  fu: {extends: all, trainable: fusion, fuse: [ad/sst, ad/para], train: para}
""",
    )
    (stage,) = found.variants["fu"].stages
    assert [str(ref) for ref in stage.fused] == ["ad/sst", "ad/para"]
    assert stage.start is None


def test_the_grid_beats_defaults_and_override_beats_the_grid(tmp_path: Path) -> None:
    text = """
  plain: {extends: all}
  said: {extends: all, optimiser: {schedule: {name: constant}}, tasks: {sst: {weight: 5}}}
"""
    found = grid(
        tmp_path,
        text,
        defaults={
            "optimiser": {"schedule": {"name": "linear", "warmup": 0.1}},
            "tasks": {"*": {"weight": 2}, "sts": {"weight": 9}},
        },
        override={"tasks": {"*": {"batch_size": 4}, "sts": {"batch_size": 9}}},
    )
    assert spec(found, "plain").optimiser.schedule.name == "linear"
    assert spec(found, "said").optimiser.schedule.name == "constant"
    assert {t.weight for t in spec(found, "plain").tasks.values()} == {2.0}
    assert spec(found, "said").tasks["sst"].weight == 5
    assert {t.batch_size for t in spec(found, "said").tasks.values()} == {4}
    assert "sts" not in spec(found, "said").tasks


def test_heads_alone_have_factors_of_their_own_and_no_budget(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        """
  whole: {extends: all}
  frozen: {extends: all, trainable: heads}
""",
        scale={
            "learning_rate": 10,
            "epochs": 0.1,
            "steps": {"per_epoch": 30},
            "batch_size": {"largest": 2},
            "heads": {"learning_rate": 3, "epochs": 2},
        },
    )
    whole, frozen = spec(found, "whole"), spec(found, "frozen")
    assert (whole.optimiser.lr, whole.epochs, whole.sampler.steps) == (1e-4, 1, 300)
    assert (frozen.optimiser.lr, frozen.epochs, frozen.sampler.steps) == (3e-5, 20, None)
    assert {t.batch_size for t in whole.tasks.values()} == {2}
    assert {t.batch_size for t in frozen.tasks.values()} == {16}


def test_a_budget_keeps_the_ratios_of_epochs_and_of_batches(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        """
  ten: {extends: all}
  forty: {extends: all, epochs: 40}
  one: {extends: all, epochs: 1}
  uneven:
    extends: all
    tasks: {"*": {batch_size: 16}, sst: {batch_size: 128}, lmrd: {batch_size: 4}}
  in-turn: {extends: all, sampler: {name: sequential}, tasks: {lmrd: {trained: false}}}
""",
        scale={
            "epochs": 0.15,
            "steps": {"per_epoch": 25, "least": 100},
            "batch_size": {"largest": 64, "least": 6},
        },
    )

    def steps(variant: str) -> int:
        one = spec(found, variant)
        assert one.sampler.steps
        return one.epochs * one.sampler.steps

    assert (spec(found, "ten").epochs, steps("ten"), steps("forty")) == (2, 250, 1002)
    assert (spec(found, "forty").epochs, steps("one")) == (6, 100)
    uneven = spec(found, "uneven").tasks
    sizes = {name: task.batch_size for name, task in uneven.items()}
    # Half of each; none below 6 but one that was smaller.
    assert sizes == {name: {"sst": 64, "lmrd": 4}.get(name, 8) for name in uneven}
    divided = {"epochs": 0.15, "steps": {"per_epoch": 25, "least": 100, "epochs": 10}}
    forty = spec(grid(tmp_path, "  forty: {extends: all, epochs: 40}\n", scale=divided), "forty")
    assert (forty.epochs, forty.sampler.steps) == (10, 100)
    small = grid(
        tmp_path,
        '  uneven: {extends: all, tasks: {"*": {batch_size: 8}, sst: {batch_size: 128}}}\n',
        scale={"batch_size": {"largest": 64, "least": 6}},
    )
    assert spec(small, "uneven").tasks["para"].batch_size == 6
    tasks = len(spec(found, "in-turn").trained_tasks)  # each step has one of them
    assert steps("in-turn") == 250 * tasks


def test_smart_with_weight_zero_is_no_smart(tmp_path: Path) -> None:
    found = grid(
        tmp_path, "  a: {extends: all}\n  b: {extends: all, smart: {weight: 0, noise: 1e-2}}\n"
    )
    assert spec(found, "a") == spec(found, "b")


COSINE = "tasks: {para: {head: {name: cosine, depth: 0}, loss: cosine_embedding}}"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("  a: {extends: all, train: sts}", ["'train' names 'sts'", "sst, lmrd, para"]),
        ("  a: {extends: all, train: spt}", ["Did you mean 'sst'?"]),
        ("  a: {extends: all, train: {sst: 1}}", ["'train' is a task or a list of tasks"]),
        ("  a: {extends: all, train: sst, also_score: sst}", ["in 'train' and in 'also_score'"]),
        ("  a: {extends: all}\n  b: {best_of: [c]}", ["variant 'b'", "unknown 'c'"]),
        (
            "  a: {extends: all}\n  b: {best_of: [a]}\n  c: {best_of: [b]}",
            ["variant 'c'", "itself the best of others", "a"],
        ),
        ("  a: {extends: all}\n  b: {best_of: [a], epochs: 2}", ["'epochs' does not apply"]),
        (
            "  a: {extends: all}\n  b: {best_of: [a]}\n  c: {extends: all, start: b}",
            ["'start: b'", "has no stage"],
        ),
        ("  a: {extends: all, trainable: adapters}", ["'adapter' (its width)"]),
        ("  a: {extends: all, adapter: {width: 2}}", ["'trainable: adapters' go together"]),
        ("  a: {extends: all, trainable: fusion}", ["'fuse' (stages with adapters)"]),
        (
            "  a: {extends: adapted}\n  b: {extends: all, trainable: fusion, fuse: [a, a]}",
            ["two or more different stages"],
        ),
        (
            "  a: {extends: adapted}\n  b: {extends: all}\n"
            "  c: {extends: all, trainable: fusion, fuse: [a, b]}",
            ["'fuse' names 'b/main'", "trains no adapters", "trainable: all"],
        ),
        (
            "  a: {extends: all, trainable: fusion, fuse: [b, c]}\n"
            "  b: {extends: adapted}\n  c: {extends: all, trainable: fusion, fuse: [a, b]}",
            ["'fuse' names 'c/main'", "trains no adapters"],
        ),
        (
            "  a: {extends: adapted}\n  b: {extends: all, start: a}",
            ["starts from 'a/main'", "leaves no encoder"],
        ),
        (
            "  a: {extends: adapted, start: b}\n  b: {extends: all}",
            ["'trainable: adapters' starts from the backbone"],
        ),
        (
            "  a: {extends: adapted, shared_layers: none}",
            ["'shared_layers' with 'trainable: adapters'"],
        ),
        (
            "  a: {extends: all, trainable: heads, smart: {weight: 1}}",
            ["'smart' with 'trainable: heads'"],
        ),
        (
            "  a: {extends: all, trainable: heads, tasks: {sst: {convolution: {}}}}",
            ["task 'sst'", "'convolution' with 'trainable: heads'"],
        ),
        ("  a: {extends: all, tasks: {sst: {convolution: {kernel: 4}}}}", ["an odd width"]),
        ("  a: {extends: all, tasks: {sst: {head: {depth: 0}}}}", ["'depth' of 1 or more"]),
        (
            "  a: {extends: all, tasks: {sst: {head: {name: cosine}}}}",
            ["task 'sst'", "'features: [u, v]'"],
        ),
        (
            "  a: {extends: all, tasks: {para: {loss: cosine_embedding}}}",
            ["task 'para'", "reads a cosine"],
        ),
        (
            f"  a: {{extends: all, {COSINE[:-2]}, features: [v, u]}}}}}}",
            ["compares two embeddings"],
        ),
        (
            "  a: {extends: all, tasks: {sst: {head_from: lmrd}}}",
            ["'head_from: lmrd' needs a stage to start from"],
        ),
        (
            "  a: {extends: all, train: sst}\n"
            "  b: {extends: all, start: a, tasks: {sst: {head_from: lmrd}}}",
            ["'head_from: lmrd'", "'a/main' has no such task", "sst"],
        ),
        (
            "  a: {extends: all, train: lmrd, tasks: {lmrd: {head: {depth: 2}}}}\n"
            "  b: {extends: all, train: sst, start: a, tasks: {sst: {head_from: lmrd}}}",
            ["'head_from: lmrd'", "another shape in 'a/main'"],
        ),
        (
            "  a: {extends: all, smart: {weight: 1, regression: kl}}",
            ["unknown divergence 'kl'", "symmetric_kl"],
        ),
        (
            "  a: {extends: all, smart: {weight: 1, radius: 1e-5}}",
            ["'smart'", "'radius' and 'normalise: row' go together", "with 'normalise: token'"],
        ),
        (
            "  a: {extends: all, smart: {weight: 1, normalise: row}}",
            ["'smart'", "'radius' and 'normalise: row' go together", "found 'radius: None'"],
        ),
    ],
)
def test_problems(tmp_path: Path, text: str, parts: list[str]) -> None:
    message = problem(tmp_path, text + "\n")
    for part in parts:
        assert part in message, message


def test_a_figure_of_a_choice_is_refused(tmp_path: Path) -> None:
    text = "  a: {extends: all}\n  b: {best_of: [a]}\n"
    figure = "figures: {f: {kind: loss-curves, title: T, variants: [b]}}\n"
    assert "figure 'f': variant 'b' is the best of others" in problem(tmp_path, text + figure)


def test_what_a_configuration_cannot_set(tmp_path: Path) -> None:
    assert "'fuse' cannot be set" in problem(tmp_path, "  a: {}", defaults={"fuse": ["a"]})
    message = problem(tmp_path, "  a: {extends: all}\n", defaults={"epoch": 3})
    assert "defaults.epoch" in message and "Did you mean 'epochs'?" in message


def test_a_paper_without_a_title_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text("paper: demo\nvariants: {}\n")
    with pytest.raises(UserError, match="the key 'title' is missing"):
        resolve(load_config({"grids": ["g.yaml"]}), tmp_path)


def test_a_further_file_of_five_lines_comes_first_or_last(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(TEXT + "  a: {extends: all}\n")
    (tmp_path / "mine.yaml").write_text("paper: demo\nvariants:\n  b: {extends: a, epochs: 2}\n")
    for names in (["g.yaml", "mine.yaml"], ["mine.yaml", "g.yaml"]):
        (found,) = resolve(load_config({"grids": names}), tmp_path)
        assert sorted(found.variants) == ["a", "b"]
        assert (found.title, found.overall) == ("A demo", "plain")
