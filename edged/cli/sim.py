"""``edged sim``: a simulated bench on loopback; ``edged sim fault …`` changes one that runs.

It prints one line of JSON when it is ready (where each instrument listens, and the control port),
and ends with SIGTERM or when its standard input closes.
"""

from __future__ import annotations

import argparse
import json
import socket
from collections.abc import Sequence
from typing import Any, Final

from edged.cli.shared.options import add_config_options, load, locate, positive, seconds
from edged.cli.shared.output import print_fields, print_json
from edged.errors import ErrorCode, Failed, Invalid
from edged.host import ExitStatus
from edged.plugins import load_plugin

WORKS_ONE: Final = """``edged sim fault | clear | state``: change a running simulated bench.

The bench is that of the running engine (``edged engine --sim``), or the one whose control port
``--control`` names (``edged sim`` prints it when it starts).
"""
ORDERS: Final = ("fault", "clear", "state")
ANSWER_WITHIN_S: Final = 10.0
LOOPBACK: Final = "127.0.0.1"


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    if arguments and arguments[0] in ORDERS:
        return _order(arguments)
    # Late: what works a running bench needs none of it.
    sim = load_plugin("sim", "edged_sim")
    parser = argparse.ArgumentParser(prog="edged sim", description=__doc__)
    sim.add_arguments(parser)
    parsed = parser.parse_args(arguments)
    try:
        options = sim.options_from(parsed)
    except Invalid as error:
        parser.error(str(error))
    status: int = sim.run(options)
    return status


def _order(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="edged sim", description=WORKS_ONE)
    orders = parser.add_subparsers(dest="order", required=True)
    fault = orders.add_parser("fault", help="give an instrument a fault")
    fault.add_argument("name", help="the instrument's name on the bench, such as psu1")
    fault.add_argument("kind", help="timeout, late, garbage, drop, …; docs/instruments.md has all")
    fault.add_argument("--seconds", type=seconds, help="seconds, of late, split and refuse")
    fault.add_argument("--count", type=positive, help="number of answers (default: until cleared)")
    clear = orders.add_parser("clear", help="end the faults of an instrument, or of all")
    clear.add_argument("name", nargs="?", default="")
    state = orders.add_parser("state", help="set-points, outputs and faults of the bench")
    for order in (fault, clear, state):
        order.add_argument("--control", type=int, metavar="PORT", help="the bench's control port")
        order.add_argument("--json", action="store_true", help="print JSON for scripts")
        add_config_options(order, ["--state-dir"])
    options = parser.parse_args(arguments)
    result = _call(_control_port(options), options.order, _params(options))
    if options.json:
        print_json(result)
    elif options.order == "state":
        print_fields(result["instruments"])
    return ExitStatus.OK


def _params(options: argparse.Namespace) -> dict[str, Any]:
    match options.order:
        case "fault":
            return {
                "instrument": options.name,
                "kind": options.kind,
                "seconds": options.seconds,
                "count": options.count,
            }
        case "clear":
            return {"instrument": options.name}
        case _:
            return {}


def _control_port(options: argparse.Namespace) -> int:
    if options.control is not None:
        return int(options.control)
    port = locate(load(options)).facts.get("sim_control_port")
    if not isinstance(port, int):
        raise Failed(
            "The running engine has no simulated bench.",
            code=ErrorCode.NO_ENGINE,
            remedy="Start it with --sim, or name a bench's control port with --control.",
        )
    return port


def _call(port: int, method: str, params: dict[str, Any]) -> Any:
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    try:
        with socket.create_connection((LOOPBACK, port), ANSWER_WITHIN_S) as line:
            line.sendall(json.dumps(request).encode("ascii") + b"\n")
            with line.makefile("rb") as answers:
                reply = json.loads(answers.readline())
    except (OSError, ValueError) as error:
        raise Failed(
            f"No simulated bench answers at port {port}: {error}.",
            code=ErrorCode.NO_ENGINE,
            remedy="`edged sim` prints its control port when it starts.",
        ) from error
    if "error" in reply:
        raise Invalid(reply["error"]["message"])
    return reply["result"]
