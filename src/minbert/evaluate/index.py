"""The index of all published rows: which of them were scored here, and what they scored."""

from collections import Counter
from collections.abc import Sequence

from minbert.evaluate.table import SCORED
from minbert.evaluate.text import (
    Line,
    markdown,
    markdown_table,
    read_csv,
    write_csv,
    write_markdown,
)
from minbert.spec.published import FIGURES
from minbert.store.job import Job

NAMES = ("paper", "table", "row", "variant", "split")
"""What tells published rows apart."""


def make(job: Job) -> None:
    """List every published row with its status and scores, as `index.csv` and `index.md`."""
    paths = job.needs("table").values()
    found = {tuple(row[name] for name in NAMES): row for path in paths for row in read_csv(path)}
    lines, cells = [], [["Paper", "Table", "Row", "Split", "Status", "Published", "Ours"]]
    for row in job.spec["published"]:
        line = {name: row[name] for name in NAMES}
        # Of some rows, no configured grid has the paper or the variant.
        ours = found.get(tuple(map(str, line.values())), {"status": "not configured"})
        line |= {name: ours.get(name) for name in ("status", "seeds", "backbone", "reason", "keys")}
        places = {"other": ours.get("other_task"), "overall": f"overall_{ours.get('overall_rule')}"}
        published, scores = [], []
        for name in FIGURES:
            figure, score = row["figures"].get(name), ours.get(f"{places.get(name, name)}_mean")
            line |= {f"{name}_published": figure, f"{name}_ours": score}
            if figure is not None:
                published.append(f"{name} {figure:.3f}")
                scores += [f"{name} {float(score):.3f}"] if score else []
        lines.append(line)
        about = (line[name] for name in ("paper", "table", "row", "split", "status"))
        cells.append([*about, ", ".join(published), ", ".join(scores)])
    columns = [f"{figure}_{side}" for figure in FIGURES for side in ("published", "ours")]
    names = [*NAMES, "status", "seeds", *columns, "backbone", "reason", "keys"]
    write_csv(job.out / "index.csv", names, lines)
    parts = [f"{in_words(lines).capitalize()}."]
    if lines:
        parts += [
            "Accuracy for SST, para and other; Pearson r for STS; overall by the paper's own rule.",
            markdown_table(cells),
        ]
    backbones = dict.fromkeys(line["backbone"] for line in lines if line["backbone"])
    parts += [f"Backbone: {markdown(name)}." for name in backbones]
    write_markdown(job.out / "index.md", "Every published row", parts)


def in_words(lines: Sequence[Line]) -> str:
    """Return how many of the index's lines have scores, and what the others are."""
    if not lines:
        return "none of these papers has a published row"
    counts = Counter(line["status"] for line in lines)
    rest = ", ".join(f"{n} {status}" for status, n in counts.items() if status != SCORED)
    return f"{counts[SCORED]} of {len(lines)} published rows scored" + f" ({rest})" * bool(rest)
