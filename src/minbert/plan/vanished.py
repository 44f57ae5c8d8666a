"""Variants that their grid makes different and a configuration makes the same."""

import re

from minbert.base.errors import UserError
from minbert.plan.difference import changes
from minbert.plan.experiment import Experiment
from minbert.spec.resolve import Stage


def check_vanished(experiment: Experiment) -> None:
    """Refuse a configuration that takes away what makes two stages of a grid different.

    The `UserError` names the stages and the settings. Settings that
    `allow_duplicates` names are left out.
    """
    allowed, found = experiment.config.allow_duplicates, []
    first: dict[tuple[str, str], Stage] = {}
    for stage in experiment.stages.values():
        other = first.setdefault((stage.ref.paper, experiment.train(stage.ref).key), stage)
        if other is stage:
            continue
        one, two = (experiment.resolved(s, s.plain) for s in (other, stage))
        # Several tasks often have the same.
        lost = {
            re.sub(r"^tasks\.\w+\.", "tasks.*.", path): f"{a} and {b}"
            for path, (a, b) in changes(one, two)
            if not any(_begins(path, pattern) for pattern in allowed)
        }
        if lost:
            told = "; ".join(f"'{path}' ({values})" for path, values in lost.items())
            found.append(
                f"{stage.ref.paper}: '{other.ref}' and '{stage.ref}' become the same stage. "
                f"In their grid they differ in {told}"
            )
    if found:
        raise UserError(
            "\n".join(found) + "\nChange what makes them equal, 'scale', 'defaults' or "
            "'override' of the configuration, or name the settings in its 'allow_duplicates' if "
            "that is meant."
        )


def _begins(path: str, pattern: str) -> bool:
    """Say whether `path` begins with the words of `pattern`, whose `*` stands for any word."""
    words, wanted = path.split("."), pattern.split(".")
    pairs = zip(wanted, words, strict=False)
    return len(wanted) <= len(words) and all(want in ("*", word) for want, word in pairs)
