"""``edged status``: what is on, what runs, what waits, and what is wrong, at a glance.

``--all`` adds what is seldom wanted: ids, doors for other programs, and advice. ``--json`` has all
that the engine tells of itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from edged.cli.instruments import absent_line
from edged.cli.shared import output
from edged.cli.shared.options import HelpText, add_engine_options, connect
from edged.host import LOOPBACK, netloc_of, reached_at, read_supervisor_file

Told = Mapping[str, Any]
MINUTE_S: Final = 60
HOUR_S: Final = 3_600
DAY_S: Final = 86_400
ADVICE: Final = "ADVICE"


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="edged status", description=__doc__, formatter_class=HelpText
    )
    parser.add_argument(
        "--all", action="store_true", help="show ids, doors for other programs and advice, too"
    )
    output.add_watch_option(parser)
    add_engine_options(parser)
    options = parser.parse_args(arguments)

    def once() -> int:
        engine = connect(options)
        status = engine.call_tool("status")
        if options.json or status.error is not None:
            return output.show(status, options, lambda _: None)
        known = engine.call_tool("instruments", {"filter": ""}).value

        def draw(told: Any) -> None:
            host = _reached_at(engine.engine.path.parent)
            output.print_lines(glance(told, known, host, shows_all=options.all))

        return output.show(status, options, draw)

    return output.watched(options, once)


def _reached_at(state_dir: Path) -> str:
    """The network's address, where a supervisor has opened the port to it."""
    return reached_at(read_supervisor_file(state_dir).get("addresses", ()))


def glance(
    status: Told,
    instruments: Sequence[Told],
    host: str = LOOPBACK,
    *,
    shows_all: bool = False,
) -> Iterator[str]:
    """The lines; what stands under a heading begins with blanks.

    Args:
        status: what get_status tells.
        instruments: what list_instruments tells, for what people call them.
        host: by which this machine is reached.
        shows_all: with what is seldom wanted, and with headings that have nothing under them.
    """
    name = output.aliased(instruments)
    yield from _doors(status, host, shows_all=shows_all)
    is_calm = True
    sections = SECTIONS if shows_all else {k: v for k, v in SECTIONS.items() if k != ADVICE}
    for title, section in sections.items():
        lines = list(section(status, name))
        is_calm = is_calm and not lines
        if lines or shows_all:
            yield f"{title}:" if lines else f"{title}: nothing"
        yield from (f"  {line}" for line in lines)
    if is_calm and not shows_all:
        yield "nothing is on, runs, waits or is wrong"


def _doors(status: Told, host: str, *, shows_all: bool) -> Iterator[str]:
    """What it is called, where it is reached, and how many instruments it has."""
    mcp, visa = status["mcp"], status["visa"]
    edge_id = f" ({status['edge_id']})" if shows_all else ""
    yield (
        f"{status['edge_name']}{edge_id}, edged {status['version']}, "
        f"up {_lasting(status['uptime_s'])}"
    )
    if mcp["enabled"] and mcp["port"]:
        base = f"http://{netloc_of(host, mcp['port'])}"
        count = mcp["sessions"]
        sessions = f"{count or 'no'} session{'' if count == 1 else 's'}"
        tools = f", {mcp['tools']} tools" if shows_all else ""
        yield f"MCP: {base}{mcp['path']} ({sessions}{tools})"
        if mcp["page"] != "off":
            yield f"page: {base}/bench (edged open)"
    else:
        yield f"MCP: {'not open' if mcp['enabled'] else 'switched off'}"
    if visa["port"] and (shows_all or visa["programs"]):
        yield f"HiSLIP on port {visa['port']}: {', '.join(visa['names']) or 'no instrument'}"
    states = status["instruments_by_state"]
    counted = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    count = status["instrument_count"]
    units = f"{count} instrument{'' if count == 1 else 's'}"
    yield f"{units}{f': {counted}' if counted else ''}"


