"""Methods ``edged/visa.*``: VISA sessions for ``pyvisa_edged``, in a session of MCP; docs/visa.md.

They stand in no list and no capability: clients of models have no use for them. Bytes come and go
as ``text`` where they are ASCII, else as ``hex``, which both ends read and write several times as
fast as base64. What is refused is a JSON-RPC error whose data
has the ``code`` of ours and the SCPI number under which it stands in the program's error queue.

An answer that is there within ``wait_ms`` goes back with the question's own ``write``, and keeps
the line until the program has read it there: its next request says so (``taken``), or a
notification where none follows at once. So a query takes one turn on the wire.
"""

from __future__ import annotations

import math
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from edged.actions.cause import Cause
from edged.actions.outcome import Outcome, OutcomeStatus, Underway
from edged.errors import Conflict, EdgedError, ErrorCode
from edged.protocol import messages
from edged.protocol.jsonrpc import (
    ErrorReply,
    Notification,
    Request,
    VerbatimText,
    encode,
    encode_long,
)
from edged.surfaces.mcp.error_codes import error_reply
from edged.surfaces.mcp.methods import AnsweredError, Handler, Method, MethodExtension, Parts
from edged.surfaces.mcp.post import PendingCall, Served
from edged.surfaces.mcp.sessions import Session
from edged.surfaces.visa.desk import VisaDesk
from edged.surfaces.visa.session import PERMISSION, VisaSession
from edged.surfaces.visa.status import entry_of

MAX_OPEN: Final = 64
"""Units that one client may have open at once."""
MAX_COUNT: Final = 64 * 1024 * 1024
MAX_TEXT_CHARS: Final = 2_048
"""Of a name or an id; what a program sends to its unit is bounded where it is read."""
LONGEST_WAIT_S: Final = 1.0
WHOLE: Final = 1_048_576
"""Bytes of an answer that goes back with its question; what is longer is read in pieces."""


IN_TIME_OR_NOT: Final = Outcome(status=OutcomeStatus.OK)


def list_units(desk: VisaDesk, _parts: Parts, _call: PendingCall) -> bytes:
    """The units that can be opened, by all their names."""
    return encode({"units": [asdict(unit) for unit in desk.units()]})


async def open_unit(desk: VisaDesk, parts: Parts, call: PendingCall) -> bytes:
    """Open a unit; the number names it in this session of MCP."""
    await parts.first_look.wait()
    request, session = call.request, _whose(call)
    resource, program = _text(request, "resource"), _text(request, "program", "")
    try:
        if len(session.visa) >= MAX_OPEN:
            raise Conflict(f"{MAX_OPEN} units are open here already.", code=ErrorCode.BUSY)
        opened = desk.open(resource, program=program or session.client, caller=call.post.caller)
    except EdgedError as refused:
        raise _refused(call, refused) from refused
    session.visa_count += 1
    session.visa[session.visa_count] = opened
    opened.came_by(call.post.wire.connection)
    unit = opened.instrument
    return encode(
        {
            "session": session.visa_count,
            "name": unit.called,
            "instrument_id": unit.id,
            "address": unit.address,
            "read_termination": unit.connection.read_termination or "\n",
        }
    )


def write(_parts: Parts, call: PendingCall) -> Served:
    """Take bytes of a program; the answer comes with it where it is there soon."""
    visa, request = _opened(call), call.request
    data, is_end = _bytes(request), request.params.get("end", True) is True
    wait_s = min(LONGEST_WAIT_S, _seconds(request, "wait_ms", 0.0))
    try:
        left = visa.begin_write(data, is_end=is_end)
    except EdgedError as refused:
        raise _refused(call, refused) from refused
    visa.came_by(call.post.wire.connection)
    if left is not None:
        return _written(call, visa, left, len(data), wait_s)
    if wait_s and visa.is_asking:
        return _Soon(call, visa, len(data), wait_s)
    return _what_came(visa, len(data))


async def _written(
    call: PendingCall,
    visa: VisaSession,
    left: Coroutine[Any, Any, None],
    count: int,
    wait_s: float,
) -> bytes:
    try:
        await left
    except EdgedError as refused:
        raise _refused(call, refused) from refused
    if wait_s and visa.is_asking:
        await visa.wait_answered(wait_s)
    return _what_came(visa, count)


class _Soon(Underway):
    """A question's request, kept open for a moment in which its answer may come."""

    def __init__(self, call: PendingCall, visa: VisaSession, count: int, wait_s: float) -> None:
        self._call = call
        call.make_answer = lambda *_: _what_came(visa, count)
        self._is_over = False
        visa.tell_within(wait_s, self._over)

    def cancel(self, _cause: Cause) -> None:
        """The call was ended; the question goes on."""
        self._over(None)

    def _over(self, outcome: Outcome | None = IN_TIME_OR_NOT) -> None:
        if not self._is_over:
            self._is_over = True
            self._call.post.surroundings.settled(self._call, outcome)


def _what_came(visa: VisaSession, count: int) -> bytes:
    told: dict[str, Any] = {"count": count, "asking": visa.is_asking or visa.is_answered}
    answer = visa.peek(WHOLE)
    return encode_long(told if answer is None else {**told, **_told(answer)})


async def read(_parts: Parts, call: PendingCall) -> bytes:
    """The next bytes of the answer, when it is there."""
    visa, request = _opened(call), call.request
    count = request.params.get("count", WHOLE)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= MAX_COUNT:
        raise messages.wrong_params(request, "count is a number of bytes, 1 or more.")
    try:
        piece, is_last = await visa.read(min(count, WHOLE), visa.timeout_s)
    except EdgedError as failed:
        raise _refused(call, failed) from failed
    return encode_long({**_told(piece), "end": is_last})


