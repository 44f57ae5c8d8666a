"""The command line: what people ask for (plan, ui, predict, submit), and the rules' steps."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from minbert import __version__
from minbert.base.errors import UserError, printable, unwritable
from minbert.base.process import settle_in
from minbert.predict.arguments import add_predict, add_submit, make_commands, whole_number
from minbert.store.kinds import KINDS

if TYPE_CHECKING:
    from minbert.plan.plan import Plan


def main(words: Sequence[str] | None = None) -> None:
    """Run one command; a `UserError` is printed without a traceback and exits with 2."""
    settle_in()
    arguments = _parser().parse_args(words)
    try:
        arguments.run(arguments)
    except UserError as error:
        print(f"minbert: {printable(str(error))}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if (message := unwritable(error)) is None:
            raise
        print(f"minbert: {message}", file=sys.stderr)
        raise SystemExit(2) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="minbert",
        description="The ablation grids of four papers on multitask BERT fine-tuning.",
        epilog="Run the grids themselves by: snakemake --cores N all",
    )
    parser.add_argument("--version", action="version", version=f"minbert {__version__}")
    commands = make_commands(parser)

    plan = commands.add_parser("plan", help="say what is done and what would run, and why")
    _add_config(plan)
    verify = "read data again even if its files have the size and time that they had"
    plan.add_argument("--verify", action="store_true", help=verify)
    plan.add_argument(
        "--why", metavar="VARIANT", help="say in full why a variant (or PAPER/VARIANT) would run"
    )
    plan.set_defaults(run=_plan)

    gc = commands.add_parser("gc", help="list results that the configuration no longer needs")
    _add_config(gc)
    gc.add_argument("--delete", action="store_true", help="delete them")
    gc.set_defaults(run=_gc)

    adopt = commands.add_parser("adopt", help="keep results over a refactoring of their code")
    adopt.add_argument(
        "modules", nargs="*", metavar="MODULE", help="only where the code differs in these alone"
    )
    _add_config(adopt)
    adopt.add_argument("--apply", action="store_true", help="carry them over")
    adopt.add_argument("--reason", metavar="TEXT", help="why it changes no result")
    adopt.set_defaults(run=_adopt)

    ui = commands.add_parser("ui", help="open MLflow on the runs")
    _add_root(ui)
    ui.add_argument("--host", default="127.0.0.1", help="address to listen on")
    ui.add_argument("--port", type=whole_number(1, 65535), default=5000)
    ui.set_defaults(run=_ui)

    add_predict(commands, _predict)
    add_submit(commands, _submit)

    follow = commands.add_parser("follow", help="store what jobs measure in MLflow, as it comes")
    _add_root(follow)
    follow.add_argument(
        "--until", type=whole_number(1), metavar="PID", help="end when this process has ended"
    )
    follow.add_argument("--plan", help="the plan's name, for the papers' descriptions")
    follow.add_argument("--once", action="store_true", help="store what there is, then end")
    follow.set_defaults(run=_follow)

    publish = commands.add_parser("publish", help="copy tables and figures to their plain names")
    _add_root(publish)
    publish.add_argument("--plan", required=True, help="the plan's name, as the rule gives it")
    publish.add_argument("--partial", action="store_true", help="what there is, after a failure")
    publish.set_defaults(run=_publish)

    summary = commands.add_parser("summary", help="summarise a workflow and its results")
    _add_root(summary)
    summary.add_argument("--plan", required=True, help="the plan's name, from the workflow")
    summary.set_defaults(run=_summary)

    for step, kind in KINDS.items():
        command = commands.add_parser(step, help=f"step: {kind.help}")
        command.add_argument("key", help="the node's key (16 hex digits)")
        _add_root(command)
        command.add_argument("--plan", help="the plan's name (default: the newest with this key)")
        command.add_argument("--threads", type=whole_number(1), default=1)
        if kind.seeded:
            command.add_argument("--seed", type=whole_number(0), required=True)
        if kind.computes:
            command.add_argument(
                "--memory", type=whole_number(0), metavar="MB", help="what it needs of a GPU"
            )
        command.set_defaults(run=_step, step=step, seed=None, memory=None)
    return parser


def _add_config(parser: argparse.ArgumentParser) -> None:
    files = ("--configfile", "--configfiles")
    parser.add_argument(*files, type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--config", nargs="*", default=[], metavar="KEY=VALUE")
    parser.add_argument(
        "--directory", type=Path, default=Path(), help="the folder of the Snakefile"
    )


def _add_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="results root (default: results)"
    )


def _step(arguments: argparse.Namespace) -> None:
    from minbert.base.process import end_with_parent, others_running
    from minbert.commands.steps import run_step

    end_with_parent()
    # Threads that spin while they wait make steps many times slower on a busy machine. A backbone
    # is pretrained alone and early: if nothing else runs, they may.
    alone = arguments.step == "backbone" and not others_running()
    if arguments.threads > 1 and not alone:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    memory = arguments.memory and arguments.memory * 10**6
    at = arguments.step, arguments.key, arguments.seed
    run_step(arguments.results, *at, arguments.threads, memory, arguments.plan)


def _read(arguments: argparse.Namespace) -> Plan:
    from minbert.commands.plan import read_plan
    from minbert.spec.config import config_files

    files = config_files(arguments.configfile, arguments.directory / "config.yaml")
    return read_plan(files, arguments.config, arguments.directory)


def _plan(arguments: argparse.Namespace) -> None:
    from minbert.commands.plan import plan_text, why_text

    arguments.config += ["verify=true"] if arguments.verify else []
    plan = _read(arguments)
    print(why_text(plan, arguments.why) if arguments.why else plan_text(plan))


def _gc(arguments: argparse.Namespace) -> None:
    from minbert.commands.gc import report

    print("\n".join(report(_read(arguments), remove=arguments.delete)))


def _adopt(arguments: argparse.Namespace) -> None:
    from minbert.commands.adopt import report

    modules, why = arguments.modules, arguments.reason
    print("\n".join(report(_read(arguments), modules, why, apply=arguments.apply)))


def _ui(arguments: argparse.Namespace) -> None:
    from minbert.track.ui import serve

    serve(arguments.results, port=arguments.port, host=arguments.host)


def _predict(arguments: argparse.Namespace) -> None:
    from minbert.predict.predict import predict

    predict(**{name: value for name, value in vars(arguments).items() if name != "run"})


def _submit(arguments: argparse.Namespace) -> None:
    from minbert.predict.submit import submit

    made = submit(**{name: value for name, value in vars(arguments).items() if name != "run"})
    for path, rows in made.items():
        print(f"{path}: {rows} rows")


def _follow(arguments: argparse.Namespace) -> None:
    from minbert.track.follower import Follower

    def draw(history: Path, title: str, rule: str, target: Path) -> None:
        from minbert.figures.one_run import draw_run

        draw_run(history, title, rule, target)

    follower = Follower(arguments.results, plan=arguments.plan, draw=draw)
    if arguments.once:
        follower.finish()
    else:
        follower.follow(until_pid=arguments.until)


def _publish(arguments: argparse.Namespace) -> None:
    from minbert.publish.publish import publish, publish_partial

    if arguments.partial:
        print(publish_partial(arguments.results, arguments.plan), file=sys.stderr)
    else:
        publish(arguments.results, arguments.plan)


def _summary(arguments: argparse.Namespace) -> None:
    from minbert.commands.summary import summary

    print(summary(arguments.results, arguments.plan, _called()), file=sys.stderr)


def _called() -> str:
    """Return how to call `minbert` here: by its path if the name alone finds another one."""
    beside = Path(sys.executable).with_name("minbert")
    if shutil.which("minbert") == str(beside) or not beside.exists():
        return "minbert"
    with suppress(ValueError):
        return str(beside.relative_to(Path.cwd()))
    return str(beside)
