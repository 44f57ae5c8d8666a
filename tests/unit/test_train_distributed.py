"""Runs that two processes share end where one process's end, within rounding."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from sharing_process import SEED

from minbert.common.files import read_json, write_json
from minbert.model.weights import load_weights
from minbert.train.distributed import ALONE, Alone, buckets
from minbert.train.resume import Checkpoints
from minbert.train.run import train_stage
from minbert.train.state import StateFile, read_tensors

SIAMESE = {"pairing": "siamese", "features": ["u", "v"], "pooling": "mean"}
# Batches of 5 over two processes are 2 and 3; SST's 11 examples leave a last batch of one.
UNEVEN = {"batch_size": 5}
# A key's bias has no gradient but rounding errors, which AdamW with a small eps makes steps of.
SMOOTH = {"lr": 1e-3, "eps": 1e-3}
CASES: dict[str, dict[str, Any]] = {
    "summed": {"epochs": 10, "everywhere": UNEVEN},
    "surgery": {"epochs": 10, "everywhere": UNEVEN, "surgery": "pcgrad"},
    "one left over": {
        "tasks": {"sst": {"batch_size": 5}, "sts": {**SIAMESE, "batch_size": 3}},
        "sampler": {"name": "sequential"},
        "epochs": 4,
        "shared_layers": 1,
    },
    "decayed rows": {
        "tasks": {"sst": {"batch_size": 5}, "para": SIAMESE},
        "epochs": 7,
        "surgery": "pcgrad",
        "optimiser": {**SMOOTH, "weight_decay": 0.1},
    },
    "adapters": {
        "tasks": ("sst", "sts"),
        "trainable": "adapters",
        "adapter": {"width": 3},
        "epochs": 7,
    },
}
DROPS = {"epochs": 3, "surgery": "pcgrad", "smart": {"weight": 2.0, "radius": 0.1}}
"""With dropout and noise, so that their generators have to go on too."""
STOPS = {"drops, cut": (4, None), "moved": (3,)}
"""Where runs are stopped, by one signal to the first process."""


def spec_of(make_spec: Any, case: dict[str, Any]) -> Any:
    tasks = {"tasks": case["tasks"]} if "tasks" in case else {}
    rest = {key: value for key, value in case.items() if key != "tasks"}
    return make_spec(**tasks, still=True, **{"optimiser": SMOOTH, **rest})


def free_ports(count: int) -> int:
    """Return the first of `count` ports in a row that nobody listens on."""
    for first in range(31_000, 60_000, 97):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


@pytest.fixture(scope="module")
def shared(
    make_spec: Any,
    backbone: Path,
    tokens: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Path, Path]]:
    """Train every case by one process here and by two; return both folders of each."""
    from minbert.train.learner import Sources

    base = tmp_path_factory.mktemp("shared")
    specs = {name: spec_of(make_spec, case) for name, case in CASES.items()}
    specs["drops"] = specs["drops, cut"] = make_spec(**DROPS)
    specs["moved"] = specs["summed"]
    folders, cases = {}, []
    for number, (name, spec) in enumerate(specs.items()):
        sources = Sources(backbone, {task: tokens[task] for task in spec.tasks}, {})
        alone, together = base / f"alone{number}", base / f"together{number}"
        alone.mkdir()
        together.mkdir()
        folders[name] = alone, together
        cases.append(
            {
                "spec": spec.model_dump(mode="json"),
                "backbone": str(backbone),
                "tokens": {task: str(path) for task, path in sources.tokens.items()},
                "folder": str(together),
                "stops": STOPS.get(name, (None,)),
            }
        )
        if name in CASES:
            train_stage(spec, SEED, sources, alone, title=name, device="cpu", precision="fp32")
    path = base / "cases.json"
    write_json(path, cases)
    script = Path(__file__).with_name("sharing_process.py")
    port = free_ports(len(cases) + 1)
    fixed = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **fixed}
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(path)],
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        told = [process.communicate(timeout=400)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(told)
    assert "process" in told[0] and "steps on" not in told[1], "only the first one tells"
    return folders


def history(folder: Path) -> list[dict[str, Any]]:
    rows = pq.read_table(folder / "history.parquet").drop_columns(["time"]).to_pylist()
    assert rows
    return [dict(row) for row in rows]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_end_where_one_does(
    name: str, shared: dict[str, tuple[Path, Path]], backbone: Path
) -> None:
    alone, together = (load_weights(folder / "model.safetensors") for folder in shared[name])
    assert alone.keys() == together.keys()
    for key, tensor in alone.items():
        torch.testing.assert_close(together[key], tensor, rtol=1e-5, atol=1e-5, msg=key)
    steps = read_json(shared[name][0] / "run.json")["outcome"]["steps"]
    assert steps >= 3 and read_json(shared[name][1] / "run.json")["outcome"]["steps"] == steps
    start = load_weights(backbone / "model.safetensors")
    moved = [
        (alone[key] - start[key.removeprefix("encoder.shared.")]).abs().max()
        for key in alone
        if key.removeprefix("encoder.shared.") in start
    ]
    assert name == "adapters" or max(moved) > 1e-3, "nothing was trained, nor compared"


@pytest.mark.parametrize("name", CASES)
def test_two_processes_measure_what_one_does(
    name: str, shared: dict[str, tuple[Path, Path]]
) -> None:
    alone, together = (history(folder) for folder in shared[name])
    values = [[row.pop("value") for row in rows] for rows in (alone, together)]
    assert alone == together
    np.testing.assert_allclose(values[1], values[0], rtol=2e-4, atol=1e-5)
    predicted = [
        pq.read_table(folder / "predictions.parquet", columns=["id", "prediction"])
        for folder in shared[name]
    ]
    assert predicted[0]["id"] == predicted[1]["id"]
    np.testing.assert_allclose(predicted[1]["prediction"], predicted[0]["prediction"], atol=1e-4)


def test_a_record_says_how_many_processes_it_took(shared: dict[str, tuple[Path, Path]]) -> None:
    records = [read_json(folder / "run.json") for folder in shared["summed"]]
    assert [record["processes"] for record in records] == [1, 2]


def test_what_was_stopped_goes_on_in_the_same_bits(shared: dict[str, tuple[Path, Path]]) -> None:
    """Each process's own dropout is among what goes on."""
    whole, cut = shared["drops"][1], shared["drops, cut"][1]
    assert (whole / "model.safetensors").read_bytes() == (cut / "model.safetensors").read_bytes()
    assert str(history(whole)) == str(history(cut))
    assert not list((cut / "work").iterdir()), "a finished run leaves no state"


