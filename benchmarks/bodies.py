"""The longest that one request body of up to 4 MiB blocks the engine's event loop.

A real engine on a simulated supply. Every body is posted to the MCP endpoint and to the RPC
interface, and another connection asks ``/alive`` as often as it is answered meanwhile. What counts
is the processor time that the loop's thread spent while one such question waited (Linux; elsewhere
the time that passed), so that other programs of the machine do not count; and of some tries the
best.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure, parse_json_flag, tell
from edged.protocol.jsonrpc import MAX_BODY_BYTES
from tests.bench.engine_process import EngineProcess, engine_process

TRIES: Final = 4
MOST_MS: Final = 50.0
"""docs/promises.md section 3."""
HEAD: Final = (
    "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    "Accept: application/json, text/event-stream\r\nConnection: close\r\n{more}\r\n"
)


def main() -> int:
    as_json = parse_json_flag(__doc__)
    figures = []
    with (
        tempfile.TemporaryDirectory() as directory,
        engine_process(Path(directory), "--instruments", "psu1=rigol_dp832") as engine,
    ):
        for name, wire in _requests():
            blocked = min(_blocked_ms(engine, wire) for _ in range(TRIES))
            figures.append(Figure(name=name, value=blocked, unit="ms", bound=MOST_MS))
    return tell("one body blocks the loop", figures, as_json=as_json)


def _blocked_ms(engine: EngineProcess, wire: Mapping[str, bytes]) -> float:
    """What the loop spent at most while a look at ``/alive`` waited, in milliseconds."""
    found = [0.0]
    is_over = threading.Event()

    def look() -> None:
        with socket.create_connection(("127.0.0.1", engine.ports["rpc_port"]), 60) as line:
            while not is_over.is_set():
                began = _spent_ms(engine)
                line.sendall(b"GET /alive HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                if not line.recv(4096):
                    raise ConnectionError("The engine closed the connection.")
                found.append(_spent_ms(engine) - began)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        _send(engine, wire)
    finally:
        is_over.set()
        looking.join()
    return max(found)


def _spent_ms(engine: EngineProcess) -> float:
    """Processor time of the thread of the event loop, which is the process's first."""
    if sys.platform != "linux":
        return time.perf_counter() * 1000
    pid = engine.process.pid
    times = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="ascii")
    return int(times.split()[0]) / 1_000_000


def _send(engine: EngineProcess, wire: Mapping[str, bytes]) -> None:
    """Post it to every port that it is for, and read the whole answer."""
    for port, data in wire.items():
        with socket.create_connection(("127.0.0.1", engine.ports[port]), 60) as line:
            sending = threading.Thread(target=_push, args=(line, data))
            sending.start()
            # An answer may come, and the connection end, before all is sent.
            with contextlib.suppress(ConnectionError):
                while line.recv(1 << 16):
                    pass
            sending.join()


def _push(line: socket.socket, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        line.sendall(data)


def _requests() -> Iterator[tuple[str, Mapping[str, bytes]]]:
    """Each case: its name, and the bytes for each port."""
    for name, body in _bodies():
        assert len(body) <= MAX_BODY_BYTES, name
        more = f"Content-Length: {len(body)}\r\n"
        if body.startswith(b"[{"):
            more += "MCP-Protocol-Version: 2025-03-26\r\n"  # The only revision with batches.
        yield (
            name,
            {
                "mcp_port": HEAD.format(path="/mcp", more=more).encode() + body,
                "rpc_port": HEAD.format(path="/rpc", more=more).encode() + body,
            },
        )
    one_by_one = b"".join(b"1\r\n%c\r\n" % byte for byte in b"[" + b"1," * 340_000)
    head = HEAD.format(path="/mcp", more="Transfer-Encoding: chunked\r\n").encode()
    yield "a body in chunks of one byte", {"mcp_port": head + one_by_one + b"0\r\n\r\n"}


UNKNOWN: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_command","arguments":'
    b'{"instrument_id":"psu1","command_name":"get_output_overcurrent_protectio"}}}'
)
FIFTEEN: Final = b'{"instruments":[' + b",".join([b'"unknown_instrument"'] * 15) + b"]}"
NAME: Final = b'"' + b"x" * 65_536 + b'"'
ROOM: Final = MAX_BODY_BYTES - 400
"""For the members around what is long."""


