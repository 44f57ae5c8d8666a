"""Variants that their grid makes different and a configuration makes the same."""

import re
from collections.abc import Mapping
from typing import Any

from minbert.base.errors import UserError
from minbert.plan.difference import changes
from minbert.plan.experiment import Experiment
from minbert.spec.config import Config
from minbert.spec.resolve import Stage

_SCALED = {
    "epochs": "scale.epochs",
    "lr": "scale.learning_rate",
    "batch_size": "scale.batch_size",
    "steps": "scale.steps",
}
"""What of `scale` changes a setting, by its last word."""


def check_vanished(experiment: Experiment) -> None:
    """Refuse a configuration that takes away what makes two stages of a grid different.

    The `UserError` names the stages, the settings and what makes these equal. Settings that
    `may_vanish` names are left out.
    """
    config, found = experiment.config, []
    first: dict[tuple[str, str], Stage] = {}
    for stage in experiment.stages.values():
        key = experiment.train(stage.ref).key
        other = first.setdefault((stage.ref.paper, key), stage)
        if other is stage:
            continue
        one, two = (experiment.resolved(s, s.plain) for s in (other, stage))
        lost = {p: pair for p, pair in changes(one, two) if not _named(p, config.may_vanish)}
        if lost:
            now = experiment.resolved(stage, stage.spec)
            told = dict.fromkeys(_told(config, path, pair, now) for path, pair in lost.items())
            found.append(
                f"{stage.ref.paper}: '{other.ref}' and '{stage.ref}' become the same stage. "
                f"Their grid has another {'; another '.join(told)}"
            )
    if found:
        raise UserError(
            "\n".join(found) + "\nChange what makes them equal, or name the settings in "
            "'may_vanish' of the configuration if that is meant."
        )


def _named(path: str, patterns: tuple[str, ...]) -> bool:
    """Say whether a pattern is `path` or the beginning of it; its `*` stands for any word."""
    words = path.split(".")
    return any(
        len(pattern) <= len(words)
        and all(p in ("*", word) for p, word in zip(pattern, words, strict=False))
        for pattern in (name.split(".") for name in patterns)
    )


def _told(config: Config, path: str, pair: tuple[Any, Any], now: Any) -> str:
    """Return a setting, what the grid has in both stages, and what makes it what it is `now`.

    `tasks.*` stands for the tasks, of which several often have the same.
    """
    words = path.split(".")
    heads = now["trainable"] == "heads"
    for word in words:
        now = now.get(word) if isinstance(now, Mapping) else now
    made_by = _SCALED.get(words[-1], "scale")
    if heads:
        made_by = made_by.replace("scale", "scale.heads")
    for name, values in (("override", config.override), ("defaults", config.defaults)):
        if where := _place(values, words):
            made_by = f"{name}.{where}"
            break
    path = re.sub(r"^tasks\.\w+\.", "tasks.*.", path)
    return f"'{path}' ({pair[0]} and {pair[1]}), which '{made_by}' makes {now}"


def _place(values: Any, words: list[str]) -> str:
    """Return where nested `values` set what `words` name, with dots; empty if they do not."""
    if not words or not isinstance(values, Mapping):
        return ""
    for key in (words[0], "*"):
        if key in values and len(words) == 1:
            return key
        if rest := _place(values.get(key), words[1:]):
            return f"{key}.{rest}"
    return ""