async def status_byte(_parts: Parts, call: PendingCall) -> bytes:
    """The status byte."""
    return encode({"stb": await _opened(call).read_stb()})


async def clear(_parts: Parts, call: PendingCall) -> bytes:
    """Device clear."""
    await _opened(call).clear()
    return NOTHING


async def trigger(_parts: Parts, call: PendingCall) -> bytes:
    """Group execute trigger."""
    try:
        await _opened(call).trigger()
    except EdgedError as refused:
        raise _refused(call, refused) from refused
    return NOTHING


async def lock(_parts: Parts, call: PendingCall) -> bytes:
    """Have the unit alone, for a minute."""
    visa = _opened(call)
    shared = _text(call.request, "lease_id", "")
    wait_s = _seconds(call.request, "wait_ms", 0.0)
    try:
        lease_id = await visa.lock(wait_s, lease_id=shared)
    except EdgedError as refused:
        raise _refused(call, refused) from refused
    return encode({"lease_id": lease_id})


async def renew(_parts: Parts, call: PendingCall) -> bytes:
    """Another minute."""
    try:
        await _opened(call).renew_lock()
    except EdgedError as refused:
        raise _refused(call, refused) from refused
    return NOTHING


async def unlock(_parts: Parts, call: PendingCall) -> bytes:
    """Give it back."""
    await _opened(call).unlock()
    return NOTHING


async def close(_parts: Parts, call: PendingCall) -> bytes:
    """The program is done with the unit."""
    visa, session = _opened(call), _whose(call)
    del session.visa[call.request.params["session"]]
    await visa.close()
    return NOTHING


def taken(session: Session | None, notification: Notification) -> None:
    """The program has read the answer that went back with its question."""
    number = notification.params.get("session")
    visa = session.visa.get(number) if session is not None and isinstance(number, int) else None
    if isinstance(visa, VisaSession):
        visa.taken()


NOTHING: Final = encode({})


def _whose(call: PendingCall) -> Session:
    session = call.post.session
    if session is None:
        raise AssertionError("admitted without a session")
    return session


def _opened(call: PendingCall) -> VisaSession:
    """The VISA session that is meant, as of this very request."""
    request, session = call.request, _whose(call)
    number = request.params.get("session")
    visa = session.visa.get(number) if type(number) is int else None
    if not isinstance(visa, VisaSession):
        raise messages.wrong_params(request, "session is not open; open it again.")
    visa.come_as(call.post.caller)
    if request.params.get("taken") is True:
        visa.taken()
    if "timeout_ms" in request.params:
        visa.timeout_s = _seconds(request, "timeout_ms", math.inf)
    return visa


def _bytes(request: Request) -> bytes:
    text, coded = request.params.get("text"), request.params.get("hex")
    try:
        if isinstance(text, str) and coded is None:
            return text.encode("ascii")
        if isinstance(coded, str) and text is None:
            return bytes.fromhex(coded)
    except ValueError:
        pass
    raise messages.wrong_params(request, "The bytes stand in text (ASCII) or in hex.")


def _told(data: bytes) -> dict[str, str]:
    if data.isascii():
        return {"text": data.decode("ascii")}
    return {"hex": VerbatimText(data.hex())}


def _seconds(request: Request, name: str, missing: float) -> float:
    """A time in milliseconds; null is as long as it takes."""
    value = request.params.get(name)
    if value is None:
        return missing
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise messages.wrong_params(request, f"{name} is a number of milliseconds, 0 or more.")
    return value / 1000


def _text(request: Request, name: str, missing: str | None = None) -> str:
    value = request.params.get(name, missing)
    if not isinstance(value, str) or len(value) > MAX_TEXT_CHARS:
        limit = f"at most {MAX_TEXT_CHARS} characters"
        raise messages.wrong_params(request, f"{name} is a text of {limit}.")
    return value


def _refused(call: PendingCall, error: EdgedError) -> AnsweredError:
    """The error that stands in the program's own queue too."""
    reply = error_reply(error, call.request.id)
    data = {**error.data, "code": error.code.value, "scpi": entry_of(error).number}
    data.pop("trace", None)
    return AnsweredError(
        ErrorReply(
            request_id=reply.request_id, rpc_code=reply.rpc_code, message=str(error), data=data
        )
    )


VISA_METHODS: Final[Mapping[str, Handler]] = MappingProxyType(
    {
        "edged/visa.write": write,
        "edged/visa.read": read,
        "edged/visa.stb": status_byte,
        "edged/visa.clear": clear,
        "edged/visa.trigger": trigger,
        "edged/visa.lock": lock,
        "edged/visa.renew": renew,
        "edged/visa.unlock": unlock,
        "edged/visa.close": close,
    }
)


def visa_extension(desk: VisaDesk) -> MethodExtension:
    """The methods, over what opens units."""
    opening: dict[str, Handler] = {
        "edged/visa.list": partial(list_units, desk),
        "edged/visa.open": partial(open_unit, desk),
    }

    def leave(opened: Iterable[object]) -> None:
        desk.leave(one for one in opened if isinstance(one, VisaSession))

    return MethodExtension(
        methods={
            name: Method(handler, PERMISSION)
            for name, handler in {**opening, **VISA_METHODS}.items()
        },
        notifications={"notifications/edged/visa.taken": taken},
        leave=leave,
    )
