"""Links over VISA: the only module that imports pyvisa.

``VisaLibrary`` owns the one ResourceManager of the process (closing one closes all, pyvisa issue
742) and makes a link for an address; each kind of transport has its own link class in
``LINK_CLASSES``, because each fails and is woken in its own way.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from edged.clock import Clock
from edged.errors import ErrorCode, Invalid
from edged.instruments.address import Transport, parse_address
from edged.instruments.hislip_link import HislipLink
from edged.instruments.link import Link, LinkError, OpenResource, translated
from edged.instruments.message_link import MessageLink
from edged.instruments.prologix_link import PrologixAdapter, PrologixLink, adapter_place
from edged.instruments.raw_socket_link import RawSocketLink
from edged.instruments.serial_link import SerialLink
from edged.instruments.usbtmc_link import UsbtmcLink
from edged.instruments.vxi11_link import Vxi11Link
from edged.lean_imports import without

__all__ = ["VisaLibrary"]


class VisaLibrary:
    """The one VISA of this process.

    Args:
        library: what PyVISA calls it: ``@py``, ``@ivi``, or the path of a vendor's library.
    """

    def __init__(self, *, library: str = "@py", clock: Clock) -> None:
        self._library = library
        self._clock = clock
        # Made by whichever line opens first; guarded, because two would be one and its ghost.
        self._manager: Any = None
        self._making = threading.Lock()
        # By the address of their socket; made and kept on the loop.
        self._adapters: dict[str, PrologixAdapter] = {}

    def open_link(self, address: str) -> Link:
        """A link for this address, not yet opened; called on the loop, touches nothing.

        Raises:
            Invalid: BAD_CONFIG, for what is no address or a transport without a link.
        """
        transport = parse_address(address).transport
        if transport is Transport.PROLOGIX:
            return self._behind_adapter(address)
        if transport is Transport.OTHER:
            raise Invalid(
                f"{address} is of a kind that edged cannot open.",
                code=ErrorCode.BAD_CONFIG,
                data={"address": address, "transport": transport.value},
                remedy="docs/instruments.md lists the kinds of addresses.",
            )
        link_class = LINK_CLASSES.get(transport, MessageLink)
        if self._library != PURE_PYTHON:
            # Its sessions are a vendor's: there is no socket in them to be read by ourselves.
            link_class = MessageLink
        return link_class(address, self.open_resource, self._clock)

    def open_resource(self, address: str, timeout_s: float) -> Any:
        """A PyVISA resource; called on a line's own thread.

        Raises:
            LinkError: whatever went wrong, translated.
        """
        with translated(f"opening {address}"):
            return self._resource_manager().open_resource(
                address, open_timeout=max(1, math.ceil(timeout_s * 1000))
            )

    def load(self) -> None:
        """Load VISA now and quickly, without what only its lists of resources want.

        On the main thread, before there are others. What fails fails again, and is told, when a
        line is opened.
        """
        with contextlib.suppress(LinkError), translated("loading VISA"), without(*LIST_MODULES):
            self._resource_manager()

    def close(self) -> None:
        """Close everything that is still open; at exit only."""
        with self._making:
            manager, self._manager = self._manager, None
        for adapter in self._adapters.values():
            adapter.drop()
            adapter.deaf.release()
        if manager is not None:
            with contextlib.suppress(LinkError), translated("closing VISA"):
                manager.close()

    def _behind_adapter(self, address: str) -> Link:
        place = adapter_place(address)
        adapter = self._adapters.get(place.adapter)
        if adapter is None:
            adapter = PrologixAdapter(place.adapter, self.open_resource, self._clock)
            self._adapters[place.adapter] = adapter
        return PrologixLink(adapter, place.gpib, self._clock)

    def _resource_manager(self) -> Any:
        with self._making:
            if self._manager is None:
                # Imported late: it takes a quarter of a second, and the first answer to a client
                # need not wait for it. numpy would cost 20 MB; no other thread here imports it.
                with without("numpy"):
                    import pyvisa

                    self._manager = pyvisa.ResourceManager(self._library)
            return self._manager


LinkClass = Callable[[str, OpenResource, Clock], Link]

PURE_PYTHON: Final = "@py"
LIST_MODULES: Final = ("numpy", "psutil", "zeroconf")
"""Half of the time that loading takes; edged finds instruments by itself."""

LINK_CLASSES: Final[Mapping[Transport, LinkClass]] = MappingProxyType(
    {
        Transport.SOCKET: RawSocketLink,
        Transport.VXI11: Vxi11Link,
        Transport.HISLIP: HislipLink,
        Transport.USBTMC: UsbtmcLink,
        Transport.SERIAL: SerialLink,
        Transport.GPIB: MessageLink,
    }
)
