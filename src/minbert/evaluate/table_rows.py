"""What a table shows: its rows, with our scores beside the published figures."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minbert.evaluate.reading import DELTA_M, Of, Scores, read_scores
from minbert.evaluate.seeds import over_seeds
from minbert.evaluate.statistics import Interval
from minbert.evaluate.tuning import Tuned, read_tuning
from minbert.spec.protocol import OVERALL_TASKS, RULES
from minbert.spec.task import TASKS
from minbert.store.job import Job

SCORED, NOT_RUN, NO_LABELS, FAILED = "scored", "not run", "no labels", "failed"


class Row(NamedTuple):
    """A row of the table: what it is planned to show, then our figures.

    `table` is the paper's own table that has it, None if none. `published` has the paper's figures
    of sst, para, sts, other and overall, None or absent where it gives none. A row that is the best
    of other variants has these as `choice`, {training key: variant}. `other_task` is the task of
    the figure `other`: needed if the variant is scored on several tasks besides SST, para and STS.
    `tasks` are those that the variant has.

    `scores` has what the seeds come to of each of the tasks, normalised, plain and delta_m (in per
    cent) that was scored, at the epoch that was best on dev. `n` is the number of seeds, `keys` are
    the training keys that the scores come from, and `remark` is said of the row besides its note.
    `tuned` is what came of a tuned variant. `on_dev` are the scores that the variant has on dev: a
    test row without one of them lacks its labels.
    """

    row: str
    variant: str
    split: str
    published: Mapping[str, float | None]
    tasks: Sequence[str]
    table: str | None = None
    choice: Mapping[str, str] = {}
    note: str | None = None
    other_task: str | None = None
    parameters: int | None = None
    parameters_bert_base: int | None = None
    status: str = NOT_RUN
    scores: Mapping[str, Interval] = {}
    n: int = 0
    keys: Sequence[str] = ()
    remark: str = ""
    tuned: Tuned | None = None
    on_dev: Collection[str] = ()

    @property
    def given(self) -> list[str]:
        """The names of the figures that the paper gives."""
        return [name for name, figure in self.published.items() if figure is not None]

    def figure(self, measure: str) -> float | None:
        """Return the published figure of a task, or the overall score."""
        names = dict.fromkeys(RULES, "overall") | {self.other_task: "other"}
        return self.published.get(measure if measure in OVERALL_TASKS else names.get(measure, ""))


class Table(NamedTuple):
    """A table. `rule` is the paper's own overall score; `seeds` are those that were asked for.

    It has columns for each of `tasks`; the overall score is that of `overall_tasks`. `single` is
    the label of the variant that the gain `delta_m` is over, if the paper has one, and
    `selection_split` says what chose the epochs (`marks.FAVOURED`).
    """

    paper: str
    title: str
    caption: str
    rule: str
    seeds: Sequence[int]
    backbone: str
    data: str
    rows: Sequence[Row]
    footnotes: Sequence[str] = ()
    single: str = ""
    selection_split: str = "dev"
    tasks: Sequence[str] = OVERALL_TASKS
    overall_tasks: Sequence[str] = OVERALL_TASKS

    @property
    def has_published(self) -> bool:
        """Whether a row has a published figure."""
        return any(row.given for row in self.rows)


def table_of(job: Job, about: Mapping[str, Any]) -> Table:
    """Return the table of a paper of which a job needs the scores, and `tuning.csv` if any."""
    paper = about["paper"]
    of = (job.need(f"scores.{paper}"), job.failed(paper), job.needs("tuning").get(paper))
    return read_table(about, *of)


def read_table(
    spec: Mapping[str, Any],
    scores: Path,
    failures: Mapping[str, str],
    tuning: Path | None = None,
) -> Table:
    """Return the table of a paper of which the plan says `spec`, with its score table at `scores`.

    `tuning` is where the choices of tuned rows are, if the paper has any.

    A row without any of the scores that the paper gives, or of all if it gives none, is `not run`;
    `failed` if `failures`, {variant: why}, names its variant, or one of the settings that it tried;
    or `no labels` if it is a test row whose labels are not public.
    """
    found = read_scores(scores, spec["paper"])
    means = over_seeds(found, spec.get("overall_tasks", OVERALL_TASKS))
    tuned = read_tuning(tuning) if tuning else {}
    rows = []
    for planned in spec["rows"]:
        row = Row(**planned, tuned=tuned.get(planned["variant"]))
        names = (row.variant, *(row.tuned.candidates if row.tuned else ()))
        why = [failures[name] for name in names if name in failures]
        row = _scored(spec, row, found, means)
        if row.status == NOT_RUN and why:
            row = row._replace(status=FAILED, remark=why[0])
        rows.append(row)
    known = {name: value for name, value in spec.items() if name in Table._fields}
    single = spec.get("labels", {}).get(spec.get("single"), "")
    return Table(**{**known, "rows": rows, "single": single})


def _scored(spec: Mapping[str, Any], row: Row, found: Scores, means: Mapping[Of, Interval]) -> Row:
    ours = {of.measure: seeds for of, seeds in found.items() if of[:2] == (row.variant, row.split)}
    on_dev = [of.measure for of in found if of[:2] == (row.variant, "dev")]
    others = [task for task in ours if task in TASKS and task not in OVERALL_TASKS]
    other_task = row.other_task
    if "other" in row.given and len(others) == 1:
        other_task = other_task or others[0]
    names = (*spec.get("tasks", OVERALL_TASKS), *RULES, DELTA_M)
    shown = [name for name in names if name in ours]
    columns = {"other": other_task, "overall": spec["rule"]}
    wanted = {columns.get(name, name) for name in row.given} or set(shown)
    status = NO_LABELS if row.split == "test" and on_dev else NOT_RUN
    keys = {task: {s.key for s in ours[task].values()} for task in TASKS if task in ours}
    return row._replace(
        status=SCORED if wanted.intersection(shown) else status,
        other_task=other_task,
        scores={name: means[Of(row.variant, row.split, name)] for name in shown},
        n=len({seed for name in shown for seed in ours[name]}),
        keys=sorted(set().union(*keys.values())),
        remark=_choice(row.choice, keys) if row.choice and keys else "",
        on_dev=on_dev,
    )


def _choice(choice: Mapping[str, str], keys: Mapping[str, set[str]]) -> str:
    """Say which variants the scores of a best-of row come from."""
    named = {task: "/".join(sorted({choice.get(k, k) for k in of})) for task, of in keys.items()}
    if len(set(named.values())) == 1:
        return f"here: {next(iter(named.values()))}"
    return "here: " + ", ".join(f"{TASKS[task].title} {name}" for task, name in named.items())
