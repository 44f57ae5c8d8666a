"""The command line: user commands (`plan`, `predict` and others), and the rules' steps."""

from __future__ import annotations

import argparse
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from minbert import __version__
from minbert.base.errors import UserError, did_you_mean, explain_os_error, printable
from minbert.base.locks import check_results
from minbert.predict.inputs import FORMATS
from minbert.spec.config import config_files, load_config


class Command(NamedTuple):
    """A command: the function `run` as MODULE:NAME, imported when it is called, and its options.

    The function is called with the plan of the configuration if the command is `planned`, else with
    its results folder, and with the options; what it returns is printed, or the lines of it.
    """

    run: str
    help: str
    options: Mapping[str, Mapping[str, Any]] = {}
    planned: bool = False


def whole_number(word: str) -> int:
    """Return the whole number, 0 to 4294967295, that an option says."""
    if not word.isdecimal() or int(word) >= 2**32:
        raise ArgumentTypeError(f"found '{word}', expected a whole number, 0 to {2**32 - 1}")
    return int(word)


def inches(word: str) -> tuple[float, float]:
    """Return the width and height, 1 to 50 each, that `WxH` says."""
    try:
        width, height = map(float, word.split("x"))
    except ValueError:
        width = height = 0.0
    if not 1 <= min(width, height) <= max(width, height) <= 50:
        raise ArgumentTypeError(f"found '{word}', expected WxH, 1 to 50 inches each, as in 7x4")
    return width, height


def _arg(help: str, metavar: str | None = None, type: Any = str, **more: Any) -> dict[str, Any]:
    return {"help": help, "metavar": metavar, "type": type, **more}


_number = partial(_arg, metavar="N", type=whole_number)
_path = partial(_arg, type=Path)


def _flag(help: str) -> dict[str, Any]:
    return {"help": help, "action": "store_true"}


CONFIGURED = {
    "--results": _path("the results folder (default: the configuration's)", "ROOT"),
    "--configfile": _path("read after config.yaml; later files win", "FILE", nargs="+", default=[]),
    "--config": _arg("settings; they override all files", "KEY=VALUE", nargs="*", default=[]),
    "--directory": _path("the Snakefile's (default: the current one)", "DIR", default=Path()),
}
"""The options of every user command."""

VARIANT = {
    "variant": _arg("PAPER/VARIANT if several papers have it", "VARIANT"),
    "--seed": _number("(default: the smallest trained)"),
}

COMMANDS = {
    "plan": Command(
        "commands.plan:plan_text", "show what is done, what would run, and why", planned=True
    ),
    "learned": Command(
        "commands.plan:learned_text",
        "list published scores above their floor, and which of ours are not",
        planned=True,
    ),
    "gc": Command(
        "commands.gc:report",
        "list results that the configuration no longer needs",
        {"--delete": _flag("delete them")},
        planned=True,
    ),
    "adopt": Command(
        "commands.adopt:report",
        "keep results after a refactoring of their code",
        {
            "--apply": _flag("carry them over"),
            "--reason": _arg("accept other code too; TEXT says why it computes the same", "TEXT"),
        },
        planned=True,
    ),
    "bundle": Command(
        "publish.bundle:bundle",
        "write the finished runs to one file, to share them",
        {
            "out": _path("the new file", "OUT.zip"),
            "--weights": _flag("include the weights of each run"),
            "--lean": _flag("leave out the scores that no table, figure or claim needs"),
            "--seeds": _number("only these (default: all)", nargs="+", default=()),
            "--without": _path("leave out what these bundles hold", "ZIP", nargs="+", default=()),
        },
    ),
    "unbundle": Command(
        "publish.bundle:unbundle",
        "import the finished runs of a bundle",
        {"path": _path("the bundle", "FILE")},
    ),
    "ui": Command(
        "track.store:serve",
        "show the runs in MLflow",
        {"--port": _number("(default: %(default)s)", default=5000)},
    ),
    "predict": Command(
        "predict.predict:predict",
        "make predictions for new sentences, one JSON object per line",
        {
            **VARIANT,
            "sentences": _arg(
                "the sentences; for a task of pairs, two for each pair", "SENTENCE", nargs="*"
            ),
            "--task": _arg("one of the variant's tasks", "TASK"),
            "--in": _path(
                "a tab separates a pair (default: standard input)", "FILE", dest="source"
            ),
            "--format": _arg("(default: by the input's ending)", choices=FORMATS, dest="form"),
            "--out": _path("(default: standard output)", "FILE"),
            "--device": _arg("auto, cpu, mps, cuda or cuda:N", default="auto"),
        },
    ),
    "export": Command(
        "predict.export:export",
        "write a trained model as a Hugging Face folder",
        {
            **VARIANT,
            "folder": _path("a new or empty folder", "DIR"),
            "--task": _arg("needed if tasks have different encoders", "TASK"),
        },
    ),
    "compare": Command(
        "explore.results:compare",
        "show how two variants differ, or one before and after an edit",
        {
            "one": _arg("VARIANT, PAPER/VARIANT, or either with @KEY for an earlier result", "A"),
            "other": _arg("what to compare it with (default: its previous result)", "B", nargs="?"),
        },
    ),
    "submit": Command(
        "predict.predict:submit",
        "write the CS 224N project's prediction files for a trained variant",
        {**VARIANT, "--out": _path("(default: ROOT/submissions/PAPER/VARIANT/seedN)", "DIR")},
    ),
    "figure": Command(
        "commands.figure:draw",
        "redraw a published figure",
        {
            "name": _arg("a figure in ROOT/figures", "PAPER/NAME"),
            "--size": _arg(
                "1 to 50 inches, with title and notes (default: as published)", "WxH", inches
            ),
            "--no-title": _flag("leave out the title and the stamp"),
            "--out": _path("ends in .pdf, .png or .svg (default: NAME.pdf)", "FILE"),
        },
    ),
}
"""The user commands."""

