"""The check of the HiSLIP server: whether a real initialisation is answered, and who reaches it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Final

from edged.config.keys import VisaServer
from edged.doctor.facts import Facts
from edged.doctor.report import CheckLine, fail, passed, skip, warn
from edged.errors import connection_trouble
from edged.host import LOOPBACK, reached_at, read_supervisor_file
from edged.protocol.hislip import (
    HEADER,
    VERSION_1_0,
    HislipFatal,
    MessageType,
    message,
    read_header,
)

ANSWER_S: Final = 5.0
VENDOR: Final = int.from_bytes(b"ED", "big")


def check_hislip(facts: Facts) -> CheckLine:
    """Whether programs that know VISA find their server."""
    told: Mapping[str, Any] = facts.status.get("visa", {})
    if not facts.is_answering:
        return skip("No engine answers.")
    if not told.get("enabled"):
        wanted = VisaServer.HISLIP in facts.config.visa_server
        more = " in the running engine" if wanted else ""
        return skip(f"VISA_SERVER does not name hislip{more}: nothing is bound.")
    port = told.get("port")
    if not port:
        wanted_port = facts.config.hislip_port
        holder = facts.stranger_at(wanted_port)
        by = f" It is held by {holder}." if holder else ""
        again = f"the engine tries again every {facts.config.rescan_interval_sec} s"
        return fail(
            f"{told.get('error') or 'The HiSLIP server does not listen.'}{by}",
            f"Stop that program, or set HISLIP_PORT to another port; {again}.",
        )
    names = told.get("names") or ["hislip0"]
    problem = _initialize(port, str(names[0]))
    if problem:
        return fail(
            f"{LOOPBACK}:{port} does not answer HiSLIP: {problem}.", "Look at the engine's log."
        )
    programs = len(told.get("programs", ()))
    found = (
        f"{LOOPBACK}:{port} answered; {programs} programs are connected, and "
        f"{len(told.get('names', ()))} instruments can be opened."
    )
    if not facts.config.expose_visa:
        return passed(found)
    bound = read_supervisor_file(facts.config.state_dir).get("hislip", {}).get("addresses", ())
    if not bound:
        return warn(
            f"{found} EXPOSE_VISA is true, and no supervisor has opened the port to the network.",
            "Start `edged supervisor`, or the service edged.",
        )
    return passed(f"{found} From the network it is {reached_at(bound)}:{port}.")


def _initialize(port: int, name: str) -> str:
    """What went wrong. The session is given up again; a refusal with words is an answer, too."""
    first = message(
        MessageType.INITIALIZE, 0, VERSION_1_0 << 16 | VENDOR, name.encode("ascii", "replace")
    )
    try:
        with socket.create_connection((LOOPBACK, port), ANSWER_S) as line:
            line.sendall(first)
            answer = line.makefile("rb").read(HEADER.size)
        kind = read_header(answer).kind if len(answer) == HEADER.size else None
    except OSError as error:
        return connection_trouble(error)
    except HislipFatal:
        return "what answers there is not a HiSLIP server"
    is_answer = kind in {MessageType.INITIALIZE_RESPONSE, MessageType.FATAL_ERROR}
    return "" if is_answer else "it ended the connection"
