"""``edged restart --when-idle``: restart supervisor and engine as soon as nothing is running.

For use after an upgrade: both start again with what is installed now, and no sweep, stream,
sequence or call is interrupted. Ctrl-C cancels the request. Exit status 1 if the time limit passed
first.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edged.cli.shared.options import add_engine_options, load, locate
from edged.cli.shared.output import cell
from edged.config.load import LoadedConfig
from edged.errors import EdgedError, ErrorCode, Failed
from edged.host import ExitStatus
from edged.surfaces.rpc.client import RpcClient

ASK_EVERY_S: Final = 10
BACK_WITHIN_S: Final = 60.0
LOOK_S: Final = 0.1


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged restart", description=__doc__)
    parser.add_argument(
        "--when-idle", action="store_true", required=True, help="wait until nothing is running"
    )
    parser.add_argument(
        "--within",
        type=int,
        default=3_600,
        metavar="SECONDS",
        help="give up after this many seconds (3600)",
    )
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    if not 1 <= options.within <= 86_400:
        parser.error("--within takes 1 to 86400 seconds")
    loaded = load(options)
    old = locate(loaded)
    client = RpcClient(old, token=loaded.config.inbound_auth_token, timeout_s=ASK_EVERY_S + 10.0)
    try:
        told = _wait_idle(client, options)
    except KeyboardInterrupt:
        client.call("restart.cancel")
        raise
    if told["state"] != "restarting":
        return _given_up(told, options)
    new = _wait_back(loaded, old.pid)
    if options.json:
        print(json.dumps({"state": "restarted", **new}))
    else:
        print(f"restarted: edged {cell(new['version'])}, PID {new['pid']}")
    return ExitStatus.OK


def _wait_idle(client: RpcClient, options: argparse.Namespace) -> Mapping[str, Any]:
    """Ask for it and tell what is waited for, until that is over."""
    told: Mapping[str, Any] = client.call("restart.begin", {"within_s": options.within})
    shown: Sequence[str] = ()
    while told["state"] == "waiting":
        if told["under_way"] and told["under_way"] != shown and not options.json:
            shown = told["under_way"]
            waited_for = ", ".join(map(cell, shown))
            print(f"waiting up to {told['left_s']:.0f} s for {waited_for}", file=sys.stderr)
        try:
            told = client.call("restart.status", {"wait_s": ASK_EVERY_S})
        except EdgedError as gone:
            if gone.code is not ErrorCode.NO_ENGINE:
                raise
            return {"state": "restarting"}  # it ended before it could answer
    return told


def _given_up(told: Mapping[str, Any], options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps(told))
    still = ", ".join(map(cell, told["under_way"])) or "nothing any more"
    why = "The time limit has passed" if told["state"] == "given_up" else "Somebody cancelled it"
    print(f"edged: {why}; nothing was restarted. Under way: {still}.", file=sys.stderr)
    return ExitStatus.FAILED


def _wait_back(loaded: LoadedConfig, old_pid: int) -> dict[str, Any]:
    """The new engine, as soon as it says where it listens.

    Raises:
        Failed: NO_ENGINE, it did not come back in time.
    """
    until_s = time.monotonic() + BACK_WITHIN_S
    while time.monotonic() < until_s:
        try:
            engine = locate(loaded)
        except EdgedError:
            engine = None
        if engine is not None and engine.pid != old_pid:
            return {"version": engine.facts.get("version", ""), "pid": engine.pid}
        time.sleep(LOOK_S)  # noqa: TID251 - another process has no event to wait for
    raise Failed(
        f"The engine has ended, and was not back within {BACK_WITHIN_S:g} s.",
        code=ErrorCode.NO_ENGINE,
        remedy="Look at the supervisor's log (`journalctl -u edged`).",
    )
