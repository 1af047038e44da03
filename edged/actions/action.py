"""The closed set of things that can be asked of the daemon.

An action is made by a tool from raw arguments (``tools/``), or by long work from inside the daemon
(``runs/``), and is performed by ``commands/path.py`` and by nothing else. Making one judges
nothing: ``check`` is the tool's own compiled schema, which the path applies *after* it has
authorized tool and scope. Until then the typed fields hold whatever was sent, or an empty value
where that was of another type; nobody reads them before ``check`` has passed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from edged.actions.caller import Caller

__all__ = [
    "AT_ONCE",
    "Action",
    "CachedState",
    "CallWrapper",
    "Check",
    "DrawSweep",
    "FetchWaveform",
    "Progress",
    "ProgressSink",
    "Purpose",
    "ReadPicture",
    "ReadProfile",
    "ReadRun",
    "ReadState",
    "ReadStream",
    "ReadSweep",
    "RunCommand",
    "RunSequence",
    "Scan",
    "SendLines",
    "SendScpi",
    "StartStream",
    "StartSweep",
    "StopAll",
    "StopStream",
    "StopSweep",
]

Arguments = Mapping[str, Any]
Check = Callable[[Arguments], None]
"""Raises ``Invalid`` when raw arguments do not fit a tool's schema."""

NOTHING: Final[Arguments] = {}


def _accept(arguments: Arguments) -> None:
    """The check of an action made inside the daemon, whose arguments are its own."""


def _nobody_notes() -> None:
    """What is told where nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What every action carries.

    Attributes:
        tool: the name that was called, as the caller spelled it.
        plain_tool: the name to judge by besides: a dynamic tool's unsuffixed one, else empty.
        scope: the scope to judge by; ``None`` where the tool has none, empty where it was missing.
        arguments: exactly what was sent.
        action_id: id of this action in the audit, unique in the database; ``parent_id`` of the one
            it was nested in, else empty.
        progress: takes progress reports, or ``None`` when nobody listens.
    """

    tool: str
    caller: Caller
    action_id: str
    plain_tool: str = ""
    parent_id: str = ""
    scope: str | None = None
    arguments: Arguments = field(default_factory=dict)
    check: Check = _accept
    progress: ProgressSink | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommand(_Asked):
    """Run one profile command. ``expects_query`` is the caller's ``is_query``, if it gave one.

    ``meeting``, of a sweep's step: only while the instrument's line has not been opened anew since.
    """

    instrument_id: str
    command_name: str
    parameters: Arguments = field(default_factory=dict)
    expects_query: bool | None = None
    purpose: Purpose = Purpose.CALL
    meeting: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSequence(_Asked):
    """Run one profile sequence to its end."""

    instrument_id: str
    sequence_name: str
    parameters: Arguments = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendScpi(_Asked):
    """Send one line as it is, if owner and configuration let it pass."""

    instrument_id: str
    scpi: str
    purpose: Purpose = Purpose.CALL


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLines(_Asked):
    """Send a profile's own rendered lines: a set-point query, an abort. No tool makes this.

    With purpose ABORT the lines pre-empt whatever is on the wire, wait for no disk, and count as
    taken only when the instrument has answered its error query; else the last line asks.

    Attributes:
        asks: of an abort: the questions that show whether it was obeyed, asked in the same breath.
        note_taken: told, on the line's thread, once the lines of an abort were taken.
    """

    instrument_id: str
    lines: tuple[str, ...]
    purpose: Purpose
    asks: tuple[str, ...] = ()
    note_taken: Callable[[], None] = _nobody_notes


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSweep(_Asked):
    """Ramp a parameter from its present set-point; the rest of the wishes are in ``arguments``."""

    instrument_id: str
    command_name: str
    parameters: Arguments = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSweep(_Asked):
    """Say how a sweep stands, with at most ``points`` rows."""

    sweep_id: str
    points: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawSweep(_Asked):
    """What ``ReadSweep`` says, and a picture of all rows besides."""

    sweep_id: str
    points: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StopSweep(_Asked):
    """End a sweep: park it (``hold``) or abort it."""

    sweep_id: str
    hold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartStream(_Asked):
    """Measure on a grid; the rest of the wishes are in ``arguments``."""

    instrument_id: str
    command_name: str
    parameters: Arguments = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopStream(_Asked):
    """End a stream."""

    stream_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAll(_Asked):
    """Make the whole bench safe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchWaveform(_Asked):
    """Hand out one captured waveform."""

    stream_id: str
    point_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallWrapper(_Asked):
    """Call one function of an SDK wrapper in its worker process."""

    wrapper: str
    spec_name: str
    parameters: Arguments = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan(_Asked):
    """Look at every bus and address now."""


class CachedState(enum.StrEnum):
    """The cached things that can be read without touching hardware."""

    INSTRUMENTS = "instruments"
    CAPABILITIES = "capabilities"
    PROFILES = "profiles"
    STATUS = "status"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState(_Asked):
    """Read cached state."""

    state: CachedState


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadProfile(_Asked):
    """Read a profile as a text for agents."""

    profile_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStream(_Asked):
    """Say how a stream stands, with its newest points."""

    stream_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPicture(_Asked):
    """Hand out a captured picture that was too large for a result; ``tool`` made it."""

    command_name: str
    picture_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRun(_Asked):
    """Read what a recording is, and its last rows."""

    run_id: str


Action = (
    RunCommand
    | RunSequence
    | SendScpi
    | SendLines
    | StartSweep
    | ReadSweep
    | DrawSweep
    | StopSweep
    | StartStream
    | StopStream
    | StopAll
    | FetchWaveform
    | CallWrapper
    | Scan
    | ReadState
    | ReadProfile
    | ReadStream
    | ReadRun
    | ReadPicture
)

AT_ONCE: Final[frozenset[type[Action]]] = frozenset({ReadState})
"""What is read from memory: it waits for nothing, so nothing can come between, or cancel it."""
