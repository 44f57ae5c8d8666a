"""A tiny backbone, tiny token tables, and specs to train on them."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from minbert.base.files import write_json, write_text
from minbert.spec.architecture import Architecture
from minbert.spec.stage import StageSpec
from minbert.spec.task import TASKS

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [*SPECIAL, *(f"w{n}" for n in range(55))]
SIZES = {
    "sst": {"train": 11, "dev": 6, "test": 5},
    "para": {"train": 18, "dev": 8, "test": 4},
    "sts": {"train": 10, "dev": 7, "test": 5},
}
LOSSES = {
    **{"sst": "cross_entropy", "lmrd": "cross_entropy"},
    **{"para": "binary_cross_entropy", "sts": "mse"},
}

SpecMaker = Callable[..., StageSpec]


@pytest.fixture(scope="session", autouse=True)
def _own_process() -> None:
    """Keep torch to one thread, as tests run side by side, and runs in a store of their own.

    Steps do not have this process end with its parent.
    """
    import torch

    from minbert.commands import steps

    steps.end_with_parent = lambda: None
    torch.set_num_threads(1)
    os.environ.pop("MLFLOW_TRACKING_URI", None)


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    """Let no test's numbers or tasks depend on the tests before it in the same process."""
    import torch

    torch.manual_seed(0)
    random.seed(0)
    before = TASKS.own
    yield
    TASKS.use(before)


