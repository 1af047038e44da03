"""A TCP connection that a PyVISA session holds and a ``SocketStream`` reads and writes."""

from __future__ import annotations

import contextlib
from typing import Any, Final

from edged.clock import Clock
from edged.instruments.link import LinkError, LinkLost, OpenResource, translated
from edged.instruments.socket_stream import SocketStream
from edged.instruments.wake import Wake

__all__ = ["TcpChannel"]

CONNECT_SLICE_S: Final = 1.5
"""pyvisa-py's connect cannot be woken; tried in slices, a stop waits for one of them. A slice
outlasts the first repetition of a lost SYN (1 s)."""


class TcpChannel:
    """Connected when made, until ``close``. ``stream`` moves its bytes."""

    def __init__(
        self,
        address: str,
        open_resource: OpenResource,
        *,
        wake: Wake,
        clock: Clock,
        timeout_s: float,
        waits_by: Wake | None = None,
    ) -> None:
        """Connect to ``TCPIP::<host>::<port>::SOCKET``, hearing a pre-emption between slices.

        Args:
            waits_by: what wakes the waits of ``stream``, where that is not ``wake``.

        Raises:
            LinkError: it cannot be reached, or work was pre-empted.
        """
        self._resource: Any = _connect(address, open_resource, wake, clock, timeout_s)
        try:
            with translated(f"connecting to {address}"):
                # pyvisa-py reports success for a refused port: its `select` finds it "ready".
                session = self._resource.visalib.sessions[self._resource.session]
                self.stream = SocketStream(session.interface, waits_by or wake, clock)
        except LinkError:
            self._close_session()
            raise

    def close(self) -> None:
        """Let go of it; never waits."""
        self.stream.close()
        self._close_session()

    def _close_session(self) -> None:
        with contextlib.suppress(LinkError), translated("closing"):
            self._resource.close()


def _connect(
    address: str, open_resource: OpenResource, wake: Wake, clock: Clock, timeout_s: float
) -> Any:
    deadline = clock.monotonic() + timeout_s
    while True:
        wake.check()
        began = clock.monotonic()
        slice_s = max(0.001, min(deadline - began, CONNECT_SLICE_S))
        try:
            return open_resource(address, slice_s)
        except LinkError as error:
            now = clock.monotonic()
            if now - began < slice_s * 0.9:
                raise
            if now >= deadline:
                raise LinkLost(f"{address} cannot be reached") from error
