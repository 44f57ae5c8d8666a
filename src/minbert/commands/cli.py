"""The command line: what people ask for (`plan`, `predict` and others), and the rules' steps."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minbert import __version__
from minbert.base.errors import UserError, did_you_mean, explain_os_error, printable
from minbert.base.progress import counted, shown_size
from minbert.predict.inputs import FORMATS
from minbert.spec.config import MAX_SEED, MAX_THREADS, config_files, load_config
from minbert.store.kinds import KINDS

if TYPE_CHECKING:
    from minbert.plan.plan import Plan

_EXAMPLES = """\
examples:
  minbert predict 3-bert --task sst "A warm, funny film." "It drags."
  minbert predict hybrid-bert --task para --in questions.tsv --out answers.jsonl

Two sentences in a row are a pair; in text files a tab separates them. See docs/predicting.md.
"""

Run = str | Callable[..., Any]
"""A command: a function of its options, which returns what is printed, or the lines of it. As
`MODULE:NAME` it is imported only when it is called."""


def main(words: Sequence[str] | None = None) -> None:
    """Run one command and print what it returns.

    A `UserError` is printed without a traceback and exits with 2.
    """
    words = sys.argv[1:] if words is None else words
    parser = _Parser()
    try:
        parser.check_command(words)
        said = _called(**vars(parser.parse_args(words)))
        if said is not None:
            lines = said if isinstance(said, Iterator) else [said]
            print(printable("\n".join(map(str, lines))))
        sys.stdout.flush()  # At the exit a closed pipe would be an error.
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (UserError, OSError) as error:
        message = str(error) if isinstance(error, UserError) else explain_os_error(error)
        if message is None:
            raise
        print(f"minbert: {printable(message)}", file=sys.stderr)
        raise SystemExit(2) from None


def _called(run: Run, on: Callable[..., Any] | None, **options: Any) -> Any:
    """Return what a command returns; what it is `on` comes first, made of the common options."""
    if isinstance(run, str):
        module, _, name = run.partition(":")
        function = getattr(import_module(f"minbert.{module}"), name)
    else:
        function = run
    if on is None:
        return function(**options)
    first = on(*(options.pop(name) for name in ("results", "configfile", "config", "directory")))
    return function(first, **options)


def _plan(results: Path | None, given: list[Path], config: list[str], base: Path) -> Plan:
    from minbert.commands.plan import read_plan

    words = [*config, *([f"results={results}"] if results else [])]
    return read_plan(config_files(given, base / "config.yaml"), words, base)


def _root(results: Path | None, given: list[Path], config: list[str], base: Path) -> Path:
    """Return the results folder: as given, or that of the configuration, or else `results`."""
    files = config_files(given, base / "config.yaml")
    if results or not (given or config or files[0].exists()):
        return results or Path("results")
    return Path(load_config(files, config).results)


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


class _Parser(argparse.ArgumentParser):
    """The parser of all commands; those that only rules call are in no list."""

    def __init__(self) -> None:
        super().__init__(
            prog="minbert",
            description="The ablation grids of four papers on multitask BERT fine-tuning.",
            epilog="Run the grids themselves by: snakemake --cores N all",
        )
        self.add_argument("--version", action="version", version=f"minbert {__version__}")
        self.commands = self.add_subparsers(required=True, metavar="COMMAND", parser_class=_Mixed)
        _add_looks(self._command)
        _add_uses(self._command)
        _add_steps(self._command)

    def check_command(self, words: Sequence[str]) -> None:
        """Refuse a command that there is not, with the nearest that there is."""
        known = self.commands.choices
        if words and not words[0].startswith("-") and words[0] not in known:
            made = words[0] in KINDS
            now = (
                f" `minbert make {words[0]}-KEY` makes it."
                if made
                else did_you_mean(words[0], known)
            )
            raise UserError(f"no command '{words[0]}'.{now} `minbert --help` lists them")

    def _command(
        self, name: str, run: Run, help: str, on: Callable[..., Any] | None = None, **about: Any
    ) -> argparse.ArgumentParser:
        """Add a command: people's all take the options of the configuration, a step only a root."""
        about = {"description": help, **about, **({"help": help} if on else {})}
        made: argparse.ArgumentParser = self.commands.add_parser(name, **about)
        made.set_defaults(run=run, on=on)
        if on is None:
            made.add_argument("--results", type=Path, default=Path("results"), metavar="ROOT")
            return made
        results = "the results folder (default: that of the configuration)"
        made.add_argument("--results", type=Path, metavar="ROOT", help=results)
        over, names = "read after config.yaml; later files win", ("--configfile", "--configfiles")
        made.add_argument(*names, type=Path, nargs="+", default=[], metavar="FILE", help=over)
        made.add_argument(
            "--config",
            action="extend",
            nargs="*",
            default=[],
            metavar="KEY=VALUE",
            help="settings; they win over all files",
        )
        where = "the folder of the Snakefile (default: the current one)"
        made.add_argument("--directory", type=Path, default=Path(), metavar="DIR", help=where)
        return made


