"""The GPUs of this process, and slots of them, leased by file locks so that jobs can share them.

GPUs are found without torch, which would take memory on one.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from minbert.base.errors import UserError
from minbert.base.locks import is_held, take
from minbert.base.process import answer_of, set_env
from minbert.base.progress import counted

SLOTS = 8  # of a card, equal shares of its memory: at most this many jobs share it
VISIBLE = "CUDA_VISIBLE_DEVICES"
QUERY = ("nvidia-smi", "--query-gpu=uuid,memory.total,memory.free")
PATIENCE = 60  # seconds that nvidia-smi has to answer
NO_CARDS = (6, 9, 12)  # how it ends where there is no GPU, no driver, or no library of it
LOCKS = "MINBERT_DEVICE_LOCKS"


@dataclass(frozen=True)
class Card:
    """One GPU. `name` is its UUID, or that of a part of it, as CUDA_VISIBLE_DEVICES takes it.

    `memory` and `free` are bytes; 0 if nvidia-smi does not know: a job then gets it whole.
    """

    name: str
    memory: int = 0
    free: int = 0

    def needed(self, memory: int | None) -> int:
        """Return the slots that a job of `memory` bytes needs; all of them if it is unknown."""
        if not self.memory or memory is None:
            return SLOTS
        return max(1, min(SLOTS, -(-memory * SLOTS // self.memory)))


def visible_cards() -> list[Card]:
    """Return the GPUs that CUDA would show this process, in CUDA's order.

    `CUDA_VISIBLE_DEVICES` limits them, and may name parts of a GPU (MIG). Raises `UserError` if
    nvidia-smi fails.
    """
    present, found = _nvidia_smi(), []
    if (limit := os.environ.get(VISIBLE)) is None:
        return present
    for word in filter(None, map(str.strip, limit.split(","))):
        named = [Card(word)] if word.startswith("MIG-") else []
        named += [c for n, c in enumerate(present) if word == str(n) or c.name.startswith(word)]
        if not named:
            break  # CUDA ignores an entry that names no GPU, and all that follow it.
        found.append(named[0])
    return found


def _nvidia_smi() -> list[Card]:
    """Return all cards of this machine; [] if it has none, or no nvidia-smi."""
    try:
        lines = answer_of(*QUERY, "--format=csv,noheader,nounits", timeout=PATIENCE)
        rows = [[word.strip() for word in line.split(",")] for line in lines]
        mebibytes = {word: int(word) << 20 for row in rows for word in row[1:] if word.isdecimal()}
        return [
            Card(uuid, mebibytes.get(memory, 0), mebibytes.get(free, 0))
            for uuid, memory, free in rows
        ]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        if isinstance(error, FileNotFoundError) or getattr(error, "returncode", 0) in NO_CARDS:
            return []
        raise UserError(
            f"nvidia-smi failed ({error}), so the free GPUs are unknown. Run `nvidia-smi` to see "
            "why, or set `device: cpu`"
        ) from None


def chosen_cards(requested: str) -> list[Card]:
    """Return the visible cards that `requested` allows."""
    cards = visible_cards()
    _, _, number = requested.partition(":")
    if not number or not cards:
        return cards
    if int(number) >= len(cards):
        names = ", ".join(card.name for card in cards)
        raise UserError(
            f"device is '{requested}', but the GPUs visible here, counted from 0, are {names}: "
            "choose one of them, or 'auto' for all"
        )
    return [cards[int(number)]]


def describe_devices(requested: str) -> str:
    """Return a line that says where training will run."""
    if requested in {"cpu", "mps"}:
        return f"training runs on {requested}"
    if not (cards := chosen_cards(requested)):
        return "nvidia-smi shows no GPU: training runs on the CPU unless torch finds one"
    names = ", ".join(card.name for card in cards)
    return f"training runs on {counted(len(cards), 'GPU')}: {names}"


def locks_folder() -> Path:
    """Return the folder of this user's locks on this machine."""
    memory = Path("/dev/shm")  # A restart of the machine clears it.
    folder = (memory if memory.is_dir() else Path("/tmp")) / f"minbert-devices-{os.getuid()}"
    return Path(os.environ.get(LOCKS) or folder)


@contextmanager
def device_for(requested: str, memory: int | None, say: Callable[[str], None]) -> Iterator[str]:
    """Yield the torch device of a job that needs `memory` bytes of a GPU (None: a whole GPU).

    `requested` is `auto`, `cpu`, `mps`, `cuda` or `cuda:N`, where N counts the visible GPUs. The
    leased GPU is the only one in CUDA_VISIBLE_DEVICES, so call this before torch looks for GPUs. If
    none is found, torch decides what `requested` means.
    """
    if requested in {"cpu", "mps"}:
        with set_env(VISIBLE, ""):
            yield requested
    elif not chosen_cards(requested):
        yield requested
    else:
        with lease(requested, memory, say) as card, set_env(VISIBLE, card.name):
            yield "cuda" if requested.startswith("cuda") else requested


@contextmanager
def lease(requested: str, memory: int | None, say: Callable[[str], None]) -> Iterator[Card]:
    """Hold the slots of one card that a job of `memory` bytes needs, and yield the card.

    Of the chosen cards with room, as they are now, the one with the most free slots is taken. A job
    keeps the master lock until it has its slots, so that small jobs cannot pass a large one. A job
    that must wait calls `say` once with what it waits for.
    """
    folder = locks_folder()
    folder.mkdir(parents=True, exist_ok=True)
    told, card = False, None
    with ExitStack() as slots:
        with (folder / "master").open("a") as master:
            while not take(master) or not (card := _with_room(folder, requested, memory, slots)):
                if not told:
                    size = "a whole GPU" if memory is None else f"{memory / 1e9:.1f} GB of a GPU"
                    say(f"waits for {size} (locks: {folder})")
                    told = True
                time.sleep(0.2)
        yield card


def _with_room(folder: Path, requested: str, memory: int | None, slots: ExitStack) -> Card | None:
    """Lock what a job needs of the card with the most free slots; None if none has room."""
    free = dict[Card, list[Path]]()
    for card in chosen_cards(requested):
        paths = [folder / f"{card.name}.{n}" for n in range(SLOTS)]
        left, needed = [path for path in paths if not is_held(path)], card.needed(memory)
        # Other programs may use its memory; a job that needs all slots may always try.
        if len(left) >= needed and (needed == SLOTS or card.free >= (memory or 0)):
            free[card] = left
    found = max(free, key=lambda card: len(free[card]), default=None)
    for path in free[found][: found.needed(memory)] if found else ():
        take(slots.enter_context(path.open("a")))
    return found
