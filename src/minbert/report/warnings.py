"""What a reader must know before believing a number."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from minbert.base.progress import counted
from minbert.evaluate.marks import FAVOURED, GUESS
from minbert.evaluate.table_rows import SCORED
from minbert.report.floors import Verdicts
from minbert.report.leaks import leaked
from minbert.report.material import Material
from minbert.report.pictures import Picture
from minbert.report.runs import Runs
from minbert.spec.task import TASKS


def find_warnings(
    material: Material,
    runs: Runs,
    verdicts: Verdicts,
    index: Iterable[Mapping[str, str]],
    pictures: Iterable[Picture],
) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the warnings, the gravest first: what is the matter, and its cases."""
    spec = material.job.spec
    if verdicts.constant:
        text = "Runs that predict the same class or number for every text. They learnt nothing of "
        yield (
            f"{text}that task; a comparison with them says nothing about the method.",
            verdicts.constant,
        )
    if verdicts.low:
        text = f"Runs that are not above their floor, {GUESS}, at the 5 % level. "
        yield f"{text}It is not shown that they learnt that task.", verdicts.low
    failed = [f"{paper} / {name}: {why}" for (paper, name), why in material.job.failures.items()]
    if failed:
        text = "Variants with a training run that failed: their rows lack that seed, or all scores."
        yield text, failed
    missing = [
        f"{line['paper']} / {line['row']} ({line['split']}): {line['status']}"
        + (f"; {line['reason']}" if line["reason"] else "")
        for line in index
        if line["status"] != SCORED
    ]
    if missing:
        yield "Published rows for which we have no score.", missing
    if absent := [each.name for each in pictures if not each.source]:
        yield "Figures that could not be drawn.", absent
    if len(spec["seeds"]) == 1:
        text = "One seed. There is no interval over seeds: another run may score differently"
        yield f"{text}, and differences between variants may be chance.", ()
    if spec["selection_split"] != "half":
        text = "So dev scores are too high; the column “last epoch” has scores not chosen on dev."
        yield f"{FAVOURED[spec['selection_split']]}. {text}", ()
    overlaps, rejected, others = [], [], []
    for task, report in material.records("data").items():
        title = TASKS[task].title
        counts = report.get("overlaps", {}).items()
        overlaps += [
            f"{title}: {counted(count, 'text')} of {where}" for where, count in counts if count
        ]
        counts = report.get("rejected", {}).items()
        rejected += [f"{title}: {counted(count, 'row')} of {where}" for where, count in counts]
        others += [f"{title}: {text}" for text in report.get("warnings", [])]
    if overlaps:
        yield "Leakage: some texts are in more than one split.", overlaps
    if added := list(leaked(material)):
        text = "How mean scores on dev change, over the variants of a paper, without the examples "
        yield f"{text}whose text is in train, too.", added
    if rejected:
        yield "Rows of the data that could not be used.", rejected
    if others:
        yield "Labels that cannot all be learnt.", others
    texts = material.job.needs("examples")
    if gone := [task for task, path in texts.items() if not path.is_file()]:
        text = "The texts of these tasks are not here, as in results from a bundle; their worst "
        text += "examples are left out, and others are shown by id. If you have the data, delete "
        text += "store/data, store/report and report.html: the next `snakemake all` makes them "
        text += "again, with texts."
        yield text, [TASKS[task].title for task in gone]
    if given := [
        f"{TASKS[of['task']].title}: {of['labelled']:,} of {of['rows']:,} test rows"
        for of in material.records("labels").values()
    ]:
        text = "Labels of test rows were given in files. Scores on test are over the rows that got"
        yield f"{text} a label.", given
    for name in ("commit", "device", "precision", "packages"):
        if len(values := runs.environments.get(name, ())) > 1:
            yield f"The runs do not all have the same {name}.", values
    if edited := [each for each in runs.environments.get("commit", ()) if each.endswith("+")]:
        yield "Runs were made with code that was not committed.", edited
