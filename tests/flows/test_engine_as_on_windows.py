"""A real engine in an interpreter that takes itself for one on Windows.

Nobody runs the tests on Windows. This comes as near as another system can: ``sys.platform`` says
win32 to edged, what only Unix has cannot be imported, and the loop refuses signal handlers as
Windows' proactor loop does. What stays of this system: sockets, files, processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from tests.bench.engine_process import REPOSITORY
from tests.promises import promise

SCRIPT = """
import asyncio, signal, socket, sys, types
# What other libraries use of their own system by themselves is loaded before.
import aiohttp.web, http.server, jsonschema, multiprocessing, psutil, pyvisa, pyvisa_py
import rich.table, ruamel.yaml, serial.tools.list_ports, sqlite3, structlog, subprocess, tempfile
import usb.core, zipfile

UNIX = {"fcntl", "grp", "pwd", "pyudev", "resource", "termios"}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in UNIX:
            raise ImportError(name + " is not there on Windows")

for name in UNIX:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocked())

msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK = 2
msvcrt.locking = lambda descriptor, mode, count: None
sys.modules["msvcrt"] = msvcrt
socket.SO_EXCLUSIVEADDRUSE = socket.SO_KEEPALIVE
signal.SIGBREAK = signal.SIGUSR1

def refuse(self, *_arguments):
    raise NotImplementedError

asyncio.SelectorEventLoop.add_signal_handler = refuse
asyncio.SelectorEventLoop.remove_signal_handler = refuse
sys.platform = "win32"

from edged.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@promise("platform.windows-shape")
def test_an_engine_without_unix_modules_and_signal_handlers_starts_answers_and_stops(
    tmp_path: Path,
) -> None:
    with (tmp_path / "log").open("wb") as log:
        engine = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, "engine", "--sim", "--state-dir", str(tmp_path),
             "--mcp-port", "0", "--rpc-port", "0"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=REPOSITORY,
            env={**os.environ, "PROGRAMDATA": str(tmp_path), "LOCALAPPDATA": str(tmp_path)},
        )  # fmt: skip
    try:
        told = tmp_path / "engine.json"
        give_up = time.monotonic() + 30
        while not told.exists():
            assert engine.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < give_up, (tmp_path / "log").read_text()
            time.sleep(0.05)  # noqa: TID251
        port = json.loads(told.read_text())["mcp_port"]
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/mcp", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert json.load(answer)["result"] == {}
    finally:
        # As Ctrl-C in a console does.
        engine.send_signal(signal.SIGINT)
        status = engine.wait(20)
    words = (tmp_path / "log").read_text()
    assert status == 0, words
    assert "Traceback" not in words
    assert not told.exists()
