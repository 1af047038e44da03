"""SDK wrappers at their worst: hung or dead at import, holding the interpreter, orphaned."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from edged.clock import SystemClock
from edged.sdk.failures import unloadable
from edged.sdk.process import Launch, OutputLog, WorkerDied, WorkerProcess
from edged.sdk.wire import MAX_RESULT
from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.bench.mcp_client import McpClient
from tests.promises import promise

WITHIN_S = 20.0
HEAD = 'MCP_TOOL_SPECS = [{"name": "act", "description": "Act.", "method": "act"}]\n'
GOOD = HEAD + "def act():\n    return 1\n"
MODULES = {
    "good": GOOD,
    "hangs_at_import": HEAD + "import time\ntime.sleep(600)\n",
    "dies_at_import": HEAD + "import ctypes\nctypes.string_at(0)\n",
    "sleeps": HEAD + "import time\ndef act():\n    time.sleep(600)\n",
    # PyDLL keeps the interpreter's lock while it sleeps: no thread of the worker runs meanwhile.
    "holds_the_lock": HEAD.replace("]\n", ', "timeout_s": 1}]\n').replace("}, ", ", ")
    + "import ctypes\ndef act():\n    ctypes.PyDLL(None).sleep(600)\n",
    "closes": HEAD
    + "import pathlib, os\ndef act():\n    return os.getpid()\n"
    + "def close():\n    pathlib.Path(__file__).with_suffix('.closed').write_text('x')\n",
    "grows": HEAD + "kept = []\ndef act():\n    kept.append(bytearray(300_000_000))\n"
    "    import time\n    time.sleep(600)\n",
}


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.02)  # noqa: TID251 - processes have no event to wait for


def write(directory: Path, *names: str) -> Path:
    directory.mkdir(exist_ok=True)
    for name in names:
        (directory / f"{name}.py").write_text(MODULES[name])
    return directory


@contextlib.contextmanager
def engine_with(tmp_path: Path, *names: str) -> Iterator[EngineProcess]:
    directory = write(tmp_path / "wrappers", *names)
    config = {"SDK_WRAPPER_DIRS": [str(directory)], "SDK_MEMORY_MB": 200}
    with engine_process(tmp_path, sim=False, config=config) as engine:
        yield engine


def told(engine: EngineProcess, wrapper: str) -> dict[str, Any]:
    status = engine.tool("get_status")["result"]["sdk"]["wrappers"]
    found: dict[str, Any] = next(one for one in status if one["wrapper"] == wrapper)
    return found


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def calling(engine: EngineProcess, tool: str) -> threading.Thread:
    def call() -> None:
        with contextlib.suppress(OSError, AssertionError, ValueError):
            engine.tool(tool)

    thread = threading.Thread(target=call)
    thread.start()
    return thread


@promise("sdk.no-blocking")
def test_wrappers_that_hang_or_die_at_import_hold_up_nobody(tmp_path: Path) -> None:
    began = time.monotonic()
    with engine_with(tmp_path, "good", "hangs_at_import", "dies_at_import") as engine:
        assert time.monotonic() - began < WITHIN_S
        until(lambda: told(engine, "good")["state"] == "ready", "the good one")
        assert engine.tool("good__act")["result"]["data"] == 1
        until(lambda: told(engine, "dies_at_import")["restarts"] >= 2, "another try")
        dead = told(engine, "dies_at_import")
        assert "crashed (SIGSEGV) while it was loaded" in dead["problem"]
        assert told(engine, "hangs_at_import")["state"] == "starting"
        names = {tool["name"] for tool in engine.rpc("tools/list")["tools"]}
        assert not any(name.startswith(("hangs", "dies")) for name in names)
        assert engine.stop() == 0


@promise("sdk.crash")
def test_an_instrument_is_measured_throughout_whatever_a_wrapper_does(tmp_path: Path) -> None:
    config = {"SDK_WRAPPER_DIRS": [str(REPOSITORY / "tests/bench/wrappers")], "SDK_MEMORY_MB": 200}
    measured: list[float] = []
    is_over = threading.Event()

    def measure(engine: EngineProcess) -> None:
        while not is_over.is_set():
            began = time.monotonic()
            told = engine.tool("rigol_dp832__measure_voltage", channel=1)
            assert told["is_error"] is False, told
            measured.append(time.monotonic() - began)

    with engine_process(tmp_path, config=config) as engine, ThreadPoolExecutor(1) as pool:
        until(lambda: told(engine, "rough")["state"] == "ready", "loading")
        measuring = pool.submit(measure, engine)
        try:
            for _ in range(3):
                for name in ("crash", "hang", "leak", "leave", "flood", "fail", "strange", "add"):
                    engine.tool(f"rough__{name}", **({"a": 1} if name == "add" else {}))
        finally:
            is_over.set()
        measuring.result(WITHIN_S)
        assert engine.tool("rough__add", a=2, b=3)["result"]["data"] == 5
        lag_ms = engine.tool("get_status")["result"]["loop"]["worst_lag_ms"]
    assert len(measured) > 20
    assert max(measured) < 2
    assert lag_ms < 500


async def test_a_setting_that_no_environment_can_hold_is_told(tmp_path: Path) -> None:
    directory = write(tmp_path, "good")
    launch = Launch(stem="good", path=directory / "good.py", settings={"a=b": "c"})
    worker, _ended = await worker_of(launch)
    with pytest.raises(WorkerDied, match="could not be started: illegal environment variable"):
        await worker.start()
    await worker.end()


@promise("sdk.ends-with-engine")
@pytest.mark.parametrize("wrapper", ["good", "sleeps"])
def test_a_worker_ends_when_its_engine_is_killed(tmp_path: Path, wrapper: str) -> None:
    with engine_with(tmp_path, wrapper) as engine:
        until(lambda: told(engine, wrapper)["state"] == "ready", "loading")
        pid = told(engine, wrapper)["pid"]
        caller = calling(engine, f"{wrapper}__act")
        if wrapper == "sleeps":
            until(lambda: told(engine, wrapper)["running"] == "act", "the call")
        os.kill(engine.process.pid, signal.SIGKILL)
        caller.join(WITHIN_S)
        until(lambda: gone(pid), "the end of the worker")


@promise("sdk.ends-with-engine")
def test_one_that_holds_the_interpreter_ends_too_when_its_engine_is_killed(tmp_path: Path) -> None:
    with engine_with(tmp_path, "holds_the_lock") as engine:
        until(lambda: told(engine, "holds_the_lock")["state"] == "ready", "loading")
        error = engine.tool("holds_the_lock__act")["error"]
        assert error["code"] == "timeout", "a killed worker needs no lock to die"
        until(lambda: told(engine, "holds_the_lock")["state"] == "ready", "the restart")
        pid = told(engine, "holds_the_lock")["pid"]
        caller = calling(engine, "holds_the_lock__act")
        until(lambda: told(engine, "holds_the_lock")["running"] == "act", "the call")
        os.kill(engine.process.pid, signal.SIGKILL)
        caller.join(WITHIN_S)
        until(lambda: gone(pid), "the end of the worker")


def test_a_wrapper_may_close_what_it_holds_when_the_engine_stops(tmp_path: Path) -> None:
    with engine_with(tmp_path, "closes", "sleeps") as engine:
        until(lambda: told(engine, "closes")["state"] == "ready", "loading")
        until(lambda: told(engine, "sleeps")["state"] == "ready", "loading")
        pid = told(engine, "sleeps")["pid"]
        caller = calling(engine, "sleeps__act")
        until(lambda: told(engine, "sleeps")["running"] == "act", "the call")
        began = time.monotonic()
        assert engine.stop() == 0
        assert time.monotonic() - began < 6
        caller.join(WITHIN_S)
        assert gone(pid)
        assert (tmp_path / "wrappers" / "closes.closed").exists()


@promise("sdk.comes-back")
async def test_a_corrected_file_brings_its_tools_and_every_client_hears_of_it(
    tmp_path: Path,
) -> None:
    directory = write(tmp_path / "wrappers")
    (directory / "good.py").write_text("raise RuntimeError('no licence')\n")
    config = {"SDK_WRAPPER_DIRS": [str(directory)]}
    with engine_process(tmp_path, sim=False, config=config) as engine:
        client = McpClient(engine.ports["mcp_port"])
        await client.initialize()
        async with await client.open_stream() as stream:
            assert (await asyncio.to_thread(told, engine, "good"))["state"] == "broken"
            (directory / "good.py").write_text(GOOD)
            async with asyncio.timeout(WITHIN_S):
                while True:
                    event = await stream.next_event()
                    assert event is not None
                    if event.json()["method"] == "notifications/tools/list_changed":
                        break
            answer = await client.call("good__act")
    assert json.loads(answer["content"][0]["text"])["data"] == 1


async def worker_of(launch: Launch) -> tuple[WorkerProcess, asyncio.Event]:
    clock, ended = SystemClock(), asyncio.Event()
    output = OutputLog(launch.stem, clock)
    return WorkerProcess(launch, output=output, clock=clock, on_end=ended.set), ended


async def test_a_worker_that_is_not_loaded_in_time_is_told_and_ended(tmp_path: Path) -> None:
    directory = write(tmp_path, "hangs_at_import")
    launch = Launch(stem="hangs", path=directory / "hangs_at_import.py", load_s=1.0)
    worker, _ended = await worker_of(launch)
    with pytest.raises(WorkerDied, match="was not loaded within 1 s"):
        await worker.start()
    pid = worker.pid
    await worker.end()
    assert gone(pid)


async def test_where_no_limit_can_be_set_memory_is_looked_at(tmp_path: Path) -> None:
    """As on Windows, or where a service's unit forbids it: only the engine's look can end it."""
    directory = write(tmp_path, "grows")
    launch = Launch(stem="grows", path=directory / "grows.py", memory_mb=100, is_limited=False)
    worker, _ended = await worker_of(launch)
    await worker.start()
    with pytest.raises(WorkerDied, match="MiB of memory, over its 100"):
        await worker.ask("act", {}, WITHIN_S)
    await worker.end()


@promise("sdk.result-is-bounded")
@pytest.mark.parametrize("size", [MAX_RESULT + 1, 15_000_000])
async def test_a_result_that_is_too_long_stays_in_the_worker_and_the_limit_is_named(
    tmp_path: Path, size: int
) -> None:
    path = tmp_path / "long.py"
    path.write_text(
        HEAD + f"sizes = [{size}]\ndef act():\n    return 'x' * sizes.pop() if sizes else 7\n"
    )
    worker, _ended = await worker_of(Launch(stem="long", path=path))
    await worker.start()
    answer = await worker.ask("act", {}, WITHIN_S)
    assert f"over the maximum of {MAX_RESULT}" in answer["error"]["message"]
    assert "fewer samples" in answer["error"]["remedy"]
    assert (await worker.ask("act", {}, WITHIN_S))["value"] == 7
    await worker.end()


async def test_a_worker_that_announces_more_than_a_result_may_have_is_ended_unread(
    tmp_path: Path,
) -> None:
    path = tmp_path / "floods.py"
    path.write_text(
        HEAD + "import os\ndef act():\n    for fd in range(3, 20):\n"
        "        try:\n            os.write(fd, (15_000_000).to_bytes(4, 'big'))\n"
        "        except OSError:\n            pass\n"
    )
    worker, _ended = await worker_of(Launch(stem="floods", path=path))
    await worker.start()
    with pytest.raises(WorkerDied, match=f"over the maximum of {MAX_RESULT}"):
        await worker.ask("act", {}, WITHIN_S)
    await worker.end()


@promise("sdk.text-raises")
@pytest.mark.parametrize("what", ["ValueError('x')", "SystemExit(3)", "KeyboardInterrupt()"])
@pytest.mark.parametrize("where", ["__str__", "remedy"])
async def test_an_exception_whose_text_raises_is_an_error_of_that_call(
    tmp_path: Path, what: str, where: str
) -> None:
    path = tmp_path / "odd.py"
    path.write_text(
        HEAD + f"class Odd(Exception):\n    def __str__(self): return 'odd'\n"
        f"    {'@property' if where == 'remedy' else ''}\n"
        f"    def {where}(self): raise {what}\n"
        "odd = [Odd()]\ndef act():\n    if odd: raise odd.pop()\n    return 7\n"
    )
    worker, _ended = await worker_of(Launch(stem="odd", path=path))
    await worker.start()
    error = (await worker.ask("act", {}, WITHIN_S))["error"]
    assert error["type"] == "Odd"
    broken = error["message" if where == "__str__" else "remedy"]
    assert broken == f"(its text cannot be read: that raises {what.partition('(')[0]})"
    assert (await worker.ask("act", {}, WITHIN_S))["value"] == 7
    await worker.end()


@promise("sdk.too-long")
@pytest.mark.parametrize(
    "more",
    ['"description": "x" * 2_000_000', '"parameters": {"a": {"options": [*range(400_000)]}}'],
)
async def test_a_list_that_is_too_long_is_reported_with_file_and_line(
    tmp_path: Path, more: str
) -> None:
    path = tmp_path / "long.py"
    path.write_text(f'"""Long."""\n\nMCP_TOOL_SPECS = [{{"name": "act", {more}}}]\n')
    worker, _ended = await worker_of(Launch(stem="long", path=path))
    broken = unloadable((await worker.start())["broken"], path)
    assert str(broken).startswith(
        f"{path}:3: it could not be loaded: ValueError: MCP_TOOL_SPECS is "
    )
    assert "over the maximum of" in broken.message
    await worker.end()


CHILD = """
import os, subprocess, sys, time, signal
def act(kind="fork", end="exit"):
    if kind == "fork":
        child = os.fork()
        if not child:
            while True: time.sleep(600)
    else:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid
    with open(__file__ + ".child", "w") as file:
        file.write(str(child))
    if end == "exit": os._exit(3)
    if end == "crash": os.kill(os.getpid(), signal.SIGSEGV)
    return child
