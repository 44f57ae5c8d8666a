"""Samplers that draw each step's task: by temperature, and annealed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from minbert.spec.epochs import EPOCHS
from minbert.train.samplers import Step
from minbert.train.samplers.annealed import Annealed
from minbert.train.samplers.temperature import Temperature

SIZES = {"sst": 100, "para": 1600, "sts": 25}


def generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def temperature(make_spec: Any, at: float, **sampler: Any) -> Temperature:
    chosen = {"name": "temperature", "temperature": at, **sampler}
    return Temperature(make_spec(sampler=chosen), SIZES, generator())


def annealed(make_spec: Any, epochs: int, **sampler: Any) -> Annealed:
    spec = make_spec(sampler={"name": "annealed", **sampler}, epochs=epochs)
    return Annealed(spec, SIZES, generator())


def tasks_of(steps: list[Step]) -> Counter[str]:
    return Counter(task for ((task, _),) in steps)


def plain(steps: list[Step]) -> list[tuple[str, list[int]]]:
    return [(task, rows.tolist()) for ((task, rows),) in steps]


def close_to(found: Counter[str], weights: dict[str, float]) -> bool:
    """Return whether each count is within four deviations of what `weights` give."""
    n, whole = found.total(), sum(weights.values())
    expected = {task: w / whole for task, w in weights.items()}
    return all(abs(found[t] - n * p) <= 4 * (n * p * (1 - p)) ** 0.5 for t, p in expected.items())


@pytest.mark.parametrize(
    ("at", "weights"),
    [
        (1.0, {"sst": 100.0, "para": 1600.0, "sts": 25.0}),
        (2.0, {"sst": 10.0, "para": 40.0, "sts": 5.0}),
        (1e9, {"sst": 1.0, "para": 1.0, "sts": 1.0}),
    ],
)
def test_tasks_come_in_proportion_to_a_power_of_their_size(
    at: float, weights: dict[str, float], make_spec: Any
) -> None:
    sampler = temperature(make_spec, at, steps=6000)
    found = tasks_of(list(sampler.epoch()))
    assert found.total() == sampler.steps and close_to(found, weights)
    told = {task: n / sum(sampler.examples.values()) for task, n in sampler.examples.items()}
    whole = sum(weights.values())
    assert told == pytest.approx({t: w / whole for t, w in weights.items()}, abs=1e-3)


def test_larger_tasks_count_as_large_as_examples(make_spec: Any) -> None:
    sampler = temperature(make_spec, 1.0, steps=6000, examples=100)
    assert close_to(tasks_of(list(sampler.epoch())), {"sst": 100, "para": 100, "sts": 25})


def test_a_step_is_a_full_batch_and_all_rows_come_before_one_comes_twice(make_spec: Any) -> None:
    sampler = temperature(make_spec, 2.0)
    steps = list(sampler.epoch())
    one_pass = make_spec(sampler={"name": "sequential"})
    assert len(steps) == EPOCHS["sequential"](one_pass, SIZES).steps
    for task, size in SIZES.items():
        batches = [rows.tolist() for ((name, rows),) in steps if name == task]
        assert {len(batch) for batch in batches} == {4}
        rows = [row for batch in batches for row in batch]
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            assert len(set(part)) == len(part) and set(part) <= set(range(size))
    assert len(tasks_of(steps)) == 3


def test_annealing_goes_from_proportional_to_a_fifth_of_the_power(make_spec: Any) -> None:
    sampler = annealed(make_spec, 5, steps=4000)
    for exponent in (1.0, 0.8, 0.6, 0.4, 0.2):
        steps = list(sampler.rest(0))
        assert sampler.exponent == pytest.approx(exponent)
        assert close_to(tasks_of(steps), {task: n**exponent for task, n in SIZES.items()})


def test_one_epoch_alone_is_proportional(make_spec: Any) -> None:
    sampler = annealed(make_spec, 1, steps=3000)
    assert close_to(tasks_of(list(sampler.rest(0))), {task: float(n) for task, n in SIZES.items()})


def test_annealed_epochs_are_planned_by_their_mean(make_spec: Any) -> None:
    sampler = annealed(make_spec, 2, steps=1000)
    shares = [
        {t: n**e / sum(m**e for m in SIZES.values()) for t, n in SIZES.items()} for e in (1, 0.2)
    ]
    wanted = {task: 1000 * 4 * (shares[0][task] + shares[1][task]) / 2 for task in SIZES}
    assert sampler.examples == pytest.approx(wanted, abs=1)


@pytest.mark.parametrize("kind", ["temperature", "annealed"])
def test_an_epoch_goes_on_where_it_was_cut(kind: str, make_spec: Any) -> None:
    def make() -> Temperature:
        return temperature(make_spec, 2.0) if kind == "temperature" else annealed(make_spec, 3)

    whole = make()
    expected = [plain(list(whole.rest(0))) for _ in range(3)]
    cut = make()
    list(cut.rest(0))
    steps = cut.rest(0)
    seen = [next(steps) for _ in range(7)]
    again = make()
    again.load(cut.state())
    assert plain(seen) + plain(list(again.rest(7))) == expected[1]
    assert plain(list(again.rest(0))) == expected[2]
    assert expected[0] != expected[1]


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"sampler": {"name": "temperature"}}, "'sampler.temperature' .* go together"),
        ({"sampler": {"name": "annealed", "temperature": 2.0}}, "go together"),
        (
            {"sampler": {"name": "annealed"}, "surgery": "pcgrad"},
            "surgery 'pcgrad' with the annealed sampler, which has one task per step",
        ),
        (
            {"sampler": {"name": "alternating"}, "surgery": "pcgrad"},
            "surgery 'pcgrad' with the alternating sampler, which has one task per step",
        ),
        (
            {"sampler": {"name": "temperature", "temperature": 1.0}, "weighting": "random"},
            "weighting 'random' with the temperature sampler",
        ),
    ],
)
def test_mistakes_are_told(stage: dict[str, Any], message: str, make_spec: Any) -> None:
    with pytest.raises(ValueError, match=message):
        make_spec(**stage)
