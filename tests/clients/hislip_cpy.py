"""An ordinary program by cPyHiSLIP (KEK's client, written in C++); prints what it saw as JSON.

Run as ``python hislip_cpy.py PORT WHAT``: one thing in a process. It sends no sub-address, and it
may wait for ever for an asynchronous answer that came before it had begun to wait for it: its own
race, which whoever runs it meets by asking again.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from cPyHiSLIP import HiSLIP


def question(link: Any) -> Any:
    link.write(b":SOUR1:VOLT 2\n")
    return [link.ask(b":SOUR1:VOLT?\n").decode().strip(), link.ask(b"*IDN?\n").decode().strip()]


def refusal(link: Any) -> Any:
    link.write(b":SOUR1:VOLT 300\n")
    return link.ask(b":SOUR1:VOLT?\n").decode()


def status(link: Any) -> Any:
    return [link.status_query(), link.get_protocol_version(), link.get_overlap_mode()]


def lock(link: Any) -> Any:
    return [link.request_lock(), link.lock_info(), link.release_lock()]


def clear(link: Any) -> Any:
    link.write(b"*IDN?\n")
    link.device_clear()
    return link.ask(b":SOUR1:VOLT?\n").decode().strip()


WHATS = {"question": question, "refusal": refusal, "status": status, "lock": lock, "clear": clear}


def main(port: str, what: str) -> None:
    link = HiSLIP()
    link.connect(b"127.0.0.1", b"hislip0", int(port))
    sys.stdout.write(json.dumps(WHATS[what](link)))


if __name__ == "__main__":
    main(*sys.argv[1:])
