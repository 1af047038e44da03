"""The control port: JSON-RPC 2.0 on loopback, one object a line, by which tests work the bench."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from edged.errors import EdgedError, Invalid
from edged_sim.bench import Bench, Order, introduce
from edged_sim.faults import make_fault
from edged_sim.wires.stream import LOOPBACK, SHOWN_BYTES, WireKind

LONGEST_LINE_BYTES: Final = 1024 * 1024
MOST_SHOWN: Final = 10_000

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
UNKNOWN_METHOD: Final = -32601
INVALID_PARAMS: Final = -32602

Params = Mapping[str, Any]
Method = Callable[[Bench, Params], Awaitable[object]]


class ControlPort:
    """Listens for orders to one bench."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0  # known once open

    async def open(self, port: int = 0) -> None:
        """Listen on loopback; raises OSError where the port is taken."""
        self._server = await asyncio.start_server(
            self._serve, LOOPBACK, port, limit=LONGEST_LINE_BYTES
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End everything."""
        if self._server is not None:
            self._server.close()
            self._server = None
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            # Reset by the peer, a line without end, the end of the bench: the connection is over.
            with contextlib.suppress(OSError, ValueError, asyncio.CancelledError):
                while line := await reader.readline():
                    reply = await answer(self._bench, line)
                    if reply is not None:
                        writer.write(json.dumps(reply).encode("ascii") + b"\n")
                        await writer.drain()
        finally:
            writer.close()


async def answer(bench: Bench, line: bytes) -> dict[str, object] | None:
    """The reply to one line; None for a notification."""
    try:
        request = json.loads(line)
    except ValueError:
        return _error(None, PARSE_ERROR, "The line is not JSON.")
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        return _error(None, INVALID_REQUEST, "The line is not a JSON-RPC request.")
    request_id = request.get("id")
    method = METHODS.get(request["method"])
    params = request.get("params", {})
    if method is None:
        return _error(
            request_id,
            UNKNOWN_METHOD,
            f"There is no method {request['method']!r}; there are {', '.join(METHODS)}.",
        )
    try:
        result = await method(bench, params if isinstance(params, dict) else {})
    except EdgedError as error:
        return _error(request_id, INVALID_PARAMS, str(error))
    if "id" not in request:
        return None
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _error(request_id: object, code: int, message: str) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def _text(params: Params, key: str, default: str | None = None) -> str:
    value = params.get(key, default)
    if not isinstance(value, str):
        raise Invalid(f"The parameter {key} must be a string.")
    return value


def _number(params: Params, key: str, default: float | None = None) -> float | None:
    value = params.get(key, default)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise Invalid(f"The parameter {key} must be a number.")
    return value


def _whole(params: Params, key: str, default: int) -> int:
    value = params.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"The parameter {key} must be a whole number.")
    return value


def _transport(params: Params) -> WireKind:
    text = _text(params, "transport", WireKind.SOCKET.value)
    if text not in {kind.value for kind in WireKind}:
        raise Invalid(f"{text!r} is no transport; there are {', '.join(WireKind)}.")
    return WireKind(text)


async def _fault(bench: Bench, params: Params) -> object:
    count = _number(params, "count")
    fault = make_fault(
        _text(params, "kind"), _number(params, "seconds"), None if count is None else int(count)
    )
    bench.apply(_text(params, "instrument"), fault)
    return {}


async def _clear(bench: Bench, params: Params) -> object:
    await bench.clear(_text(params, "instrument", ""))
    return {}


async def _state(bench: Bench, _params: Params) -> object:
    return bench.describe()


async def _log(bench: Bench, params: Params) -> object:
    since = _whole(params, "since", 0)
    limit = _whole(params, "limit", MOST_SHOWN)
    instrument = _text(params, "instrument", "")
    entries = bench.log.entries(instrument=instrument, since=since, limit=max(1, limit))
    return {
        "entries": [entry.as_json(most_bytes=SHOWN_BYTES) for entry in entries],
        "next": entries[-1].seq if entries else since,
        "last": bench.log.last,
    }


async def _add(bench: Bench, params: Params) -> object:
    order = Order(
        name=_text(params, "name"),
        model=_text(params, "model"),
        serial=_text(params, "serial", ""),
        port=_whole(params, "port", 0),
        latency_ms=_number(params, "latency_ms"),
        is_single_session=params.get("single_session") is True,
        transport=_transport(params),
        profile=_text(params, "profile", ""),
        at=_text(params, "at", LOOPBACK),
    )
    return introduce(await bench.add(order))


async def _remove(bench: Bench, params: Params) -> object:
    await bench.remove(_text(params, "name"))
    return {}


async def _power_cycle(bench: Bench, params: Params) -> object:
    await bench.station(_text(params, "instrument")).power_cycle()
    return {}


async def _say(bench: Bench, params: Params) -> object:
    await bench.station(_text(params, "instrument")).say(
        _text(params, "text").encode("latin-1", "replace")
    )
    return {}


async def _push_error(bench: Bench, params: Params) -> object:
    station = bench.station(_text(params, "instrument"))
    station.instrument.status.push(_whole(params, "code", -300), _text(params, "text", ""))
    return {}


async def _load(bench: Bench, params: Params) -> object:
    ohms = _number(params, "ohms")
    if ohms is None or not 1e-3 <= ohms <= 1e9:
        raise Invalid("The parameter ohms must be from 0.001 to 1e9.")
    bench.change_load(ohms)
    return {}


async def _transistor(bench: Bench, params: Params) -> object:
    bench.connect_transistor(_text(params, "gate"), _text(params, "drain"))
    return {}


METHODS: Final[Mapping[str, Method]] = MappingProxyType(
    {
        "fault": _fault,  # {instrument, kind, seconds?, count?}
        "clear": _clear,  # {instrument?}
        "state": _state,  # {}
        "log": _log,  # {instrument?, since?, limit?}
        # {name, model, serial?, port?, latency_ms?, single_session?, transport?, at?, profile?}
        "add": _add,
        "remove": _remove,  # {name}
        "power_cycle": _power_cycle,  # {instrument}: switched off and on
        "say": _say,  # {instrument, text}: bytes that nobody asked for
        "push_error": _push_error,  # {instrument, code?, text?}: as if from the front panel
        "load": _load,  # {ohms}
        "transistor": _transistor,  # {gate, drain}: instruments
    }
)
