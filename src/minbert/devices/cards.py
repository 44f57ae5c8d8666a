"""The GPUs that this process may use, found without torch, which would take hold of one."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from minbert.common.errors import UserError

SLOTS = 8
"""Parts that a card is divided into: at most so many jobs share one."""

VISIBLE = "CUDA_VISIBLE_DEVICES"
FAKE = "MINBERT_FAKE_DEVICES"
QUERY = ("nvidia-smi", "--query-gpu=uuid,memory.total,memory.free")

PATIENCE = 60
"""Seconds that the driver has to answer in."""


@dataclass(frozen=True)
class Card:
    """One GPU. `name` is what CUDA_VISIBLE_DEVICES calls it, `identity` the same for all users.

    `memory` and `free` are bytes; None where they are not known (a part of a card, for one), and
    then a job has it alone.
    """

    name: str
    identity: str
    memory: int | None
    free: int | None
    slots: int = SLOTS

    def needed(self, memory: int | None) -> int:
        """Return the slots that a job of `memory` bytes takes; all if it is large or not known."""
        if self.memory is None or memory is None:
            return self.slots
        return max(1, min(self.slots, -(-memory * self.slots // self.memory)))

    def has_room(self, memory: int | None) -> bool:
        """Whether the driver has `memory` bytes left; a job that takes a card alone may try."""
        if self.free is None or memory is None or self.needed(memory) == self.slots:
            return True
        return self.free >= memory


def visible_cards(environment: Mapping[str, str] = os.environ) -> list[Card]:
    """Return the GPUs that CUDA would show this process, in its order.

    `CUDA_VISIBLE_DEVICES`, whoever set it, limits them. `MINBERT_FAKE_DEVICES=2x80GB` (or
    `2x80GB/4`, with 4 slots each) makes up cards, for tests.
    """
    there = _fake(environment[FAKE]) if environment.get(FAKE) else _nvidia_smi()
    limit = environment.get(VISIBLE)
    if limit is None:
        return there
    found: list[Card] = []
    for word in filter(None, (word.strip() for word in limit.split(","))):
        if word == "-1":  # CUDA reads nothing after a name that it does not know.
            break
        found.append(_named(word, there))
    return found


def _named(word: str, there: list[Card]) -> Card:
    """Return the card that `word` means: its number or the start of its UUID."""
    for number, card in enumerate(there):
        if word == str(number) or (not word.isdecimal() and card.identity.startswith(word)):
            return Card(word, card.identity, card.memory, card.free, card.slots)
    return Card(word, word, None, None)


def _nvidia_smi() -> list[Card]:
    try:
        done = subprocess.run(
            [*QUERY, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"nvidia-smi has not answered within {PATIENCE} s, so nobody knows which GPUs are "
            "free. Look at what `nvidia-smi` says; `device: cpu` goes without"
        ) from None
    except (OSError, subprocess.SubprocessError):
        return []
    cards = []
    for line in done.stdout.splitlines():
        uuid, *sizes = (word.strip() for word in line.split(","))
        memory, free = (int(s) * 2**20 if s.isdecimal() else None for s in sizes)
        cards.append(Card(uuid, uuid, memory, free))
    return cards


def _fake(text: str) -> list[Card]:
    match = re.fullmatch(r"(\d+)x(\d+)GB(?:/(\d+))?", text)
    if match is None or match[3] == "0":
        raise UserError(f"{FAKE} is {text!r}; expected COUNTxSIZEGB[/SLOTS], such as 2x80GB/4")
    memory, slots = int(match[2]) * 10**9, int(match[3] or SLOTS)
    return [Card(str(n), f"fake-{n}", memory, memory, slots) for n in range(int(match[1]))]
