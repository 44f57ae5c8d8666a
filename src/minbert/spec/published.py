"""What the papers report: claims, in grid files, and their tables, in workflow/published.csv.

Neither decides what is trained. A claim is judged from the predictions of what it compares.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from minbert.base.errors import UserError
from minbert.spec.model import Distinct, Names, Probability, Spec, Text
from minbert.spec.protocol import OVERALL_TASKS
from minbert.spec.task import TASKS, KnownTask
from minbert.spec.yaml import read_text, validated

MAJORITY = "majority"  # the system that always predicts the most frequent class; on STS its r is 0


class Claim(Spec):
    """One claim: `variant` is higher (or as `direction` says) than `against`, on each `task`.

    `text` is the claim in our words, `section` where the paper makes it, if there is one. `against`
    is a variant, several (all of them), `majority`, or a number that the paper gives. `measure` is
    what is compared: scores, or a number from the curves of runs (`evaluate.bootstrap`). Those that
    differ by at most `margin` count as the same, except for the directions `higher` and `lower`.
    """

    text: Text
    section: str = ""
    variant: Text
    against: Text | float | Annotated[tuple[Text, ...], Field(min_length=1), Distinct]
    task: Annotated[Names, Field(min_length=1)] = ("overall",)
    measure: Literal["score", "gap", "spread", "epoch", "loss"] = "score"
    direction: Literal["higher", "lower", "same", "not higher", "not lower"] = "higher"
    margin: Probability = 0.01

    def mistakes(self) -> Iterator[str]:
        if self.score is not None and abs(self.score) > 1 and self.measure != "loss":
            yield f"'against' is {self.score:g}, expected a score from -1 to 1, such as 0.573"
        if isinstance(self.against, tuple) and MAJORITY in self.against:
            yield f"'against' lists '{MAJORITY}'; make the comparison with it a claim of its own"
        if self.variant in self.others:
            yield f"'against' names '{self.variant}', the claim's own variant"
        if "margin" in self.model_fields_set and self.direction in ("higher", "lower"):
            yield f"'margin' has no effect on the direction '{self.direction}'; leave it out"

    @property
    def others(self) -> tuple[str, ...]:
        """The variants that `variant` is compared with; none for a score or the majority."""
        against = self.against if isinstance(self.against, tuple) else (self.against,)
        return tuple(of for of in against if isinstance(of, str) and of != MAJORITY)

    @property
    def score(self) -> float | None:
        """The score that `variant` is compared with, if it is one."""
        return self.against if isinstance(self.against, float) else None

    @property
    def variants(self) -> tuple[str, ...]:
        """All variants that are compared."""
        return (self.variant, *self.others)


FIGURES = ("sst", "para", "sts", "other", "overall")


class Published(Spec):
    """One row of a paper's table, with the figures that the paper gives.

    `other_task` is the task of the figure `other`, if the variant has several.
    """

    paper: str
    table: str
    row: str
    variant: str
    split: Literal["dev", "test"]
    other_task: KnownTask | Literal[""]
    note: str
    figures: dict[str, Annotated[float, Field(ge=-1, le=1)]]

    def figure(self, task: str) -> float | None:
        """Return the figure of a task, or of `overall`; None if there is none."""
        if task in TASKS and task not in OVERALL_TASKS:
            task = "other" if self.other_task in ("", task) else ""
        return self.figures.get(task)


def read_published(path: Path) -> list[Published]:
    """Read the published figures; raise `UserError` with the line for a wrong column or cell."""
    rows = list[Published]()
    reader = csv.DictReader(read_text(path).splitlines())
    header = reader.fieldnames or ()
    if twice := [name for name in header if header.count(name) > 1]:
        raise UserError(f"{path}, line 1: two columns are called '{twice[0]}'; take one out")
    for row in reader:
        figures = {name: of for name in FIGURES if (of := row.pop(name, None))}
        where = f"{path}, line {reader.line_num}"
        rows.append(one := validated(Published, {**row, "figures": figures}, where))
        if rows.count(one) > 1:
            raise UserError(f"{where}: the same row as above; take one out")
    return rows
