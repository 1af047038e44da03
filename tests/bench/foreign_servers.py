"""Instrument servers and simulators that others wrote, started as their own pages say.

Those of PyPI have an environment of their own (``tests/clients/requirements-instruments.txt``);
rigctld is Debian's ``libhamlib-utils``. What each is told stands in ``FOREIGN``, written from the
server's own commands as a newcomer would write it from a manual.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.engine_process import REPOSITORY
from tests.bench.waiting import HANGS_S

PROGRAMS = REPOSITORY / ".venv-clients" / "instruments" / "bin"
WITHIN_S = 30.0


@dataclass(frozen=True, kw_only=True)
class ForeignServer:
    """One of them.

    Attributes:
        program: what is started; ``{port}`` and ``{folder}`` are put in.
        device: of sinstruments: class and package.
        is_serial: it is on a pty that it makes itself; else on TCP.
        ask: what its owner gives by ``--ask``; empty: it answers ``*IDN?``.
        key: the profile_key that its draft gets; of one that is asked, the page's.
        acknowledge: the pattern of what it answers to what it is told.
        commands: the profile from ``commands:`` on.
        measured: command and what its answer holds.
        told: command with arguments that it takes.
        refused: command with arguments that are over a limit.
    """

    program: tuple[str, ...]
    device: tuple[str, str] = ("", "")
    is_serial: bool = False
    ask: str = ""
    key: str = "my_bath"
    acknowledge: str = ""
    commands: str
    measured: tuple[str, str]
    told: str
    refused: str


def commands(measure: str, setter: str, limits: str, *, more: str = "") -> str:
    """The two commands that every bench begins with."""
    return f"""\
