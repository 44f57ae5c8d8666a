"""A case's sides, ours and the peer's, each in its precisions: built, and their losses compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks import agreement
from benchmarks.cases import Case
from benchmarks.measure import Side
from benchmarks.others import Transformers, encode, houlsby
from benchmarks.ours import Ours, stage
from benchmarks.workload import Workload, make_workload
from minbert.spec.stage import StageSpec
from minbert.train.features import cache_features
from minbert.train.samplers import Step
from minbert.train.trainable import Finetuned, Sources

Name = tuple[str, str]
"""A side: `ours` or `peer`, and its precision."""


class Work(NamedTuple):
    """What a case times: the sides, and what each of them does in a turn.

    `operations` are ours in matrix products, 0 if they are not counted. The last two say how far
    losses differ (`benchmarks/agreement.py`), None where they were not compared.
    """

    sides: Mapping[Name, Side]
    examples: int
    operations: float
    losses_differ_by: float | None
    bf16_differs_by: float | None


class Sides:
    """Builds the sides of cases of one size on one device.

    `build` raises `ValueError` if the sides of a case do not compute the same.
    """

    def __init__(self, folder: Path, size: str, device: torch.device) -> None:
        self.folder = folder
        self.workload = make_workload(folder, size)
        self.device = device

    def build(self, case: Case, ours: Sequence[str], peers: Sequence[str]) -> Work:
        """Return the work of a case, with our side and the peer's in these precisions."""
        kinds = {"train": self._training, "predict": self._inference, "cached": self._cached}
        return kinds[case.kind](case, ours, peers)

    def _ours(self, spec: StageSpec, precision: str, workload: Workload | None = None) -> Ours:
        return Ours(spec, workload or self.workload, self.device, precision)

    def _peer(self, case: Case, spec: StageSpec, ours: Ours, precision: str) -> Ours | Transformers:
        """Return the other side; its heads start as those of `ours`."""
        if case.other == "passes":
            apart = self._ours(spec, precision)
            setattr(apart.loop.gradients, "fits_jointly", lambda step: False)  # noqa: B010
            return apart
        options: dict[str, Any] = {}
        if case.other == "eager":
            options = {"attention": "eager", "fused": False}
        if case.other == "adapters":
            options = {"adapt": houlsby(spec)}
        learner = finetuned(ours)
        return Transformers(spec, self.workload, learner, self.device, precision, **options)

    def _training(self, case: Case, precisions: Sequence[str], peers: Sequence[str]) -> Work:
        count = max(1, min(4, 64 // case.batch))  # some 64 examples a task in a turn
        steps = agreement.draw_steps(case.tasks, case.batch, count, seed=1)
        differ = self._differ(case, steps)
        bf16 = self._bf16(case, case.settings) if "bf16" in precisions else None
        agreement.check(differ, bf16)
        spec = stage(case.tasks, batch=case.batch, dropout=0.1, **case.settings)
        ours = {name: self._ours(spec, name) for name in precisions}
        one = ours[precisions[0]]
        theirs = {name: self._peer(case, spec, one, name) for name in peers}
        sides = named(
            {name: partial(side.train, steps) for name, side in ours.items()},
            {name: partial(side.train, steps) for name, side in theirs.items()},
        )
        return Work(sides, examples_in(steps), self._operations(one, steps), differ, bf16)

    def _differ(self, case: Case, steps: Sequence[Step]) -> float | None:
        """Return how far our losses of some steps in fp32 are from the peer's.

        bf16 would differ by more than what is to be found out.
        """
        if case.other in {None, "adapters"}:  # whose bottlenecks start elsewhere
            return None
        spec = stage(case.tasks, batch=case.batch, dropout=0.0, **case.settings)
        ours = self._ours(spec, "fp32")
        peer = self._peer(case, spec, ours, "fp32")
        return agreement.gap(ours.train(steps), peer.train(steps))

    def _bf16(
        self, case: Case, settings: dict[str, Any], workload: Workload | None = None
    ) -> float:
        """Return how far bf16 leads the first losses of our side from fp32's, as a share."""
        batch = agreement.SMALL
        spec = stage(case.tasks, batch=batch, dropout=0.0, **settings)
        steps = agreement.draw_steps(case.tasks, batch, agreement.COMPARED, seed=2)
        exact = self._ours(spec, "fp32", workload).train(steps)
        return agreement.relative_gap(self._ours(spec, "bf16", workload).train(steps), exact)

    def _inference(self, case: Case, precisions: Sequence[str], peers: Sequence[str]) -> Work:
        (task,) = case.tasks
        folder = self.folder / f"dev-{case.rows}"
        if not folder.exists():
            folder.mkdir()
            splits = {"train": 8, "dev": case.rows, "test": 0}
            make_workload(folder, self.workload.size, splits)
        sources = Sources(self.workload.sources.backbone, {task: folder / f"{task}.parquet"}, {})
        workload = self.workload._replace(sources=sources)
        spec = stage(case.tasks, batch=case.batch, dropout=0.1, **case.settings)
        ours = {name: self._ours(spec, name, workload) for name in {"fp32", *precisions}}
        exact = ours["fp32"]
        outputs = {name: side.predict(task) for name, side in ours.items()}
        bf16 = None
        if "bf16" in precisions:
            losses = {name: agreement.dev_losses(ours[name], task, outputs[name]) for name in ours}
            bf16 = agreement.relative_gap(losses["bf16"], losses["fp32"])
        differ = None
        theirs: dict[str, Side] = {}
        if case.other == "sentence-transformers":
            learner = finetuned(exact)
            theirs = {
                name: encode(learner, task, self.workload, self.device, name) for name in peers
            }
        else:
            others = {name: self._peer(case, spec, exact, name) for name in {"fp32", *peers}}
            differ = float((outputs["fp32"] - others["fp32"].predict(task)).abs().max())
            theirs = {name: partial(others[name].predict, task) for name in peers}
        agreement.check(differ, bf16)
        sides = named({name: partial(ours[name].predict, task) for name in precisions}, theirs)
        examples = finetuned(exact).examples[task]["dev"]
        operations = 2.0 * self._products(examples.inputs.lengths[examples.inputs.distinct()[0]])
        return Work(sides, case.rows, operations, differ, bf16)

    def _cached(self, case: Case, precisions: Sequence[str], peers: Sequence[str]) -> Work:
        (task,) = case.tasks
        steps = agreement.draw_steps(case.tasks, case.batch, 4, seed=1)
        features = self.folder / f"{task}.features.safetensors"
        sources = self.workload.sources
        how = {"task": task, "pooling": "cls", "pairing": None, "max_length": 512}
        cache_features(how, sources.backbone, sources.tokens[task], features, self.device)
        cached = Sources(sources.backbone, sources.tokens, {task: features})
        workload = self.workload._replace(sources=cached)
        settings = {"trainable": "heads"}
        bf16 = self._bf16(case, settings, workload) if "bf16" in precisions else None
        agreement.check(None, bf16)
        spec = stage(case.tasks, batch=case.batch, dropout=0.1, **settings)
        live = stage(case.tasks, batch=case.batch, dropout=0.1)
        start = self._ours(live, "fp32")
        frozen = {name: self._frozen(live, start, name) for name in peers}
        sides = named(
            {name: partial(self._ours(spec, name, workload).train, steps) for name in precisions},
            {name: partial(side.train, steps) for name, side in frozen.items()},
        )
        return Work(sides, examples_in(steps), 0.0, None, bf16)

    def _frozen(self, spec: StageSpec, ours: Ours, precision: str) -> Transformers:
        """Return a peer whose encoder runs at each step, but is not trained."""
        peer = Transformers(
            spec,
            self.workload,
            finetuned(ours),
            self.device,
            precision,
            adapt=lambda encoder: encoder.requires_grad_(False),
        )
        for encoder in peer.encoder.values():
            encoder.eval()
        return peer

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


def named(ours: Mapping[str, Side], peers: Mapping[str, Side]) -> dict[Name, Side]:
    """Return both by name, the two of one precision beside each other."""
    found: dict[Name, Side] = {}
    for precision in dict.fromkeys([*ours, *peers]):
        if precision in ours:
            found["ours", precision] = ours[precision]
        if precision in peers:
            found["peer", precision] = peers[precision]
    return found


def examples_in(steps: Sequence[Step]) -> int:
    return sum(len(rows) for step in steps for _, rows in step)


def finetuned(ours: Ours) -> Finetuned:
    """Return the learner of a side that fine-tunes."""
    assert isinstance(ours.learner, Finetuned)
    return ours.learner
