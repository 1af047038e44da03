"""The simulated bench as a program: one line of JSON when it is ready, then it stays.

It ends on SIGTERM and when its standard input, if that is a pipe or a terminal, is closed, so that
a parent that dies takes its bench along. It loads nothing of the engine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import stat
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from edged.clock import SystemClock
from edged.errors import EdgedError, ErrorCode, Invalid
from edged.record import record
from edged_sim.bench import Bench, Order, introduce
from edged_sim.control import ControlPort
from edged_sim.faults import FaultKind, WireFault, parse_fault
from edged_sim.models import model_names
from edged_sim.wires.stream import ByteLog, WireKind

DEFAULT_INSTRUMENTS: Final = "psu1,dmm1,scope1"
USUAL_MODELS: Final = {
    "psu": "rigol_dp832",
    "dmm": "keysight_34461a",
    "scope": "rigol_ds1054z",
}
"""What a name without a model means, by the name without its number."""

MOST_COPIES: Final = 1000
EXIT_USAGE: Final = 2
EXIT_UNAVAILABLE: Final = 69

_ORDER: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*?)(?:\*(\d{1,4}))?(?:=([a-z0-9_]+))?")


@record
class SimOptions:
    """What the bench is to be; the defaults are a supply, a meter and a scope on one load."""

    instruments: tuple[Order, ...] = ()
    seed: int = 0
    faults: tuple[tuple[str, WireFault], ...] = ()
    transistors: tuple[tuple[str, str], ...] = ()
    byte_log: Path | None = None
    control_port: int = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of ``edged sim`` on ``parser``; ``options_from`` reads them."""
    parser.add_argument(
        "--instruments",
        default=DEFAULT_INSTRUMENTS,
        metavar="NAME[*N][=MODEL],…",
        help=f"what is on the bench (psu*50=rigol_dp832 makes fifty); models: "
        f"{', '.join(model_names())}; default {DEFAULT_INSTRUMENTS}",
    )
    parser.add_argument("--seed", type=int, default=0, help="of noise and tolerances; default 0")
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND[:NAME[:SECONDS[:COUNT]]]",
        help=f"a fault from the start: {', '.join(kind.value for kind in FaultKind)}",
    )
    parser.add_argument(
        "--latency-ms",
        action="append",
        default=[],
        metavar="NAME=MS",
        help="time before each answer of NAME",
    )
    parser.add_argument(
        "--port",
        action="append",
        default=[],
        metavar="NAME=PORT",
        help="a fixed port (NAME control: control port)",
    )
    parser.add_argument(
        "--single-session",
        action="append",
        default=[],
        metavar="NAME,…",
        help="NAME takes one connection at a time",
    )
    parser.add_argument(
        "--transport",
        action="append",
        default=[],
        metavar="NAME=KIND",
        help=f"the transport of NAME: {', '.join(WireKind)}; default socket",
    )
    parser.add_argument(
        "--profile",
        action="append",
        default=[],
        metavar="NAME=KEY",
        help="the profile that an engine uses for NAME (default: its own, where NAME has no *IDN?)",
    )
    parser.add_argument(
        "--transistor",
        action="append",
        default=[],
        metavar="GATE=DRAIN",
        help="a transistor on the outputs of two instruments",
    )
    parser.add_argument("--byte-log", type=Path, metavar="FILE", help="every byte as JSON lines")
    parser.add_argument(
        "--kept-port",
        action="append",
        default=[],
        metavar="NAME=PORT",
        help="the port of NAME, if NAME is there and the port is free",
    )


def options_from(arguments: argparse.Namespace) -> SimOptions:
    """The options that parsed flags mean.

    Raises:
        Invalid: a flag cannot be read; the sentence names it.
    """
    ports, kept_ports = (
        {name: int(_number("port", text)) for name, text in _pairs("port", pairs)}
        for pairs in (arguments.port, arguments.kept_port)
    )
    latencies = {
        name: _number("latency-ms", text)
        for name, text in _pairs("latency-ms", arguments.latency_ms)
    }
    transports = {name: _transport(kind) for name, kind in _pairs("transport", arguments.transport)}
    profiles = dict(_pairs("profile", arguments.profile))
    single = {name for entry in arguments.single_session for name in entry.split(",") if name}
    orders = tuple(
        replace(
            order,
            port=ports.get(order.name, 0),
            kept_port=kept_ports.get(order.name, 0),
            latency_ms=latencies.get(order.name),
            is_single_session=order.name in single,
            transport=transports.get(order.name, WireKind.SOCKET),
            profile=profiles.get(order.name, ""),
        )
        for order in parse_orders(arguments.instruments)
    )
    transistors = tuple(_pairs("transistor", arguments.transistor))
    known = {order.name for order in orders}
    named = (*(ports.keys() - {"control"}), *latencies, *transports, *profiles, *single)
    named += tuple(end for ends in transistors for end in ends)
    for name in named:
        if name not in known:
            raise Invalid(f"A flag speaks of {name}, which --instruments does not name.")
    return SimOptions(
        instruments=orders,
        seed=arguments.seed,
        faults=tuple(parse_fault(text) for text in arguments.fault),
        transistors=transistors,
        byte_log=arguments.byte_log,
        control_port=ports.get("control", 0),
    )


