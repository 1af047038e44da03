"""``edged probe ADDRESS``: find out the connection settings of an unknown instrument.

Tries line ends, on a serial port speeds, parities and frames too, then the pause that it needs
between two lines, and prints a ``connection:`` line for a profile. All that is sent is one
question, ``*IDN?`` or what ``--ask`` gives, and bare line ends; it takes at most a minute.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from edged.cli.shared.options import add_config_options, load
from edged.cli.shared.output import print_json
from edged.clock import SystemClock
from edged.config.load import Config, LoadedConfig
from edged.errors import ErrorCode, Failed
from edged.host import ExitStatus
from edged.profiles.addressed import PLACEHOLDER
from edged.scpi.answer_text import clean_text
from edged.transports.address import Transport, parse_address
from edged_author.cli.borrowing import at_running_engine, need_address
from edged_author.cli.new import bus_of, check_question, connection_of
from edged_author.drafting import as_yaml
from edged_author.probing import (
    HANGS_UP,
    NAME_QUESTION,
    WIRE_KEYS,
    WireFindings,
    find_message_settings,
    find_settings,
    flow_of,
)
from edged_author.wire_talk import WireTalk

WITHIN_S: Final = 57.0
"""For all that is asked; the verb ends within a minute."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged probe", description=__doc__)
    parser.add_argument("address", metavar="ADDRESS", help="VISA address")
    parser.add_argument(
        "--ask", default="", metavar="LINE",
        help="a question from its manual that changes nothing, in place of *IDN?",
    )  # fmt: skip
    parser.add_argument(
        "--connection",
        default="",
        metavar="KEYS",
        help="the connection settings that are known, as YAML",
    )
    add_config_options(parser, ["--state-dir"])
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    options = parser.parse_args(arguments)
    clock = SystemClock()
    began = clock.monotonic()
    loaded = load(options)
    found, said = _probed(options, loaded, clock)
    keys = keys_of(found, parse_address(options.address).transport)
    if options.json:
        print_json({"address": options.address, "connection": keys,
                    "question": options.ask or NAME_QUESTION, "answer": found.answer,
                    "answered_after_ms": round(found.after_ms, 1), "lines_sent": said,
                    "took_s": round(clock.monotonic() - began, 1),
                    "doubts": list(found.doubts)})  # fmt: skip
        return ExitStatus.OK
    line = in_one_line(keys)
    print(f"# It answers {options.ask or NAME_QUESTION} by: {clean_text(found.answer)}")
    for doubt in found.doubts:
        print(f"# {doubt}")
    print(f"connection: {line}")
    ask = f" --ask {shlex.quote(options.ask)}" if options.ask else ""
    needed = in_one_line(_needed(found, options.address, loaded.config))
    known = f" --connection {shlex.quote(needed)}" if needed != "{}" else ""
    print(f"# Next: edged profile new --from {options.address}{ask}{known}")
    return ExitStatus.OK


def keys_of(found: WireFindings, transport: Transport) -> dict[str, object]:
    """What was found as keys of ``connection``, the usual ones too where the wire needs them."""
    connection = found.connection
    keys: dict[str, object] = {"timeout_ms": connection.timeout_ms}
    if not transport.has_messages:
        keys["read_termination"] = connection.read_termination
        keys["write_termination"] = connection.write_termination
    return {**keys, **flow_of(connection)}


def _needed(found: WireFindings, address: str, config: Config) -> dict[str, object]:
    """What ``edged profile new`` would not take for granted."""
    usual = connection_of("", address, config)
    keys = {key: getattr(found.connection, key) for key in WIRE_KEYS}
    return {key: value for key, value in keys.items() if value != getattr(usual, key)}


def in_one_line(keys: Mapping[str, object]) -> str:
    """A mapping of YAML in one line."""
    return "{" + ", ".join(f"{key}: {as_yaml(value)}" for key, value in keys.items()) + "}"


def _probed(
    options: argparse.Namespace, loaded: LoadedConfig, clock: SystemClock
) -> tuple[WireFindings, int]:
    """What was found, and how many lines went out for it."""
    if at_running_engine(options.address, loaded) is not None:
        raise Failed(
            f"The running engine has {options.address}: two programs on one line disturb each "
            "other.",
            code=ErrorCode.DISCONNECTED,
            remedy="Take it out of INSTRUMENTS, or stop the engine, and probe again.",
        )
    need_address(options.address)
    check_question(options.ask, options.address, loaded.config)
    transport = parse_address(options.address).transport
    given = connection_of(options.connection, options.address, loaded.config)
    asked = options.ask.replace(PLACEHOLDER, bus_of(options.address))
    question = asked or NAME_QUESTION
    if transport.has_messages:
        talk = find_message_settings(question, given)
    else:
        talk = find_settings(question, given, is_serial=transport is Transport.SERIAL)
    library = loaded.config.visa_library
    with WireTalk(options.address, library=library, clock=clock, within_s=WITHIN_S) as wire:
        try:
            return wire.hold(talk), wire.said
        except Failed as silent:
            if silent.code is ErrorCode.TIMEOUT and wire.losses:
                sentence = f"{silent.message} {HANGS_UP}"
                raise Failed(sentence, code=silent.code, remedy=silent.remedy) from silent
            raise
