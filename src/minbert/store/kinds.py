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

    name: str
    help: str
    outputs: tuple[str, ...] = ()
    deletable: tuple[str, ...] = ()
    computes: bool = False
    shown: bool = False

    @property
    def lasting(self) -> tuple[str, ...]:
        """The outputs without which a node is not finished."""
        return tuple(name for name in self.outputs if name not in self.deletable)


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("fetch", "download a raw file and verify it"),
        Kind(
            "data",
            "make a data set's example table",
            ("examples.parquet", "rejected.csv", "report.json"),
            ("examples.parquet", "rejected.csv"),
        ),
        Kind(
            "labels",
            "read public labels of test rows",
            ("labels.parquet", "labels.json"),
        ),
        Kind("rows", "list a data set's dev and test rows without texts", ("rows.parquet",)),
        Kind(
            "backbone",
            "make a backbone: convert or download it",
            ("model.safetensors", "config.json", "tokenizer.json"),
            ("model.safetensors", "tokenizer.json"),
        ),
        Kind("tokens", "turn sentences into word pieces", ("tokens.parquet",)),
        Kind(
            "features",
            "cache a frozen encoder's features",
            ("features.safetensors",),
            computes=True,
        ),
        Kind(
            "train",
            "train one stage with one seed",
            ("model.safetensors", "history.parquet", "predictions.parquet", "run.json"),
            ("model.safetensors",),
            computes=True,
        ),
        Kind(
            "tuning",
            "choose the settings of a paper's tuned rows",
            ("tuning.csv", "tuning.md"),
            shown=True,
        ),
        Kind("scores", "score all runs of a paper", ("scores.parquet",), shown=True),
        Kind("table", "make a paper's table", ("table.csv", "table.md", "table.tex"), shown=True),
        Kind("index", "list every published row", ("index.csv", "index.md"), shown=True),
        Kind(
            "claims",
            "judge what the papers claim",
            ("claims.csv", "claims.md", "claims.tex"),
            shown=True,
        ),
        Kind("figure", "draw a figure", ("figure.pdf", "figure.png"), shown=True),
        Kind("report", "write the report", ("report.html",), shown=True),
    )
}
"""Every kind by name, in the order in which they depend on each other."""
