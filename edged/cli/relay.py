"""``edged relay``: the public HTTP front of the relay route; any number of copies work together.

``edged relay refresh-keys`` is for the bench: its engine fetches the issuer's keys at once, for
example after a key was withdrawn, which is otherwise valid for up to 24 hours. A front keeps keys
in memory only: restart it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from edged.cli.shared.options import add_config_options, add_engine_options, connect, load
from edged.cli.shared.output import print_fields, print_json
from edged.host import ExitStatus
from edged.log import set_up_logging
from edged.plugins import load_plugin

EPILOG = """A front needs RELAY_NATS_URL, RELAY_ISSUER and RELAY_JWKS_URL, and speaks plain HTTP:
put a proxy with TLS before it (docs/relay.md)."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged relay", description=__doc__, epilog=EPILOG)
    add_config_options(parser, ["--log-level"])
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument(
        "--port", type=int, default=8768, help="port to listen on (8768; 0: any free one)"
    )
    verbs = parser.add_subparsers(dest="verb")
    refresh = verbs.add_parser("refresh-keys", help="have the engine fetch the issuer's keys now")
    add_engine_options(refresh)
    options = parser.parse_args(arguments)
    if options.verb == "refresh-keys":
        told = connect(options).call("relay.refresh_keys")
        print_json(told) if options.json else print_fields(told)
        return ExitStatus.OK
    config = load(options).config
    set_up_logging(config.log_level, config.log_format)
    program = load_plugin("relay", "edged_relay")
    status: int = program.run(config, host=options.host, port=options.port)
    return status
