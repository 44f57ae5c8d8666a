"""The device of a job, as config.yaml wishes it: leased, and the only one that torch will see."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from minbert.common.errors import UserError
from minbert.devices.cards import VISIBLE, Card, visible_cards
from minbert.devices.lease import Say, lease


@contextmanager
def device_for(wish: str, memory: int | None, say: Say, count: int = 1) -> Iterator[str]:
    """Yield the device, as torch calls it, of a job that takes `memory` bytes of a GPU.

    A job of several processes takes `count` GPUs, all of each.

    `wish` is `auto`, `cpu`, `mps`, `cuda` or `cuda:N`, the latter counted among the GPUs that are
    visible. A GPU is leased for the block and made the only one in CUDA_VISIBLE_DEVICES, so this
    must come before torch looks for one. A job whose memory is not known has a GPU alone. Where
    no GPU is found torch has the last word.
    """
    if wish in {"cpu", "mps"}:
        with no_gpu():
            yield wish
    elif not _chosen(wish):
        yield wish
    else:
        with (
            lease(lambda: _chosen(wish), memory, say, count) as cards,
            _showing(",".join(card.name for card in cards)),
        ):
            yield "cuda" if wish.startswith("cuda") else wish


def no_gpu() -> AbstractContextManager[None]:
    """Let this process, which computes nothing, or on the CPU alone, see no GPU."""
    return _showing("")


@contextmanager
def _showing(cards: str) -> Iterator[None]:
    before = os.environ.get(VISIBLE)
    os.environ[VISIBLE] = cards
    try:
        yield
    finally:
        if before is None:
            del os.environ[VISIBLE]
        else:
            os.environ[VISIBLE] = before


def in_words(wish: str) -> str:
    """Return a line on where training will run, for people."""
    if wish in {"cpu", "mps"}:
        return f"training runs on {wish}, as config.yaml says"
    cards = _chosen(wish)
    if not cards:
        return "no GPU found: training runs on the CPU"
    known = [f"{c.name} ({c.memory / 1e9:.0f} GB)" if c.memory else c.name for c in cards]
    return f"training runs on {len(cards)} GPUs: {', '.join(known)}"


def _chosen(wish: str) -> list[Card]:
    """Return the visible cards that `wish` allows."""
    cards = visible_cards()
    _, _, number = wish.partition(":")
    if not number or not cards:
        return cards
    if int(number) >= len(cards):
        names = ", ".join(card.name for card in cards)
        raise UserError(
            f"device is '{wish}', but {len(cards)} GPUs are visible here ({names}), counted "
            "from 0: choose one of them, or 'auto' for all"
        )
    return [cards[int(number)]]
