"""What can be asked of the daemon: an action is one request, as it was made.

An action is made by a tool from raw arguments (``tools/``), or by long work from inside the daemon
(``runs/``), and is performed by ``commands/path.py`` and by nothing else. Making one judges
nothing: ``check`` is the tool's own compiled schema, which the path applies *after* it has
authorized tool and scope. Until then the typed fields hold whatever was sent, or an empty value
where that was of another type; nobody reads them before ``check`` has passed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import field
from operator import attrgetter
from typing import Any, ClassVar, Final, Protocol

from edged.actions.caller import Caller
from edged.actions.cause import Cause
from edged.actions.elicit import CallClient
from edged.record import record

Arguments = Mapping[str, Any]
Check = Callable[[Arguments], None]
"""Raises ``Invalid`` when raw arguments do not fit a tool's schema."""

NOTHING: Final[Arguments] = {}


def _accept(arguments: Arguments) -> None:
    """The check of an action made inside the daemon, whose arguments are its own."""


@record
class Progress:
    """One progress report of a call under way.

    Attributes:
        progress: strictly increasing from 1.
        message: what the client shows; for a stream the point as JSON.
        meta: goes into ``_meta`` of the notification (``stream_id``).
    """

    progress: int
    message: str
    total: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


ProgressSink = Callable[[Progress], bool]
"""Takes a report and never waits; false when its reader is too far behind to be told."""


class Purpose(enum.StrEnum):
    """Why a command is run; decides its place in the mailbox and what may hold it back."""

    CALL = "call"
    SEQUENCE_STEP = "sequence_step"
    FINALLY_STEP = "finally_step"
    SWEEP_STEP = "sweep_step"
    MEASURE = "measure"
    STREAM_POINT = "stream_point"
    ABORT = "abort"
    SETTINGS = "settings"
    INTERLOCK = "interlock"


ENDS_WORK: Final = frozenset({Purpose.FINALLY_STEP, Purpose.ABORT})
"""What ends work that runs already must get through: a lockout begins by stopping it."""


@record
class Action:
    """What every action carries; its type says what is asked.

    Attributes:
        tool: the name that was called, as the caller spelled it.
        plain_tool: the name to judge by besides: a dynamic tool's unsuffixed one, else empty.
        scope: the scope to judge by; ``None`` where the tool has none, empty where it was missing.
        arguments: exactly what was sent.
        action_id: id of this action in the audit, unique in the database; ``parent_id`` of the one
            it was nested in, else empty.
        progress: takes progress reports, or ``None`` when nobody listens.
        client: its client, where it can be asked something, or is known to have gone.
        answers_at_once: it is read from memory and waits for nothing, so that nothing can come
            between, or cancel it.
    """

    answers_at_once: ClassVar[bool] = False

    tool: str
    caller: Caller
    action_id: str
    plain_tool: str = ""
    parent_id: str = ""
    scope: str | None = None
    arguments: Arguments = field(default_factory=dict)
    check: Check = _accept
    progress: ProgressSink | None = None
    client: CallClient | None = None

    # The key of its row in the table of operations; read several times a call, so in C.
    row = property(type)


@record
class NamedAction(Action):
    """Ask for an operation that needs its arguments alone, by the name of its row.

    Attributes:
        values: of a resource that is read: the variables of its URI.
    """

    operation: str
    values: Mapping[str, str] = field(default_factory=dict)

    row = property(attrgetter("operation"))


@record
class MemoryAction(NamedAction):
    """Ask for one that is answered from memory."""

    answers_at_once = True


