"""Slots of GPUs, leased by locks on files, so that jobs on one machine share its cards.

A slot is a share of a card's memory. Jobs of all users and all results folders of a machine queue
in one folder, first come, first served: a large job is not passed by small ones for ever. A lock
goes with its process, however that ends; nothing has to be cleaned up.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from minbert.common.errors import UserError
from minbert.common.process import is_held
from minbert.devices.cards import Card

LOCKS = "MINBERT_DEVICE_LOCKS"
PAUSE = 0.2
"""Seconds between two looks of a waiting job."""

READ = os.O_RDONLY | os.O_NOFOLLOW

Say = Callable[[str], None]


def locks_folder() -> Path:
    """Return the folder of this machine's locks, the same for all its users.

    It is in memory (/dev/shm) where there is such a place, and goes when the machine restarts.
    """
    if os.environ.get(LOCKS):
        return Path(os.environ[LOCKS])
    memory = Path("/dev/shm")
    return (memory if memory.is_dir() else Path("/tmp")) / "minbert-devices"


@contextmanager
def lease(
    look: Callable[[], list[Card]], memory: int | None, say: Say, number: int = 1
) -> Iterator[list[Card]]:
    """Hold as many slots of a card as a job of `memory` bytes takes, of `number` cards.

    `look` returns the cards as they are now; those with the most free slots are taken. While too
    few have room the job waits in the queue, and `say` is told once what it waits for. Where
    there are fewer cards than `number`, all of them are taken.
    """
    folder = locks_folder()
    with ExitStack() as stack:
        ticket = stack.enter_context(_queued(folder))
        told = False
        while True:
            first = _is_first(ticket)
            # The driver may fail to answer once: then there is nothing to say or to take.
            cards = look() if first or not told else []
            if first and (found := _take(folder, cards, memory, number, stack)):
                ticket.unlink()
                break
            if cards and not told:
                say(_waits_for(cards, memory, number, ticket))
                told = True
            time.sleep(PAUSE)
        yield found


def _take(
    folder: Path, cards: list[Card], memory: int | None, number: int, stack: ExitStack
) -> list[Card]:
    """Lock slots of the `number` cards that have the most free ones; none if too few have room."""
    fitting: list[tuple[Card, list[int]]] = []
    for card in cards:
        slots = (_try_lock(_slot(folder, card, n)) for n in range(card.slots))
        free = [handle for handle in slots if handle is not None]
        if len(free) >= card.needed(memory) and card.has_room(memory):
            fitting.append((card, free))
        else:
            _free(free)
    fitting.sort(key=lambda found: -len(found[1]))
    enough = len(fitting) >= min(number, len(cards))
    taken = number if enough else 0
    for card, free in fitting[:taken]:
        needed = card.needed(memory)
        stack.callback(_free, free[:needed])
        _free(free[needed:])
    for _, free in fitting[taken:]:
        _free(free)
    return [card for card, _ in fitting[:taken]]


def _waits_for(cards: list[Card], memory: int | None, number: int, ticket: Path) -> str:
    before = sum(1 for other in _tickets(ticket.parent) if other < ticket and is_held(other))
    card = max(cards, key=lambda c: c.memory or 0)
    n = card.needed(memory)
    wanted = "a GPU alone" if n == card.slots else f"{n} of a GPU's {card.slots} slots"
    wanted = f"{wanted} on each of {number} GPUs" if number > 1 else wanted
    size = "memory not known" if memory is None else f"{memory / 1e9:.1f} GB"
    names = ", ".join(card.name for card in cards)
    return (
        f"waits for {wanted} ({size}; GPUs: {names}); "
        f"{before} jobs are before it in {ticket.parent}"
    )


@contextmanager
def _queued(folder: Path) -> Iterator[Path]:
    """Draw a ticket of the queue; it counts as long as its file is locked and there."""
    queue = folder / "queue"
    _make_open(queue)
    with _held(folder / "door"):  # One at a time, so that an earlier number is there earlier.
        ticket = queue / f"{time.time_ns():020d}-{os.getpid()}"
        unseen = folder / f"new-{ticket.name}"
        handle = _try_lock(unseen)
        assert handle is not None
        unseen.rename(ticket)
    try:
        yield ticket
    finally:
        with suppress(OSError):
            ticket.unlink()
        os.close(handle)


def _is_first(ticket: Path) -> bool:
    for other in _tickets(ticket.parent):
        if other == ticket:
            return True
        if is_held(other):
            return False
        with suppress(OSError):  # Its process has died. Another user's file has to stay.
            other.unlink()
    raise AssertionError(f"{ticket} has gone while its process waits")


def _tickets(queue: Path) -> list[Path]:
    return sorted(queue.iterdir())


def _slot(folder: Path, card: Card, number: int) -> Path:
    return folder / f"{card.identity.replace('/', '_')}.{number}"


def _try_lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock on `path`, or None if somebody else has it."""
    handle = _open(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


@contextmanager
def _held(path: Path) -> Iterator[None]:
    handle = _open(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    """Open a lock file; to read is enough, and all that another user's file allows."""
    while True:
        with suppress(FileNotFoundError):
            return os.open(path, READ)
        # It appears under its name once all may read it, whatever the user's umask.
        new = path.with_name(f"new-{path.name}-{os.getpid()}")
        handle = os.open(new, READ | os.O_CREAT | os.O_EXCL, 0o644)
        os.fchmod(handle, 0o644)
        os.close(handle)
        with suppress(FileExistsError):
            os.link(new, path)
        new.unlink()


def _make_open(queue: Path) -> None:
    """Make the folders, so that all users of the machine may put files there."""
    for folder in (queue.parent, queue):
        try:
            folder.mkdir(parents=True)
            folder.chmod(0o1777)
        except FileExistsError:
            pass
        except OSError as error:
            raise UserError(
                f"the folder of GPU locks, {folder}, cannot be made: {error.strerror}; "
                f"name one that all jobs of this machine may write by {LOCKS}"
            ) from None
    if not os.access(queue, os.W_OK | os.X_OK):
        raise UserError(
            f"the folder of GPU locks, {queue}, cannot be written; let all users write it "
            f"(chmod 1777), or name another one for all jobs of this machine by {LOCKS}"
        )


def _free(handles: list[int]) -> None:
    for handle in handles:
        os.close(handle)
