"""``edged engine``: run the engine in the foreground until it is asked to stop."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from edged.cli.shared.options import add_config_options, load
from edged.config.load import Config
from edged.engine.sim_child import SimChild
from edged.lean_imports import shallow
from edged.log import set_up_logging

SIM_PORTS_FILE = "sim_ports.json"
EPILOG = """`edged engine --sim` uses a simulated bench (a supply, a multimeter and an oscilloscope
on loopback sockets). It searches no real bus unless DISCOVERY is set, and loads no SDK wrapper
unless SDK_WRAPPER_DIRS is set."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    # Configuration, bench file and profiles are read by a part of it.
    shallow("ruamel.yaml")
    config, sim_arguments, supervised = read(arguments)
    set_up_logging(config.log_level, config.log_format)
    sim = None
    if sim_arguments is not None:
        sim = SimChild(sim_arguments, config.state_dir / SIM_PORTS_FILE)
    # Imported here: a mistake in the configuration is reported without it, and the simulated bench
    # starts in the meantime.
    from edged.engine import life as engine_life

    return engine_life.run(config, sim=sim, supervised=supervised)


def read(arguments: Sequence[str]) -> tuple[Config, tuple[str, ...] | None, bool]:
    """The configuration, the simulated bench's arguments (None: no bench), whether supervised.

    Raises:
        Invalid: BAD_CONFIG, UNSUPPORTED_PLATFORM.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    sim_arguments = _sim_arguments(options)
    if sim_arguments and not options.sim:
        parser.error(f"{sim_arguments[0].replace('--port', '--sim-port')} needs --sim")
    config = load(options, is_simulated=options.sim).config
    if not options.sim:
        return config, None, options.supervised
    return config, sim_arguments, options.supervised


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="edged engine", description=__doc__, epilog=EPILOG)
    add_config_options(parser, ["--mcp-port", "--rpc-port", "--state-dir", "--log-level"])
    parser.add_argument(
        "--supervised", action="store_true", help="a supervisor listens on the same MCP port"
    )
    sim = parser.add_argument_group("simulated bench")
    sim.add_argument("--sim", action="store_true", help="start a simulated bench and use it")
    sim.add_argument("--seed", metavar="N", help="the seed of its noise: the same noise each time")
    sim.add_argument(
        "--instruments", metavar="NAME[=MODEL],…", help="its instruments (`edged sim --help`)"
    )
    sim.add_argument("--byte-log", metavar="FILE", help="write every byte of its sockets to FILE")
    sim.add_argument(
        "--single-session", metavar="NAME,…", help="instruments that accept only one connection"
    )
    for flag, metavar, what in (
        ("--fault", "KIND[:NAME]", "give a fault to one instrument, or to all"),
        ("--latency-ms", "NAME=MS", "delay the answers of an instrument"),
        ("--sim-port", "NAME=PORT", "the port of an instrument"),
        ("--transport", "NAME=KIND", "the transport of an instrument (`edged sim --help`)"),
        (
            "--profile",
            "NAME=KEY",
            ("the profile that is used for an instrument (`edged sim --help`)"),
        ),
        ("--transistor", "GATE=DRAIN", "a transistor on the outputs of two instruments"),
    ):
        sim.add_argument(flag, action="append", default=[], metavar=metavar, help=what)
    return parser


def _sim_arguments(options: argparse.Namespace) -> tuple[str, ...]:
    """What is handed on to the simulated bench, in its own spelling."""
    single = {
        "--seed": options.seed,
        "--instruments": options.instruments,
        "--byte-log": options.byte_log,
        "--single-session": options.single_session,
    }
    words = [word for flag, value in single.items() if value is not None for word in (flag, value)]
    for flag, values in (
        ("--fault", options.fault),
        ("--latency-ms", options.latency_ms),
        ("--port", options.sim_port),
        ("--transport", options.transport),
        ("--profile", options.profile),
        ("--transistor", options.transistor),
    ):
        words += [word for value in values for word in (flag, value)]
    return tuple(words)
