"""The options that verbs share, and what comes of them: a configuration, a connection.

Every verb takes ``--config`` and ``--set KEY=VALUE``; one that talks to an engine takes
``--state-dir``, ``--json`` and ``--timeout`` besides.

Numbers of a command line, as people write them; never ``nan``, ``inf``, ``1_0`` or other digits.

``number`` reads one; the others are types for argparse, which says what was wrong and ends with 2.

``key=value`` words of a command line → a tool's arguments, typed by the tool's own schema.

``voltage=5`` is a number where the schema has one, ``name=5`` a text where it has a text.
``key:=JSON`` takes JSON as it stands. ``parameters.voltage=5`` sets a field of an inner object,
which is how execute_command's ``parameters`` are given without quoting JSON. Pure; whether the
value is allowed is the engine's to say.

The parameters of a command or sequence are typed by its own schema, which get_capabilities tells.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from edged.errors import ErrorCode, Invalid
from edged.files import resolved
from edged.host import ENVIRONMENT_PREFIX, LEASE_VARIABLE, places_here
from edged.surfaces.rpc.client import EngineFile, RpcClient, find_engine

if TYPE_CHECKING:
    from edged.config.load import LoadedConfig

WHEN: Final = "an age (90s, 15m, 2h, 7d), a time of today (08:00), or 2026-11-21T08:00"
AGE: Final = r"(\d+)\s*([smhd])"
AGE_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
TIME_OF_DAY: Final = r"\d\d:\d\d(:\d\d)?"
NUMBER: Final = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
WHOLE: Final = r"[+-]?[0-9]+"
PLAIN_PATH: Final = r"(?:/[A-Za-z0-9_.-]+)+"
"""Compiled when they are used: most verbs use none."""
LONGEST_WHOLE: Final = 400
"""Digits: more are no number that anybody means, and Python refuses to read very many."""

LONGEST_S: Final = 366 * 86_400.0


def number(text: str) -> int | float:
    """A whole number where it is written as one.

    Raises:
        ValueError: it is no number, or none that a float can hold.
    """
    text = text.strip()
    if re.fullmatch(WHOLE, text) and len(text) <= LONGEST_WHOLE:
        return int(text)
    value = float(text) if re.fullmatch(NUMBER, text) else float("nan")
    if value - value != 0:  # infinite or no number
        message = f"{text!r} is not a number"
        raise ValueError(message)
    return value


def moment(text: str | None) -> int | None:
    """Unix epoch milliseconds of an age or a time; local time unless it says otherwise.

    Raises:
        Invalid: it is neither.
    """
    # Late: most verbs need no time.
    from datetime import UTC, datetime, timedelta

    if text is None:
        return None
    text = text.strip()
    if found := re.fullmatch(AGE, text):
        age = timedelta(**{AGE_UNITS[found.group(2)]: int(found.group(1))})
        return max(0, int((datetime.now(UTC) - age).timestamp() * 1000))
    try:
        if re.fullmatch(TIME_OF_DAY, text):
            text = f"{datetime.now().astimezone().date()}T{text}"
        return max(0, int(datetime.fromisoformat(text).astimezone().timestamp() * 1000))
    except (ValueError, OverflowError, OSError) as error:
        raise Invalid(
            f"{text!r} is not a time.",
            remedy="Write an age (15m, 2h, 7d), 08:00, or 2026-11-21T08:00.",
        ) from error


def finite(text: str) -> float:
    """Any number."""
    try:
        return float(number(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def seconds(text: str) -> float:
    """A length of time that can be waited for."""
    value = finite(text)
    if not 0 < value <= LONGEST_S:
        message = f"{text!r} is not a duration: more than 0, at most {LONGEST_S:g} seconds"
        raise argparse.ArgumentTypeError(message)
    return value


def positive(text: str) -> int:
    """A count of one or more."""
    try:
        value = number(text)
    except ValueError:
        value = 0
    if not isinstance(value, int) or value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return value


# Flags with a name of their own; every other key is reached by --set.
KEY_FLAGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "--mcp-port": "MCP_PORT",
        "--rpc-port": "RPC_PORT",
        "--state-dir": "STATE_DIR",
        "--log-level": "LOG_LEVEL",
    }
)


class HelpText(argparse.HelpFormatter):
    """argparse's own, which asks ``shutil`` for the width even where no help is printed."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        try:
            width = int(columns) if columns.isdecimal() else os.get_terminal_size().columns
        except (OSError, ValueError, AttributeError):
            width = 0
        super().__init__(prog, width=(width or 80) - 2)


