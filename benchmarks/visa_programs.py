"""What a query of a PyVISA program costs through ``@edged`` and HiSLIP, beside an MCP call.

An instrument on a loopback socket that answers at once, the simulated oscilloscope, and a real
engine in a process of its own. In each round, by turns: the bare exchange on a socket, an MCP call,
a query of each road. What counts is the median that a road adds to the bare exchange, as a multiple
of what the MCP call adds; and the rate of waveforms of 4,096 points of the oscilloscope, as a share
of pyvisa-py's own. From the instrument that takes no time at all the same is told without a bound.
``ROADS`` has a row for each road by which programs come.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyvisa

from benchmarks.compare.clients import Line, call
from benchmarks.compare.servers import Server, simulator
from benchmarks.figures import Figure, parse_json_flag, tell
from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process

ROUNDS: Final = 7
QUERIES: Final = 400
WAVEFORMS: Final = 60
WARM: Final = 100
POINTS: Final = 4_096
WAVE: Final = b"#4" + str(2 * POINTS).encode() + bytes(range(256)) * (2 * POINTS // 256) + b"\n"
PROFILE: Final = """
format: 1
profile_key: acme_quick
version: 1
manufacturer: ACME
model: PSU1
instrument_class: oscilloscope
source: made for a benchmark
match: {idn: 'acme,psu1'}
connection: {errors: {kind: queue, query: "SYST:ERR?"}}
commands:
  get_voltage: {scpi: "VOLT?", returns: {type: float}}
  capture:
    returns:
      waveform: {data: "WAVE?", dtype: i2, byte_order: little, x_increment: 1, scale: "value"}
"""

SETUP: Final = (
    ":STOP",
    ":WAV:SOUR CHAN1",
    ":WAV:MODE RAW",
    ":WAV:FORM BYTE",
    ":WAV:STAR 1",
    f":WAV:STOP {POINTS}",
)
Open = Callable[[EngineProcess, str], contextlib.AbstractContextManager[Any]]


@contextlib.contextmanager
def at_edged(engine: EngineProcess, name: str) -> Iterator[Any]:
    """A unit through ``@edged``."""
    rm = pyvisa.ResourceManager(f"{engine.mcp_url}@edged")
    with contextlib.closing(rm):
        yield rm.open_resource(name, read_termination="\n")


@contextlib.contextmanager
def at_itself(address: str) -> Iterator[Any]:
    """A unit by pyvisa-py alone."""
    rm = pyvisa.ResourceManager("@py")
    with contextlib.closing(rm):
        yield rm.open_resource(address, read_termination="\n")


@contextlib.contextmanager
def at_hislip(engine: EngineProcess, name: str) -> Iterator[Any]:
    """A unit by pyvisa-py's own client at the HiSLIP server."""
    rm = pyvisa.ResourceManager("@py")
    address = f"TCPIP::127.0.0.1::hislip_{name},{engine.ports['hislip_port']}::INSTR"
    with contextlib.closing(rm):
        yield rm.open_resource(address, read_termination="\n")


ROADS: Final[dict[str, tuple[Open, float]]] = {
    "@edged": (at_edged, 1.3),
    "HiSLIP server": (at_hislip, 1.0),
}
"""Name → what opens the unit by it, and what its query may add, in MCP calls."""
LEAST_RATE: Final = 0.5


def main() -> int:
    as_json = parse_json_flag(__doc__)
    with (
        _instrument() as port,
        simulator("--instruments", "scope1=rigol_ds1054z") as bench,
        tempfile.TemporaryDirectory() as place,
    ):
        directory = Path(place)
        (directory / "profiles").mkdir()
        (directory / "profiles" / "acme_quick.yaml").write_text(PROFILE)
        quick = f"TCPIP::127.0.0.1::{port}::SOCKET"
        scope = f"TCPIP::127.0.0.1::{bench.instruments[0]['port']}::SOCKET"
        config = {
            "VISA_SERVER": ["hislip"],
            "HISLIP_PORT": 0,
            "PROFILE_DIRS": [str(REPOSITORY / "profiles"), str(directory / "profiles")],
            "INSTRUMENTS": [
                {"address": quick, "name": "psu1"},
                {"address": scope, "name": "scope1"},
            ],
        }
        with engine_process(directory, sim=False, config=config) as engine:
            figures = []
            for name, (make, bound) in ROADS.items():
                figures += _queries(engine, port, name, make, bound)
                figures += _waveforms(engine, scope, name, make, ("scope1", ":WAV:DATA?", "B"))
                figures += _waveforms(engine, quick, name, make, ("psu1", "WAVE?", "h"))
    return tell("programs that know VISA", figures, as_json=as_json)