commands:
  measure:
    description: Read what there is.
    essential: true
    {measure}
  set_point:
    description: Set what is wanted.
    essential: true
    scpi: "{setter}"
    parameters: {{value: {{{limits}}}}}
{more}"""


SINSTRUMENTS = ("sinstruments-server", "-c", "{folder}/devices.yaml")
FOREIGN = {
    # SCPI, with the header of the question before every answer, and NACK to what it does not know.
    "gepace": ForeignServer(
        program=SINSTRUMENTS,
        device=("Pace", "gepace.simulator"),
        key="ge_pace5000",
        commands=commands(
            'scpi: ":SENS1:PRES?"\n    returns: {fields: [{name: pressure, type: float, '
            "pattern: '^[:A-Z0-9]{1,40} ([0-9.]{1,20})$'}]}",
            ":SOUR1:PRES:LEV:IMM:AMPL {value:.2f}",
            "type: float, min: 0, max: 50, unit: bar",
        ),
        measured=("measure", "pressure"),
        told="set_point value=12",
        refused="set_point value=60",
    ),
    "scpipy": ForeignServer(
        program=("python", str(REPOSITORY / "tests/clients/scpipy_source.py"), "{port}"),
        key="scpipy_bench_source",
        commands='abort: [{send: "SOUR:VOLT 0", ask: "SOUR:VOLT?", expect: "^0"}]\n'
        + commands(
            'scpi: "MEAS:VOLT?"\n    returns: {type: float, unit: V}',
            "SOUR:VOLT {value:.3f}",
            "type: float, min: 0, max: 30, unit: V",
            more='    verify: {query: "SOUR:VOLT?", tolerance: 0.001}\n',
        ),
        measured=("measure", "2.4975"),
        told="set_point value=2.5",
        refused="set_point value=31",
    ),
    # Ends the connection at a line that it cannot read, such as *CLS.
    "julabo-sinstruments": ForeignServer(
        program=SINSTRUMENTS,
        device=("JulaboCF", "julabo.simulator"),
        ask="VERSION",
        commands=commands(
            'scpi: "IN_PV_00"\n    is_query: true\n    returns: {type: float, unit: °C}',
            "OUT_SP_00 {value:.2f}",
            "type: float, min: -40, max: 150, unit: °C",
            more='    verify: {query: {ask: "IN_SP_00"}, tolerance: 0.01}\n',
        ),
        measured=("measure", "29.45"),
        told="set_point value=25",
        refused="set_point value=160",
    ),
    "vacuubrand-serial": ForeignServer(
        program=SINSTRUMENTS,
        device=("DCP3000", "vacuubrand.simulator"),
        is_serial=True,
        ask="IN_VER",
        commands=commands(
            'scpi: "IN_PV_1"\n    is_query: true\n    returns: {type: si, unit: mbar}',
            "OUT_SP_11 {value:.1f}",
            "type: float, min: 1, max: 1000, unit: mbar",
        ),
        measured=("measure", "1004.1"),
        told="set_point value=100",
        refused="set_point value=1001",
    ),
    # Answers bytes above 0x7f, and what it is told by b'' as it stands.
    "linkam-lewis": ForeignServer(
        program=("lewis", "linkam_t95", "-p", "stream: {{bind_address: 127.0.0.1, port: {port}}}"),
        ask="T",
        acknowledge="^b..$",
        commands=commands(
            'scpi: "T"\n    is_query: true\n    returns: {fields: [{name: temperature, type: hex, '
            "pattern: '^.{6}([0-9a-f]{4})$', scale: value / 10, unit: °C}]}",
            "R1{value}",
            'type: int, min: 1, max: 15000, unit: ""',
        ),
        measured=("measure", "24"),
        told="set_point value=2000",
        refused="set_point value=15001",
    ),
    "julabo-lewis": ForeignServer(
        program=(
            "lewis", "julabo", "-p",
            "julabo-version-1: {{bind_address: 127.0.0.1, port: {port}}}",
        ),
        ask="VERSION",
        commands=commands(
            'scpi: "IN_PV_00"\n    is_query: true\n    returns: {type: float, unit: °C}',
            "OUT_SP_00 {value:.2f}",
            "type: float, min: -40, max: 80, unit: °C",
            more='    verify: {query: {ask: "IN_SP_00"}, tolerance: 0.01}\n',
        ),
        measured=("measure", "."),
        told="set_point value=25",
        refused="set_point value=160",
    ),
    # Says what it was told as its acknowledgement.
    "motor-lewis": ForeignServer(
        program=(
            "lewis", "-k", "lewis.examples", "example_motor", "-p",
            "stream: {{bind_address: 127.0.0.1, port: {port}}}",
        ),
        ask="S?",
        acknowledge="^T=[0-9.]+$",
        commands=commands(
            'scpi: "P?"\n    returns: {type: float, unit: mm}',
            "T={value:.1f}",
            "type: float, min: 0, max: 250, unit: mm",
            more='    verify: {query: "T?", tolerance: 0.1}\n',
        ),
        measured=("measure", "mm"),
        told="set_point value=10",
        refused="set_point value=251",
    ),
    # One letter is a command: it reads *IDN? as three, one of which sets something.
    "rigctld": ForeignServer(
        program=("rigctld", "-m", "1", "-T", "127.0.0.1", "-t", "{port}"),
        ask="_",
        acknowledge="^RPRT 0$",
        commands=commands(
            'scpi: "f"\n    is_query: true\n    returns: {type: int, unit: Hz}',
            "F {value}",
            "type: int, min: 1000000, max: 150000000, unit: Hz",
            more='    verify: {query: {ask: "f"}, parameter: value}\n',
        ),
        measured=("measure", "7000000"),
        told="set_point value=7000000",
        refused="set_point value=150000001",
    ),
}  # fmt: skip


@contextlib.contextmanager
def running(server: ForeignServer, folder: Path) -> Iterator[str]:
    """The server at work in a folder of its own, until the context ends; its VISA address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    place = str(folder / "line") if server.is_serial else f"127.0.0.1:{port}"
    name, package = server.device
    kind = "serial" if server.is_serial else "tcp"
    transport = {"type": kind, "url": place}
    device = {"class": name, "package": package, "name": name, "transports": [transport]}
    (folder / "devices.yaml").write_text(json.dumps({"devices": [device]}))
    program, *words = [word.format(port=port, folder=folder) for word in server.program]
    found = shutil.which(program, path=f"{PROGRAMS}:/usr/bin")
    assert found, f"{program} is not installed: make conformance, or apt install libhamlib-utils"
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [found, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        _wait(Path(place) if server.is_serial else None, int(port), process)
        yield f"ASRL{place}::INSTR" if server.is_serial else f"TCPIP::127.0.0.1::{port}::SOCKET"
    finally:
        process.terminate()
        try:
            process.wait(HANGS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(path: Path | None, port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended by itself"
        if path is not None and path.exists():
            return
        with socket.socket() as line:
            if path is None and line.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)  # noqa: TID251 - others' programs tell nobody when they are ready
    raise AssertionError("the server does not listen")