def add_config_options(parser: argparse.ArgumentParser, names: Sequence[str] = ()) -> None:
    """``--config``, ``--set``, and those of ``KEY_FLAGS`` that are named."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="read this configuration file instead of the default one",
    )
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a configuration key (docs/configuration.md); may be repeated",
    )
    for flag in names:
        parser.add_argument(flag, metavar="VALUE", help=f"the same as --set {KEY_FLAGS[flag]}=…")


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """What every verb takes that talks to a running engine."""
    add_config_options(parser, ["--state-dir"])
    parser.set_defaults(program=parser.prog)
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    parser.add_argument(
        "--timeout", type=seconds, metavar="SECONDS", help="how long to wait for the answer"
    )
    parser.add_argument("--lease", metavar="ID", help="use this lease (default: EDGED_LEASE)")


def add_dry_run_option(parser: argparse.ArgumentParser) -> None:
    """``--dry-run``, of what may change something."""
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be sent, and send nothing"
    )


def load(options: argparse.Namespace, *, is_simulated: bool = False) -> LoadedConfig:
    """The configuration under these options; warnings about it go to standard error.

    Raises:
        Invalid: BAD_CONFIG, UNSUPPORTED_PLATFORM.
    """
    # Here: reading the configuration takes longer than asking an engine.
    from edged.config.load import load_config, this_machine

    flags = [_split(setting) for setting in options.settings]
    given = vars(options)
    for flag, key in KEY_FLAGS.items():
        value = given.get(flag.removeprefix("--").replace("-", "_"))
        if value is not None:
            flags.append((key, value, flag))
    loaded = load_config(
        places=this_machine(),
        environ=os.environ,
        file=options.config,
        flags=flags,
        is_simulated=is_simulated,
    )
    for warning in loaded.warnings:
        print(f"edged: {warning}", file=sys.stderr)
    return loaded


def locate(loaded: LoadedConfig) -> EngineFile:
    """The running engine.

    Raises:
        Failed: NO_ENGINE.
    """
    return find_engine(state_dirs(loaded))


def state_dirs(loaded: LoadedConfig) -> Sequence[Path]:
    """Where an engine may run: the configured state directory, else all those of this machine."""
    if loaded.origins["STATE_DIR"] != "default":
        return [loaded.config.state_dir]
    return _usual_state_dirs()


def own_profile_dir(loaded: LoadedConfig) -> Path:
    """Where the owner's profiles belong; it need not be there yet."""
    if loaded.origins["PROFILE_DIRS"] == "default" or not loaded.config.profile_dirs:
        return places_here().own_profile_dir
    return loaded.config.profile_dirs[-1]


def connect(options: argparse.Namespace) -> RpcClient:
    """A client for the running engine.

    Raises:
        Invalid: the configuration cannot be used.
        Failed: NO_ENGINE.
    """
    directories, token = _unconfigured_state_dirs(options), None
    if directories is None:
        loaded = load(options)
        directories, token = state_dirs(loaded), loaded.config.inbound_auth_token
    engine = find_engine(directories)
    lease = options.lease or os.environ.get(LEASE_VARIABLE, "")
    client = RpcClient(engine, token=token, program=options.program, lease=lease)
    if options.timeout is not None:
        client.timeout_s = options.timeout
    return client


def _usual_state_dirs() -> list[Path]:
    return [resolved(directory) for directory in places_here().state_dirs]


STATE_DIR_VARIABLE: Final = f"{ENVIRONMENT_PREFIX}STATE_DIR"


def _unconfigured_state_dirs(options: argparse.Namespace) -> Sequence[Path] | None:
    """``state_dirs`` where nothing else is configured anywhere; None: the configuration is read.

    What is read then would have the state directory of the command line or of the environment, no
    token, and nothing to complain about. Only plain absolute paths are taken as they stand.
    """
    allowed = {LEASE_VARIABLE, STATE_DIR_VARIABLE}
    is_set = any(n.startswith(ENVIRONMENT_PREFIX) and n not in allowed for n in os.environ)
    if is_set or options.config is not None or options.settings:
        return None
    file = places_here().config_file
    if file.exists() or file.with_name(f"{file.name}.d").exists():
        return None
    named = [os.environ.get(STATE_DIR_VARIABLE), options.state_dir]
    given = [text for text in named if text is not None]
    if not given:
        return _usual_state_dirs()
    if not all(re.fullmatch(PLAIN_PATH, text) for text in given):
        return None
    return [resolved(Path(given[-1]))]


