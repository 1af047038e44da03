"""Instruments that the owner configured and that are not there: named, each with its reason."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edged.cli.instruments import absent_lines
from tests.bench.engine import Engine
from tests.bench.engine_process import engine_process
from tests.bench.waiting import wait_for
from tests.flows.test_cli_with_engine import as_json, edged
from tests.promises import promise


class Port:
    """A port on loopback: silent, or with a unit behind it that tells its name."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"TCPIP::127.0.0.1::{self._server.getsockname()[1]}::SOCKET"
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def become(self, name: str) -> None:
        """From now on another unit answers here."""
        self.name = name
        self._hang_up()

    def close(self) -> None:
        """No thread is left."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._threads[0].join()
        self._hang_up()
        for thread in self._threads[1:]:
            thread.join()
        for connection in self._open:
            connection.close()

    def _hang_up(self) -> None:
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self._open.append(connection)
                self._threads.append(threading.Thread(target=self._talk, args=(connection,)))
                self._threads[-1].start()

    def _talk(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while came := connection.recv(4_096):
                for line in came.decode().splitlines():
                    if self.name and line.endswith("?"):
                        answer = self.name if line == "*IDN?" else '0,"No error"'
                        connection.sendall(f"{answer}\n".encode())


@contextlib.contextmanager
def port(name: str = "") -> Iterator[Port]:
    opened = Port(name)
    try:
        yield opened
    finally:
        opened.close()


def absent(engine: Engine) -> dict[str, str]:
    """What `edged instruments` tells below its table: of each name, the reason."""
    _, _, below = edged(engine.state_dir, "instruments").stdout.partition("not reached:\n")
    told = (line.strip().partition("): ") for line in below.splitlines())
    return {place.split(" (")[0]: why for place, _, why in told}


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"TCPIP::127.0.0.1::{taken.getsockname()[1]}::SOCKET"


@promise("cli.absent-instruments")
def test_what_is_configured_and_absent_is_listed_with_a_reason_of_its_own(tmp_path: Path) -> None:
    with port() as silent, port("Kettle Works,K1,1,1.0") as meter:
        addresses = {
            "refuses": free_address(),
            "silent": silent.address,
            "nohost": "TCPIP::no-such-host.invalid::5025::SOCKET",
            "unplugged": "ASRL/dev/ttyUSB77::INSTR",
            "meter": meter.address,
        }
        entries = [{"name": name, "address": address} for name, address in addresses.items()]
        # PyVISA-py leaves the sockets of those that refuse to the collector.
        with engine_process(tmp_path, sim=False, config={"INSTRUMENTS": entries}) as engine:
            reasons = {
                "refuses": "nothing listens there (connection refused)",
                "silent": 'no answer to "*IDN?"',
                "nohost": "its host name is not known",
                "unplugged": "there is no such device",
            }
            wait_for(lambda: absent(engine) == reasons)
            # list_instruments counts those that were met, as ever.
            assert [row["alias"] for row in as_json(engine, "instruments")] == ["meter"]
            assert as_json(engine, "status")["instrument_count"] == 1
            only = edged(engine.state_dir, "instruments", "nohost").stdout
            assert "its host name is not known" in only
            assert "refuses" not in only
            shown = edged(engine.state_dir, "status").stdout
            assert f'  silent ({silent.address}): no answer to "*IDN?"' in shown.splitlines()
            meter.become("Kettle Works,K1,2,1.0")
            other = "another unit answers there: Kettle Works K1 2"
            wait_for(lambda: absent(engine).get("meter") == other)


def test_what_a_bus_found_and_nobody_configured_is_no_absent_instrument() -> None:
    place: dict[str, Any] = {
        "address": "ASRL/dev/ttyS0::INSTR",
        "name": "",
        "why": 'no answer to "*IDN?"',
        "is_configured": False,
    }
    assert absent_lines({"set_aside": [place]}, []) == []
    assert absent_lines({"set_aside": [{**place, "is_configured": True}]}, []) == [
        '  ASRL/dev/ttyS0::INSTR: no answer to "*IDN?"'
    ]
