"""The GPUs that this process may use, found without torch, which would take memory on one."""

import os
import subprocess
from dataclasses import dataclass, replace

from minbert.base.errors import UserError
from minbert.base.process import answer_of
from minbert.base.progress import counted

SLOTS = 8  # of a card, equal shares of its memory: at most this many jobs share it
VISIBLE = "CUDA_VISIBLE_DEVICES"
QUERY = ("nvidia-smi", "--query-gpu=uuid,memory.total,memory.free")
PATIENCE = 60  # seconds that nvidia-smi has to answer
NO_CARDS = (6, 9, 12)
"""How nvidia-smi ends where there is no GPU, no driver, or no library of it."""


@dataclass(frozen=True)
class Card:
    """One GPU. `name` is its word in CUDA_VISIBLE_DEVICES, `identity` is the same in all jobs.

    `memory` and `free` are bytes; 0 if nvidia-smi does not know: a job then gets it whole.
    """

    name: str
    identity: str
    memory: int = 0
    free: int = 0

    def needed(self, memory: int | None) -> int:
        """Return the slots that a job of `memory` bytes needs; all of them if it is unknown."""
        if not self.memory or memory is None:
            return SLOTS
        return max(1, min(SLOTS, -(-memory * SLOTS // self.memory)))

    def has_room(self, memory: int | None) -> bool:
        """Return whether `memory` bytes are free; a job that needs all slots may always try."""
        return self.needed(memory) == SLOTS or self.free >= (memory or 0)


def visible_cards() -> list[Card]:
    """Return the GPUs that CUDA would show this process, in CUDA's order.

    `CUDA_VISIBLE_DEVICES` limits them, and may name parts of a GPU (MIG). Raises `UserError` if
    nvidia-smi fails.
    """
    present, found = _nvidia_smi(), []
    if (limit := os.environ.get(VISIBLE)) is None:
        return present
    for word in filter(None, map(str.strip, limit.split(","))):
        named = [Card(word, word)] if word.startswith("MIG-") else []
        named += [c for n, c in enumerate(present) if word == str(n) or c.identity.startswith(word)]
        if not named:
            break  # CUDA ignores an entry that names no GPU, and all that follow it.
        found.append(replace(named[0], name=word))
    return found


def chosen_cards(wish: str) -> list[Card]:
    """Return the visible cards that `wish` allows."""
    cards = visible_cards()
    _, _, number = wish.partition(":")
    if not number or not cards:
        return cards
    if int(number) >= len(cards):
        names = ", ".join(card.name for card in cards)
        raise UserError(
            f"device is '{wish}', but the GPUs visible here, counted from 0, are {names}: choose "
            "one of them, or 'auto' for all"
        )
    return [cards[int(number)]]


def in_words(wish: str) -> str:
    """Return a line that says where training will run."""
    if wish in {"cpu", "mps"}:
        return f"training runs on {wish}, as config.yaml says"
    cards = chosen_cards(wish)
    if not cards:
        return "no GPU found: training runs on the CPU"
    known = [f"{c.name} ({c.memory / 1e9:.0f} GB)" if c.memory else c.name for c in cards]
    return f"training runs on {counted(len(cards), 'GPU')}: {', '.join(known)}"


def _nvidia_smi() -> list[Card]:
    """Return all cards of this machine; [] if it has none, or no nvidia-smi."""
    try:
        query = (*QUERY, "--format=csv,noheader,nounits")
        lines = answer_of(*query, timeout=PATIENCE)
        rows = [[word.strip() for word in line.split(",")] for line in lines]
        return [Card(uuid, uuid, _bytes(memory), _bytes(free)) for uuid, memory, free in rows]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        if getattr(error, "returncode", None) in NO_CARDS:
            return []
        raise UserError(
            f"nvidia-smi failed ({error}), so the free GPUs are unknown. Run `nvidia-smi` to see "
            "why, or set `device: cpu`"
        ) from None


def _bytes(mebibytes: str) -> int:
    return int(mebibytes) << 20 if mebibytes.isdecimal() else 0