def _add_looks(command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands on the plan and the store."""
    said = "show what is done, what would run, and why"
    plan = command("plan", "commands.plan:plan_text", said, _plan)
    why = "explain in full why a variant (or PAPER/VARIANT) would run"
    plan.add_argument("--why", metavar="VARIANT", help=why)

    said = "show which rows learnt the tasks that they learnt in their paper"
    command("learned", "commands.learned:learned_text", said, _plan)

    said = "list results that the configuration no longer needs"
    gc = command("gc", "commands.gc:report", said, _plan)
    gc.add_argument("--delete", dest="remove", action="store_true", help="delete them")

    said = "keep results after a refactoring of their code"
    adopt = command("adopt", "commands.adopt:report", said, _plan)
    adopt.add_argument("--apply", action="store_true", help="carry them over")
    why = "also accept runs of other code, as it computes the same: why it does"
    adopt.add_argument("--reason", metavar="TEXT", help=why)

    bundle = command("bundle", _bundle, "write the finished runs to one file, to share them", _root)
    bundle.add_argument("out", type=Path, metavar="OUT.zip")
    bundle.add_argument("--weights", action="store_true", help="include the weights of each run")
    no_scores = "leave out the scores that no table, figure or claim needs"
    bundle.add_argument("--lean", action="store_true", help=no_scores)
    number, seeds = _whole_number(0), "only runs of these seeds (default: all)"
    bundle.add_argument("--seeds", type=number, nargs="+", default=(), metavar="N", help=seeds)
    known = "leave out the runs, ids and labels that these bundles have"
    bundle.add_argument("--without", type=Path, nargs="+", default=(), metavar="ZIP", help=known)

    unbundle = command("unbundle", _unbundle, "import the finished runs of a bundle", _root)
    unbundle.add_argument("path", type=Path, metavar="FILE")
    said = "what runs of minbert 0.2 were trained on, whose records do not say it"
    unbundle.add_argument("--digests", type=Path, metavar="FILE", help=said)


def _add_uses(command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands on finished results."""
    ui = command("ui", "track.ui:serve", "show the runs in MLflow", _root)
    port = "the server's port (default: %(default)s)"
    ui.add_argument("--port", type=_whole_number(1, 65535), default=5000, help=port)

    predict = command(
        "predict",
        "predict.predict:predict",
        "make predictions for new sentences",
        _root,
        description="Make predictions with a trained variant; prints one JSON object per line.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_variant(predict)
    what = "what to make predictions for"
    predict.add_argument("sentences", nargs="*", metavar="SENTENCE", help=what)
    predict.add_argument("--task", metavar="TASK", help="one of the variant's tasks")
    source = "a file of sentences, or - for standard input (the default unless it is a terminal)"
    predict.add_argument("--in", dest="source", metavar="FILE", help=source)
    form = "input format (default: by the file's ending, or text)"
    predict.add_argument("--format", dest="form", choices=FORMATS, help=form)
    predict.add_argument("--out", type=Path, metavar="FILE", help="(default: standard output)")
    predict.add_argument("--device", default="auto", help="auto, cpu, mps, cuda or cuda:N")

    export = command(
        "export",
        _export,
        "write a trained model as a Hugging Face folder",
        _root,
        description="Write a trained model as a folder that transformers loads: the encoder, its "
        "tokenizer, the tasks' heads, and a card that says how to use them.",
    )
    _add_variant(export)
    export.add_argument("folder", type=Path, metavar="DIR", help="a new or an empty folder")
    export.add_argument("--task", metavar="TASK", help="needed if tasks have different encoders")

    compare = command(
        "compare",
        "explore.compare:compare",
        "show how two variants differ, or one before and after an edit",
        _root,
        description="Show how two variants differ in settings, dev scores and dev examples. For "
        "one variant: how its result differs from its latest earlier one in the store.",
    )
    names = "VARIANT, PAPER/VARIANT, or either with @KEY for its earlier result of that key"
    compare.add_argument("one", metavar="A", help=names)
    compare.add_argument("other", metavar="B", nargs="?", help="what to compare it with")

    submit = command(
        "submit",
        _submit,
        "write the course's prediction files for a trained variant",
        _root,
        description="Write a variant's dev and test predictions in the format of the CS 224N "
        "default project.",
    )
    _add_variant(submit)
    folder = "(default: ROOT/submissions/PAPER/VARIANT/seedN)"
    submit.add_argument("--out", type=Path, metavar="DIR", help=folder)

    figure = command("figure", "commands.figure:draw", "draw a published figure again", _root)
    figure.add_argument("name", metavar="PAPER/NAME", help="a figure in ROOT/figures")
    how = "(default: that of FILE, or pdf)"
    figure.add_argument("--format", dest="form", choices=("pdf", "png", "svg"), help=how)
    size = "inches, title and notes included (default: as published)"
    figure.add_argument("--size", metavar="WxH", help=size)
    bare = "leave out the title and the stamp"
    figure.add_argument("--no-title", dest="bare", action="store_true", help=bare)
    figure.add_argument("--out", type=Path, metavar="FILE", help="(default: NAME.FORMAT)")


def _add_steps(command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add what the rules and the workflow call."""
    follow = command("follow", _follow, "store what jobs measure in MLflow, as they run")
    until = "end when this process has ended"
    follow.add_argument("--until", type=_whole_number(1), metavar="PID", help=until)
    follow.add_argument("--plan", help="the plan's name, for the papers' descriptions")
    follow.add_argument("--once", action="store_true", help="store what there is, then end")

    publish = command("publish", _publish, "copy tables and figures to their plain names")
    publish.add_argument("--plan", required=True, help="the plan's name, as the rule gives it")
    how = publish.add_mutually_exclusive_group(required=True)
    how.add_argument("--mark", type=Path, help="publish all, then write this file")
    how.add_argument("--name", help="publish this file alone, such as tables/hybrid-bert.md")
    partial = "publish what there is, after a failure"
    how.add_argument("--partial", action="store_true", help=partial)

    summary = command("summary", _summary, "summarise a workflow and its results")
    summary.add_argument("--plan", required=True, help="the plan's name, from the workflow")

    make = command("make", _make, "make what people look at")
    make.add_argument("names", nargs="+", metavar="KIND-KEY", help="each node's kind and key")
    made = [make]
    for name, kind in KINDS.items():
        if kind.shown:
            continue
        step = command(name, _step, kind.help)
        step.add_argument("key", help="the node's key (16 hex digits)")
        if kind.seeded:
            step.add_argument("--seed", type=_whole_number(0, MAX_SEED), required=True)
        if kind.computes:
            memory = "GPU memory that it needs"
            step.add_argument("--memory", type=_whole_number(0), metavar="MB", help=memory)
        step.set_defaults(kind=name, seed=None, memory=None)
        made.append(step)
    for step in made:
        step.add_argument("--plan", help="the plan's name (default: the newest with this key)")
        number = _whole_number(1, MAX_THREADS)
        step.add_argument("--threads", type=number, default=1, help="(default: 1)")


def _add_variant(parser: argparse.ArgumentParser) -> None:
    name = "a name in ROOT/variants.tsv; PAPER/VARIANT if several papers have it"
    parser.add_argument("variant", metavar="VARIANT", help=name)
    smallest = "(default: the smallest trained)"
    parser.add_argument("--seed", type=_whole_number(0), metavar="N", help=smallest)


def _whole_number(low: int, high: int = 2**63 - 1) -> Callable[[str], int]:
    """Return a `type` of an option: a whole number from `low` to `high`."""

    def read(word: str) -> int:
        if not re.fullmatch("[0-9]{1,19}", word) or not low <= int(word) <= high:
            raise argparse.ArgumentTypeError(
                f"found {word[:40]!r}, expected a whole number from {low} to {high}"
            )
        return int(word)

    return read


def _step(results: Path, kind: str, key: str, memory: int | None, **options: Any) -> None:
    from minbert.base.process import end_with_parent
    from minbert.commands.steps import run_step

    end_with_parent()
    # Threads that spin while they wait make steps many times slower on a busy machine.
    if options["threads"] > 1:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    run_step(results, kind, key, memory=memory and memory * 10**6, **options)


def _make(results: Path, **options: Any) -> None:
    from minbert.base.process import end_with_parent
    from minbert.commands.steps import run_steps

    end_with_parent()
    run_steps(results, **options)


def _bundle(results: Path, out: Path, **options: Any) -> str:
    from minbert.publish.bundle import bundle

    made = bundle(results, out, **options)
    return f"{out}: {counted(made.runs, 'run')}, {shown_size(made.bytes)}"


def _unbundle(results: Path, path: Path, digests: Path | None) -> str:
    from minbert.publish.unbundle import unbundle

    found = unbundle(path, results, digests)
    said = f"{counted(found.new, 'run')} imported, {found.known} already there"
    return f"{results}: {said}; `minbert plan` says what is left to run"


def _export(results: Path, folder: Path, **options: Any) -> str:
    from minbert.predict.export import export

    return f"{folder}: {', '.join(export(results, folder=folder, **options))}"


def _submit(results: Path, **options: Any) -> str:
    from minbert.predict.submit import submit

    made = submit(results, **options)
    return "\n".join(f"{path}: {counted(rows, 'row')}" for path, rows in made.items())


def _follow(results: Path, plan: str | None, until: int | None, once: bool) -> None:
    from minbert.track.follower import Follower
    from minbert.track.store import check_store

    def draw(history: Path, title: str, rule: str, target: Path) -> None:
        from minbert.figures.curves import draw_run

        draw_run(history, title, rule, target)

    if not results.is_dir():
        raise UserError(f"{results}: there is no such results folder to follow")
    check_store(results)
    follower = Follower(results, plan=plan, draw=draw)
    if follower.finish() if once else follower.follow(until_pid=until):
        raise SystemExit(1)


def _publish(results: Path, plan: str, mark: Path, name: str | None, partial: bool) -> None:
    from minbert.publish.publish import publish, publish_one, publish_partial

    if name:
        publish_one(results, plan, name)
    elif partial:
        print(printable(publish_partial(results, plan)), file=sys.stderr)
    else:
        publish(results, plan, mark)


def _summary(results: Path, plan: str) -> None:
    from minbert.commands.summary import summary

    print(printable(summary(results, plan)), file=sys.stderr)
