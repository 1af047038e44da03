"""The HiSLIP server seen from another machine, as one program.

Run as ``unshare -rn python -m tests.faults.hislip_network DIRECTORY [closed]``; prints what was
seen as one JSON object. With ``ask HOST PORT NAME LINE`` or ``stay HOST PORT NAME`` it is a program
on that other machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from edged.protocol.hislip import LockResult
from tests.bench.engine_process import EngineProcess
from tests.bench.hislip_program import HislipEnded, HislipProgram
from tests.bench.waiting import HANGS_S
from tests.faults.network_bench import REPOSITORY, Client, engine_pid, ip, two_machines, wait_for

PORT = 4880
PRIVATE, PUBLIC = "10.77.0.1", "203.0.113.1"
UNIT = "hislip_psu1"
VANISHED_WITHIN_S = 90.0


def ask(host: str, port: str, name: str, line: str) -> dict[str, Any]:
    """What a program there is told."""
    try:
        with HislipProgram.open(int(port), name, host) as program:
            answer = program.query(line)
            lock = program.lock()
            status = program.status()
            return {"answer": answer, "has_lock": lock is LockResult.SUCCESS, "status": status}
    except HislipEnded as ended:
        return {"fatal": str(ended)}
    except OSError as error:
        return {"error": type(error).__name__}


def inside(client: Client, *words: str) -> list[str]:
    enter = ["nsenter", "-t", str(client.process.pid), "-n"]
    return [*enter, sys.executable, "-m", "tests.faults.hislip_network", *words]


def asked(client: Client, host: str, name: str = UNIT, line: str = "*IDN?") -> dict[str, Any]:
    done = subprocess.run(
        inside(client, "ask", host, str(PORT), name, line),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def engine_of(supervisor: subprocess.Popen[bytes], state: Path) -> EngineProcess:
    facts = json.loads((state / "engine.json").read_text())
    return EngineProcess(process=supervisor, state_dir=state, log=state / "log", ports=facts)


def watch(
    client: Client, supervisor: subprocess.Popen[bytes], state: Path, *, is_closed: bool
) -> dict[str, Any]:
    wait_for(lambda: client.post(PRIVATE)[0] == 200)
    seen: dict[str, Any] = {"by ip": asked(client, PRIVATE)}
    if is_closed:
        with HislipProgram.open(PORT, UNIT) as program:
            seen["loopback"] = {"answer": program.query("*IDN?")}
        return seen
    engine = engine_of(supervisor, state)
    rows = engine.tool("bench__history", instrument_id="psu1", limit=5)["result"]["rows"]
    seen["who"] = sorted({row["who"] for row in rows if row["scpi"] == "*IDN?"})
    seen["unknown"] = asked(client, PRIVATE, "hislip_nobody")
    seen["outside"] = asked(client, PUBLIC)
    seen["supervisor.json"] = json.loads((state / "supervisor.json").read_text())["hislip"]

    def is_answered_for() -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(engine_pid(state), signal.SIGKILL)
        seen["away"] = asked(client, PRIVATE)
        return "fatal" in seen["away"]

    # The next engine may be there before the program that asks.
    wait_for(is_answered_for)
    wait_for(lambda: asked(client, PRIVATE).get("answer"))
    engine = engine_of(supervisor, state)

    def programs() -> int:
        return len(engine.tool("get_status")["result"]["visa"]["programs"])

    vanishing = subprocess.Popen(
        inside(client, "stay", PRIVATE, str(PORT), UNIT), cwd=REPOSITORY, stdout=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: programs() == 1)
        ip("link", "set", "client0", "down", of=client.process.pid)
        seen["vanished after s"] = wait_for(lambda: programs() == 0, VANISHED_WITHIN_S)
    finally:
        vanishing.kill()
        vanishing.wait()
    return seen


def stay(host: str, port: str, name: str) -> None:
    """A program that is open until somebody ends it."""
    with HislipProgram.open(int(port), name, host) as program:
        program.lock()
        signal.pause()


def main(words: list[str]) -> None:
    if words[0] == "ask":
        sys.stdout.write(json.dumps(ask(*words[1:5])))
    elif words[0] == "stay":
        stay(*words[1:4])
    else:
        is_closed = words[1:] == ["closed"]
        environment = {
            "EDGED_VISA_SERVER": "[hislip]",
            "EDGED_EXPOSE_VISA": str(not is_closed).lower(),
        }
        with two_machines(Path(words[0]), environment) as (client, supervisor, state):
            sys.stdout.write(json.dumps(watch(client, supervisor, state, is_closed=is_closed)))


if __name__ == "__main__":
    main(sys.argv[1:])