@record
class RunCommand(Action):
    """Run one profile command. ``expects_query`` is the caller's ``is_query``, if it gave one.

    ``meeting``, of a sweep's step: only while the instrument's line has not been opened anew since.
    ``rate``, of a ramp's step: how fast that ramp goes at most, per second; 0: it is no such step.
    ``ranged``, of what is only judged: parameters whose value is an end of a range.
    """

    instrument_id: str
    command_name: str
    parameters: Arguments = field(default_factory=dict)
    expects_query: bool | None = None
    purpose: Purpose = Purpose.CALL
    meeting: object = None
    rate: float = 0.0
    ranged: frozenset[str] = frozenset()

    @property
    def is_ramp_step(self) -> bool:
        """Whether a ramp sets this value, in the middle of work or at its end."""
        return self.purpose is Purpose.SWEEP_STEP or self.rate > 0


@record
class RunSequence(Action):
    """Run one profile sequence to its end; where it is detached, whoever asked waits for none."""

    instrument_id: str
    sequence_name: str
    parameters: Arguments = field(default_factory=dict)
    is_detached: bool = False


@record
class SendScpi(Action):
    """Send one line as it is, if owner and configuration let it pass."""

    instrument_id: str
    scpi: str
    purpose: Purpose = Purpose.CALL
    # Whether it is answered; None: as its "?" and the profile say.
    expects_answer: bool | None = None


@record
class SendProgram(SendScpi):
    """Send one message of a program that knows VISA, byte for byte. No tool makes this.

    What it may send is what ``SendScpi`` may, and what is a command of the profile is held to the
    profile's bounds besides.

    Attributes:
        scpi: the message as it is judged and recorded: its blocks are told by their length.
        data: what goes out, without its end.
        timeout_s: what its answer may take; 0: as the profile says.
        hold: keeps the line for its program once it is answered; see ``instruments.mailbox``.
        listens_to: nothing is sent: what this earlier message is answered by is read. ``scpi`` is a
            query that changes nothing then.
    """

    data: bytes
    timeout_s: float = 0.0
    hold: object = None
    listens_to: str = ""


class OutputQuestion(Protocol):
    """A question about an output after an abort; ``profiles.abort.Proof``."""

    @property
    def question(self) -> tuple[str, ...]:
        """The lines that ask it: the last one is the query, those before it select."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that it is about, as the lines that set them name them."""
        ...

    def is_given_by(self, answer: str) -> bool:
        """Whether an answer says that they are off."""
        ...

    def value(self, answer: str) -> str:
        """What an answer says of them, in the words of such a line."""
        ...


@record
class SendLines(Action):
    """Send a profile's own rendered lines: a set-point query, an abort. No tool makes this.

    With purpose ABORT the lines pre-empt whatever is on the wire, wait for no disk, and count as
    taken only when the instrument has answered its error query; else the last line asks.

    Attributes:
        asks: of an abort: the questions that show whether it was obeyed, asked in the same job.
        cause: of an abort: what a call that it interrupts is ended by.
        note_taken: told, on the line's thread, once the lines of an abort were taken.
    """

    instrument_id: str
    lines: tuple[str, ...]
    purpose: Purpose
    asks: tuple[OutputQuestion, ...] = ()
    cause: Cause | None = None
    note_taken: Callable[[], None] | None = None


@record
class StartSweep(Action):
    """Ramp a parameter from its present set-point; the rest of the wishes are in ``arguments``."""

    instrument_id: str
    command_name: str
    parameters: Arguments = field(default_factory=dict)


@record
class StartStream(Action):
    """Measure at intervals; the rest of the wishes are in ``arguments``."""

    instrument_id: str
    command_name: str
    parameters: Arguments = field(default_factory=dict)


@record
class StopAll(Action):
    """Make the whole bench safe."""


@record
class CallWrapper(Action):
    """Call one function of an SDK wrapper in its worker process.

    Attributes:
        cause: of an abort: the cause that an interrupted call reports.
        is_expected: its device has been there; of an abort of another a missing device is no
            failure, and leaves no row.
    """

    wrapper: str
    spec_name: str
    parameters: Arguments = field(default_factory=dict)
    cause: Cause | None = None
    is_expected: bool = True
