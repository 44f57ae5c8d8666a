"""The GPUs that this process may use, found without torch, which would take memory on one."""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace

from minbert.base.errors import UserError
from minbert.base.process import answer_of
from minbert.base.progress import counted

SLOTS = 8  # of a card, equal shares of its memory: at most this many jobs share it
VISIBLE = "CUDA_VISIBLE_DEVICES"
FAKE = "MINBERT_FAKE_DEVICES"
QUERY = ("nvidia-smi", "--query-gpu=uuid,memory.total,memory.free")
PATIENCE = 60  # seconds that nvidia-smi has to answer
NO_CARDS = (6, 9, 12)
"""How nvidia-smi ends where there is no GPU, no driver, or no library of it."""


@dataclass(frozen=True)
class Card:
    """One GPU. `name` is its word in CUDA_VISIBLE_DEVICES, `identity` is the same for all users.

    `memory` and `free` are bytes; None if unknown, as for part of a card: a job then gets it whole.
    """

    name: str
    identity: str
    memory: int | None
    free: int | None
    slots: int = SLOTS

    def needed(self, memory: int | None) -> int:
        """Return the slots that a job of `memory` bytes needs; all of them if it is unknown."""
        if self.memory is None or memory is None:
            return self.slots
        return max(1, min(self.slots, -(-memory * self.slots // self.memory)))

    def has_room(self, memory: int | None) -> bool:
        """Return whether `memory` bytes are free; a job that needs all slots may always try."""
        if self.free is None or memory is None or self.needed(memory) == self.slots:
            return True
        return self.free >= memory


def visible_cards(environment: Mapping[str, str] = os.environ) -> list[Card]:
    """Return the GPUs that CUDA would show this process, in CUDA's order.

    `CUDA_VISIBLE_DEVICES` limits them. For tests, `MINBERT_FAKE_DEVICES=2x80GB` (or `2x80GB/4`,
    with 4 slots each) replaces the real cards by fake ones. Raises `UserError` if nvidia-smi fails.
    """
    present = _fake(environment[FAKE]) if environment.get(FAKE) else _nvidia_smi()
    if (limit := environment.get(VISIBLE)) is None:
        return present
    words = filter(None, (word.strip() for word in limit.split(",")))
    found = []
    for word in words:
        if (card := _named(word, present)) is None:
            break  # CUDA ignores an entry that names no GPU, and all that follow it.
        found.append(card)
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


def _named(word: str, present: list[Card]) -> Card | None:
    """Return the card that `word` names, by its number or the start of its UUID; None for none.

    A part of a card (MIG) is not among those `present`.
    """
    for number, card in enumerate(present):
        if word == str(number) or (not word.isdecimal() and card.identity.startswith(word)):
            return replace(card, name=word)
    return Card(word, word, None, None) if word.startswith("MIG-") else None


def _nvidia_smi() -> list[Card]:
    """Return all cards of this machine; [] if it has none, or no nvidia-smi."""
    try:
        query = (*QUERY, "--format=csv,noheader,nounits")
        lines = answer_of(*query, timeout=PATIENCE, final=NO_CARDS) or []
        return [_card(line) for line in lines]
    except subprocess.TimeoutExpired:
        wrong = f"did not answer within {PATIENCE} s"
    except subprocess.CalledProcessError as error:
        if error.returncode in NO_CARDS:
            return []
        said = (error.stderr or error.stdout).strip().partition("\n")[0]
        wrong = f"failed with status {error.returncode} ({said or 'without a word'})"
    except (OSError, ValueError) as error:
        wrong = f"failed ({error})"
    raise UserError(
        f"nvidia-smi {wrong}, so the free GPUs are unknown. Run `nvidia-smi` to see why, or set "
        "`device: cpu`"
    )


def _card(line: str) -> Card:
    uuid, *sizes = (word.strip() for word in line.split(","))
    if len(sizes) != 2:
        raise ValueError(line)
    memory, free = (int(size) * 2**20 if size.isdecimal() else None for size in sizes)
    return Card(uuid, uuid, memory, free)


def _fake(text: str) -> list[Card]:
    match = re.fullmatch(r"(\d+)x(\d+)GB(?:/(\d+))?", text)
    if match is None or match[3] == "0":
        raise UserError(f"{FAKE} is {text!r}; expected COUNTxSIZEGB[/SLOTS], such as 2x80GB/4")
    memory, slots = int(match[2]) * 10**9, int(match[3] or SLOTS)
    return [Card(str(n), f"fake-{n}", memory, memory, slots) for n in range(int(match[1]))]