def _bodies() -> Iterator[tuple[str, bytes]]:
    for name, (tool, arguments) in _calls():
        yield name, _call(tool, arguments)
    yield "numbers", _filled(b"[", b"1", b"]")
    yield "members", _filled(b"{", *(b'"%d":1' % number for number in range(380_000)), end=b"}")
    yield "objects with a member each", _filled(b"[", b'{"a":1}', b"]")
    yield "lists in lists", _filled(b"[", b"[" * 60 + b"]" * 60, b"]")
    yield "short texts", _filled(b"[[", b'""', b"]]")
    yield "escaped quotes and brackets", b'{"a":"' + b'\\"[' * (ROOM // 3) + b'"}'
    yield "escaped letters", b'{"a":"' + b"\\ud83d\\ude00" * (ROOM // 12) + b'"}'
    yield "brackets without an end", b"[" * ROOM
    yield "1,000 messages", _batch(1_000, 3_900)
    unknown = _call("rigol_dp832__get_trigger_sourcee_of_output", b"{}")
    yield "1,000 unknown tools", b"[" + b",".join([unknown] * 1_000) + b"]"
    yield "1,000 unknown commands", b"[" + b",".join([UNKNOWN] * 1_000) + b"]"
    yield (
        "1,000 reservations of 15 names",
        b"[" + b",".join([_call("bench__reserve", FIFTEEN)] * 1_000) + b"]",
    )
    yield "a long method", b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * ROOM + b'"}'
    yield "a long id", b'{"jsonrpc":"2.0","id":"' + b"x" * ROOM + b'","method":"ping"}'
    yield (
        "texts that are to be watched",
        b'{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":'
        b'{"resourceSubscriptions":' + _filled(b"[", b'"edged://a"', b"]", room=ROOM - 99) + b"}}}",
    )
    yield (
        "a reference that is an object",
        b'{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"argument":{},"ref":'
        b'{"type":' + _filled(b"[", b'"\\u0000"', b"]", room=ROOM - 99) + b"}}}",
    )


def _calls() -> Iterator[tuple[str, tuple[str, bytes]]]:
    """Tool calls: the tool, and its arguments."""
    names = _filled(b"[", *(b'"unit%d"' % number for number in range(300_000)), end=b"]")
    few = _filled(b"[", *(b'"unit%d"' % number for number in range(18_000)), end=b"]")
    measures = b'{"instrument_id":"psu1","command_name":"measure_voltage","nothing":1}'
    given = _filled(b"{", *(b'"p%d":1' % number for number in range(200_000)), end=b"}")
    fewer = _filled(b"{", *(b'"p%d":1' % number for number in range(18_000)), end=b"}")
    texts = _filled(b"[", *itertools.repeat(b'"' + b"\\u0000" * 10_000 + b'"', 60), end=b"]")
    long = b'"' + b"\\u0000" * (ROOM // 6) + b'"'
    sweep = b'{"instrument_id":"psu1","command_name":"set_voltage","target_value":1,"sweep_rate":1,'
    aimed = b'{"instrument_id":"psu1","command_name":"set_voltage","parameters":'
    yield "bench__reserve, 300,000 names", ("bench__reserve", b'{"instruments":' + names + b"}")
    yield "bench__reserve, 18,000 names", ("bench__reserve", b'{"instruments":' + few + b"}")
    yield "bench__reserve, a long name", ("bench__reserve", b'{"instruments":' + long + b"}")
    yield "bench__reserve, long texts", ("bench__reserve", b'{"instruments":' + texts + b"}")
    yield (
        "bench__reserve, a list as purpose",
        ("bench__reserve", b'{"instruments":"psu1","purpose":' + texts + b"}"),
    )
    yield (
        "start_sweep, 60,000 measures",
        ("start_sweep", sweep + b'"measure":' + _filled(b"[", measures, b"]") + b"}"),
    )
    yield (
        "start_sweep, 4,000 measures",
        ("start_sweep", sweep + b'"measure":' + _filled(b"[", measures, b"]", most=4_000) + b"}"),
    )
    yield "execute_command, 200,000 parameters", ("execute_command", aimed + given + b"}")
    yield "execute_command, 18,000 parameters", ("execute_command", aimed + fewer + b"}")
    yield (
        "execute_command, a long text",
        ("execute_command", aimed + b'{"channel":' + long + b"}}"),
    )
    yield "execute_command, a long list", ("execute_command", aimed + texts + b"}")
    yield "bench__plot, 700,000 columns", ("bench__plot", b'{"run_id":"x","y":' + names + b"}")
    yield "bench__plot, 18,000 columns", ("bench__plot", b'{"run_id":"x","y":' + few + b"}")
    yield "bench__find_tools, a long question", ("bench__find_tools", b'{"query":' + long + b"}")
    yield (
        "send_scpi, a long line",
        ("send_scpi", b'{"instrument_id":"psu1","scpi_command":' + long + b"}"),
    )
    yield "get_status, 18,000 arguments", ("get_status", fewer)
    yield "get_capabilities, a long name", ("get_capabilities", b'{"instrument_id":' + NAME + b"}")
    yield "a long name of a tool", ("x" * ROOM, b"{}")


def _filled(
    start: bytes, *items: bytes, end: bytes = b"", room: int = ROOM, most: int = MAX_BODY_BYTES
) -> bytes:
    """The items between ``start`` and ``end``, separated by commas, up to the size of a body.

    With two items and no end, the first is repeated and the second is the end.
    """
    if not end:
        one, end = items
        items = (one,) * min(most, (room - len(start) - len(end)) // (len(one) + 1))
    room -= len(start) + len(end)
    kept = []
    for item in items:
        room -= len(item) + 1
        if room < 0:
            break
        kept.append(item)
    return start + b",".join(kept) + end


def _call(tool: str, arguments: bytes) -> bytes:
    head = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":'
    return head % tool[: ROOM - len(arguments)].encode() + arguments + b"}}"


def _batch(count: int, size: int) -> bytes:
    one = _call("list_instruments", b'{"filter":"' + b"x" * size + b'"}')
    return b"[" + b",".join([one] * count) + b"]"


if __name__ == "__main__":
    raise SystemExit(main())