def _on(status: Told, name: output.Name) -> Iterator[str]:
    for rule in status["interlocks"]:
        if rule["state"] == "watching" and not rule["cools_s"]:
            yield f"interlock {rule['name']} is watching: {_interlock(rule)}"
    for one in status["dead_man"]:
        if one["state"] != "tripped":
            yield f"{name(one['instrument_id'])}: its dead-man runs, {one['dead_man_s']:g} s"
    for unit in status["told_on"]:
        on = [one for one in unit["outputs"] if one not in unit["off"]]
        if on:
            left = [one for one in on if one in unit.get("left", ())]
            was_left = f"; {_outputs(left)} left on by the previous run of the engine"
            yield (
                f"{name(unit['instrument_id'])}: {_outputs(on)}, "
                f"{_since(unit['since_ms'])}{was_left if left else ''}"
            )


def _outputs(names: Sequence[str]) -> str:
    return ", ".join("any output (state unknown)" if one == "*" else str(one) for one in names)


def _running(status: Told, name: output.Name) -> Iterator[str]:
    for program in status["visa"]["programs"]:
        yield f"{name(program['instrument_id'])}: used by {program['who']}"
    for sweep in status["sweeps"]:
        if sweep["status"] == "running":
            late = f"; {sweep['why_late']}" if sweep["why_late"] else ""
            yield f"{_swept(sweep, name)} at {sweep['sweep_rate']:g} {sweep['unit']}/s{late}"
    for stream in status["streams"]:
        yield (
            f"{stream['stream_id']}: {name(stream['instrument_id'])} {stream['command_name']} "
            f"every {stream['interval_ms'] / 1000:g} s, {stream['count']} points"
        )
    for run in status["sequences"]:
        yield (
            f"{run['run_id']}: {name(run['instrument_id'])} {run['sequence_name']}, "
            f"{run['steps_executed']} steps done"
        )


def _stopping(status: Told, name: output.Name) -> Iterator[str]:
    for instrument_id in status["stopping"]:
        yield f"{name(instrument_id)}: its stop is repeated until it is confirmed"
    for sweep in status["sweeps"]:
        if sweep["abort"]["state"] == "pending":
            unit = name(sweep["instrument_id"])
            yield f"{unit}: the abort of {sweep['sweep_id']} is repeated until the instrument obeys"


def _waiting(status: Told, name: output.Name) -> Iterator[str]:
    for sweep in status["sweeps"]:
        if sweep["status"] == "holding":
            yield f"{_swept(sweep, name)}, held at its value until somebody stops it"
    for line in status["waiting_calls"]:
        yield f"{name(line['instrument_id'])}: calls that wait for its line: {line['calls']}"
    if waiting := status["recordings"]["waiting"]:
        yield f"recordings that have ended and wait for the disk: {waiting}"
    for lock in status["lockouts"]:
        yield f"{name(lock['instrument_id'])}: locked out by {lock['by']}: {lock['reason']}"
    for question in status["approvals"]:
        yield (
            f"{question['instrument']}: {question['tool']} of {question['who']} waits for your "
            f"approval (edged approve {question['approval_id']})"
        )
    for rule in status["interlocks"]:
        if rule["cools_s"]:
            yield f"interlock {rule['name']}: {_interlock(rule)}"
    for budget in status["budgets"]:
        if budget["wait_s"]:
            yield (
                f"{name(budget['instrument_id'])}: the budget of {budget['command']} is used up "
                f"for {budget['wait_s']:.0f} s"
            )
    for lease in status["leases"]:
        units = ", ".join(map(name, lease["instruments"]))
        purpose = f" for {lease['purpose']}" if lease["purpose"] else ""
        yield f"{units}: reserved by {lease['who']}{purpose}"


def _absent(status: Told, _name: output.Name) -> Iterator[str]:
    for place in status["set_aside"]:
        yield absent_line(place)