PLAN = {
    "--results": _path("the results folder", "ROOT", default=Path("results")),
    "--plan": _arg("the plan's name (default: the newest that has the job)"),
}
PUBLISHING = {**PLAN, "--plan": _arg("the plan's name", required=True)}

STEPS = {
    "follow": Command(
        "track.follower:follow",
        "copy job metrics to MLflow",
        {**PLAN, "--until": _number("go on until the process N, its parent, has ended")},
    ),
    "publish": Command(
        "publish.publish:publish",
        "copy tables and figures to their readable names",
        {**PUBLISHING, "mark": _path("a file to write when all are copied")},
    ),
    "publish-one": Command(
        "publish.publish:publish_one",
        "copy one table or figure to its readable name",
        {**PUBLISHING, "name": _arg("such as tables/hybrid-bert.md")},
    ),
    "publish-partial": Command(
        "publish.publish:publish_partial", "publish what there is, after a failure", PUBLISHING
    ),
    "make": Command(
        "commands.steps:make",
        "make nodes, one after the other",
        {
            **PLAN,
            "names": _arg("each node's kind and key", "KIND-KEY", nargs="+"),
            "--threads": _number("(default: 1)", default=1),
            "--seed": _number("of a training"),
            "--memory": _number("MB of GPU memory that it needs"),
        },
    ),
}
"""What the rules and the workflow call; the first page of help does not list it."""


def main(words: Sequence[str] = sys.argv[1:]) -> None:
    """Run one command and print what it returns.

    A `UserError` is printed without a traceback and exits with 2.
    """
    try:
        said = _call(words)
        if said:
            lines = said if isinstance(said, Iterator) else [said]
            print(printable("\n".join(map(str, lines))))
        sys.stdout.flush()  # At the exit a closed pipe would be an error.
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # as a shell has it
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (UserError, OSError) as error:
        message = str(error) if isinstance(error, UserError) else explain_os_error(error)
        if message is None:
            raise
        print(f"minbert: {printable(message)}", file=sys.stderr)
        raise SystemExit(2) from None


def _call(words: Sequence[str]) -> Any:
    """Return what the command returns that the words call, with its options."""
    known = {**COMMANDS, **STEPS}
    if not words or words[0].startswith("-"):
        first = argparse.ArgumentParser(
            prog="minbert",
            description="The ablation grids of four papers on multitask BERT fine-tuning.",
            epilog="Run the grids themselves by: snakemake --cores N all",
        )
        first.add_argument("--version", action="version", version=f"minbert {__version__}")
        listed = first.add_subparsers(required=True, metavar="COMMAND")
        for name, command in COMMANDS.items():
            listed.add_parser(name, help=command.help)
        first.parse_args(words)
    name, *rest = words
    if name not in known:
        near = did_you_mean(name, known)
        raise UserError(f"no command '{name}'.{near} `minbert --help` lists them")
    command = known[name]
    parser = argparse.ArgumentParser(f"minbert {name}", description=command.help)
    for option, about in {**(CONFIGURED if name in COMMANDS else {}), **command.options}.items():
        parser.add_argument(option, **about)
    # Sentences may follow options, as in `predict VARIANT --task sst SENTENCE`.
    options = vars(parser.parse_intermixed_args(rest))
    module, _, function = command.run.partition(":")
    run, results = getattr(import_module(f"minbert.{module}"), function), options.pop("results")
    if name in STEPS:
        check_results(results)
        return run(results, **options)
    given, words, base = (options.pop(name) for name in ("configfile", "config", "directory"))
    files = config_files(given, base / "config.yaml")
    if command.planned:
        from minbert.plan.outputs import load_plan

        more = [f"results={str(results)!r}"] if results else []
        return run(load_plan(files, base, [*words, *more]), **options)
    if given or words or (not results and files[0].exists()):
        configured = Path(load_config(files, words).results)
        results = results or configured
    return run(results or Path("results"), **options)
