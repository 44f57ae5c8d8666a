"""The device of a job: slots of a GPU, leased by file locks so that jobs can share the GPUs."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from minbert.base.locks import FOREVER, is_held, take
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
    path, told, found = folder / "master", False, None
    with ExitStack() as slots:
        with path.open("a") as master:
            while not take(master, path) or not (found := _with_room(folder, look(), memory)):
                if not told:
                    size = "a whole GPU" if memory is None else f"{memory / 1e9:.1f} GB of a GPU"
                    say(f"waits for {size} (locks: {folder})")
                    told = True
                time.sleep(PAUSE)
            card, free = found
            for path in free:
                # Another job may be looking whether it is free.
                take(slots.enter_context(path.open("a")), path, FOREVER)
        yield card


def _with_room(
    folder: Path, cards: list[Card], memory: int | None
) -> tuple[Card, list[Path]] | None:
    """Return the card with the most free slots, and the slots to lock; None if none has room."""
    fitting = []
    for card in cards:
        slots = (folder / f"{card.identity}.{n}" for n in range(SLOTS))
        free = [path for path in slots if not is_held(path)]
        if len(free) >= card.needed(memory) and card.has_room(memory):
            fitting.append((card, free))
    if not fitting:
        return None
    card, free = max(fitting, key=lambda found: len(found[1]))
    return card, free[: card.needed(memory)]