def _queries(engine: EngineProcess, port: int, name: str, make: Open, bound: float) -> list[Figure]:
    asked = call("execute_command", {"instrument_id": "psu1", "command_name": "get_voltage"})
    server = Server(name="edged", port=engine.ports["mcp_port"], pid=engine.process.pid)
    with (
        contextlib.closing(Line(server)) as line,
        socket.create_connection(("127.0.0.1", port)) as bare,
        bare.makefile("rb") as answers,
        make(engine, "psu1") as unit,
    ):

        def exchange() -> None:
            bare.sendall(b"VOLT?\n")
            answers.readline()

        works: dict[str, Callable[[], Any]] = {
            "bare": exchange,
            "mcp": lambda: line.post(asked),
            "visa": lambda: unit.query("VOLT?"),
        }
        times = _by_turns(works, QUERIES)
    added = {key: times[key] - times["bare"] for key in ("mcp", "visa")}
    return [
        Figure(name="bare exchange: median", value=times["bare"] * 1e6, unit="us"),
        Figure(name="MCP call: median added", value=added["mcp"] * 1e6, unit="us"),
        Figure(name=f"{name}: median added by a query", value=added["visa"] * 1e6, unit="us"),
        Figure(
            name=f"{name}: the same, in MCP calls",
            value=added["visa"] / added["mcp"],
            unit="x",
            bound=bound,
        ),
    ]


def _waveforms(
    engine: EngineProcess, address: str, name: str, make: Open, asked: tuple[str, str, str]
) -> list[Figure]:
    alias, question, datatype = asked
    with at_itself(address) as bare, make(engine, alias) as unit:
        if alias == "scope1":
            for line in SETUP:
                unit.write(line)

        def capture(by: Any) -> Any:
            return by.query_binary_values(question, datatype=datatype)

        assert len(capture(unit)) == len(capture(bare)) == POINTS
        works = {"bare": partial(capture, bare), "visa": partial(capture, unit)}
        times = _by_turns(works, WAVEFORMS)
    return [
        Figure(name=f"{alias}, 4,096 points: pyvisa-py", value=times["bare"] * 1e6, unit="us"),
        Figure(name=f"{alias}, 4,096 points: {name}", value=times["visa"] * 1e6, unit="us"),
        Figure(
            name=f"{alias}: the same, in pyvisa-py's",
            value=times["visa"] / times["bare"],
            unit="x",
            bound=1 / LEAST_RATE if alias == "scope1" else None,
        ),
    ]


def _by_turns(works: Mapping[str, Callable[[], Any]], count: int) -> dict[str, float]:
    """The median time of each, in seconds; all of them are done in each round."""
    medians: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        for _ in range(WARM):
            work()
    for _ in range(ROUNDS):
        for name, work in works.items():
            medians[name].append(statistics.median(_times(work, count)))
    return {name: statistics.median(found) for name, found in medians.items()}


def _times(work: Callable[[], Any], count: int) -> Iterator[float]:
    for _ in range(count):
        began = time.perf_counter()
        work()
        yield time.perf_counter() - began


@contextlib.contextmanager
def _instrument() -> Iterator[int]:
    """An instrument in a process of its own; gives its port."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


def _serve(told: Any) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    told.send(listening.getsockname()[1])
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answers = {b"*IDN?": b"ACME,PSU1,A001,1.0\n", b"WAVE?": WAVE, b"SYST:ERR?": b'0,"No error"\n'}
    for line in connection.makefile("rb"):
        question = line.strip()
        if question.endswith(b"?"):
            connection.sendall(answers.get(question, b"1.25\n"))


if __name__ == "__main__":
    raise SystemExit(main())