"""


@promise("sdk.children")
@pytest.mark.parametrize("end", ["exit", "crash", "stop"])
@pytest.mark.parametrize("kind", ["fork", "program"])
async def test_a_child_ends_with_its_worker_and_no_call_waits_for_it(
    tmp_path: Path, kind: str, end: str
) -> None:
    path = tmp_path / "forks.py"
    path.write_text(HEAD + CHILD)
    worker, ended = await worker_of(Launch(stem="forks", path=path))
    await worker.start()
    arguments = {"kind": kind, "end": end}
    if end == "stop":
        await worker.ask("act", arguments, WITHIN_S)
    else:
        with pytest.raises(WorkerDied, match="SIGSEGV" if end == "crash" else "status 3"):
            await worker.ask("act", arguments, 600.0)
        await ended.wait()
    await worker.end()
    child = int((tmp_path / "forks.py.child").read_text())
    until(lambda: gone(child), "the end of the child")


@promise("sdk.children")
def test_a_child_ends_when_the_engine_is_killed(tmp_path: Path) -> None:
    MODULES["forks"] = HEAD + CHILD.replace('end="exit"', 'end="stop"')
    with engine_with(tmp_path, "forks") as engine:
        until(lambda: told(engine, "forks")["state"] == "ready", "loading")
        child = engine.tool("forks__act")["result"]["data"]
        os.kill(engine.process.pid, signal.SIGKILL)
        until(lambda: gone(child), "the end of the child")


async def test_a_worker_that_writes_nonsense_into_its_pipe_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "noise.py"
    path.write_text(
        HEAD + "import os\ndef act():\n    for fd in range(3, 20):\n"
        "        try:\n            os.write(fd, b'\\xff' * 64)\n        except OSError:\n"
        "            pass\n"
    )
    worker, _ended = await worker_of(Launch(stem="noise", path=path))
    await worker.start()
    with pytest.raises(WorkerDied, match="cannot be understood"):
        await worker.ask("act", {}, WITHIN_S)
    await worker.end()
