"""The errors of edged: one root, few families, every one a whole sentence.

The tree, and what each family tells whoever catches it::

    EdgedError
    ├── Invalid    what you gave is wrong: arguments, configuration, a profile
    ├── NotFound   what you named is not here: instrument, command, tool, session
    ├── Refused    you may not: token, danger, lockout, requires_sweep, the owner's bench file
    ├── Conflict   not now: another sweep, a full mailbox, a taken port
    ├── Failed     the outside world did not do it: instrument, disk, vendor library
    └── Fault      we are wrong: a bug, with an id that is in the log

An error is raised by the place that knows, and turned into what a caller sees in one place per
surface (``surfaces/mcp/error_codes.py``; the RPC surface uses the same table).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

NO_DATA: Final[Mapping[str, Any]] = {}


class ErrorCode(enum.StrEnum):
    """Stable names of the conditions that callers, rows in the audit and tests tell apart."""

    # Invalid
    BAD_REQUEST = "bad_request"
    BAD_ARGUMENTS = "bad_arguments"
    BAD_CONFIG = "bad_config"
    UNSUPPORTED_PLATFORM = "unsupported_platform"
    BAD_PROFILE = "bad_profile"
    BAD_SCPI = "bad_scpi"
    # NotFound
    UNKNOWN_TOOL = "unknown_tool"
    RENAMED_TOOL = "renamed_tool"
    UNKNOWN_INSTRUMENT = "unknown_instrument"
    UNKNOWN_COMMAND = "unknown_command"
    UNKNOWN_SEQUENCE = "unknown_sequence"
    UNKNOWN_SWEEP = "unknown_sweep"
    UNKNOWN_STREAM = "unknown_stream"
    UNKNOWN_POINT = "unknown_point"
    UNKNOWN_METHOD = "unknown_method"
    UNKNOWN_SESSION = "unknown_session"
    UNKNOWN_RUN = "unknown_run"
    UNKNOWN_LEASE = "unknown_lease"
    UNKNOWN_APPROVAL = "unknown_approval"
    UNKNOWN_RESOURCE = "unknown_resource"
    # Refused
    NOT_AUTHENTICATED = "not_authenticated"
    NOT_ALLOWED = "not_allowed"
    DANGEROUS = "dangerous"
    REQUIRES_SWEEP = "requires_sweep"
    LOCKED_OUT = "locked_out"
    DEAD_MAN = "dead_man"
    DENIED_BY_OWNER = "denied_by_owner"
    RAW_SCPI_RESTRICTED = "raw_scpi_restricted"
    # Conflict
    SWEEP_CONFLICT = "sweep_conflict"
    LEASED = "leased"
    INTERLOCK = "interlock"
    BUDGET = "budget"
    NEEDS_APPROVAL = "needs_approval"
    APPROVAL_DENIED = "approval_denied"
    BUSY = "busy"
    # Failed
    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    INSTRUMENT_ERROR = "instrument_error"
    BAD_ANSWER = "bad_answer"
    VERIFY_FAILED = "verify_failed"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    STEP_FAILED = "step_failed"
    STORE_FAILED = "store_failed"
    WRAPPER_FAILED = "wrapper_failed"
    SDK_MISSING = "sdk_missing"
    RECORDING_FAILED = "recording_failed"
    DRAWING_FAILED = "drawing_failed"
    BIND_FAILED = "bind_failed"
    NO_ENGINE = "no_engine"
    NO_KEYS = "no_keys"
    EDGE_FAILED = "edge_failed"
    # Fault
    INTERNAL = "internal"


class EdgedError(Exception):
    """The root: ``code`` for programs, ``message`` and ``remedy`` for people, ``data`` for both.

    Args:
        message: a whole sentence naming the thing, the value and the bound.
        code: which condition this is.
        data: JSON-ready details (parameter, value, bound, path…).
        remedy: what to do about it; empty when the message says it all.
    """

    default_code: ErrorCode = ErrorCode.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode | None = None,
        data: Mapping[str, Any] = NO_DATA,
        remedy: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.data = dict(data)
        self.remedy = remedy

    def to_json(self) -> dict[str, Any]:
        """{code, message, remedy, data}: as programs of the owner are told it."""
        return {
            "code": self.code.value,
            "message": self.message,
            "remedy": self.remedy,
            "data": self.data,
        }

    def for_caller(self) -> dict[str, Any]:
        """{code, message, remedy, sent?, data?}: the one form of an error in the result of a tool.

        ``sent`` are the lines that had gone out, of what may have sent some.
        """
        told: dict[str, Any] = {
            "code": self.code.value,
            "message": self.message,
            "remedy": self.remedy,
        }
        return {**told, "data": self.data} if self.data else told

    def __str__(self) -> str:
        """The sentence, with what to do after it."""
        return f"{self.message} {self.remedy}".strip()


class Invalid(EdgedError):
    """What was given is wrong: a value, a shape, a file."""

    default_code = ErrorCode.BAD_ARGUMENTS


class NotFound(EdgedError):
    """What was named does not exist here."""

    default_code = ErrorCode.UNKNOWN_INSTRUMENT


class Refused(EdgedError):
    """What was asked is understood and not allowed."""

    default_code = ErrorCode.NOT_ALLOWED


class Conflict(EdgedError):
    """What was asked cannot be done now, because something else is under way."""

    default_code = ErrorCode.BUSY


class NeedsApproval(Conflict):
    """Nobody has said yes to it. Nothing was sent.

    Attributes:
        lines: what would go out.
    """

    def __init__(self, called: str, what: str, lines: tuple[str, ...]) -> None:
        super().__init__(
            f"{what} of {called} needs a person's approval, and this call has none.",
            code=ErrorCode.NEEDS_APPROVAL,
            data={"what": what},
            remedy="Call it by itself: then a person is asked. A run is asked about before it "
            "begins, by what is known then.",
        )
        self.lines = lines


class Failed(EdgedError):
    """Something outside of edged did not do it.

    ``sent`` holds the SCPI lines that had gone out already, because a failure after the first byte
    is not the same as one before it.
    """

    default_code = ErrorCode.INSTRUMENT_ERROR

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode | None = None,
        data: Mapping[str, Any] = NO_DATA,
        remedy: str = "",
        sent: tuple[str, ...] = (),
        why: str = "",
    ) -> None:
        super().__init__(message, code=code, data=data, remedy=remedy)
        self.sent = sent
        self.why = why or message

    def for_caller(self) -> dict[str, Any]:
        """The same with ``sent``."""
        return {**super().for_caller(), "sent": list(self.sent)}


def after_sending(error: EdgedError, sent: tuple[str, ...]) -> EdgedError:
    """An error as what became of a call, lines of which had gone out: that is no refusal."""
    if isinstance(error, Failed):
        error.sent = error.sent or sent
    elif sent and not isinstance(error, Fault):
        return Failed(
            error.message, code=error.code, data=error.data, remedy=error.remedy, sent=sent
        )
    return error


class Fault(EdgedError):
    """A bug of ours. ``data["fault_id"]`` is the id under which the log has the trace."""

    default_code = ErrorCode.INTERNAL


def connection_trouble(error: OSError) -> str:
    """What came of trying to talk to a port, in words; the system's own begin with a number."""
    match error:
        case ConnectionRefusedError():
            return "nothing listens there (connection refused)"
        case TimeoutError():
            return "no answer came in time"
        case ConnectionResetError() | BrokenPipeError():
            return "the connection was closed without an answer"
        case _:
            return error.strerror or str(error) or type(error).__name__
