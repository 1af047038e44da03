"""From plug-in to list_changed, and from unplugging to list_changed.

The engine runs in this process with DISCOVERY [usb]; the bus is a simulated one below pyusb, the
kernel's event is a real one (of a serial port, because no USB device can be made here), and the
client is on a GET stream of the MCP endpoint. Needs root for the event, and says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, parse_json_flag, percentile, tell
from edged.config.load import load_config, this_machine
from edged.engine.engine import Engine
from edged.log import set_up_logging
from tests.bench.kernel_event import make_event, why_not
from tests.bench.mcp_client import Connection, McpClient
from tests.bench.usb_backend import UsbInstrument, usb_bus

ROUNDS = 30
BOUND_S = 2.0
IDN = "RIGOL TECHNOLOGIES,DP832A,{serial},00.01.19"


def main() -> int:
    as_json = parse_json_flag(__doc__ or "")
    if reason := why_not():
        sys.stderr.write(f"not measured: {reason}\n")
        return 0
    came, left = asyncio.run(_measure())
    figures = (
        Figure(name="plug-in to list_changed, median", value=percentile(came, 0.5), unit="s"),
        Figure(name="plug-in to list_changed, longest", value=max(came), unit="s", bound=BOUND_S),
        Figure(name="unplug to list_changed, median", value=percentile(left, 0.5), unit="s"),
        Figure(name="unplug to list_changed, longest", value=max(left), unit="s", bound=BOUND_S),
    )
    return tell(f"hot-plug, {ROUNDS} rounds", figures, as_json=as_json)


async def _measure() -> tuple[list[float], list[float]]:
    came: list[float] = []
    left: list[float] = []
    with tempfile.TemporaryDirectory() as directory, usb_bus() as bus:
        async with contextlib.AsyncExitStack() as parts:
            engine = _engine(Path(directory))
            await engine.start(parts)
            client = McpClient(engine._mcp.surface.port)  # noqa: SLF001 - its port was chosen by the system
            await client.initialize()
            stream = await parts.enter_async_context(await client.open_stream())
            for number in range(ROUNDS):
                serial = f"DP8A{number:06d}"
                device = UsbInstrument(serial, idn=IDN.format(serial=serial))
                device.special["SYST:ERR?"] = lambda: b'0,"No error"\n'
                came.append(await _until_changed(stream, lambda d=device: bus.plug(d), "add"))
                left.append(await _until_changed(stream, lambda d=device: bus.unplug(d), "remove"))
                device.stop()
    make_event("add")
    return came, left


def _engine(directory: Path) -> Engine:
    settings = {
        "MCP_PORT": "0", "RPC_PORT": "0", "STATE_DIR": str(directory), "DISCOVERY": "[usb]",
        "RESCAN_INTERVAL_SEC": "3600",
    }  # fmt: skip
    loaded = load_config(
        places=this_machine(),
        environ={},
        flags=[(key, value, f"--{key}") for key, value in settings.items()],
    )
    set_up_logging(loaded.config.log_level, loaded.config.log_format)
    return Engine(loaded.config, sim=None, is_supervised=False, visited={})


async def _until_changed(stream: Connection, act: object, action: str) -> float:
    began = time.perf_counter()
    act()  # type: ignore[operator]
    make_event(action)
    async with asyncio.timeout(10):
        while (event := await stream.next_event()) is None or "list_changed" not in event.data:
            pass
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