def this_user() -> str:
    """Who says so, where nobody is named."""
    import getpass  # for the few verbs that ask

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "somebody at the edge"


def _split(setting: str) -> tuple[str, str, str]:
    key, equals, value = setting.partition("=")
    if not equals:
        raise Invalid(
            f"--set {setting}: there is no = in it.",
            code=ErrorCode.BAD_CONFIG,
            remedy="Write --set KEY=VALUE.",
        )
    return key.strip(), value, f"--set {key.strip()}"


Schema = Mapping[str, Any]


def parse_arguments(words: Sequence[str], schema: Schema | None) -> dict[str, Any]:
    """The arguments that those words mean.

    Args:
        words: ``key=value`` or ``key:=JSON``.
        schema: the tool's input schema; None where the tool is not known, and values are guessed.

    Raises:
        Invalid: a word is no assignment, or its value not of the type that the schema wants.
    """
    arguments: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise Invalid(
                f"{word!r} is not KEY=VALUE.",
                remedy="Write it as key=value, or key:=JSON for a list.",
            )
        is_json = key.endswith(":")
        path = key.removesuffix(":").split(".")
        inner = _schema_at(schema, path)
        value = _read_json(key, text) if is_json else _typed(key, text, inner)
        _put(arguments, path, value)
    return arguments


def read_parameters(
    client: RpcClient, instrument: str, name: str, words: Sequence[str], *, of: str = "commands"
) -> dict[str, Any]:
    """The parameters of a command, or of a sequence, that those words mean.

    Args:
        client: the engine that knows the instrument.
        instrument: its id or alias.
        name: the command or sequence.
        words: ``key=value`` or ``key:=JSON``.
        of: ``commands`` or ``sequences``.

    Raises:
        Invalid: as of ``parse_arguments``.
    """
    if not words:
        return {}
    return parse_arguments(words, schema_of_parameters(client, instrument, name, of=of))


def schema_of_parameters(
    client: RpcClient, instrument: str, name: str, *, of: str = "commands"
) -> Schema | None:
    """The schema of a command's parameters; None where there is none, which the engine answers."""
    wanted = {"name": "get_capabilities", "arguments": {"instrument_id": instrument}}
    answer = client.call_tool("tools/call", wanted)
    for entry in answer.result if answer.error is None else ():
        for one in entry.get(of, ()):
            if one["name"] == name and isinstance(one.get("parameters"), Mapping):
                schema: Schema = one["parameters"]
                return schema
    return None


def _schema_at(schema: Schema | None, path: Sequence[str]) -> Schema:
    for name in path:
        properties = schema.get("properties") if schema else None
        schema = properties.get(name) if isinstance(properties, Mapping) else None
    return schema if isinstance(schema, Mapping) else {}


def _typed(key: str, text: str, schema: Schema) -> Any:
    wanted = schema.get("type")
    if text == "null" and wanted != "string":
        return None
    match wanted:
        case "string":
            return text
        case "number" | "integer":
            return _number(key, text, schema)
        case "boolean":
            if text in {"true", "false"}:
                return text == "true"
            raise Invalid(f"{key} must be true or false, not {text!r}.")
        case "array" if not text.lstrip().startswith("["):
            items = schema.get("items")
            inner = items if isinstance(items, Mapping) else {}
            return [_typed(key, part.strip(), inner) for part in text.split(",")]
        case "array" | "object":
            return _read_json(key, text)
        case _:
            return _guessed(text)


def _number(key: str, text: str, schema: Schema) -> int | float:
    # 2.5 for an integer goes out as it is: the engine's refusal names the bounds, too.
    try:
        return number(text)
    except ValueError:
        what = "a whole number" if schema["type"] == "integer" else "a number"
        raise Invalid(f"{key} must be {what}{_bounds(schema)}, not {text!r}.") from None


def _bounds(schema: Schema) -> str:
    """`` from 0 to 32``, as far as the schema has them."""
    words = {
        "minimum": "from",
        "exclusiveMinimum": "above",
        "maximum": "to",
        "exclusiveMaximum": "below",
    }
    return "".join(f" {word} {schema[bound]}" for bound, word in words.items() if bound in schema)


def _guessed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _read_json(key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{key.removesuffix(':')} is not JSON: {text!r} ({error}).") from error


def _put(arguments: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *outer, last = path
    place = arguments
    for name in outer:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise Invalid(f"{'.'.join(path)}: {name} was given a plain value already.")
    place[last] = value
