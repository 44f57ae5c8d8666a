"""`minbert figure`: a published figure drawn again, in a different format or size."""

from pathlib import Path

from minbert.base.errors import UserError, did_you_mean
from minbert.spec.task import use_tasks_of
from minbert.store.job import Job
from minbert.store.plans import describe_job, published_plans, read_plan, records


def draw(
    root: Path,
    name: str,
    size: tuple[float, float] | None,
    no_title: bool,
    out: Path | None,
) -> Path:
    """Draw `PAPER/NAME` from finished results under `root`, and return the file.

    That is `out`, whose ending is its format (default: `NAME.pdf`). Without title there is no
    stamp. Runs that did not finish are named below it.
    """
    from minbert.figures import make, style  # load matplotlib

    known = {
        of.removeprefix("figures/"): (key, plan)
        for plan in reversed(published_plans(root) or [*dict(records(root))][:1])
        for of, kind, key in read_plan(root, plan)["shown"]
        if kind == "figure"
    }
    if name not in known:
        near = did_you_mean(name, known)
        raise UserError(f"{root}: no published figure '{name}' (PAPER/NAME).{near}")
    key, plan = known[name]
    out = out or Path(f"{Path(name).name}.pdf")
    if (form := out.suffix[1:]) not in style.FORMATS:
        raise UserError(f"{out}: expected a file that ends in .{', .'.join(style.FORMATS)}")
    use_tasks_of(described := describe_job(root, "figure", key, plan))
    job = Job(root, described, None, 1)
    make.draw(job, out.with_suffix(""), bare=no_title, formats=(form,), size=size)
    return out
