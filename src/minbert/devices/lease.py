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
    look: Callable[[], list[Card]], memory: int | None, say: Say, count: int = 1
) -> Iterator[list[Card]]:
    """Hold `count` of the cards for the block: all of each, or of one what `memory` bytes take.

    `look` returns the cards as they are now; those with the most free slots are taken. While too
    few have room the job waits in the queue, and `say` is told once what it waits for. Raises
    `UserError` if there are fewer cards than that.
    """
    if len(cards := look()) < count:
        names = ", ".join(card.name for card in cards)
        raise UserError(
            f"processes: {count}, but {len(cards)} GPUs are visible here ({names}), and each "
            "process needs one of its own: lower 'processes', or show more (CUDA_VISIBLE_DEVICES)"
        )
    memory = memory if count == 1 else None
    folder = locks_folder()
    with ExitStack() as stack:
        ticket = stack.enter_context(_queued(folder))
        told = False
        while True:
            if _is_first(ticket):
                found = _take(folder, look(), memory, count, stack)
                if found is not None:
                    ticket.unlink()
                    break
            if not told:
                say(_waits_for(look(), memory, count, ticket))
                told = True
            time.sleep(PAUSE)
        yield found


def _take(
    folder: Path, cards: list[Card], memory: int | None, count: int, stack: ExitStack
) -> list[Card] | None:
    """Lock slots of the `count` cards that have the most free ones; None if too few have enough."""
    found: list[tuple[Card, list[int]]] = []
    for card in cards:
        free = [
            f for n in range(card.slots) if (f := _try_lock(_slot(folder, card, n))) is not None
        ]
        if len(free) >= card.needed(memory) and card.has_room(memory):
            found.append((card, free))
        else:
            _free(free)
    found.sort(key=lambda each: -len(each[1]))
    chosen = found[:count] if len(found) >= count else []
    for _, free in found[len(chosen) :]:
        _free(free)
    for card, free in chosen:
        needed = card.needed(memory)
        _free(free[needed:])
        stack.callback(_free, free[:needed])
    return [card for card, _ in chosen] or None


def _waits_for(cards: list[Card], memory: int | None, count: int, ticket: Path) -> str:
    before = sum(1 for other in _tickets(ticket.parent) if other < ticket and _is_held(other))
    card = max(cards, key=lambda c: c.memory or 0)
    n = card.needed(memory)
    alone = "a GPU alone" if count == 1 else f"{count} GPUs alone"
    wanted = alone if n == card.slots else f"{n} of a GPU's {card.slots} slots"
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
        if _is_held(other):
            return False
        with suppress(OSError):  # Its process has died. Another user's file has to stay.
            other.unlink()
    raise AssertionError(f"{ticket} has gone while its process waits")


def _tickets(queue: Path) -> list[Path]:
    return sorted(queue.iterdir())


def _is_held(path: Path) -> bool:
    try:
        handle = os.open(path, READ)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


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
