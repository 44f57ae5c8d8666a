"""One case measured: both sides built, their losses compared, then timed in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.cases import OTHERS, Case
from benchmarks.machine import MatrixRate
from benchmarks.measure import Side, alternate
from benchmarks.others import Transformers
from benchmarks.ours import Ours, stage
from benchmarks.workload import Workload, make_workload
from minbert.spec.stage import StageSpec
from minbert.train.features import cache_features
from minbert.train.finetune import Finetuned
from minbert.train.inference import distinct
from minbert.train.learner import Sources
from minbert.train.samplers import Step

AGREE = 1e-4
"""The most that the two sides' losses may differ over the first steps, dropout off."""


@dataclass(frozen=True)
class Row:
    """One line of `bench.json`.

    Speeds are in `unit`; `ratio` is ours over the other's, with its quartiles. `fraction_of_limit`
    is the rate of matrix products in ours over that of large products alone.
    """

    case: str
    size: str
    device: str
    precision: str
    threads: int
    ours: float
    other: float | None
    other_name: str | None
    unit: str
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    fraction_of_limit: float | None
    losses_differ_by: float | None


class Bench:
    """Cases of one size on one device."""

    def __init__(
        self, folder: Path, size: str, device: torch.device, precision: str, repeats: int
    ) -> None:
        self.folder = folder
        self.workload = make_workload(folder, size)
        self.device = device
        self.precision = precision
        self.repeats = repeats
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self.limit = MatrixRate(device, dtype)

    def measure(self, case: Case) -> Row:
        """Measure one case; raise `ValueError` if the two sides do not train the same."""
        before = self.limit.measure()
        sides = {"train": self._training, "predict": self._inference, "cached": self._cached}
        ours, other, examples, operations, differ = sides[case.kind](case)
        if differ is not None and not differ < AGREE:
            raise ValueError(f"{case.name}: losses differ by {differ:.2g}: not the same work")
        timing = alternate(ours, other, self.device, units=1, repeats=self.repeats)
        limit = (before + self.limit.measure()) / 2
        return Row(
            case=case.name,
            size=self.workload.size,
            device=self.device.type,
            precision=self.precision,
            threads=torch.get_num_threads(),
            ours=examples / timing.ours.median,
            other=examples / timing.other.median if timing.other else None,
            other_name=OTHERS[case.other] if case.other else None,
            unit="examples/s",
            ratio=timing.ratio.median if timing.ratio else None,
            ratio_low=timing.ratio.low if timing.ratio else None,
            ratio_high=timing.ratio.high if timing.ratio else None,
            fraction_of_limit=operations / timing.ours.median / limit if operations else None,
            losses_differ_by=differ,
        )

    def _steps(self, case: Case) -> list[Step]:
        """Return the batches of one turn: some 64 examples a task, in at most four steps."""
        count = max(1, min(4, 64 // case.batch))
        draw = torch.Generator().manual_seed(1)
        rows = torch.randperm
        return [
            [(task, rows(512, generator=draw)[: case.batch]) for task in case.tasks]
            for _ in range(count)
        ]

    def _ours(self, spec: StageSpec, workload: Workload | None = None, precision: str = "") -> Ours:
        return Ours(spec, workload or self.workload, self.device, precision or self.precision)

    def _theirs(
        self, case: Case, spec: StageSpec, ours: Finetuned, precision: str = ""
    ) -> Transformers:
        options: dict[str, Any] = {}
        if case.other == "eager":
            options = {"attention": "eager", "fused": False}
        if case.other == "adapters":
            options = {"adapt": houlsby(spec)}
        chosen = precision or self.precision
        return Transformers(spec, self.workload, ours, self.device, chosen, **options)

    def _training(self, case: Case) -> tuple[Side, Side | None, int, float, float | None]:
        steps = self._steps(case)
        differ = None
        if case.other and case.other != "adapters":  # whose bottlenecks start elsewhere
            still = stage(case.tasks, batch=case.batch, dropout=0.0, **case.settings)
            # In full precision: bf16 would differ by more than what is to be found out.
            mine = self._ours(still, precision="fp32")
            theirs = self._theirs(case, still, finetuned(mine), "fp32")
            differ = gap(mine.train(steps), theirs.train(steps))
        spec = stage(case.tasks, batch=case.batch, dropout=0.1, **case.settings)
        ours = self._ours(spec)
        other = self._theirs(case, spec, finetuned(ours)) if case.other else None
        examples = sum(len(rows) for step in steps for _, rows in step)
        train: Callable[[], object] | None = (lambda: other.train(steps)) if other else None
        return (lambda: ours.train(steps)), train, examples, self._operations(ours, steps), differ

    def _inference(self, case: Case) -> tuple[Side, Side | None, int, float, float | None]:
        (task,) = case.tasks
        folder = self.folder / f"dev-{case.rows}"
        if not folder.exists():
            folder.mkdir()
            splits = {"train": 8, "dev": case.rows, "test": 0}
            make_workload(folder, self.workload.size, splits)
        workload = self.workload._replace(
            sources=Sources(
                self.workload.sources.backbone,
                {task: folder / f"{task}.parquet"},
                {},
            )
        )
        spec = stage(case.tasks, batch=case.batch, dropout=0.1, **case.settings)
        ours = self._ours(spec, workload)
        if case.other == "sentence-transformers":
            other: Side = encode(finetuned(ours), task, self.workload, self.device)
            return (lambda: ours.predict(task)), other, case.rows, 0.0, None
        theirs = self._theirs(case, spec, finetuned(ours))
        sequences = finetuned(ours).examples[task]["dev"].sequences
        exact = self._ours(spec, workload, "fp32")
        same = self._theirs(case, spec, finetuned(exact), "fp32")
        difference = (exact.predict(task) - same.predict(task)).abs().max()
        return (
            (lambda: ours.predict(task)),
            (lambda: theirs.predict(task)),
            case.rows,
            2.0 * self._products(sequences.lengths[distinct(sequences)[0]]),
            float(difference),
        )

    def _cached(self, case: Case) -> tuple[Side, Side | None, int, float, float | None]:
        (task,) = case.tasks
        steps = self._steps(case)
        features = self.folder / f"{task}.features.safetensors"
        sources = self.workload.sources
        cache_features(
            task, "cls", None, 512, sources.backbone, sources.tokens[task], features, self.device
        )
        workload = self.workload._replace(
            sources=Sources(sources.backbone, sources.tokens, {task: features})
        )
        spec = stage(case.tasks, batch=case.batch, dropout=0.1, trainable="heads")
        ours = self._ours(spec, workload)
        live = stage(case.tasks, batch=case.batch, dropout=0.1)
        frozen = Transformers(
            live,
            self.workload,
            finetuned(self._ours(live)),
            self.device,
            self.precision,
            adapt=lambda encoder: encoder.requires_grad_(False),
        )
        frozen.encoder[task].eval()
        examples = case.batch * len(steps)
        return (lambda: ours.train(steps)), (lambda: frozen.train(steps)), examples, 0.0, None

    def _operations(self, ours: Ours, steps: Sequence[Step]) -> float:
        """Count what the steps' matrix products compute.

        Backward takes twice what forward does, or as much where the layers' weights are frozen.
        """
        passes = 6.0 if ours.loop.spec.trainable == "all" else 4.0
        examples = finetuned(ours).examples
        batches = [examples[task]["train"].batch(rows)[0] for step in steps for task, rows in step]
        return sum(passes * self._products(batch.lengths.cpu().numpy()) for batch in batches)

    def _products(self, lengths: np.ndarray) -> float:
        """Count the products of one forward pass over sequences: layers and attention.

        Of the last layer only keys and values are computed for tokens after the first.
        """
        arch = self.workload.architecture
        feed_forward = 2 * arch.hidden * arch.intermediate
        of_row = 2 * arch.hidden**2 + feed_forward
        of_token = arch.layers * (4 * arch.hidden**2 + feed_forward) - of_row
        tokens, pairs = float(lengths.sum()), float((lengths**2).sum())
        attended = (arch.layers - 1) * pairs + tokens
        return of_token * tokens + of_row * len(lengths) + 2.0 * arch.hidden * attended


def finetuned(ours: Ours) -> Finetuned:
    """Return the learner of a side that fine-tunes."""
    assert isinstance(ours.learner, Finetuned)
    return ours.learner


def gap(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> float:
    """Return the largest difference between the two sides' losses."""
    return max(abs(x.item() - y.item()) for x, y in zip(a, b, strict=True))


def houlsby(spec: StageSpec) -> Callable[[Any], Any]:
    """Return a function that gives a `BertModel` the `adapters` package's bottlenecks."""
    import adapters

    assert spec.adapter is not None
    width = spec.adapter.width

    def add(encoder: Any) -> Any:
        adapters.init(encoder)
        factor = encoder.config.hidden_size / width
        encoder.add_adapter(
            "task", config=adapters.DoubleSeqBnConfig(reduction_factor=factor, non_linearity="gelu")
        )
        encoder.train_adapter("task")
        return encoder

    return add


def encode(
    ours: Finetuned, task: str, workload: Workload, device: torch.device
) -> Callable[[], object]:
    """Return a pass of `SentenceTransformer.encode` over both sides of a dev set's pairs."""
    from sentence_transformers import SentenceTransformer, models

    transformer = models.Transformer(str(workload.hugging_face))
    pooling = models.Pooling(transformer.get_word_embedding_dimension(), pooling_mode="cls")
    model = SentenceTransformer(modules=[transformer, pooling], device=device.type)
    sequences = ours.examples[task]["dev"].sequences
    flat = sequences.flat.cpu().numpy()
    spans = zip(sequences.starts, sequences.lengths, strict=True)
    # Without [CLS] and [SEP]: its own tokenizer adds them.
    words = np.array(list(transformer.tokenizer.get_vocab()))
    order = np.argsort([transformer.tokenizer.get_vocab()[word] for word in words])
    names = words[order]
    texts = [" ".join(names[flat[a + 1 : a + n - 1]]) for a, n in spans]
    return lambda: model.encode(texts, batch_size=32)
