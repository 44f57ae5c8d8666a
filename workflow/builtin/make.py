"""Makes the built-in corpus and backbone again; no job does.

    python workflow/builtin/make.py corpus      the tables beside this file: seconds
    python workflow/builtin/make.py backbone    workflow/backbone: about five minutes on one core

The corpus is the same to the byte on any machine; the weights are on the same kind of machine.
A second word names a different folder. Tables are in the form of the course's files; those of LMRD,
whose original is an archive, too.
"""

import csv
import sys
from pathlib import Path

from generator.pretrain import Recipe, write_backbone
from generator.tasks import SIZES, generate

HERE = Path(__file__).parent
SEED = 0

FILES = {
    "sst": ("ids-sst", ("id", "sentence", "sentiment")),
    "para": ("quora", ("id", "sentence1", "sentence2", "is_duplicate")),
    "sts": ("sts", ("id", "sentence1", "sentence2", "similarity")),
    "cfimdb": ("ids-cfimdb", ("id", "sentence", "sentiment")),
    "lmrd": ("ids-lmrd", ("id", "sentence", "rating")),
}
"""What the names of a task's files begin with, and their columns."""

ENDINGS = {"train": "train.csv", "dev": "dev.csv", "test": "test-student.csv"}


def write_corpus(folder: Path) -> None:
    """Write the files of every task to `folder`: tab-separated, with a header."""
    folder.mkdir(parents=True, exist_ok=True)
    for task, (name, columns) in FILES.items():
        for split, rows in generate(task, SEED, SIZES[task]).items():
            path = folder / f"{name}-{ENDINGS[split]}"
            with path.open("w", encoding="utf-8", newline="") as file:
                table = csv.writer(file, delimiter="\t", lineterminator="\n")
                table.writerow(columns)
                for row in rows:
                    texts = filter(None, (row.sentence1, row.sentence2))
                    table.writerow([row.id, *texts, f"{row.label:g}"])


def main(words: list[str]) -> None:
    """Make what the command line names."""
    if words[:1] == ["corpus"]:
        write_corpus(Path(*words[1:]) if words[1:] else HERE)
    elif words[:1] == ["backbone"]:
        write_backbone(Path(*words[1:]) if words[1:] else HERE.parent / "backbone", Recipe(), SEED)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
