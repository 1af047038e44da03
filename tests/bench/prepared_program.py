"""The process that has imported what an engine does, and becomes each engine that is asked for.

``prepared.py`` starts it and says what it is for. A request comes over a connection of its own: the
three standard streams, then one line of JSON. The answers are two lines: the engine's process id
and, at its end, its exit status.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, cast

from edged.cli import engine as cli_engine
from edged.cli.main import main
from edged.engine.sim_child import SimChild
from edged.lean_imports import shallow
from edged_sim import program

shallow("aiohttp")
if True:  # for the engines to come
    import edged.engine.engine
    import edged.engine.life
    import edged.surfaces.rpc.server
    import edged.yaml.source  # noqa: F401

STREAMS = 3


def serve(listener: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each connection until standard input ends.

    Returns:
        In a process that is to become an engine: the request and the three streams.
    """
    while True:
        readable, _, _ = select.select([listener, sys.stdin.fileno()], [], [])
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if listener not in readable:
            sys.exit()
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                listener.close()
                _, streams, _, _ = socket.recv_fds(connection, 1, STREAMS)
                with connection.makefile("rb") as words:
                    request = json.loads(words.readline())
                if child := os.fork():
                    _report(connection, child)
                return request, streams


def _report(connection: socket.socket, child: int) -> NoReturn:
    """Be the parent of an engine."""
    with contextlib.suppress(OSError):
        connection.sendall(b"%d\n" % child)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        connection.sendall(b"%d\n" % status)
    os._exit(0)


class _ForkedSim(SimChild):
    """The simulated bench, forked as well; what follows is the same."""

    def _start(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        return cast("subprocess.Popen[bytes]", _Forked(arguments))


class _Forked:
    """What ``SimChild`` uses of ``subprocess.Popen``."""

    def __init__(self, arguments: Sequence[str]) -> None:
        read_in, write_in = os.pipe()
        read_out, write_out = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(write_in)
            os.close(read_out)
            _become_streams([read_in, write_out])
            status = program.main(arguments)
            # Taking the copy of an engine apart would cost more than all that went before.
            os._exit(status)
        os.close(read_in)
        os.close(write_out)
        self.stdin = os.fdopen(write_in, "wb")
        self.stdout = os.fdopen(read_out, "rb")
        self._is_over = False

    def wait(self, timeout: float | None = None) -> None:
        if self._is_over:
            return
        ended = os.pidfd_open(self._pid)
        try:
            if not select.select([ended], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("edged sim", timeout or 0)
        finally:
            os.close(ended)
        os.waitpid(self._pid, 0)
        self._is_over = True

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)


def _become_streams(descriptors: Sequence[int]) -> None:
    """Make them standard input, output and error, in this order."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)


def _main() -> int:
    # Ctrl-C is for the tests, which then end this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        request, streams = serve(listener)
    _become_streams(streams)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environ"])
    sys.argv = ["edged", *request["arguments"]]
    cli_engine.SimChild = _ForkedSim  # type: ignore[misc]
    return main(request["arguments"])


if __name__ == "__main__":
    sys.exit(_main())
