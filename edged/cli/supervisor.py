"""``edged supervisor``: keep an engine running, and carry its MCP port to the private network."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from edged.cli.shared.options import add_config_options, load
from edged.host import ExitStatus
from edged.log import set_up_logging

EPILOG = """Everything after -- is passed to `edged engine`: edged supervisor -- --sim --seed 1"""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    own, more = _split(list(arguments))
    parser = argparse.ArgumentParser(
        prog="edged supervisor", description=__doc__, epilog=EPILOG, allow_abbrev=False
    )
    add_config_options(parser, ["--mcp-port", "--rpc-port", "--state-dir", "--log-level"])
    parser.add_argument(
        "--bind-each",
        action="store_true",
        help="bind every address by itself instead of sharing the port (as outside of Linux)",
    )
    options = parser.parse_args(own)
    config = load(options, is_simulated="--sim" in more).config
    set_up_logging(config.log_level, config.log_format)
    from edged.supervisor import supervisor

    status = supervisor.run(
        config,
        engine_arguments=[word for word in own if word != "--bind-each"] + more,
        is_port_shared=sys.platform == "linux" and not options.bind_each,
    )
    if status == ExitStatus.RESTART and sys.platform == "linux":
        # In the same process: whoever watches it, systemd too, sees no end.
        command = [sys.executable, "-m", "edged", "supervisor", *arguments]
        os.execv(sys.executable, command)  # noqa: S606 - our own command line, once more
    return status


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """What is the supervisor's, and what is the engine's alone."""
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]
