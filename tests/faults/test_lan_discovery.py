"""LAN discovery, which sends to everybody: only inside a network namespace of its own."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.waiting import HANGS_S
from tests.promises import promise

REPOSITORY = Path(__file__).resolve().parents[2]
ENTER = ("unshare", "-r", "-n")

INSIDE = r"""
import json, socket, struct, subprocess, threading

for command in (
    "ip link set lo up",
    "ip link add bench0 type veth peer name other0",
    "ip addr add 10.77.0.1/24 brd 10.77.0.255 dev bench0",
    "ip link set other0 up",
    "ip link set bench0 up multicast on",
    "ip route add default dev bench0",
):
    subprocess.run(command.split(), check=True)

# A device's port mapper: answers the call with the port of its VXI-11 core channel.
mapper = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
mapper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
mapper.bind(("", 111))
calls = []

def serve():
    while True:
        data, sender = mapper.recvfrom(1024)
        words = struct.unpack(">14I", data)
        calls.append(words)
        mapper.sendto(struct.pack(">7I", words[0], 1, 0, 0, 0, 0, 1024), sender)

threading.Thread(target=serve, daemon=True).start()

# A device that announces itself, as LXI devices do.
from zeroconf import ServiceInfo, Zeroconf

announcer = Zeroconf(interfaces=["10.77.0.1"])
announcer.register_service(
    ServiceInfo(
        "_scpi-raw._tcp.local.", "Scope._scpi-raw._tcp.local.", port=5555,
        addresses=[socket.inet_aton("10.77.0.9")], server="scope.local.",
    )
)

from edged.clock import SystemClock
from edged.discovery.lan import LanSource

listing = LanSource(SystemClock()).list_now()
announcer.close()
print(json.dumps({
    "addresses": [c.entry.address for c in listing.candidates],
    "remark": listing.remark,
    "calls": len(calls),
    "program": calls[0][10] if calls else 0,
}))
"""


def why_not() -> str:
    if not all(shutil.which(tool) for tool in ("unshare", "ip")):
        return "unshare or ip is missing"
    tried = subprocess.run(
        [*ENTER, "ip", "link", "add", "bench0", "type", "veth", "peer", "name", "other0"],
        capture_output=True,
        text=True,
    )
    return "" if tried.returncode == 0 else f"no network namespace: {tried.stderr.strip()}"


@promise("discovery.lan")
def test_devices_that_announce_themselves_or_answer_the_vxi11_call_are_found() -> None:
    if missing := why_not():
        pytest.skip(missing)
    done = subprocess.run(
        [*ENTER, sys.executable, "-c", INSIDE],
        capture_output=True, text=True, cwd=REPOSITORY, timeout=HANGS_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["calls"] >= 1
    assert told["program"] == 0x0607AF
    assert "TCPIP0::10.77.0.9::5555::SOCKET" in told["addresses"]
    assert "TCPIP0::10.77.0.1::inst0::INSTR" in told["addresses"]
    assert told["remark"] == ""
