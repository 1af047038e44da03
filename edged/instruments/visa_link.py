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
from edged.instruments.link import Link, LinkError, translated
from edged.instruments.raw_socket_link import RawSocketLink

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

    def open_link(self, address: str) -> Link:
        """A link for this address, not yet opened; called on the loop, touches nothing.

        Raises:
            Invalid: BAD_CONFIG, for what is no address or a transport without a link.
        """
        transport = parse_address(address).transport
        link_class = LINK_CLASSES.get(transport)
        if link_class is None:
            raise Invalid(
                f"{address} is a {transport.value} address, which this version cannot open.",
                code=ErrorCode.BAD_CONFIG,
                data={"address": address, "transport": transport.value},
                remedy="Use the instrument's raw socket (TCPIP::<host>::<port>::SOCKET).",
            )
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

    def close(self) -> None:
        """Close everything that is still open; at exit only."""
        with self._making:
            manager, self._manager = self._manager, None
        if manager is not None:
            with contextlib.suppress(LinkError), translated("closing VISA"):
                manager.close()

    def _resource_manager(self) -> Any:
        with self._making:
            if self._manager is None:
                # Imported late: it takes a quarter of a second, and the first answer to a client
                # need not wait for it.
                import pyvisa

                self._manager = pyvisa.ResourceManager(self._library)
            return self._manager


LinkClass = Callable[[str, Callable[[str, float], Any], Clock], Link]

LINK_CLASSES: Final[Mapping[Transport, LinkClass]] = MappingProxyType(
    {
        Transport.SOCKET: RawSocketLink,
    }
)
