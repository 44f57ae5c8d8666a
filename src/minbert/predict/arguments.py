"""The command-line arguments of `minbert predict` and `minbert submit`."""

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from minbert.predict.inputs import FORMATS
from minbert.spec.task import TASKS

_EXAMPLES = """\
examples:
  minbert predict 3-bert --task sst "A warm, funny film." "It drags."
  minbert predict hybrid-bert --task para --in questions.tsv --out answers.jsonl

Two sentences in a row are a pair; in text files a tab separates them. See docs/predicting.md.
"""


class _Mixed(argparse.ArgumentParser):
    """A parser that accepts sentences after options, as in `predict VARIANT --task sst WORDS`."""

    _mixing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse options first, then the rest; the library's method calls this one again."""
        if self._mixing:
            return super().parse_known_args(args, namespace)
        self._mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixing = False


def add_predict(commands: Any, run: Any) -> None:
    """Add `predict` to the subparsers `commands`; it calls `run` with its arguments."""
    parser = commands.add_parser(
        "predict",
        help="predict new sentences with a trained variant",
        description="Predict sentences with a trained variant; prints one JSON object per line.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_variant(parser)
    parser.add_argument("sentences", nargs="*", metavar="SENTENCE", help="what to predict")
    parser.add_argument("--task", metavar="TASK", help=f"one of {', '.join(TASKS)}")
    parser.add_argument(
        "--in",
        dest="source",
        metavar="FILE",
        help="a file of sentences, or - for standard input (the default unless it is a terminal)",
    )
    parser.add_argument(
        "--format",
        dest="form",
        choices=FORMATS,
        help="of the input (default: by the file's ending, or text)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="(default: standard output)")
    parser.add_argument("--device", default="auto", help="auto, cpu, mps, cuda or cuda:N")
    parser.set_defaults(run=run)


def add_submit(commands: Any, run: Any) -> None:
    """Add `submit` to the subparsers `commands`; it calls `run` with its arguments."""
    parser = commands.add_parser(
        "submit",
        help="write the course's prediction files of a trained variant",
        description="Write a variant's dev and test predictions in the format of the CS 224N "
        "default project.",
    )
    _add_variant(parser)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="(default: RESULTS/submissions/PAPER/VARIANT/seedN)"
    )
    parser.set_defaults(run=run)


def make_commands(parser: argparse.ArgumentParser) -> Any:
    """Return the subparsers of `parser`; their commands take words and options in any order."""
    return parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Mixed)


def whole_number(low: int, high: int = 2**63 - 1) -> Callable[[str], int]:
    """Return a `type` of an option: a whole number from `low` to `high`."""

    def read(word: str) -> int:
        if not re.fullmatch("[0-9]{1,19}", word) or not low <= int(word) <= high:
            raise argparse.ArgumentTypeError(
                f"found {word[:40]!r}, expected a whole number from {low} to {high}"
            )
        return int(word)

    return read


def _add_variant(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("variant", metavar="VARIANT", help="a name in RESULTS/variants.tsv")
    parser.add_argument("--paper", help="needed if several papers have a variant of this name")
    parser.add_argument(
        "--seed", type=whole_number(0), metavar="N", help="(default: the smallest trained)"
    )
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="results root (default: results)"
    )
