"""The rules of one HiSLIP session between its two channels, without sockets, loop or clock.

Messages in, happenings out: what is to be said on which channel, and what the program asks of its
unit. The shell does the rest and tells the outcome (``answer``, ``cleared``, ``lock_said``). What
the peer may not do raises, and changes nothing: ``HislipFatal`` ends the session, ``HislipProblem``
drops the message.

Source: IVI-6.1, HiSLIP 1.0: 3.1 (synchronized and overlap mode, interrupted), 6.4 to 6.14.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from edged.protocol.hislip import (
    DATA_TYPES,
    FIRST_MESSAGE_ID,
    FIRST_VENDOR_TYPE,
    HEADER,
    LARGEST_MESSAGE,
    SIZE,
    FatalCode,
    HislipFatal,
    HislipMessage,
    HislipProblem,
    LockResult,
    MessageType,
    ProblemCode,
    TooLarge,
    is_ahead,
    message,
    next_message_id,
    problem,
)
from edged.record import record

DEFAULT_CLIENT_TAKES: Final = 272
"""Header and 256 bytes: what a client takes that has not said otherwise (6.10)."""
MAX_PROGRAM_BYTES: Final = 16 * LARGEST_MESSAGE
"""Of one program message in all its pieces: a long waveform for a generator, and no flood."""
MAX_LOCK_STRING: Final = 256
RMT_DELIVERED: Final = 1
PREFERS_OVERLAP: Final = 1
LAST_REMOTE_CONTROL: Final = 6
MESSAGE_AVAILABLE: Final = 0x10


class OutOfOrder(RuntimeError):
    """The shell told an outcome that nothing waits for: a bug of ours. Nothing was changed."""


class HislipChannel(enum.Enum):
    """Both connections of a session."""

    SYNCHRONOUS = "synchronous"
    ASYNCHRONOUS = "asynchronous"


class Mode(enum.IntEnum):
    """How answers belong to questions; the bit of the feature negotiation."""

    SYNCHRONIZED = 0
    """Each answer bears its question's id, and a new question takes an unread one's place."""
    OVERLAP = 1
    """Answers are numbered by the server and queue up."""


@record(kw_only=False)
class Say:
    """Bytes for the client."""

    channel: HislipChannel
    data: bytes


@record(kw_only=False)
class MessageWritten:
    """The client has written a whole message.

    Attributes:
        is_interrupting: an answer that had been sent was never read.
    """

    data: bytes
    message_id: int
    is_interrupting: bool = False


@record(kw_only=False)
class TriggerAsked:
    """The group execute trigger, in its place among the messages."""

    message_id: int
    is_interrupting: bool = False


@record(kw_only=False)
class ClearAsked:
    """A device clear has begun: what is under way is to be given up, and ``cleared`` told."""


@record(kw_only=False)
class LockAsked:
    """A lock is wanted; ``key`` is empty for the exclusive one. ``lock_said`` tells the outcome."""

    key: str
    timeout_s: float


@record(kw_only=False)
class UnlockAsked:
    """A lock is given back once that message was worked off. ``lock_said`` tells the outcome."""

    message_id: int


@record(kw_only=False)
class LockInfoAsked:
    """Who holds locks; answered by ``lock_info_message``."""


@record(kw_only=False)
class StatusAsked:
    """The status byte is wanted; ``mav`` and ``status_message`` make the answer.

    Attributes:
        message_id: what the client believes to be its last message.
    """

    message_id: int


@record(kw_only=False)
class PeerEnded:
    """The client says that it gives the session up, and why."""

    reason: str


Happening = (
    Say
    | MessageWritten
    | TriggerAsked
    | ClearAsked
    | LockAsked
    | UnlockAsked
    | LockInfoAsked
    | StatusAsked
    | PeerEnded
)
NOTHING: Final[tuple[Happening, ...]] = ()


class _Clearing(enum.Enum):
    """How far a device clear is."""

    NO = "no"
    ASKED = "asked"
    ACKNOWLEDGED = "acknowledged"


class HislipExchange:
    """One session, from the moment both of its channels are there.

    Attributes:
        mode: synchronized until a device clear negotiates otherwise.
        latest_id: of the program message or trigger that came last; before the first, the one
            that would precede it.
        client_takes: the most bytes of one message to the client, header included.
    """

    def __init__(self) -> None:
        self.mode = Mode.SYNCHRONIZED
        self.client_takes = DEFAULT_CLIENT_TAKES
        self.latest_id = FIRST_MESSAGE_ID - 2
        # Pieces of a message whose end has not come; whether they are dropped as too many.
        self._incoming = bytearray()
        self._is_within = False
        self._is_dropping = False
        # Its first piece came with an unread answer lying about.
        self._is_interrupting = False
        # The end of an answer was sent, and the client has not said that it was read (3.1.1).
        self._is_rmt_expected = False
        # The message whose answer that was; in overlap mode the answer's own number.
        self._unread_id: int | None = None
        self._next_answer_id = FIRST_MESSAGE_ID
        self._clearing = _Clearing.NO
        self._is_lock_pending = False

    # what the client says

    def synchronous(self, received: HislipMessage | TooLarge) -> tuple[Happening, ...]:
        """A message of the synchronous channel.

        Raises:
            HislipFatal, HislipProblem: it may not be said, or not now; nothing was changed.
        """
        if isinstance(received, TooLarge):
            return self._too_large(received)
        heard = _SYNCHRONOUS.get(received.kind)
        if heard is None:
            raise _misplaced(received.kind)
        return heard(self, received)

    def asynchronous(self, received: HislipMessage | TooLarge) -> tuple[Happening, ...]:
        """A message of the asynchronous channel.

        Raises:
            HislipFatal, HislipProblem: it may not be said, or not now; nothing was changed.
        """
        if isinstance(received, TooLarge):
            raise HislipProblem(ProblemCode.TOO_LARGE, f"{received.length} bytes are too many")
        heard = _ASYNCHRONOUS.get(received.kind)
        if heard is None:
            raise _misplaced(received.kind)
        return heard(self, received)

    # what came of it

    def answer(self, message_id: int, data: bytes | memoryview) -> Iterable[Say]:
        """The answer to a program message; the pieces are to be sent in their order.

        In synchronized mode an answer that the client's next message has overtaken is not sent:
        the client is told that it was interrupted.
        """
        if self._clearing is not _Clearing.NO:
            return ()
        if self.mode is Mode.OVERLAP:
            number = self._next_answer_id
            self._next_answer_id = next_message_id(number)
            self._unread_id = number
            return self._pieces(number, data)
        if self.is_overtaken(message_id):
            return (
                Say(
                    HislipChannel.ASYNCHRONOUS,
                    message(MessageType.ASYNC_INTERRUPTED, 0, self.latest_id),
                ),
                Say(HislipChannel.SYNCHRONOUS, message(MessageType.INTERRUPTED, 0, self.latest_id)),
            )
        self._is_rmt_expected = True
        self._unread_id = message_id
        return self._pieces(message_id, data)

    def is_overtaken(self, message_id: int) -> bool:
        """Whether something came after that message that interrupts its answer (3.1.1)."""
        return self.mode is Mode.SYNCHRONIZED and message_id != self.latest_id

    def refused(self, text: str) -> Say:
        """A message was not carried out; a question of it has no answer."""
        return Say(HislipChannel.SYNCHRONOUS, problem(ProblemCode.UNIDENTIFIED, text))

    def cleared(self) -> Say:
        """What was under way at the device clear has been given up.

        Raises:
            OutOfOrder: no clear waits for this.
        """
        if self._clearing is not _Clearing.ASKED:
            raise OutOfOrder("no device clear waits to be acknowledged")
        self._clearing = _Clearing.ACKNOWLEDGED
        acknowledge = message(MessageType.ASYNC_DEVICE_CLEAR_ACKNOWLEDGE, Mode.SYNCHRONIZED)
        return Say(HislipChannel.ASYNCHRONOUS, acknowledge)

    def lock_said(self, result: LockResult) -> Say:
        """A lock was granted, refused or given back.

        Raises:
            OutOfOrder: none was asked for.
        """
        if not self._is_lock_pending:
            raise OutOfOrder("nobody asked for a lock")
        self._is_lock_pending = False
        return Say(HislipChannel.ASYNCHRONOUS, message(MessageType.ASYNC_LOCK_RESPONSE, result))

    def mav(self, asked: StatusAsked) -> bool:
        """MAV of the status byte: an answer was sent, and is not known to have been read (6.14).

        Of the message that the client names; some name the one that they will send next.
        """
        if self._unread_id is None:
            return False
        if self.mode is Mode.OVERLAP:
            return asked.message_id != self._unread_id
        return asked.message_id in {self._unread_id, next_message_id(self._unread_id)}

    def is_coming(self, message_id: int) -> bool:
        """Whether the client names a message that has not come: the channels are two."""
        return is_ahead(message_id, self.latest_id)

    # the synchronous channel

    def _data(self, received: HislipMessage) -> tuple[Happening, ...]:
        if self._clearing is not _Clearing.NO:
            return NOTHING
        is_end = received.kind == MessageType.DATA_END
        if self._is_dropping:
            self._is_dropping = not is_end
            return NOTHING
        size = len(self._incoming) + len(received.payload)
        if size > MAX_PROGRAM_BYTES:
            self._drop_rest(is_end=is_end)
            return _too_long(f"a program message of {size} bytes is too long")
        self._note_read(received)
        if not is_end:
            self._incoming += received.payload
            self._is_within = True
            return NOTHING
        if self._is_within:
            self._incoming += received.payload
            data = bytes(self._incoming)
            self._incoming.clear()
        else:
            data = received.payload
        return (MessageWritten(data, received.parameter, self._end_of_input()),)

    def _trigger(self, received: HislipMessage) -> tuple[Happening, ...]:
        if self._clearing is not _Clearing.NO:
            return NOTHING
        if self._is_within:
            raise HislipProblem(
                ProblemCode.UNIDENTIFIED, "a trigger came in the middle of a program message"
            )
        self._note_read(received)
        return (TriggerAsked(received.parameter, self._end_of_input()),)

    def _note_read(self, received: HislipMessage) -> None:
        """Compare what the client has read with what was sent; the first piece tells."""
        self.latest_id = received.parameter
        if self._is_within:
            return
        is_read = bool(received.control & RMT_DELIVERED)
        self._is_interrupting = (
            self.mode is Mode.SYNCHRONIZED and self._is_rmt_expected and not is_read
        )
        if self.mode is Mode.SYNCHRONIZED or is_read:
            self._is_rmt_expected = False
            self._unread_id = None

    def _end_of_input(self) -> bool:
        self._is_within = False
        was, self._is_interrupting = self._is_interrupting, False
        return was

    def _too_large(self, received: TooLarge) -> tuple[Happening, ...]:
        if self._clearing is not _Clearing.NO:
            return NOTHING
        if received.kind in DATA_TYPES:
            self._drop_rest(is_end=received.kind == MessageType.DATA_END)
        return _too_long(f"a message takes at most {LARGEST_MESSAGE - HEADER.size} bytes of data")

    def _drop_rest(self, *, is_end: bool) -> None:
        """A program message that lacks a piece is dropped whole: half of it could mean anything."""
        self._incoming.clear()
        self._is_within = False
        self._is_dropping = not is_end

    def _clear_complete(self, received: HislipMessage) -> tuple[Happening, ...]:
        if self._clearing is not _Clearing.ACKNOWLEDGED:
            raise HislipProblem(ProblemCode.UNIDENTIFIED, "no device clear is under way")
        self.mode = Mode(received.control & PREFERS_OVERLAP)
        self._clearing = _Clearing.NO
        self.latest_id = FIRST_MESSAGE_ID - 2
        self._next_answer_id = FIRST_MESSAGE_ID
        self._incoming.clear()
        self._is_within = self._is_dropping = self._is_interrupting = False
        self._is_rmt_expected = False
        self._unread_id = None
        return (
            Say(
                HislipChannel.SYNCHRONOUS,
                message(MessageType.DEVICE_CLEAR_ACKNOWLEDGE, int(self.mode)),
            ),
        )

    # the asynchronous channel

    def _clear(self, _received: HislipMessage) -> tuple[Happening, ...]:
        if self._clearing is _Clearing.ASKED:
            raise HislipProblem(ProblemCode.UNIDENTIFIED, "a device clear is under way")
        self._clearing = _Clearing.ASKED
        return (ClearAsked(),)

    def _status(self, received: HislipMessage) -> tuple[Happening, ...]:
        if received.control & RMT_DELIVERED:
            self._is_rmt_expected = False
            self._unread_id = None
        return (StatusAsked(received.parameter),)

    def _lock(self, received: HislipMessage) -> tuple[Happening, ...]:
        if self._is_lock_pending:
            raise HislipProblem(ProblemCode.UNIDENTIFIED, "a lock is being asked for already")
        if received.control == 0:
            self._is_lock_pending = True
            return (UnlockAsked(received.parameter),)
        if received.control != 1:
            raise _control(received)
        if len(received.payload) > MAX_LOCK_STRING:
            raise HislipProblem(
                ProblemCode.TOO_LARGE, f"a lock string has at most {MAX_LOCK_STRING} bytes"
            )
        self._is_lock_pending = True
        key = received.payload.rstrip(b"\0").decode("latin-1")
        return (LockAsked(key, received.parameter / 1000),)

    def _lock_info(self, _received: HislipMessage) -> tuple[Happening, ...]:
        return (LockInfoAsked(),)

    def _remote_local(self, received: HislipMessage) -> tuple[Happening, ...]:
        if received.control > LAST_REMOTE_CONTROL:
            raise _control(received)
        return (Say(HislipChannel.ASYNCHRONOUS, message(MessageType.ASYNC_REMOTE_LOCAL_RESPONSE)),)

    def _maximum_size(self, received: HislipMessage) -> tuple[Happening, ...]:
        if len(received.payload) != SIZE.size:
            raise HislipProblem(ProblemCode.UNIDENTIFIED, "a maximum message size has 8 bytes")
        (takes,) = SIZE.unpack(received.payload)
        if takes <= HEADER.size:
            raise HislipProblem(
                ProblemCode.UNIDENTIFIED, f"no data fits into messages of {takes} bytes"
            )
        self.client_takes = min(takes, LARGEST_MESSAGE)
        reply = message(
            MessageType.ASYNC_MAXIMUM_MESSAGE_SIZE_RESPONSE, payload=SIZE.pack(LARGEST_MESSAGE)
        )
        return (Say(HislipChannel.ASYNCHRONOUS, reply),)

    # both

    def _ended(self, received: HislipMessage) -> tuple[Happening, ...]:
        text = received.payload[:200].decode("ascii", "replace")
        return (PeerEnded(f"fatal error {received.control} {text}".strip()),)

    def _told_of_problem(self, _received: HislipMessage) -> tuple[Happening, ...]:
        # Whatever it was that the client could not take, it goes on.
        return NOTHING

    def _initialize_again(self, _received: HislipMessage) -> tuple[Happening, ...]:
        raise HislipFatal(FatalCode.BAD_INITIALIZATION, "the session is initialized already")

    def _pieces(self, message_id: int, data: bytes | memoryview) -> Iterable[Say]:
        size = self.client_takes - HEADER.size
        if len(data) <= size:
            return (
                Say(
                    HislipChannel.SYNCHRONOUS,
                    message(MessageType.DATA_END, 0, message_id, bytes(data)),
                ),
            )
        return _cut(message_id, memoryview(data), size)


def _cut(message_id: int, data: memoryview, size: int) -> Iterator[Say]:
    """Each piece made as it is sent: a picture is not held twice."""
    for start in range(0, len(data), size):
        kind = MessageType.DATA_END if start + size >= len(data) else MessageType.DATA
        piece = bytes(data[start : start + size])
        yield Say(HislipChannel.SYNCHRONOUS, message(kind, 0, message_id, piece))


def status_message(status_byte: int, *, has_message: bool) -> bytes:
    """The answer to a status query; MAV is this protocol's, the other bits the session's."""
    others = status_byte & ~MESSAGE_AVAILABLE & 0xFF
    return message(
        MessageType.ASYNC_STATUS_RESPONSE, others | (MESSAGE_AVAILABLE if has_message else 0)
    )


def _too_long(text: str) -> tuple[Happening, ...]:
    return (Say(HislipChannel.SYNCHRONOUS, problem(ProblemCode.TOO_LARGE, text)),)


def _misplaced(kind: int) -> HislipProblem:
    if kind >= FIRST_VENDOR_TYPE:
        return HislipProblem(ProblemCode.UNKNOWN_VENDOR_TYPE, f"message type {kind} is unknown")
    return HislipProblem(
        ProblemCode.UNKNOWN_TYPE, f"message type {kind} is not taken on this channel"
    )


def _control(received: HislipMessage) -> HislipProblem:
    name = MessageType(received.kind).name.lower()
    return HislipProblem(
        ProblemCode.UNKNOWN_CONTROL, f"{name} has no control code {received.control}"
    )


Heard = Callable[[HislipExchange, HislipMessage], tuple[Happening, ...]]
_BOTH: Final[dict[int, Heard]] = {
    MessageType.FATAL_ERROR: HislipExchange._ended,  # noqa: SLF001 - this module's own table
    MessageType.ERROR: HislipExchange._told_of_problem,  # noqa: SLF001
    MessageType.INITIALIZE: HislipExchange._initialize_again,  # noqa: SLF001
    MessageType.ASYNC_INITIALIZE: HislipExchange._initialize_again,  # noqa: SLF001
}
_SYNCHRONOUS: Final[Mapping[int, Heard]] = MappingProxyType(
    {
        **_BOTH,
        MessageType.DATA: HislipExchange._data,  # noqa: SLF001
        MessageType.DATA_END: HislipExchange._data,  # noqa: SLF001
        MessageType.TRIGGER: HislipExchange._trigger,  # noqa: SLF001
        MessageType.DEVICE_CLEAR_COMPLETE: HislipExchange._clear_complete,  # noqa: SLF001
    }
)
_ASYNCHRONOUS: Final[Mapping[int, Heard]] = MappingProxyType(
    {
        **_BOTH,
        MessageType.ASYNC_DEVICE_CLEAR: HislipExchange._clear,  # noqa: SLF001
        MessageType.ASYNC_STATUS_QUERY: HislipExchange._status,  # noqa: SLF001
        MessageType.ASYNC_LOCK: HislipExchange._lock,  # noqa: SLF001
        MessageType.ASYNC_LOCK_INFO: HislipExchange._lock_info,  # noqa: SLF001
        MessageType.ASYNC_REMOTE_LOCAL_CONTROL: HislipExchange._remote_local,  # noqa: SLF001
        MessageType.ASYNC_MAXIMUM_MESSAGE_SIZE: HislipExchange._maximum_size,  # noqa: SLF001
    }
)