@pytest.fixture
def nvidia_smi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[int | str], Path]:
    """Return a function that makes nvidia-smi: of so many GPUs of 80 GB, or by a script.

    Leases are those of the test, and all GPUs are visible.
    """
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("MINBERT_DEVICE_LOCKS", str(tmp_path / "locks"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def make(shown: int | str) -> Path:
        if isinstance(shown, int):
            lines = (f"echo GPU-{n}, 76294, 76294\n" for n in range(shown))
            shown = "".join(lines) or "exit 6"
        write_text(path := tmp_path / "bin" / "nvidia-smi", f"#!/bin/sh\n{shown}\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture(scope="session")
def architecture() -> Architecture:
    """Two layers, 32 wide, for sequences of up to 24 tokens."""
    return Architecture(
        vocab_size=len(WORDS), hidden=32, layers=2, heads=2, intermediate=48, positions=24
    )


@pytest.fixture(scope="session")
def backbone(architecture: Architecture, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backbone folder; its weights are larger than initial ones, so that outputs differ."""
    from model_batches import initial_backbone
    from tokenizers import BertWordPieceTokenizer

    from minbert.model.weights import save_weights

    folder = tmp_path_factory.mktemp("backbone")
    state = initial_backbone(architecture, seed=1)
    large = {name: 6 * t if t.ndim == 2 else t for name, t in state.items()}
    save_weights(folder / "model.safetensors", large)
    write_json(folder / "config.json", architecture.model_dump())
    words = {word: number for number, word in enumerate(WORDS)}
    BertWordPieceTokenizer(words).save(str(folder / "tokenizer.json"))
    return folder


def token_rows(task: str, split: str, count: int) -> list[dict[str, Any]]:
    """Return rows of random words, the second long and the last two alike.

    Test labels are not public.
    """
    draw = random.Random(f"{task} {split}")
    known = TASKS[task]

    def words(count: int) -> list[int]:
        return [draw.randrange(5, len(WORDS)) for _ in range(count)]

    rows = []
    for n in range(count):
        label = draw.uniform(known.low, known.high)
        rows.append(
            {
                "id": f"{task}-{split}-{n}",
                "split": split,
                "label": None if split == "test" else label,
                "tokens1": words(30 if n == 1 else draw.randint(1, 9)),
                "tokens2": words(draw.randint(1, 9)) if known.pair else None,
            }
        )
        if known.kind != "regression" and split != "test":
            rows[-1]["label"] = float(round(label))
    for side in ("tokens1", "tokens2"):
        rows[-1][side] = rows[-2][side]
    return rows


def write_tokens(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as a `tokens.parquet`."""
    from factories import put_rows

    from minbert.data.tokenise import SCHEMA

    return put_rows(path, rows, SCHEMA)


@pytest.fixture(scope="session")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The token table of each of SST, para and STS, with train, dev and test rows."""
    folder = tmp_path_factory.mktemp("tokens")
    return {
        task: write_tokens(
            folder / task / "tokens.parquet",
            [row for split, n in sizes.items() for row in token_rows(task, split, n)],
        )
        for task, sizes in SIZES.items()
    }


@pytest.fixture
def without(tokens: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a task's token table without some splits."""

    def write(task: str, *splits: str) -> Path:
        rows = pq.read_table(tokens[task]).to_pylist()
        return write_tokens(
            tmp_path / "tokens.parquet", [row for row in rows if row["split"] not in splits]
        )

    return write


@pytest.fixture(scope="session")
def make_spec() -> SpecMaker:
    """Return a function that makes a stage's spec.

    `tasks` holds what differs from the defaults by task, `everywhere` for all of them; `still`
    leaves out all dropout. Other words are the stage's own keys.
    """

    def make(
        tasks: dict[str, dict[str, Any]] | tuple[str, ...] = ("sst", "para", "sts"),
        everywhere: dict[str, Any] | None = None,
        still: bool = False,
        **stage: Any,
    ) -> StageSpec:
        given = tasks if isinstance(tasks, dict) else {task: {} for task in tasks}
        head = {"width": 8, "dropout": 0.0 if still else 0.3}
        specs = {}
        for task, chosen in given.items():
            spec = {"loss": LOSSES[task], "batch_size": 4, **(everywhere or {}), **chosen}
            spec["head"] = head | spec.get("head", {})
            if TASKS[task].pair:
                spec.setdefault("pairing", "cross")
            specs[task] = spec
        if still:
            stage["dropout"] = {"embedding": 0.0, "sublayer": 0.0, "attention": 0.0}
        return StageSpec.model_validate({"epochs": 1, **stage, "tasks": specs})

    return make


@pytest.fixture
def sources(backbone: Path, tokens: dict[str, Path]) -> Callable[..., Any]:
    """Return a function from tasks (and features, start) to the files they are trained on."""
    from minbert.train.trainable import Sources

    def choose(
        *tasks: str,
        features: dict[str, Path] | None = None,
        start: Path | None = None,
        instead: dict[str, Path] | None = None,
    ) -> Sources:
        known = tokens | (instead or {})
        chosen = {task: known[task] for task in tasks or tuple(SIZES)}
        return Sources(backbone, chosen, features or {}, start)

    return choose


@pytest.fixture(scope="session")
def mlflow_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new MLflow store; tests take copies, which is quicker."""
    from minbert.track.store import open_store

    folder = tmp_path_factory.mktemp("made").resolve()
    assert open_store(folder).search_experiments()
    return folder / "mlflow.db"


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The plan of a paper whose results are made up (`reporting`)."""
    from reporting import plan_results

    return plan_results(tmp_path_factory.mktemp("reported"))


@pytest.fixture(scope="session")
def trained_plan(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The plan of a results folder with trained variants (`trained_root`); nobody changes it."""
    from trained_root import make_root

    return make_root(tmp_path_factory.mktemp("trained") / "base")


@pytest.fixture
def root(trained_plan: Any, tmp_path: Path) -> Path:
    """A copy of the trained results, to change."""
    return Path(shutil.copytree(trained_plan.root, tmp_path / "base" / "results"))


@pytest.fixture
def run(sources: Any, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that trains a spec with a seed and returns the folder of its files."""

    from minbert.train.run import train_stage

    def train(spec: StageSpec, seed: int = 0, name: str = "run", **files: Any) -> Path:
        out = tmp_path / name
        train_stage(
            spec,
            seed,
            sources(*spec.tasks, **files),
            out,
            title=name,
            device="cpu",
            precision="fp32",
        )
        return out

    return train


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every encoder of `encoders.CONFIGS`: reference, Hugging Face folder, our folder."""
    from encoders import folders_of

    return folders_of(tmp_path_factory.mktemp("families"))


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets the selection scores of the epochs to come."""

    def score(*values: float) -> None:
        waiting = iter(values)
        monkeypatch.setattr("minbert.train.run.selection_score", lambda *_: next(waiting))

    return score
