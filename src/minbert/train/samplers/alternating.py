"""Steps of one task, in turn (minbert-downstream, section 3.3.1, "round robin", read that way)."""

from collections.abc import Iterator

from minbert.train.samplers import Step
from minbert.train.samplers.unified import Unified


class Alternating(Unified):
    """An epoch draws what `unified` draws; each batch is a step, of one task after the other."""

    def epoch(self) -> Iterator[Step]:
        for step in super().epoch():
            yield from ([batch] for batch in step)
