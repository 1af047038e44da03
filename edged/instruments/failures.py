"""What the wire did, as the caller of a job is told it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import structlog

from edged.actions.cause import Cause
from edged.errors import ErrorCode, Failed, Fault
from edged.instruments.line_state import LineState
from edged.instruments.mailbox import Job
from edged.transports import link
from edged.transports.link import LinkError, LinkGarbled, LinkLost, LinkPreempted, LinkTimeout

log = structlog.get_logger(__name__)


def failure(
    error: LinkError,
    job: Job,
    *,
    name: str,
    state: LineState,
    end: str = "",
    unanswered: str = "",
    trace: Sequence[Mapping[str, object]] = (),
) -> Failed:
    """A link's error as a failure of a job.

    Args:
        name: the line's.
        end: why the line is being closed, as a clause; empty while it is not.
        unanswered: what was not answered before, so that the line is recovered since.
    """
    match error:
        case LinkTimeout() if error.came:
            code, text = ErrorCode.TIMEOUT, f"{name} did not end its answer in time"
        case LinkTimeout():
            code, text = ErrorCode.TIMEOUT, f"{name} did not answer in time"
        case LinkPreempted() | LinkLost() if end:
            code, text = ErrorCode.DISCONNECTED, end[0].upper() + end[1:]
        case LinkPreempted() if job.is_withdrawn:
            code, text = ErrorCode.CANCELLED, f"{job.name} was cancelled"
        case LinkPreempted():
            cause = job.ended_for or Cause("by a safe command")
            code, text = ErrorCode.PREEMPTED, f"{job.name} was ended {cause.clause}"
        case LinkGarbled():
            code, text = ErrorCode.BAD_ANSWER, f"{name} sent an answer that is not valid"
        case _:
            code, text = ErrorCode.DISCONNECTED, f"{name} is not connected"
    after = f' after "{job.sent[-1][:200]}"' if job.sent else "; nothing was sent"
    is_unanswered = code is ErrorCode.TIMEOUT and bool(job.sent) and not error.came
    remedy = _remedy(code, error.why) if job.sent or code is not ErrorCode.TIMEOUT else SILENT
    is_kept_out = bool(unanswered) and not job.sent and not end
    before = f" {being_recovered(unanswered)}" if is_kept_out else ""
    return Failed(
        f"{text}{after} ({error}).{before}",
        code=code,
        data={"address": name, "line_state": state.value, "trace": list(trace)},
        remedy=UNENDED if code is ErrorCode.TIMEOUT and error.came else remedy,
        sent=job.sent,
        why=f'no answer to "{job.sent[-1][:200]}"' if is_unanswered else error.why,
    )


def being_recovered(unanswered: str) -> str:
    """Why nothing can be sent just now, as a sentence."""
    since = f' since it did not answer "{unanswered[:200]}"' if unanswered else ""
    return f"Its line is being recovered{since}; that goes on by itself."


def lost_remedy(reason: str) -> str:
    """What helps a line that is not there, for that reason."""
    known = (remedy for why, remedy in link.REMEDIES.items() if why in reason)
    return next(known, REMEDIES[ErrorCode.DISCONNECTED])


def _remedy(code: ErrorCode, why: str) -> str:
    return lost_remedy(why) if code is ErrorCode.DISCONNECTED else REMEDIES.get(code, "")


def another_unit(what: str, name: str) -> Failed:
    """``what`` says who or what met another unit than the known one."""
    return Failed(
        f"{what} answers at {name} now.",
        code=ErrorCode.DISCONNECTED,
        data={"address": name},
        remedy="Look at list_instruments; each unit has an entry of its own.",
    )


def fault(error: Exception, job: Job, *, name: str, at_ms: int) -> Fault:
    """A bug that ended a job: in the log with its trace, under the id that the caller gets."""
    fault_id = f"line-{at_ms}"
    log.error("line_job_failed", line=name, job=job.name, fault_id=fault_id, exc_info=error)
    return Fault(
        f"{job.name} failed inside edged; the log has it under {fault_id}.",
        data={"fault_id": fault_id},
    )


UNENDED: Final = (
    "Set read_termination, in INSTRUMENTS or in the profile's connection, to what ends its "
    "answers; or give it more time (timeout_ms)."
)
SILENT: Final = "It may be busy or switched off."
REMEDIES: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {
        ErrorCode.PREEMPTED: "It was made safe just then: read back what it does now, and "
        "call again if it is still wanted.",
        ErrorCode.TIMEOUT: "It may be busy or switched off, or not know the question; what was "
        "sent may still take effect.",
        ErrorCode.DISCONNECTED: "Check its power and cable, and that no other program "
        "holds it; it is connected again by itself.",
    }
)