def test_each_process_draws_for_its_own_rows(shared: dict[str, tuple[Path, Path]]) -> None:
    """What one of two that are alike in all else draws, the other does not."""
    found = StateFile(shared["moved"][1] / "work", "run").load()
    assert isinstance(found, tuple), found
    states = read_tensors(found[0], "generator")
    generators = []
    for name in ("torch", "torch.1"):
        generators.append(torch.Generator())
        generators[-1].set_state(states[name])
    first, second = (torch.rand(2000, generator=each, dtype=torch.float64) for each in generators)
    assert not set(first.tolist()) & set(second.tolist()[100:-100])
    assert torch.equal(states["surgery"], states["surgery.1"])


def test_what_two_began_one_can_end(
    shared: dict[str, tuple[Path, Path]],
    make_spec: Any,
    sources: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec, folder = spec_of(make_spec, CASES["summed"]), shared["moved"][1]
    assert not (folder / "model.safetensors").exists()
    state = Checkpoints(StateFile(folder / "work", "run"), every=1e9)
    how = {"title": "moved", "device": "cpu", "precision": "fp32", "checkpoints": state}
    train_stage(spec, SEED, sources(), folder, **how)
    assert "going on after step 3 of 20" in capsys.readouterr().err
    alone = load_weights(shared["summed"][0] / "model.safetensors")
    for key, tensor in load_weights(folder / "model.safetensors").items():
        torch.testing.assert_close(tensor, alone[key], rtol=1e-5, atol=1e-5, msg=key)


@pytest.mark.parametrize(("rows", "count"), [(5, 2), (1, 2), (7, 3), (8, 4), (0, 2)])
def test_places_cover_a_batch_once(rows: int, count: int) -> None:
    covered: list[int] = []
    for rank in range(count):
        peers = Alone()
        peers.rank, peers.count = rank, count
        part = list(range(rows))[peers.place(rows)]
        assert abs(len(part) - rows / count) < 1
        covered += part
    assert covered == list(range(rows))


def test_one_alone_has_the_whole_batch() -> None:
    assert ALONE.place(5) == slice(0, 5)
    assert ALONE.first and ALONE.name("torch") == "torch"


def test_buckets_are_of_one_kind_and_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minbert.train.distributed.BUCKET", 10)
    sizes = [4, 6, 1, 30, 2]
    given = [torch.zeros(size) for size in sizes] + [torch.zeros(1, dtype=torch.float64)]
    found = [[t.numel() for t in bucket] for bucket in buckets(given)]
    assert found == [[4, 6], [1], [30], [2], [1]]
