"""One unit that is open: its bytes, its lock, and VISA's attributes of it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from pyvisa import constants, rname
from pyvisa.constants import ResourceAttribute as Attribute
from pyvisa.constants import StatusCode

from pyvisa_edged.forking import begins_anew
from pyvisa_edged.later import Later
from pyvisa_edged.refusal import connection_lost
from pyvisa_edged.wire import Wire

SOON_MS = 50
"""So long the bench keeps a question's request for an answer to go back with it."""
PIECE = 1_048_576
LINE_FEED = 10
STARTED_ANEW = "The bench was started anew"
# Reading an enumeration's member takes longer than all else that reading a piece does.
MAX_COUNT_READ = StatusCode.success_max_count_read
TERMCHAR_READ = StatusCode.success_termination_character_read
OTHER = (constants.InterfaceType.tcpip, 0, "INSTR")
"""What a unit is to PyVISA whose VISA name that does not know."""


class OpenResource:
    """A session of VISA's.

    Args:
        wire: its own connection to the bench.
        later: tells the bench that an answer was read.
        name: by which it was opened.

    Attributes:
        locks: how often it has been locked and not unlocked.
        attributes: VISA's, as this program set them; most mean nothing here.
    """

    def __init__(self, wire: Wire, later: Later, name: str) -> None:
        self.name = name
        self.locks = 0
        self.attributes: dict[int, Any] = {}
        self._wire = wire
        self._later = later
        # When an answer was read of which the bench does not know that yet; 0: there is none.
        self._read_at_s = 0.0
        # The session of MCP that it is open in, and its number there; nothing else says the two.
        self._within, self._number = "", 0
        # Why what was under way is gone, should it be.
        self._lost = STARTED_ANEW
        # An answer that came with its question; what of it was read.
        self._answer = b""
        self._at = 0
        # Where in it the data of a block ends; 0 or less: it has none, or none here.
        self._block_end = 0
        # Whether the bench has an answer, or will have.
        self._asks = False
        # Whether the bench has more of the answer than is here.
        self._is_partial = False
        begins_anew(self)

    # What VISA does with it

    def open(self, session_id: str) -> None:
        """Open it in a session of MCP."""
        opened = self._wire.call(session_id, "edged/visa.open", resource=self.name)
        self._within, self._number = session_id, opened["session"]
        self._read_at_s = 0.0
        self._forget()
        interface, board, kind = resource_info(str(opened["address"]))
        known: dict[int, Any] = {
            Attribute.resource_name: opened["address"],
            Attribute.resource_class: kind,
            Attribute.interface_type: interface,
            Attribute.interface_number: board or 0,
        }
        self.attributes = {**DEFAULTS, **known, **self.attributes}

    def come_to(self, session_id: str) -> None:
        """Open it again where the program has another session of MCP by now.

        Raises:
            EdgedVisaError: VI_ERROR_CONN_LOST, it was locked, or an answer was waited for.
        """
        if self._within == session_id:
            return
        had_lock, asked = self.locks, self._asks
        self.locks = 0
        self.open(session_id)
        if had_lock or asked:
            what = "its lock" if had_lock else "what was asked"
            why, self._lost = self._lost, STARTED_ANEW
            raise connection_lost(f"{why}: {what} is gone.")

    def closed_there(self) -> None:
        """The bench has closed it, for nobody seemed to be here."""
        self._within, self._lost = "", "The bench has closed this unit"

    def forked(self) -> None:
        """See ``Inherited``: what was answered is the parent's."""
        self._answer, self._at, self._read_at_s = b"", 0, 0.0
        self._within, self._lost = "", "This process was forked off"

    def write(self, data: bytes) -> int:
        """Send bytes, the END behind them unless that is switched off."""
        self._forget()
        is_end = bool(self.attributes.get(Attribute.send_end_enabled, True))
        reply: Mapping[str, Any] = {}
        for at in range(0, max(1, len(data)), PIECE):
            piece = data[at : at + PIECE]
            is_last = at + PIECE >= len(data)
            wait_ms, end = SOON_MS if is_last else 0, is_last and is_end
            reply = self._call("write", **_spelled(piece), end=end, wait_ms=wait_ms)
        self._asks = bool(reply.get("asking"))
        self._receive(_bytes(reply))
        return len(data)

    def read(self, count: int) -> tuple[bytes, StatusCode]:
        """The next bytes: ``count`` at most, to the end of the answer, or to VISA's termchar.

        In the data of a block no byte is a termchar: a waveform with a 10 in it comes in one piece.
        """
        start = self._at
        if start >= len(self._answer):
            self._fetch()
            start = self._at
        answer, size = self._answer, len(self._answer)
        end, status = start + count, MAX_COUNT_READ
        if self.attributes.get(Attribute.termchar_enabled):
            # As a number: PyVISA gives it so, and so no bytes are made for each piece.
            termchar = int(self.attributes[Attribute.termchar]) & 0xFF
            found = answer.find(termchar, max(start, self._block_end), end)
            if found >= 0:
                end, status = found + 1, TERMCHAR_READ
        self._at = end = min(end, size)
        if end == size and not self._is_partial:
            if status is MAX_COUNT_READ:
                status = StatusCode.success
            self._taken()
        return answer[start:end], status

    def stb(self) -> int:
        """The status byte."""
        return int(self._call("stb")["stb"])

    def clear(self) -> None:
        """Device clear."""
        self._forget()
        self._call("clear")

    def flush_reads(self) -> None:
        """Forget what was answered and not read."""
        if self._asks:
            self.clear()

    def trigger(self) -> None:
        """Group execute trigger."""
        self._forget()
        self._call("trigger")

    def lock(self, wait_ms: float, lease: str) -> str:
        """Have the unit alone; the key opens it to others."""
        reply = self._call("lock", wait_ms=wait_ms, **({"lease_id": lease} if lease else {}))
        self.locks += 1
        return str(reply["lease_id"])

    def unlock(self) -> None:
        """Give it back, the last time it is said."""
        self.locks -= 1
        if not self.locks:
            self._call("unlock")

    def renew(self, wire: Wire) -> None:
        """Let its lock last another minute; by another connection, which nothing keeps busy."""
        wire.call(self._within, "edged/visa.renew", session=self._number)

    def close(self, session_id: str) -> None:
        """Be done with it.

        Args:
            session_id: in which it may be open; in another it has ended, or is not this process's.
        """
        self._forget()
        try:
            if session_id and session_id == self._within:
                self._call("close")
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Close its connection."""
        self._read_at_s = 0.0
        self._wire.close()

    @property
    def waiting(self) -> int:
        """Bytes that are here and were not read."""
        return len(self._answer) - self._at

    # What it does with the bench

    def _fetch(self) -> None:
        """Have the bench give what it has of the answer."""
        reply = self._call("read", count=PIECE)
        self._receive(_bytes(reply))
        self._is_partial = not reply.get("end", True)
        # What was read there is taken there.
        self._asks = self._is_partial

    def _receive(self, piece: bytes) -> None:
        """What came is the beginning of an answer, or goes on where the last piece of it ended."""
        goes_on = self._is_partial
        self._block_end = self._block_end - len(self._answer) if goes_on else _block_end(piece)
        self._answer, self._at = piece, 0

    def _taken(self) -> None:
        """The whole answer was read: others may have the unit."""
        if self._asks:
            self._asks = False
            self._read_at_s = time.monotonic()
            self._later.note(self)

    def tell_taken(self, before_s: float) -> bool:
        """See ``later.Reader``; what is in the middle of a request says it by itself."""
        if self._read_at_s and self._read_at_s < before_s and self._wire.is_free():
            try:
                if self._read_at_s:
                    self._read_at_s = 0.0
                    self._wire.notify(
                        self._within, "notifications/edged/visa.taken", session=self._number
                    )
            finally:
                self._wire.leave()
        return not self._read_at_s

    def _forget(self) -> None:
        self._answer, self._at, self._block_end = b"", 0, 0
        self._asks = self._is_partial = False

    def _call(self, method: str, **params: Any) -> Any:
        if self._read_at_s:
            params["taken"], self._read_at_s = True, 0.0
        return self._wire.call(
            self._within,
            f"edged/visa.{method}",
            session=self._number,
            timeout_ms=self._timeout_ms(),
            **params,
        )

    def _timeout_ms(self) -> float | None:
        """``None``: for ever."""
        value = self.attributes.get(Attribute.timeout_value, 2_000)
        return None if value in (None, constants.VI_TMO_INFINITE, math.inf) else max(0, value)


DEFAULTS: Mapping[int, Any] = {
    Attribute.timeout_value: 2_000,
    Attribute.termchar: LINE_FEED,
    Attribute.termchar_enabled: constants.VI_FALSE,
    Attribute.send_end_enabled: constants.VI_TRUE,
    Attribute.suppress_end_enabled: constants.VI_FALSE,
    Attribute.io_prot: constants.IOProtocol.normal,
    Attribute.dma_allow_enabled: constants.VI_FALSE,
    Attribute.file_append_enabled: constants.VI_FALSE,
    Attribute.resource_manufacturer_name: "edged",
    Attribute.resource_manufacturer_id: 0,
    Attribute.resource_impl_version: 0x00100000,
    Attribute.resource_spec_version: 0x00500800,
    Attribute.asrl_baud_rate: 9_600,
    Attribute.asrl_data_bits: 8,
    Attribute.asrl_parity: constants.Parity.none,
    Attribute.asrl_stop_bits: constants.StopBits.one,
    Attribute.asrl_flow_control: constants.ControlFlow.none,
    Attribute.asrl_end_in: constants.SerialTermination.termination_char,
    Attribute.asrl_end_out: constants.SerialTermination.none,
}
"""What a program reads before it has set anything; how the wire is worked is the bench's."""


def resource_info(address: str) -> tuple[constants.InterfaceType, int | None, str]:
    """What PyVISA makes of a VISA name: interface, board and class."""
    try:
        parsed = rname.ResourceName.from_string(address)
    except (rname.InvalidResourceName, KeyError):
        return OTHER
    board = getattr(parsed, "board", "0")
    number = int(board) if board.isdigit() else None
    return parsed.interface_type_const, number, parsed.resource_class


def _block_end(answer: bytes) -> int:
    """Where the data of a definite-length block ends (IEEE 488.2, 8.7.9); 0: there is none."""
    if answer[:1] != b"#" or not (figures := answer[1:2]).isdigit():
        return 0
    length = answer[2 : 2 + int(figures)]
    return 2 + len(length) + int(length) if length.isdigit() else 0


def _spelled(data: bytes) -> dict[str, str]:
    if data.isascii():
        return {"text": data.decode("ascii")}
    return {"hex": data.hex()}


def _bytes(reply: Mapping[str, Any]) -> bytes:
    if "text" in reply:
        return str(reply["text"]).encode("ascii")
    return bytes.fromhex(reply.get("hex", ""))
