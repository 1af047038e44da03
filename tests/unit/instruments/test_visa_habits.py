"""What edged never does with PyVISA, because it ends badly (docs/users-pains.md)."""

from __future__ import annotations

import ast
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from edged.clock import SystemClock
from edged.profiles.model import Connection
from edged.transports import visa
from edged.transports.address import TRANSPORTS, Transport
from edged.transports.link import Link
from edged.transports.message import MessageLink
from edged.transports.raw_socket import RawSocketLink
from edged.transports.serial import SerialLink
from tests.bench.engine_process import REPOSITORY
from tests.bench.sources import syntax_tree

SOURCES = sorted(
    path
    for room in ("instruments", "transports", "discovery")
    for path in (REPOSITORY / "edged" / room).glob("*.py")
)


def calls() -> list[tuple[str, str]]:
    """(module, name) of each method that instrument code calls."""
    return [
        (path.name, node.func.attr)
        for path in SOURCES
        for node in ast.walk(syntax_tree(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]


def test_there_is_one_resource_manager_made_in_one_place() -> None:
    assert [module for module, name in calls() if name == "ResourceManager"] == ["visa.py"]


def test_no_session_is_locked_and_no_list_of_resources_is_asked_for() -> None:
    never = {"lock", "lock_excl", "lock_context", "list_resources", "list_resources_info"}
    assert [call for call in calls() if call[1] in never] == []


@pytest.mark.parametrize("kind", [MessageLink, SerialLink])
def test_opening_clears_nothing_and_sends_nothing(kind: type[MessageLink]) -> None:
    done: list[str] = []

    class Resource:
        """Takes note of whatever is done to it."""

        session = 1
        visalib = SimpleNamespace(
            sessions={1: SimpleNamespace(interface=SimpleNamespace(in_waiting=0, baudrate=9600))}
        )

        def clear(self) -> None:
            done.append("clear")

        def flush(self, *_what: Any) -> None:
            done.append("flush")

        def write_raw(self, data: bytes) -> int:
            done.append("write")
            return len(data)

        def close(self) -> None: ...

    link = kind("ASRL1::INSTR", lambda _address, _seconds: Resource(), SystemClock())
    link.tune(Connection())
    link.open(2.0)
    link.release()
    assert done == []


@pytest.mark.parametrize(("is_visa", "kind"), [(True, MessageLink), (False, RawSocketLink)])
def test_a_vendors_visa_opens_what_visa_knows_and_edged_the_rest(
    monkeypatch: pytest.MonkeyPatch, *, is_visa: bool, kind: type[Link]
) -> None:
    row = replace(TRANSPORTS[Transport.SOCKET], is_visa=is_visa)
    monkeypatch.setattr(visa, "TRANSPORTS", {**TRANSPORTS, Transport.SOCKET: row})
    library = visa.VisaLibrary(library="@ivi", clock=SystemClock(), is_on_loop=False)
    link = library.open_link("TCPIP::127.0.0.1::5025::SOCKET")
    assert type(link) is kind
    link.release()
