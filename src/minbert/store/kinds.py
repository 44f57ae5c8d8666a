"""The kinds of job: what each leaves, and what is said of it on the command line."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of job.

    `outputs` are the files that a node leaves in its folder; a `fetch` leaves the file it names.
    A finished node may lack those that are `deletable` until they are needed: weights, which may be
    deleted, and texts and the backbone, which no bundle has.
    `computes`: it runs on a GPU if there is one. `shown`: it is read by people, takes seconds, and
    is made again rather than carried over by `minbert adopt`.
    Trainings alone depend on a seed, and are in `KEY/seedN/`.
    """

    help: str
    outputs: tuple[str, ...] = ()
    deletable: tuple[str, ...] = ()
    computes: bool = False
    shown: bool = False

    @property
    def lasting(self) -> tuple[str, ...]:
        """The outputs without which a node is not finished."""
        return tuple(name for name in self.outputs if name not in self.deletable)


KINDS = {
    "fetch": Kind("download a raw file and verify it"),
    "data": Kind(
        "make a data set's example table",
        ("examples.parquet", "rejected.csv", "report.json"),
        ("examples.parquet", "rejected.csv"),
    ),
    "labels": Kind(
        "read public labels of test rows",
        ("labels.parquet", "labels.json"),
    ),
    "rows": Kind("list a data set's dev and test rows without texts", ("rows.parquet",)),
    "backbone": Kind(
        "make a backbone: convert or download it",
        ("model.safetensors", "config.json", "tokenizer.json"),
        ("model.safetensors", "tokenizer.json"),
    ),
    "tokens": Kind("turn sentences into word pieces", ("tokens.parquet",)),
    "features": Kind(
        "cache a frozen encoder's features",
        ("features.safetensors",),
        computes=True,
    ),
    "train": Kind(
        "train one stage with one seed",
        ("model.safetensors", "history.parquet", "predictions.parquet", "run.json"),
        ("model.safetensors",),
        computes=True,
    ),
    "tuning": Kind(
        "choose the settings of a paper's tuned rows",
        ("tuning.csv", "tuning.md"),
        shown=True,
    ),
    "scores": Kind("score all runs of a paper", ("scores.parquet",), shown=True),
    "table": Kind("make a paper's table", ("table.csv", "table.md", "table.tex"), shown=True),
    "index": Kind("list every published row", ("index.csv", "index.md"), shown=True),
    "claims": Kind(
        "judge what the papers claim",
        ("claims.csv", "claims.md", "claims.tex"),
        shown=True,
    ),
    "figure": Kind("draw a figure", ("figure.pdf", "figure.png"), shown=True),
    "report": Kind("write the report", ("report.html",), shown=True),
}
"""Every kind by name, in the order in which they depend on each other."""
