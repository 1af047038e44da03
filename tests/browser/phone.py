"""A bench machine and a phone, each in a network namespace of its own, as one program.

Run as ``unshare -rn python -m tests.browser.phone DIRECTORY``; prints what the phone saw as a JSON
object. The phone has nothing of the bench but a network between; it opens the page by its address.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.bench.browser import running_browser
from tests.faults.network_bench import REPOSITORY, Client, engine_pid, ip, wait_for

ADDRESS = "10.77.0.1"
ON = {"name": "execute_command", "arguments": {
    "instrument_id": "psu1", "command_name": "output_on", "parameters": {"channel": 1},
}}  # fmt: skip


def bench(directory: Path) -> dict[str, Any]:
    """The machine of the bench, in the namespace that this program was started in."""
    state = directory / "state"
    ip("link", "set", "lo", "up")
    client = Client()
    pid = client.process.pid
    ip("link", "add", "bench0", "type", "veth", "peer", "name", "phone0")
    ip("link", "set", "phone0", "netns", str(pid))
    ip("addr", "add", f"{ADDRESS}/24", "dev", "bench0")
    ip("link", "set", "bench0", "up")
    ip("addr", "add", "10.77.0.2/24", "dev", "phone0", of=pid)
    for device in ("phone0", "lo"):
        ip("link", "set", device, "up", of=pid)
    with (directory / "supervisor.log").open("wb") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "edged", "supervisor", "--state-dir", str(state), "--", "--sim"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=REPOSITORY,
        )  # fmt: skip
    try:
        # A busy machine takes long to start one, and nothing here is about that.
        wait_for(lambda: client.post(ADDRESS)[0] == 200)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ON}
        wait_for(lambda: not client.post(ADDRESS, body=json.dumps(call))[2]["result"]["isError"])
        inside = ["nsenter", "-t", str(pid), "-n", sys.executable, "-m", "tests.browser.phone"]
        done = subprocess.run(
            [*inside, "--phone", str(state)], capture_output=True, text=True, timeout=100,
            check=False, cwd=REPOSITORY,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found
    finally:
        supervisor.send_signal(signal.SIGTERM)
        supervisor.wait(10)
        client.process.kill()
        client.process.wait()


def phone(state: Path) -> dict[str, Any]:
    """The phone: a tap opens the page, a second one stops."""
    seen: dict[str, Any] = {}
    with running_browser(390, 844) as browser:
        browser.open(f"http://{ADDRESS}:8767/bench")
        browser.sees("ON: OUTP CH1")
        seen["secure"] = browser.run("return isSecureContext")
        browser.click("#stop")
        browser.sees("confirmed off")
        seen["stopped"] = browser.text
        seen["button"] = browser.run(
            "const box = document.getElementById('stop').getBoundingClientRect(); "
            "return [box.width, box.height, box.top >= 0 && box.right <= innerWidth]"
        )
        seen["wider than the phone"] = browser.run("return document.body.scrollWidth > innerWidth")
        killed = engine_pid(state)
        os.kill(killed, signal.SIGKILL)
        browser.click("#stop")
        browser.wait(lambda: "The engine is away" in browser.text or "confirmed" in browser.text)
        began = time.monotonic()
        browser.wait(lambda: "Stopped" in browser.text)
        seen["stopped again after s"] = time.monotonic() - began
        seen["other engine"] = engine_pid(state) != killed
        browser.sees("live, edged")
        # A page that is opened only now, while there is no engine.
        browser.open("about:blank")
        os.kill(engine_pid(state), signal.SIGKILL)
        browser.open(f"http://{ADDRESS}:8767/bench")
        seen["opened while away"] = "is being started again" in browser.text
        browser.sees("live, edged")
        seen["opened by itself"] = browser.run("return !document.getElementById('stop').disabled")
    return seen


if __name__ == "__main__":
    told = phone(Path(sys.argv[2])) if sys.argv[1] == "--phone" else bench(Path(sys.argv[1]))
    sys.stdout.write(json.dumps(told))
