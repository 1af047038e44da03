"""Profiles and the owner's bench file, changed while a real engine works with them."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.bench.engine_process import REPOSITORY, EngineProcess, engine_process
from tests.bench.mcp_client import Connection, McpClient
from tests.promises import promise

WITHIN_S = 20.0
UNKNOWN = """\
format: 1
profile_key: example_gx100
manufacturer: Example
model: GX100
instrument_class: other
source: "a test"
match: {idn: 'example instruments,gx100\\b', examples: ["Example Instruments,GX100,GX000001,1.0"]}
connection: {errors: {query: "SYST:ERR?", kind: queue}}
abort: ["OUTP OFF"]
commands:
  set_level:
    description: Set the level.
    scpi: "LEV {level:.3f}"
    parameters: {level: {type: float, min: 0, max: 10, unit: V}}
    sweep: {parameter: level, setpoint: "LEV?", readback: read, interval_ms: 50}
  read: {description: Read it., scpi: "MEAS?", returns: {type: float, unit: V}}
  output_off: {description: Switch off., scpi: "OUTP OFF", is_safe: true}
"""


class Story:
    """An engine, the directory of its owner's profiles, and what its clients hear."""

    def __init__(self, engine: EngineProcess, profiles: Path, bench_file: Path) -> None:
        self.engine = engine
        self.profiles = profiles
        self.bench_file = bench_file

    def write(self, text: str, name: str = "example_gx100.yaml") -> None:
        draft = self.profiles / f".{name}.new"
        draft.write_text(text)
        draft.replace(self.profiles / name)

    def status(self) -> dict[str, Any]:
        told: dict[str, Any] = self.engine.tool("get_status")["result"]["profiles"]
        return told

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not is_so():
            assert time.monotonic() < deadline, (self.status(), self.engine.log.read_text())
            time.sleep(0.05)  # noqa: TID251 - a real process has no event to wait for

    def reloaded(self, change: Callable[[], object]) -> None:
        """Make a change, and wait until the engine has taken it in."""
        before = self.status()["reloads"]
        change()
        self.until(lambda: self.status()["reloads"] > before)

    def entry_of(self, alias: str) -> dict[str, Any]:
        listed = self.engine.tool("list_instruments")["result"]
        return next(entry for entry in listed if entry["alias"] == alias)

    def id_of(self, alias: str) -> str:
        return str(self.entry_of(alias)["id"])

    def maximum(self) -> float:
        told = self.engine.tool("get_capabilities", instrument_id=self.id_of("gx1"))["result"]
        command = next(c for c in told[0]["commands"] if c["name"] == "set_level")
        return float(command["parameters"]["properties"]["level"]["maximum"])

    def call(self, command: str, **parameters: Any) -> Any:
        return self.engine.tool(
            "execute_command",
            instrument_id=self.id_of("gx1"),
            command_name=command,
            parameters=parameters,
        )


async def tools_changed(stream: Connection) -> None:
    """Wait for the next news that the tools changed; news of resources is passed over."""
    method = ""
    while method != "notifications/tools/list_changed":
        event = await stream.next_event()
        assert event is not None
        method = event.json()["method"]


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    # Each change has all of them read again, with places; of the shipped ones this one is used.
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    shutil.copy(REPOSITORY / "profiles/rigol_dp832.yaml", shipped)
    config = {"PROFILE_DIRS": [str(shipped), str(profiles)]}
    flags = ("--instruments", "gx1=generic_scpi,gx2=generic_scpi,psu1=rigol_dp832")
    with engine_process(tmp_path, *flags, config=config) as engine:
        story = Story(engine, profiles, tmp_path / "bench.yaml")
        story.until(lambda: len(engine.tool("list_instruments")["result"]) == 3)
        yield story


