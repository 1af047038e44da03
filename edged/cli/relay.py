"""``edged relay``: the public HTTP front of the relay route; any number of copies work together."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from edged.cli.shared.options import add_config_options, load
from edged.log import set_up_logging

__all__ = ["run"]

EPILOG = """It needs RELAY_NATS_URL, RELAY_ISSUER and RELAY_JWKS_URL, and speaks plain HTTP: put a
proxy with TLS before it (docs/relay.md)."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged relay", description=__doc__, epilog=EPILOG)
    add_config_options(parser, ["--log-level"])
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument(
        "--port", type=int, default=8768, help="port to listen on (8768; 0: any free one)"
    )
    options = parser.parse_args(arguments)
    config = load(options).config
    set_up_logging(config.log_level, config.log_format)
    from edged.fleet import program

    return program.run(config, host=options.host, port=options.port)
