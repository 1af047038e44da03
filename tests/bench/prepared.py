"""Engines as processes that need not import anything: two thirds of what a start costs.

One process for a test run has imported what an engine imports, and forks each engine that a test
asks for. Such an engine is a process like any other, with its own arguments, environment, standard
streams, signals and exit status. The run's controller owns the process that forks, so that no
test of a worker sees it among its own children, and what all of them cost counts as the run's.

Without workers (``-n``), and on a system other than Linux, there is none, and an engine starts the
usual way. So does one whose interpreter or linker a test sets up, and every engine of tests/faults.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.bench.waiting import HANGS_S

SOCKET = "TESTS_PREPARED_ENGINES"


def pytest_configure(config: pytest.Config) -> None:
    """Start the process that forks, in a controller that has workers."""
    if sys.platform != "linux" or hasattr(config, "workerinput"):
        return
    if not config.getoption("numprocesses", None):
        return
    place = tempfile.mkdtemp(prefix="edged-tests-")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{place}/socket")
        listener.listen(socket.SOMAXCONN)
        # It ends when its standard input does.
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.prepared_program", str(listener.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            cwd=Path(__file__).resolve().parents[2],
        )
    os.environ[SOCKET] = f"{place}/socket"

    def end() -> None:
        del os.environ[SOCKET]
        process.communicate(timeout=HANGS_S)
        shutil.rmtree(place)

    config.add_cleanup(end)


class PreparedProcess:
    """The part of ``subprocess.Popen`` that tests of an engine use."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers = connection.makefile("rb")
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            return self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("edged engine", timeout or 0)
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def prepared_process(
    arguments: Sequence[str], variables: Mapping[str, str], stdin: int, output: int
) -> PreparedProcess | None:
    """``edged ARGUMENTS`` in this repository, or None where there is no prepared process.

    Args:
        variables: besides those of this process.
        output: where both its standard output and standard error go.
    """
    if SOCKET not in os.environ:
        return None
    request = {"arguments": arguments, "environ": {**os.environ, **variables}}
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.environ[SOCKET])
        socket.send_fds(connection, [b"\n"], [stdin, output, output])
        connection.sendall(json.dumps(request).encode() + b"\n")
        return PreparedProcess(connection)
    except BaseException:
        connection.close()
        raise