async def test_a_new_profile_gives_its_tools_with_one_list_changed(story: Story) -> None:
    client = McpClient(story.engine.ports["mcp_port"])
    await client.initialize()
    async with await client.open_stream() as stream:
        await asyncio.to_thread(story.reloaded, lambda: story.write(UNKNOWN))
        await tools_changed(stream)
        tools = {tool["name"] for tool in story.engine.rpc("tools/list")["tools"]}
        # Two units of one model, both named for the first time in this one change.
        assert sum(name.endswith("__set_level") for name in tools) == 2
        # The next thing on the stream is the next change's, so there was no second one for this.
        text = UNKNOWN.replace("  read:", "  look: {description: Look., scpi: 'LEV?'}\n  read:")
        await asyncio.to_thread(story.reloaded, lambda: story.write(text))
        await tools_changed(stream)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await tools_changed(stream)
    shown = await client.request("resources/read", {"uri": "edged://profiles/example_gx100"})
    assert "look" in shown.json()["result"]["contents"][0]["text"]
    entry = story.entry_of("gx1")
    assert (entry["profile_name"], entry["state"]) == ("example_gx100", "ready")
    assert story.call("look")["result"]["success"]


def test_a_broken_profile_leaves_the_old_in_force_and_is_told(story: Story) -> None:
    story.reloaded(lambda: story.write(UNKNOWN))
    story.reloaded(lambda: story.write(UNKNOWN.replace("max: 10", "mux: 10")))
    told = story.status()
    assert told["kept"] == ["example_gx100"]
    assert "example_gx100.yaml:14:47:" in told["complaints"][0]
    assert 'Did you mean "max"?' in told["complaints"][0]
    assert story.maximum() == 10
    assert story.call("set_level", level=10)["result"]["success"]
    doctor = subprocess.run(
        [sys.executable, "-m", "edged", "doctor", "--json", "--config", "edged.yaml"],
        cwd=story.profiles.parent, env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    line = next(c for c in json.loads(doctor.stdout)["checks"] if c["check"] == "profiles")
    assert line["verdict"] == "WARN"
    assert "goes on with the earlier versions of example_gx100" in line["remedy"]
    story.reloaded(lambda: story.write(UNKNOWN.replace("max: 10", "max: 5")))
    assert story.status()["kept"] == []
    assert story.maximum() == 5
    assert story.call("set_level", level=6)["is_error"]


def test_a_profile_that_is_taken_away_takes_its_tools_along(story: Story) -> None:
    story.reloaded(lambda: story.write(UNKNOWN))
    story.reloaded((story.profiles / "example_gx100.yaml").unlink)
    entry = story.entry_of("gx1")
    assert (entry["profile_name"], entry["state"]) == ("", "ready")
    assert story.call("read")["is_error"]
    tools = [tool["name"] for tool in story.engine.rpc("tools/list")["tools"]]
    assert not any(name.startswith("example_gx100") for name in tools)


def test_a_sweep_and_a_stream_go_on_with_what_they_began_with(story: Story) -> None:
    story.reloaded(lambda: story.write(UNKNOWN))
    gx1 = story.id_of("gx1")
    stream = story.engine.tool(
        "start_stream", instrument_id=gx1, command_name="read", interval_ms=50,
        duration_ms=600_000, detach=True,
    )["result"]["stream_id"]  # fmt: skip
    sweep = story.engine.tool(
        "start_sweep",
        instrument_id=gx1,
        command_name="set_level",
        target_value=8,
        sweep_rate=0.8,
        parameters={},
    )["result"]["sweep_id"]
    # The measure is another command now, and the limit lies below the sweep's target.
    changed = UNKNOWN.replace("max: 10", "max: 5").replace("readback: read", "readback: measure")
    changed = changed.replace("  read:", "  measure:")
    story.reloaded(lambda: story.write(changed))
    assert story.maximum() == 5
    assert story.call("read")["is_error"]

    def sweep_status() -> dict[str, Any]:
        told = story.engine.tool("get_sweep_status", sweep_id=sweep)
        result: dict[str, Any] = told["result"]
        return result

    story.until(lambda: sweep_status()["status"] != "running")
    assert sweep_status()["status"] in ("completed", "holding"), sweep_status()
    assert sweep_status()["set_value"] == 8
    running = story.engine.tool("get_status")["result"]["streams"]
    count = next(s["count"] for s in running if s["stream_id"] == stream)
    story.until(
        lambda: (
            next(
                s["count"]
                for s in story.engine.tool("get_status")["result"]["streams"]
                if s["stream_id"] == stream
            )
            > count
        )
    )
    ended = story.engine.tool("stop_stream", stream_id=stream)
    assert ended["result"]["status"] == "terminated"


def test_the_owners_file_is_taken_in_and_a_broken_one_is_not(story: Story) -> None:
    story.reloaded(lambda: story.write(UNKNOWN))
    limit = "format: 1\nGX000001: {alias: gx1, limits: {set_level: {level: {max: 3}}}}\n"
    story.reloaded(lambda: story.bench_file.write_text(limit))
    assert story.maximum() == 3
    assert story.call("set_level", level=4)["is_error"]
    story.reloaded(lambda: story.bench_file.write_text(limit.replace("max: 3", "max: 30")))
    assert "bench.yaml:2:" in story.status()["bench_error"]
    assert story.maximum() == 3
    story.reloaded(story.bench_file.unlink)
    told = story.status()
    assert "was there and is gone" in told["bench_error"]
    assert told["bench_error_since_ms"]
    assert story.maximum() == 3
    story.reloaded(lambda: story.bench_file.write_text("format: 1\n"))
    assert (story.status()["bench_error"], story.status()["bench_error_since_ms"]) == ("", None)
    assert story.maximum() == 10


@promise("owner.asked-when-it-goes-out")
def test_a_write_that_waits_for_its_line_is_judged_by_the_file_as_it_is_then(story: Story) -> None:
    patient = UNKNOWN.replace("kind: queue}}", "kind: queue}, timeout_ms: 40000}")
    story.reloaded(lambda: story.write(patient))
    story.engine.sim("fault", instrument="gx1", kind="late", seconds=12, count=1)
    limit = "format: 1\nGX000001: {alias: gx1, limits: {set_level: {level: {max: 3}}}}\n"
    with ThreadPoolExecutor() as callers:
        asking = callers.submit(story.call, "read")
        story.until(lambda: story.entry_of("gx1")["line_state"] == "busy")
        mark = story.engine.sim("log", since=2**53)["last"]
        over = callers.submit(story.call, "set_level", level=4)
        within = callers.submit(story.call, "set_level", level=2)
        story.reloaded(lambda: story.bench_file.write_text(limit))
        assert not over.done()
        refused = over.result(2 * WITHIN_S)["error"]["message"]
        assert refused.startswith("The owner changed what may be done with ")
        assert "maximum 3 V" in refused
        assert not within.result(2 * WITHIN_S)["is_error"]
        assert not asking.result(2 * WITHIN_S)["is_error"]
    page = story.engine.sim("log", instrument="gx1", since=mark)
    sent = [entry["text"] for entry in page["entries"] if entry["direction"] == "in"]
    assert [text.strip() for text in sent if text.startswith("LEV ")] == ["LEV 2.000"]


def test_a_verification_report_is_told_by_list_profiles(story: Story) -> None:
    story.reloaded(lambda: story.write(UNKNOWN))

    def verified() -> list[dict[str, Any]]:
        listed = story.engine.tool("list_profiles")["result"]
        return next(p["verified_on"] for p in listed if p["key"] == "example_gx100")

    assert verified() == []
    done = subprocess.run(
        [sys.executable, "-m", "edged", "profile", "test", "example_gx100",
         "--address", "gx1", "--config", "edged.yaml"],
        cwd=story.profiles.parent, env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    story.until(lambda: verified() != [])
    (told,) = verified()
    assert (told["model"], told["serial"], told["is_current"]) == ("GX100", "GX000001", True)
    assert (told["passed"], told["failed"], told["is_simulated"]) == (1, 0, False)
    story.reloaded(lambda: story.write(UNKNOWN.replace("Read it.", "Read the level.")))
    assert not verified()[0]["is_current"]
