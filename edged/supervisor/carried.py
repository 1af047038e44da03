"""One HiSLIP connection through the proxy: bytes, and before them whose they are.

A session has two connections, and each comes through here by itself. The engine hears the peer's
address in a vendor's message of HiSLIP with the secret that both processes know
(``peer_header.py``); the rest is passed on as it is.
"""

from __future__ import annotations

from edged.http.accepting import keep_alive
from edged.protocol.hislip import FatalCode, fatal, message
from edged.supervisor.peer_header import PEER_MESSAGE
from edged.supervisor.proxied import CarriedConnection, Refusal

AWAY = fatal(FatalCode.UNIDENTIFIED, "The engine is not running; it is being started again.")


class CarriedSide(CarriedConnection):
    """A client that speaks HiSLIP."""

    def welcome(self, whose: str) -> None:
        if self._transport is not None:
            keep_alive(self._transport.get_extra_info("socket"))
        self._waiting += message(PEER_MESSAGE, payload=whose.encode("ascii", "replace"))

    def turn_away(self, refused: Refusal) -> None:
        is_full = refused.status == 503
        code = FatalCode.TOO_MANY_CLIENTS if is_full else FatalCode.UNIDENTIFIED
        self.refuse(fatal(code, refused.text))

    def away(self) -> None:
        self.refuse(AWAY)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if not self._is_refused:
            self.head_since_s = None
            self.pass_on(data)

    def answer(self, data: bytes) -> None:
        self._board.pulse.heard()
        if self._transport is not None and not self._is_refused:
            self._transport.write(data)

    def engine_ended(self) -> None:
        if self._transport is not None and not self._is_refused:
            self._transport.close()

    def cut_slow(self) -> None:
        """It has never said anything."""
        self.abort()

    def refuse_unanswered(self) -> None:
        """Not asked of it: what waits for an instrument is not told from what waits for us."""
