"""What tuned variants tried and what was chosen: the file that says so, and how it is read."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from minbert.evaluate.text import read_csv

COLUMNS = (
    *("variant", "candidate", "settings", "chosen", "score", "low", "high", "seeds", "asked"),
    "keys",
)
"""Of `tuning.csv`, a line a candidate; after them `sst_mean` and so on, the scores of single tasks.

`chosen` is "yes" or empty, `score` the mean over `seeds` (those that were trained) on the choosing
half of dev, `asked` the number of seeds asked for, `keys` those of the candidate's trainings.
"""


class Tuned(NamedTuple):
    """What came of a tuned variant. `candidate` is the chosen one, `settings` its own in words.

    Both are "" if nothing is trained yet. `done` of the `wanted` runs, one for each candidate and
    seed, are finished, `candidates` are all that are tried.
    """

    candidate: str
    settings: str
    done: int
    wanted: int
    candidates: Sequence[str]

    @property
    def runs(self) -> str:
        """The budget in words."""
        return f"{self.done} of " * (self.done < self.wanted) + f"{self.wanted} runs"


def read_tuning(path: Path) -> dict[str, Tuned]:
    """Return what came of each tuned variant in `tuning.csv` at `path`."""
    lines: dict[str, list[dict[str, str]]] = {}
    for line in read_csv(path):
        lines.setdefault(line["variant"], []).append(line)
    found = {}
    for variant, tried in lines.items():
        chosen = next((line for line in tried if line["chosen"]), {"candidate": "", "settings": ""})
        done = sum(len(line["seeds"].split()) for line in tried)
        wanted = sum(int(line["asked"]) for line in tried)
        names = [line["candidate"] for line in tried]
        found[variant] = Tuned(chosen["candidate"], chosen["settings"], done, wanted, names)
    return found
