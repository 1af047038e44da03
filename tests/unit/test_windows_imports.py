"""Every module can be imported where Windows is: nothing of Unix is needed at import."""

from __future__ import annotations

import subprocess
import sys

from tests.bench.waiting import HANGS_S

SCRIPT = """
import importlib, pkgutil, sys, types
import aiohttp.web, asyncio, jsonschema, psutil, pyvisa, rich.table, ruamel.yaml, structlog
import matplotlib.figure
import http.server, multiprocessing, sqlite3, subprocess, tempfile

UNIX = {"fcntl", "grp", "pwd", "pyudev", "resource", "termios"}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in UNIX:
            raise ImportError(name + " is not there on Windows")

for name in UNIX:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocked())
sys.modules["msvcrt"] = types.ModuleType("msvcrt")
sys.platform = "win32"

import edged, edged_author, edged_relay, edged_sim
for package in (edged, edged_author, edged_relay, edged_sim):
  for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
"""


def test_every_module_is_imported_without_what_only_unix_has() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=HANGS_S, check=False
    )
    assert done.returncode == 0, done.stderr
