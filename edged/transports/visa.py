"""Links to addresses as VISA writes them: the only module that imports pyvisa.

What is on the network connects by a socket of its own (``tcp.py``); PyVISA opens the other
sessions and, with a vendor's library, all. ``VisaLibrary`` holds the one ResourceManager of the
process (closing one closes all, pyvisa issue 742; the last that uses it does) and makes a link for
an address; each kind of transport has its own link class in ``TRANSPORTS``, because each fails and
is woken in its own way.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import math
import sys
import threading
from collections.abc import Callable
from dataclasses import field
from typing import Any, Final

from edged.clock import Clock
from edged.errors import ErrorCode, Invalid
from edged.lean_imports import without
from edged.record import part
from edged.transports.address import TRANSPORTS, Address, Transport, TransportRow, parse_address
from edged.transports.link import Link, LinkError, translated
from edged.transports.loop_wake import LoopWake
from edged.transports.message import MessageLink
from edged.transports.prologix import PrologixAdapter, PrologixLink, adapter_place
from edged.transports.shared import SharedLink, SharedPort


@part
class VisaLibrary:
    """The one VISA of this process.

    Attributes:
        library: what PyVISA calls it: ``@py``, ``@ivi``, or the path of a vendor's library.
        is_on_loop: lines that can be served on the event loop are; else each has a thread, as on
            Windows, whose event loop cannot watch a socket that is read elsewhere.
    """

    clock: Clock
    library: str = "@py"
    is_on_loop: bool = sys.platform != "win32"
    # Made by whichever line opens first.
    _manager: Any = None
    # By the address of their socket; made and kept on the loop.
    _adapters: dict[str, PrologixAdapter] = field(default_factory=dict)
    # By canonical address; the same.
    _ports: dict[str, SharedPort] = field(default_factory=dict)

    def open_link(self, address: str) -> Link:
        """A link for this address, not yet opened; called on the loop, touches nothing.

        Raises:
            Invalid: BAD_CONFIG, for what is no address or a transport without a link.
        """
        parsed = parse_address(address)
        transport = parsed.transport
        if parsed.bus:
            return self._on_port(parsed)
        if transport is Transport.PROLOGIX:
            return self._behind_adapter(address)
        if transport is Transport.OTHER:
            raise Invalid(
                f"{address} is of a kind that edged cannot open.",
                code=ErrorCode.BAD_CONFIG,
                data={"address": address, "transport": transport.value},
                remedy="docs/instruments.md lists the kinds of addresses.",
            )
        return self._alone(address, transport, is_on_loop=self.is_on_loop)

    def _alone(self, address: str, transport: Transport, *, is_on_loop: bool) -> Link:
        row = TRANSPORTS[transport]
        # Of a vendor's library the sessions are its own: there is no socket in them to be read.
        if row.is_visa and self.library != PURE_PYTHON:
            return MessageLink(address, self.open_resource, self.clock)
        link_class = _link_class(row)
        if not row.is_on_loop:
            return link_class(address, self.open_resource, self.clock)
        wake = LoopWake(asyncio.get_running_loop()) if is_on_loop else None
        return link_class(address, self.clock, wake)

    def open_resource(self, address: str, timeout_s: float) -> Any:
        """A PyVISA resource; called on a line's own thread.

        Raises:
            LinkError: whatever went wrong, translated.
        """
        with translated(f"opening {address}"):
            manager = self._resource_manager()
            if self.library == PURE_PYTHON:
                _load_late(parse_address(address).transport)
            return manager.open_resource(address, open_timeout=max(1, math.ceil(timeout_s * 1000)))

    def close(self) -> None:
        """Close everything that is still open, unless another engine of this process uses it."""
        with _MAKING:
            manager, self._manager = self._manager, None
            _USERS.discard(self)
            if any(user._manager is manager for user in _USERS):  # noqa: SLF001 - one of its kind
                manager = None
        for adapter in self._adapters.values():
            adapter.drop()
            adapter.deaf.release()
        if manager is not None:
            with contextlib.suppress(LinkError), translated("closing VISA"):
                manager.close()

    def _on_port(self, address: Address) -> Link:
        """A unit of several behind one port: each has a thread, and they take turns."""
        port = self._ports.get(address.device)
        if port is None or port.is_over:
            text = address.text.removesuffix(f"@{address.bus}")
            link = self._alone(text, address.transport, is_on_loop=False)
            port = self._ports[address.device] = SharedPort(link, self.clock)
        return SharedLink(port, self.clock)

    def _behind_adapter(self, address: str) -> Link:
        place = adapter_place(address)
        adapter = self._adapters.get(place.adapter)
        if adapter is None:
            adapter = PrologixAdapter(place.adapter, self.clock)
            self._adapters[place.adapter] = adapter
        return PrologixLink(adapter, place.gpib, self.clock)

    def _resource_manager(self) -> Any:
        with _MAKING:
            if self._manager is None:
                # Imported late: it takes a quarter of a second and 3 MB, and a bench whose
                # instruments are all on the network does without.
                with without(*UNWANTED, *LATE_MODULES):
                    import pyvisa

                    self._manager = pyvisa.ResourceManager(self.library)
                _USERS.add(self)
            return self._manager


def _link_class(row: TransportRow) -> LinkClass:
    module, _, name = row.link.partition(":")
    found: LinkClass = getattr(importlib.import_module(f"edged.transports.{module}"), name)
    return found


def _load_late(transport: Transport) -> None:
    """Import what this transport needs; why it cannot be had is told when a resource is opened."""
    module = TRANSPORTS[transport].needs
    if module:
        with contextlib.suppress(Exception):
            importlib.import_module(module)


LinkClass = Callable[..., Link]

# PyVISA has one manager per library and process: two would be one, and closing one closes both.
_MAKING: Final = threading.Lock()
_USERS: Final[set[VisaLibrary]] = set()

PURE_PYTHON: Final = "@py"
UNWANTED: Final = ("numpy", "psutil", "zeroconf")
"""What PyVISA would like for its lists of resources and for arrays: half of the time that loading
takes, and 25 MB. edged finds instruments by itself."""
LATE_MODULES: Final = tuple(row.needs for row in TRANSPORTS.values() if row.needs)
