"""What tuned variants tried and what was chosen, as `tuning.csv` says (`evaluate.choose`)."""

from dataclasses import dataclass, field
from pathlib import Path

from minbert.evaluate.text import read_csv


@dataclass
class Tuned:
    """What came of a tuned variant. `candidate` is the chosen one, `settings` its own in words.

    Both are "" if nothing is trained yet. `done` of the `wanted` runs, one for each candidate and
    seed, are finished, `candidates` are all that are tried.
    """

    candidate: str = ""
    settings: str = ""
    done: int = 0
    wanted: int = 0
    candidates: list[str] = field(default_factory=list)

    @property
    def runs(self) -> str:
        """The budget in words."""
        return f"{self.done} of " * (self.done < self.wanted) + f"{self.wanted} runs"


def read_tuning(path: Path) -> dict[str, Tuned]:
    """Return what came of each tuned variant in `tuning.csv` at `path`."""
    found: dict[str, Tuned] = {}
    for line in read_csv(path):
        one = found.setdefault(line["variant"], Tuned())
        one.done += len(line["seeds"].split())
        one.wanted += int(line["asked"])
        one.candidates.append(line["candidate"])
        if line["chosen"]:
            one.candidate, one.settings = line["candidate"], line["settings"]
    return found