def parse_orders(text: str) -> tuple[Order, ...]:
    """``psu1,dmm1=keysight_34461a,load*3=generic_scpi`` → one order an instrument.

    Raises:
        Invalid: an entry cannot be read, or its name says no model.
    """
    orders: list[Order] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        found = _ORDER.fullmatch(entry)
        if found is None:
            raise Invalid(f"{entry!r} in --instruments is not NAME[*N][=MODEL].")
        name, copies, model = found[1], found[2], found[3] or _usual_model(found[1])
        if copies is None:
            orders.append(Order(name=name, model=model))
        elif 1 <= int(copies) <= MOST_COPIES:
            orders.extend(
                Order(name=f"{name}{number}", model=model) for number in range(1, int(copies) + 1)
            )
        else:
            raise Invalid(f"{entry!r} in --instruments: 1 to {MOST_COPIES} copies can be made.")
    return tuple(orders)


def run(options: SimOptions) -> int:
    """Run the bench until it is told to end; the exit status.

    0 after SIGTERM or the end of standard input, 2 for options that cannot be, 69 for a port that
    is taken. What went wrong is one sentence on standard error.
    """
    logging.basicConfig(format="edged sim: %(message)s", level=logging.WARNING)
    try:
        asyncio.run(_serve(options))
    except EdgedError as error:
        sys.stderr.write(f"edged sim: {error}\n")
        return EXIT_UNAVAILABLE if error.code is ErrorCode.BIND_FAILED else EXIT_USAGE
    except OSError as error:
        sys.stderr.write(f"edged sim: {error}\n")
        return EXIT_UNAVAILABLE
    except KeyboardInterrupt:
        pass
    return 0


def read_options(arguments: Sequence[str] | None) -> SimOptions:
    """The options in a command line; the process ends where argparse refuses it.

    Raises:
        Invalid: see ``options_from``.
    """
    parser = argparse.ArgumentParser(prog="edged sim", description="A simulated bench on loopback.")
    add_arguments(parser)
    return options_from(parser.parse_args(arguments))


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m edged_sim.program``: the same flags as ``edged sim``."""
    try:
        options = read_options(arguments)
    except Invalid as error:
        sys.stderr.write(f"edged sim: {error}\n")
        return EXIT_USAGE
    return run(options)


@contextlib.asynccontextmanager
async def serving(options: SimOptions) -> AsyncIterator[dict[str, Any]]:
    """A bench on the running loop, as long as the context lasts.

    Yields:
        The ready line: ``control``, the port, and ``instruments``, each as ``introduce`` has it.

    Raises:
        EdgedError: an order or a fault cannot be.
        OSError: a port is taken.
    """
    clock = SystemClock()
    with ByteLog(clock, options.byte_log) as log:
        bench = Bench(clock=clock, log=log, seed=options.seed)
        control = ControlPort(bench)
        try:
            for order in options.instruments or parse_orders(DEFAULT_INSTRUMENTS):
                await bench.add(order)
            for gate, drain in options.transistors:
                bench.connect_transistor(gate, drain)
            for name, fault in options.faults:
                bench.apply(name, fault)
            await control.open(options.control_port)
            yield {"control": control.port, "instruments": [*map(introduce, bench.stations())]}
        finally:
            await control.close()
            await bench.stop()


async def _serve(options: SimOptions) -> None:
    ended = asyncio.Event()
    _end_on_request(ended)
    async with serving(options) as ready:
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await ended.wait()


def _end_on_request(ended: asyncio.Event) -> None:
    """Set ``ended`` on a signal, and when standard input is closed."""
    loop = asyncio.get_running_loop()
    holds_lifeline = _is_lifeline(sys.stdin.fileno() if sys.stdin else -1)
    if sys.platform == "win32":
        signal.signal(signal.SIGTERM, lambda *_: loop.call_soon_threadsafe(ended.set))
    else:
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        if holds_lifeline:
            # Ctrl-C and the end of a terminal go to the whole group; the parent still needs its
            # bench to make it safe.
            loop.add_signal_handler(signal.SIGINT, lambda: None)
            loop.add_signal_handler(signal.SIGHUP, lambda: None)
    if holds_lifeline or (sys.stdin and sys.stdin.isatty()):
        threading.Thread(
            target=_wait_for_end_of_input,
            args=(sys.stdin.fileno(), loop, ended),
            name="sim-stdin",
            daemon=True,  # it may wait for ever on a terminal; the process need not
        ).start()


def _is_lifeline(descriptor: int) -> bool:
    """Whether a parent holds the other end; /dev/null and files say nothing about a parent."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _wait_for_end_of_input(
    descriptor: int, loop: asyncio.AbstractEventLoop, ended: asyncio.Event
) -> None:
    with contextlib.suppress(OSError):
        while os.read(descriptor, 4096):
            pass
    with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended already
        loop.call_soon_threadsafe(ended.set)


def _pairs(flag: str, entries: Sequence[str]) -> list[tuple[str, str]]:
    pairs = []
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not name or not value:
            raise Invalid(f"--{flag} {entry!r} is not NAME=VALUE.")
        pairs.append((name, value))
    return pairs


def _number(flag: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Invalid(f"--{flag}: {text!r} is not a number.") from None


def _transport(text: str) -> WireKind:
    if text not in {kind.value for kind in WireKind}:
        raise Invalid(f"--transport: {text!r} is none of {', '.join(WireKind)}.")
    return WireKind(text)


def _usual_model(name: str) -> str:
    stem = name.rstrip("0123456789")
    if stem in USUAL_MODELS:
        return USUAL_MODELS[stem]
    if name in model_names():
        return name
    raise Invalid(
        f"{name!r} in --instruments says no model.",
        remedy=f"Write {name}=MODEL; models are {', '.join(model_names())}.",
    )


if __name__ == "__main__":
    sys.exit(main())
