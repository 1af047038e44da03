"""Faults on demand: what becomes of an answer between the instrument and its reader. Pure.

A fault is taken by the next answer (or the next ``count``, or all until cleared). The shell that
moves bytes carries out the deliveries this module plans; it decides nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from edged.errors import Invalid
from edged.record import record

DEFAULT_LATE_S: Final = 1.0
SPLIT_PIECES: Final = 4
DEFAULT_SPLIT_GAP_S: Final = 0.02
"""Long enough that each piece travels in a packet of its own."""

UNASKED: Final = b"8.888"
"""What nobody asked for: a line like any answer."""
ACKNOWLEDGEMENT: Final = b"OK"

GARBAGE: Final = bytes(range(0x80, 0x100))


class FaultKind(enum.StrEnum):
    """What can go wrong; the text is what flags and the control port call it."""

    TIMEOUT = "timeout"  # the command is done, its answer is lost
    LATE = "late"  # the answer comes after `seconds`
    GARBAGE = "garbage"  # bytes above 0x7f instead of the answer, with its line end
    DROP = "drop"  # half of the answer, then the connection is closed
    DOUBLE = "double"  # the answer comes twice
    SPLIT = "split"  # the answer comes in pieces with pauses
    STRAY = "stray"  # an empty line comes before the answer
    HANG = "hang"  # commands are done, nothing is answered any more
    FREEZE = "freeze"  # nothing is done and nothing is answered any more
    REFUSE = "refuse"  # powered off: connections reset, new ones refused
    RESET = "reset"  # the connection is reset (RST) instead of an answer
    EXTRA = "extra"  # another line, a message of its own, comes `seconds` after the answer
    SECOND_LINE = "second_line"  # another line comes in the answer's own message
    KEEP_OUTPUT = "keep_output"  # unread answers stay, and come before new ones
    DEAF_CLEAR = "deaf_clear"  # a device clear is acknowledged and stops nothing
    SAME_ID = "same_id"  # HiSLIP marks every answer with message id 0
    ACKNOWLEDGE = "acknowledge"  # what asks nothing is answered by a line "OK"


_STANDING: Final = frozenset(
    {
        FaultKind.HANG,
        FaultKind.FREEZE,
        FaultKind.REFUSE,
        FaultKind.KEEP_OUTPUT,
        FaultKind.DEAF_CLEAR,
        FaultKind.SAME_ID,
        FaultKind.ACKNOWLEDGE,
    }
)
"""What an instrument is like until it is cleared; the others happen to one answer each."""


@record
class WireFault:
    """One fault of one instrument.

    ``seconds``: of a late answer, between pieces or before an extra line its delay; of refuse how
    long (None: until cleared). ``count``: how many answers it takes (None: all until cleared).
    """

    kind: FaultKind
    seconds: float | None = None
    count: int | None = None


@record(kw_only=False)
class SendBytes:
    """Write these bytes; ``is_end``: the message is whole with them, where a wire tells that."""

    data: bytes
    is_end: bool = True


@record(kw_only=False)
class Wait:
    """Let seconds pass before the next delivery."""

    seconds: float


@record(kw_only=False)
class Close:
    """Close the connection in order (FIN)."""


@record(kw_only=False)
class Reset:
    """Reset the connection (RST)."""


Delivery = SendBytes | Wait | Close | Reset


class FaultBook:
    """The faults under which one instrument stands now.

    Attributes:
        on_clear: called when all faults are removed.
    """

    def __init__(self) -> None:
        self._active: list[WireFault] = []
        self.on_clear: set[Callable[[], None]] = set()

    def add(self, fault: WireFault) -> None:
        """Put a fault behind those that wait already."""
        self._active.append(fault)

    def clear(self) -> None:
        """Be well again; an answer that is held back comes now."""
        self._active.clear()
        for call in tuple(self.on_clear):
            call()

    def active(self) -> tuple[WireFault, ...]:
        """What is in force, first come first."""
        return tuple(self._active)

    def is_under(self, kind: FaultKind) -> bool:
        """Whether a fault of that kind is in force."""
        return any(fault.kind is kind for fault in self._active)

    def take(self) -> WireFault | None:
        """The fault that goes with the answer about to be sent; counts it."""
        for index, fault in enumerate(self._active):
            if fault.kind is FaultKind.HANG:
                return fault
            if fault.kind in _STANDING:
                continue
            if fault.count is not None:
                left = fault.count - 1
                self._active[index : index + 1] = [replace(fault, count=left)] if left else []
            return fault
        return None


def deliver(answer: bytes, fault: WireFault | None, random: Random) -> tuple[Delivery, ...]:
    """How ``answer`` (with its line end) reaches the reader under ``fault``."""
    if fault is None:
        return (SendBytes(answer),)
    match fault.kind:
        case FaultKind.TIMEOUT | FaultKind.HANG:
            return ()
        case FaultKind.LATE:
            return (
                Wait(DEFAULT_LATE_S if fault.seconds is None else fault.seconds),
                SendBytes(answer),
            )
        case FaultKind.GARBAGE:
            body = bytes(random.choices(GARBAGE, k=max(1, len(answer) - 1)))
            return (SendBytes(body + answer[-1:]),)
        case FaultKind.DROP:
            return (SendBytes(answer[: len(answer) // 2], is_end=False), Close())
        case FaultKind.DOUBLE:
            return (SendBytes(answer), SendBytes(answer))
        case FaultKind.SPLIT:
            return _in_pieces(
                answer, DEFAULT_SPLIT_GAP_S if fault.seconds is None else fault.seconds
            )
        case FaultKind.STRAY:
            return (SendBytes(answer[-1:] + answer),)
        case FaultKind.RESET:
            return (Reset(),)
        case FaultKind.EXTRA:
            pause = (Wait(fault.seconds),) if fault.seconds else ()
            return (SendBytes(answer), *pause, SendBytes(UNASKED + answer[-1:]))
        case FaultKind.SECOND_LINE:
            return (SendBytes(answer + UNASKED + answer[-1:]),)
        case _:  # what an instrument is like spoils no answer
            return (SendBytes(answer),)


def merged(steps: Iterable[Delivery]) -> tuple[Delivery, ...]:
    """Neighbouring pieces as one: on a plain stream they are written, and arrive, together."""
    whole: list[Delivery] = []
    for step in steps:
        last = whole[-1] if whole else None
        if isinstance(step, SendBytes) and isinstance(last, SendBytes):
            whole[-1] = SendBytes(last.data + step.data, is_end=step.is_end)
        else:
            whole.append(step)
    return tuple(whole)


def _in_pieces(answer: bytes, gap_s: float) -> tuple[Delivery, ...]:
    size = max(1, -(-len(answer) // SPLIT_PIECES))
    steps: list[Delivery] = []
    for start in range(0, len(answer), size):
        if steps:
            steps.append(Wait(gap_s))
        steps.append(SendBytes(answer[start : start + size], is_end=start + size >= len(answer)))
    return tuple(steps)


def make_fault(kind: str, seconds: float | None = None, count: int | None = None) -> WireFault:
    """A checked fault from what a flag or the control port said.

    Raises:
        Invalid: no such kind, or a number out of range.
    """
    if kind not in _KINDS:
        raise Invalid(
            f"{kind!r} is not a kind of fault.", remedy=f"The kinds are {', '.join(_KINDS)}."
        )
    if seconds is not None and not 0 <= seconds <= 3600:
        raise Invalid(f"A fault of {seconds} seconds is outside of 0 to 3600.")
    if count is not None and count < 1:
        raise Invalid(f"A fault for {count} answers is none; the count is 1 or more.")
    return WireFault(kind=_KINDS[kind], seconds=seconds, count=count)


def parse_fault(text: str) -> tuple[str, WireFault]:
    """``KIND[:NAME[:SECONDS[:COUNT]]]`` → (instrument's name, fault); no name means every one.

    Raises:
        Invalid: the text is something else.
    """
    kind, is_named, rest = text.partition(":")
    name, _, numbers = rest.partition(":")
    seconds, _, count = numbers.partition(":")
    if is_named and not name:
        raise Invalid(f"The fault {text!r} is not KIND[:NAME[:SECONDS[:COUNT]]].")
    try:
        return name, make_fault(
            kind, float(seconds) if seconds else None, int(count) if count else None
        )
    except ValueError as error:
        raise Invalid(f"The fault {text!r} is not KIND[:NAME[:SECONDS[:COUNT]]].") from error


_KINDS: Final[Mapping[str, FaultKind]] = {kind.value: kind for kind in FaultKind}
