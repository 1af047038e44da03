"""An ordinary PyVISA program over HiSLIP, by pyvisa-py; prints what it saw as one JSON object.

Run as ``python hislip_pyvisa.py PORT NAME SCOPE``: two resource names in place of the instruments',
and nothing else of it knows who is behind them.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import pyvisa


def main(port: str, supply_name: str, scope_name: str) -> None:
    seen: dict[str, Any] = {}
    manager = pyvisa.ResourceManager("@py")
    supply: Any = manager.open_resource(f"TCPIP::127.0.0.1::{supply_name},{port}::INSTR")
    supply.timeout = 5_000
    seen["idn"] = supply.query("*IDN?").strip()
    seen["terminated"] = supply.query("*OPC?", delay=0.05)
    supply.write(":SOUR1:VOLT 2.5")
    supply.write_ascii_values(":SOUR1:VOLT ", [3.25])
    seen["volts"] = supply.query_ascii_values(":SOUR1:VOLT?")
    supply.write("*IDN?")
    give_up = time.monotonic() + 5
    while not supply.read_stb() & 16 and time.monotonic() < give_up:
        pass
    seen["mav"] = bool(supply.read_stb() & 16)
    seen["raw"] = supply.read_raw().decode().strip()
    supply.write(":SOUR1:VOLT 300")
    seen["eav"] = bool(supply.read_stb() & 4)
    seen["error"] = supply.query("SYST:ERR?").strip()
    seen["no error"] = supply.query("SYST:ERR?").strip()
    supply.timeout = 400
    supply.write(":SOUR1:VOLT 300;:SOUR1:VOLT?")
    try:
        seen["refused question"] = supply.read()
    except pyvisa.VisaIOError as error:
        seen["refused question"] = error.abbreviation
    supply.timeout = 5_000
    supply.clear()
    seen["after clear"] = supply.query("SYST:ERR?").strip()
    scope: Any = manager.open_resource(f"TCPIP::127.0.0.1::{scope_name},{port}::INSTR")
    scope.timeout = 10_000
    for command in (":WAV:SOUR CHAN1", ":WAV:MODE NORM", ":WAV:FORM BYTE"):
        scope.write(command)
    seen["points"] = len(scope.query_binary_values(":WAV:DATA?", datatype="B"))
    hislip: Any = supply.visalib.sessions[supply.session].interface
    seen["lock"] = hislip.async_lock_request(timeout=0.5)
    seen["locked"] = hislip.async_lock_info()
    seen["unlock"] = hislip.async_lock_release()
    hislip.trigger()
    hislip.async_remote_local_control("enableRemote")
    hislip.max_msg_size = 4_096
    seen["in pieces"] = supply.query("*IDN?").strip()
    scope.close()
    supply.close()
    manager.close()
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