def _interlock(rule: Told) -> str:
    if rule["cools_s"]:
        return f"tripped, and cools down for {rule['cools_s']:.0f} s: {rule['reason']}"
    return f"{rule['reads']} is {rule['last'] or 'not read yet'}, must be: {rule['must']}"


def _wrong(status: Told, name: output.Name) -> Iterator[str]:
    for rule in status["interlocks"]:
        if rule["tripped_ms"]:
            yield f"interlock {rule['name']} tripped {_at(rule['tripped_ms'])}: {rule['reason']}"
        if rule["unknown"]:
            yield (
                f"interlock {rule['name']}: nothing here is called {', '.join(rule['unknown'])}, "
                "so it holds back more than is meant, or guards nothing"
            )
    for line in status["troubled_lines"]:
        yield f"{name(line['instrument_id'])} is {line['state']}: {line['reason']}"
    needy = {s["sweep_id"]: s for s in [*status["sweeps"], *status["needs_attention"]]}
    for sweep_id, sweep in needy.items():
        if sweep.get("needs_attention"):
            unit = name(sweep.get("instrument_id"))
            yield f"{unit}: the abort of {sweep_id} was not confirmed; its output may be on"
    for one in status["dead_man"]:
        if one["state"] == "tripped":
            yield (
                f"{name(one['instrument_id'])}: its dead-man has switched the outputs off; a "
                f"person has to look at it and to clear it: {one['clear']}"
            )
    for one in status["discovery"]["warnings"]:
        yield f"{name(one['instrument_id'])}: {one['warning']}"
    for one in status["sdk"]["wrappers"]:
        if one["is_seen"] and not one["is_usable"]:
            yield f"wrapper {one['wrapper']} ({one['state']}): {one['problem']}"
    store, profiles, mcp = status["store"], status["profiles"], status["mcp"]
    if store["state"] != "healthy":
        yield f"the database is {store['state']}: {store['reason']}"
    if status["recordings"]["is_full"]:
        yield "recordings: the budget is used up, new ones are refused"
    link = status["relay"]["link"]
    if status["relay"]["configured"] and link["state"] != "connected":
        yield f"the relay is {link['state']}: {link['last_error']}"
    plain = [
        *status["sdk"]["complaints"],
        *map(str, profiles["complaints"]),
        profiles["bench_error"],
        profiles["bench_copy_error"],
        status["recordings"]["error"],
        mcp["error"],
        status["visa"]["error"],
    ]
    yield from filter(None, plain)


def _advice(status: Told, _name: output.Name) -> Iterator[str]:
    yield from filter(None, [status["mcp"]["warning"]])
    if status["raw_scpi"] == "all":
        yield "send_scpi does not check the limits of profiles; `RAW_SCPI: known` changes that"


def _swept(sweep: Told, name: output.Name) -> str:
    unit = f" {sweep['unit']}" if sweep["unit"] else ""
    return (
        f"{sweep['sweep_id']}: {name(sweep['instrument_id'])} {sweep['command_name']} is at "
        f"{sweep['set_value']:g}{unit} of {sweep['start_value']:g} to {sweep['target_value']:g}"
        f"{unit}"
    )


def _lasting(seconds: float) -> str:
    """``3 h 12 min``: two units at most."""
    if seconds < MINUTE_S:
        return f"{seconds:.0f} s"
    minutes = int(seconds // MINUTE_S)
    if seconds < HOUR_S:
        return f"{minutes} min"
    if seconds < DAY_S:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1_440} d {minutes // 60 % 24} h"


def _since(since_ms: int) -> str:
    return f"since {output.local_time(since_ms)}"


def _at(at_ms: int) -> str:
    return f"at {output.local_time(at_ms)}"


SECTIONS: Final[Mapping[str, Callable[[Told, output.Name], Iterator[str]]]] = MappingProxyType(
    {
        "ON": _on,
        "RUNS": _running,
        "STOPS": _stopping,
        "WAITS": _waiting,
        "WRONG": _wrong,
        "ABSENT": _absent,
        ADVICE: _advice,
    }
)
