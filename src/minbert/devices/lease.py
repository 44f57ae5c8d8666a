"""The device of a job: slots of a GPU, leased by file locks so that jobs can share the GPUs."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import chain
from pathlib import Path

from minbert.base.locks import take
from minbert.base.process import variable
from minbert.devices.cards import SLOTS, VISIBLE, Card, chosen_cards

LOCKS = "MINBERT_DEVICE_LOCKS"
PAUSE = 0.2
"""Seconds between two attempts of the job whose turn it is."""

Say = Callable[[str], None]


def locks_folder() -> Path:
    """Return the folder of this user's locks on this machine."""
    memory = Path("/dev/shm")  # A restart of the machine clears it.
    folder = (memory if memory.is_dir() else Path("/tmp")) / f"minbert-devices-{os.getuid()}"
    return Path(os.environ.get(LOCKS) or folder)


@contextmanager
def device_for(wish: str, memory: int | None, say: Say) -> Iterator[str]:
    """Yield the torch device of a job that needs `memory` bytes of a GPU (None: a whole GPU).

    `wish` is `auto`, `cpu`, `mps`, `cuda` or `cuda:N`, where N counts the visible GPUs. The leased
    GPU is the only one in CUDA_VISIBLE_DEVICES, so call this before torch looks for GPUs. If none
    is found, torch decides what `wish` means.
    """
    if wish in {"cpu", "mps"}:
        with no_gpu():
            yield wish
    elif not chosen_cards(wish):
        yield wish
    else:
        with lease(lambda: chosen_cards(wish), memory, say) as card, variable(VISIBLE, card.name):
            yield "cuda" if wish.startswith("cuda") else wish


def no_gpu() -> AbstractContextManager[None]:
    """Hide all GPUs from this process, which needs none."""
    return variable(VISIBLE, "")


@contextmanager
def lease(look: Callable[[], list[Card]], memory: int | None, say: Say) -> Iterator[Card]:
    """Hold the slots of one card that a job of `memory` bytes needs, and yield the card.

    `look` returns the cards as they are now; of those with room, the one with the most free slots
    is taken. A job keeps the master lock until it has its slots, so that small jobs cannot pass a
    large one. A job that must wait calls `say` once with what it waits for.
    """
    folder = locks_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path, told, card = folder / "master", False, None
    with ExitStack() as slots:
        with path.open("a") as master:
            while not take(master) or not (card := _with_room(folder, look(), memory, slots)):
                if not told:
                    size = "a whole GPU" if memory is None else f"{memory / 1e9:.1f} GB of a GPU"
                    say(f"waits for {size} (locks: {folder})")
                    told = True
                time.sleep(PAUSE)
        yield card


def _with_room(
    folder: Path, cards: list[Card], memory: int | None, slots: ExitStack
) -> Card | None:
    """Lock what a job needs of the card with the most free slots; None if none has room."""
    opened = {c: [(folder / f"{c.identity}.{n}").open("a") for n in range(SLOTS)] for c in cards}
    free = {card: [file for file in opened[card] if take(file)] for card in cards}
    fit = [c for c in cards if len(free[c]) >= c.needed(memory) and c.has_room(memory)]
    found = max(fit, key=lambda card: len(free[card]), default=None)
    kept = free[found][: found.needed(memory)] if found else []
    for file in chain.from_iterable(opened.values()):
        if file in kept:
            slots.enter_context(file)
        else:
            file.close()
    return found
