"""The instrument that a verb of ``edged profile`` asks: a running engine's, or an errand's own.

Two programs on one instrument disturb each other, so the engine that has it is asked first.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from edged.cli.shared.options import locate
from edged.clock import Clock
from edged.config.load import Config, LoadedConfig
from edged.errors import EdgedError, ErrorCode, Failed, Invalid, NotFound
from edged.record import record
from edged.store.bench_copy import BenchCopy
from edged.surfaces.rpc.client import RpcClient
from edged.transports.address import Address, parse_address
from edged.transports.reach import knock
from edged_author.one_off_engine import errand_engine, registered


@record
class Borrowed:
    """An instrument that can be asked.

    Attributes:
        known: its entry in list_instruments.
        is_running_engines: an engine that runs anyway has it; else it was opened for this errand.
    """

    client: RpcClient
    known: Mapping[str, Any]
    is_running_engines: bool

    def ask(self, line: str) -> str:
        """The answer to a raw query.

        Raises:
            Failed: it did not answer; what the engine says.
        """
        asked = {"instrument_id": self.known["id"], "scpi_command": line}
        answer = self.client.call_tool("send_scpi", asked, timeout_s=60.0)
        if answer.error is not None:
            reason = f"{answer.error['message']} {answer.error['remedy']}".strip()
            raise Failed(f"{line}: {reason}", code=ErrorCode.BAD_ANSWER)
        return str(answer.result["response"] or "")


@contextlib.contextmanager
def borrowed(
    address: str, loaded: LoadedConfig, settings: Mapping[str, Any], *, clock: Clock
) -> Iterator[Borrowed]:
    """The instrument at an address, for as long as the context lasts.

    Args:
        address: VISA resource string; of a running engine's instrument also its alias or serial.
        loaded: this machine's configuration, which says where an engine would be.
        settings: of the errand's engine, where one is needed.

    Raises:
        Failed: nobody answers there.
    """
    there = at_running_engine(address, loaded)
    if there is not None:
        yield there
        return
    need_address(address)
    knock(address, clock)
    with errand_engine(settings, clock=clock) as client:
        known = registered(client, address, clock)
        yield Borrowed(client=client, known=known, is_running_engines=False)


def need_address(text: str) -> None:
    """Refuse a name that only a running engine could know.

    Raises:
        Invalid: it is not a VISA address.
    """
    if "::" not in text:
        raise Invalid(
            f"{text!r} is not a VISA address, and no running engine knows such an instrument.",
            remedy="Write it like TCPIP::192.168.1.20::5025::SOCKET.",
        )


def errand_settings(loaded: LoadedConfig) -> dict[str, Any]:
    """What an errand's engine has in common with the one that is usual here, or runs."""
    config = loaded.config
    bench = BenchCopy(config.bench_file, config.state_dir)
    with contextlib.suppress(EdgedError):
        engine = locate(loaded)
        # One that was killed leaves its file, too.
        RpcClient(engine, token=config.inbound_auth_token).call_tool("get_status")
        bench = BenchCopy(engine.bench_file or config.bench_file, engine.path.parent)
    return {
        "PROFILE_DIRS": [str(path.absolute()) for path in config.profile_dirs],
        # With a state directory of its own the errand's engine would find no copy of one that is
        # gone, and no limit in force.
        "BENCH_FILE": str(bench.place()),
        "VISA_LIBRARY": config.visa_library,
    }


def entry_for(address: str, config: Config, **more: Any) -> dict[str, Any]:
    """The entry of INSTRUMENTS for an address: what the owner wrote of it, and ``more``."""
    written: dict[str, Any] = {}
    for entry in config.instruments:
        if entry.address == address:
            told = dataclasses.asdict(entry)
            del told["problem"]
            written = {n: _as_written(value) for n, value in told.items() if value is not None}
    for key in ("read_termination", "write_termination"):
        if written.get(key) == "":
            written[key] = "none"
    return {**written, "address": address, **more}


def _as_written(value: Any) -> Any:
    """A value of an entry as the configuration file has it."""
    if not isinstance(value, dict):
        return value
    said = {name: _as_question(name, text) for name, text in value.items() if text}
    return "none" if said in ({}, {"kind": "none"}) else said


def _as_question(name: str, text: str) -> Any:
    is_unmarked = name in ("query", "detail") and "?" not in text
    return {"ask": text} if is_unmarked else text


def at_running_engine(address: str, loaded: LoadedConfig) -> Borrowed | None:
    """The instrument of that name, where an engine runs and has it."""
    try:
        client = RpcClient(locate(loaded), token=loaded.config.inbound_auth_token)
        listed = client.call_tool("list_instruments").value
    except EdgedError as error:
        if error.code is ErrorCode.NO_ENGINE:
            return None
        raise
    wanted = address.strip().casefold()
    # As the engine looks names up: what the owner calls so comes before a serial number.
    for names in (("id", "address", "alternatives"), ("alias",), ("serial",)):
        called = [i for i in listed if wanted in [t for n in names for t in _texts(i[n])]]
        if len(called) > 1:
            raise NotFound(
                f"{address!r} is the name of {len(called)} instruments: "
                f"{', '.join(i['id'] for i in called)}.",
                code=ErrorCode.UNKNOWN_INSTRUMENT,
                remedy="Give the id of the one you want.",
            )
        if called and wanted:
            return Borrowed(client=client, known=called[0], is_running_engines=True)
    aside = client.call_tool("get_status").value["set_aside"]
    _refuse_shared(address, [one["address"] for one in (*listed, *aside)])
    return None


def _refuse_shared(address: str, others: Iterable[str]) -> None:
    """Raise where the engine works units of the same port."""
    wanted = _parsed(address)
    for other in others if wanted is not None else ():
        there = _parsed(other)
        if there is None or wanted is None or there.key == wanted.key:
            continue
        if there.device == wanted.device:
            raise Failed(
                f"The running engine has {other} on the same port: two programs on one line "
                "disturb each other.",
                code=ErrorCode.DISCONNECTED,
                remedy="Stop the engine, or add the unit to its INSTRUMENTS with a bus_address.",
            )


def _parsed(address: str) -> Address | None:
    with contextlib.suppress(EdgedError):
        return parse_address(address)
    return None


def _texts(value: Any) -> list[str]:
    return [str(one).casefold() for one in (value if isinstance(value, list) else [value])]
