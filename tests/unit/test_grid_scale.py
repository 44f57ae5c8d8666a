"""Scaled grids: rates, epochs, budgets of steps and sizes of batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from grid_texts import ALL, grid, spec


def test_scale(tmp_path: Path) -> None:
    text = "  a: {extends: t, epochs: 5, optimiser: {lr: 1e-5}}\n  b: {extends: t, epochs: 1}"
    found = grid(tmp_path, ALL + text, scale={"learning_rate": 3, "epochs": 0.3})
    a, b = spec(found, "a"), spec(found, "b")
    assert (a.optimiser.lr, a.epochs, b.epochs) == (3e-5, 2, 1)


def test_heads_alone_have_factors_of_their_own_and_no_budget(tmp_path: Path) -> None:
    found = grid(
        tmp_path,
        ALL + "  whole: {extends: t}\n  frozen: {extends: t, trainable: heads}\n",
        scale={
            "learning_rate": 10,
            "epochs": 0.1,
            "steps": {"per_epoch": 30},
            "batch_size": {"max": 2},
            "heads": {"learning_rate": 3, "epochs": 2},
        },
    )
    whole, frozen = spec(found, "whole"), spec(found, "frozen")
    assert (whole.optimiser.lr, whole.epochs, whole.sampler.steps) == (1e-4, 1, 300)
    assert (frozen.optimiser.lr, frozen.epochs, frozen.sampler.steps) == (3e-5, 20, None)
    assert {t.batch_size for t in whole.tasks.values()} == {2}
    assert {t.batch_size for t in frozen.tasks.values()} == {16}


@pytest.mark.parametrize(
    ("keys", "steps", "epochs", "total"),
    [
        ("epochs: 10", {}, 2, 250),
        ("epochs: 40", {}, 6, 1002),
        ("epochs: 1", {}, 1, 100),
        ("epochs: 40", {"epochs": 10}, 10, 1000),
        # Each step has one of the two trained tasks.
        ("sampler: {name: sequential}, tasks: {lmrd: {trained: false}}", {}, 2, 500),
    ],
)
def test_a_budget_keeps_the_ratios_of_epochs(
    tmp_path: Path, keys: str, steps: dict[str, int], epochs: int, total: int
) -> None:
    scale = {"epochs": 0.15, "steps": {"per_epoch": 25, "min": 100, **steps}}
    one = spec(grid(tmp_path, f"{ALL}  a: {{extends: t, {keys}}}\n", scale=scale), "a")
    assert one.sampler.steps and (one.epochs, one.epochs * one.sampler.steps) == (epochs, total)


@pytest.mark.parametrize(
    ("given", "scaled"),
    [
        ({"sst": 128, "lmrd": 4, "para": 16}, {"sst": 64, "lmrd": 4, "para": 8}),
        ({"sst": 128, "lmrd": 8, "para": 8}, {"sst": 64, "lmrd": 6, "para": 6}),
    ],
)
def test_batches_shrink_together(
    tmp_path: Path, given: dict[str, int], scaled: dict[str, int]
) -> None:
    """By half here; none below 6 but one that was smaller."""
    sizes = ", ".join(f"{task}: {{batch_size: {size}}}" for task, size in given.items())
    text = f"{ALL}  a: {{extends: t, tasks: {{{sizes}}}}}\n"
    found = grid(tmp_path, text, scale={"batch_size": {"max": 64, "min": 6}})
    assert {t: s.batch_size for t, s in spec(found, "a").tasks.items()} == scaled
