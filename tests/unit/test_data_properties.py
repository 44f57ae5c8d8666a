"""Rows of files, batches and samplers: what holds whatever the data."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_batches import pack
from own_files import read as read_files

from minbert.train.samplers import draw
from minbert.train.samplers.recycled import Recycled
from minbert.train.samplers.sequential import Sequential

HEADER = "\tid\tsentence\tsentiment\n"
SIZES = {"sst": 10, "para": 23, "sts": 7}

# Anything that can stand on one line, but for what is rejected; a lone surrogate is in no file.
line = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"], whitelist_characters="\t"), max_size=40
)
sentence = line.map(str.strip).filter(bool)


def read(lines: list[str]) -> tuple[list[Any], list[Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.csv"
        path.write_bytes((HEADER + "".join(f"{each}\n" for each in lines)).encode())
        return read_files("sst", train=path)[:2]


def row(number: int, text: str, label: int) -> str:
    """Write a row as RFC 4180 does: in quotes, and quotes in it doubled."""
    quoted = text.replace('"', '""')
    return f'{number}\tid{number}\t"{quoted}"\t{label}'


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(sentence, st.integers(0, 4)), min_size=1, max_size=8))
def test_rows_come_back_as_they_were_written(rows: list[tuple[str, int]]) -> None:
    examples, rejected = read([row(n, text, label) for n, (text, label) in enumerate(rows)])
    assert rejected == []
    assert [(e.id, e.sentence1, e.label) for e in examples] == [
        (f"id{n}", text, float(label)) for n, (text, label) in enumerate(rows)
    ]


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(st.booleans(), line, st.integers(0, 4)), min_size=1, max_size=8))
def test_a_bad_line_is_set_aside_alone(rows: list[tuple[bool, str, int]]) -> None:
    lines = [
        row(n, f"a {text}", label) if good else f"bad{text}".replace("\t", " ")
        for n, (good, text, label) in enumerate(rows)
    ]
    examples, rejected = read(lines)
    assert [e.id for e in examples] == [f"id{n}" for n, (good, _, _) in enumerate(rows) if good]
    bad = [n for n, (good, _, _) in enumerate(rows) if not good]
    assert [r.line for r in rejected] == [n + 2 for n in bad]
    assert [r.text for r in rejected] == [lines[n] for n in bad]


lists = st.lists(st.lists(st.integers(1, 999), min_size=1, max_size=30), min_size=1, max_size=12)


@settings(max_examples=80)
@given(rows=lists)
def test_packing_loses_and_adds_no_token(rows: list[list[int]]) -> None:
    tokens = [token for each in rows for token in each]
    batch = pack(tokens, [0] * len(tokens), [len(each) for each in rows])
    assert [part.tolist() for part in batch.tokens.split(batch.lengths.tolist())] == rows
    assert batch.longest == max(map(len, rows)) and batch.rows == len(rows)
    starts = batch.first.tolist()
    for number, each in enumerate(rows):
        assert batch.tokens[starts[number] : starts[number] + len(each)].tolist() == each
    assert batch.positions.tolist() == [i for each in rows for i in range(len(each))]
    assert batch.row_of.tolist() == [n for n, each in enumerate(rows) for _ in each]
    view = batch.padded
    padded = view.pad(batch.tokens[:, None])[:, 0]
    assert torch.equal(padded[view.slots], batch.tokens)
    assert int((padded != 0).sum()) == len(tokens)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(sampler: Any, epochs: int = 1) -> list[dict[str, list[int]]]:
    """Return {task: its rows in order} of each epoch, and check the count of steps."""
    found = []
    for _ in range(epochs):
        steps = list(sampler.epoch())
        assert len(steps) == sampler.steps
        rows: dict[str, list[int]] = {}
        for step in steps:
            for task, numbers in step:
                rows.setdefault(task, []).extend(numbers.tolist())
        found.append(rows)
    return found


seeds = st.integers(0, 2**32)


class Case(NamedTuple):
    """Sizes of the tasks and of their batches, a cap on an epoch's examples, and a seed."""

    sizes: dict[str, int]
    batches: dict[str, int]
    examples: int | None
    seed: int

    def spec(self, make_spec: Any, sampler: str) -> Any:
        """Return the spec that a sampler of this name is for."""
        tasks = {task: {"batch_size": size} for task, size in self.batches.items()}
        return make_spec(tasks, sampler={"name": sampler, "examples": self.examples})


cases = st.builds(
    Case,
    sizes=st.fixed_dictionaries({task: st.integers(1, 40) for task in SIZES}),
    batches=st.fixed_dictionaries({task: st.integers(1, 12) for task in SIZES}),
    examples=st.none() | st.integers(1, 60),
    seed=seeds,
)


@settings(max_examples=60)
@given(size=st.integers(1, 50), count=st.integers(1, 200), seed=seeds)
def test_no_row_is_drawn_twice_before_every_row_came_once(size: int, count: int, seed: int) -> None:
    rows = draw(size, count, generator(seed)).tolist()
    assert len(rows) == count
    for start in range(0, count, size):
        part = rows[start : start + size]
        assert len(set(part)) == len(part) and set(part) <= set(range(size))


@settings(max_examples=40)
@given(case=cases)
def test_a_sequential_epoch_passes_once_over_each_task(make_spec: Any, case: Case) -> None:
    spec = case.spec(make_spec, "sequential")
    for rows in drawn(Sequential(spec, case.sizes, generator(case.seed)), 2):
        for task, size in case.sizes.items():
            assert len(set(rows[task])) == len(rows[task]) == min(size, case.examples or size)
            assert set(rows[task]) <= set(range(size))


@settings(max_examples=40)
@given(case=cases)
def test_a_recycled_epoch_passes_once_over_the_largest_task(make_spec: Any, case: Case) -> None:
    spec, sizes = case.spec(make_spec, "recycled"), case.sizes
    sampler = Recycled(spec, sizes, generator(case.seed))
    (rows,) = drawn(sampler)
    largest = max(spec.trained_tasks, key=lambda task: sizes[task])
    assert len(set(rows[largest])) == len(rows[largest])
    assert len(rows[largest]) == min(sizes[largest], case.examples or 999)
    for task, size in sizes.items():
        counts = Counter(rows[task])
        assert set(counts) <= set(range(size))
        assert max(counts.values()) - min(counts[row] for row in range(size)) <= 1
    (again,) = drawn(Recycled(spec, sizes, generator(case.seed)))
    assert again == rows
