"""A connected socket whose waits can be woken: what every network transport moves its bytes by.

Nothing that has come is ever lost at a time limit: it stays in the buffer. PyVISA has no part in
it: its connect can be neither woken nor had without the 3 MB that PyVISA takes.

Opening a session of PyVISA whose handshake cannot be woken, without waiting for it too long.

pyvisa-py waits five seconds for a HiSLIP or VXI-11 port that accepts and stays silent, whatever
``open_timeout`` says. Each attempt therefore has a thread of its own, which is left to itself when
its time is over or a stop comes; what it opens after that it closes again.

What the numbers of VXI-11 and HiSLIP errors mean, and what to do about each. Pure.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
import sys
import threading
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NoReturn

from edged.clock import Clock
from edged.scpi.blocks import whole_length
from edged.transports.link import (
    LinkError,
    LinkLost,
    LinkOverlong,
    LinkTimeout,
    OpenResource,
    Wake,
    translated,
)

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
"""Longer than any answer in text (a deep waveform in ASCII); garbage without line ends is cut."""
RECEIVE_BYTES: Final = 64 * 1024
PEEK: Final = socket.MSG_PEEK
MAX_PENDING_READS: Final = 64
"""A peer that floods is not read for ever before a write."""
BEHIND_BLOCK_S: Final = 0.1
"""A block says its length: what does not follow so soon after it does not belong to it."""
KEEPALIVE: Final = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
"""Seconds, seconds, times: a peer that vanished without a word is noticed after about 11 s."""
TCP_OPTIONS: Final[Mapping[str, int]] = MappingProxyType(
    {name: value for name, value in vars(socket).items() if name.startswith("TCP_KEEP")}
)


def line_end_by(answer: bytearray, deadline: float, clock: Clock) -> float:
    """When the line end of an answer has to be there, where that is not all of it."""
    if answer[:1] != b"#" or len(answer) < (whole_length(bytes(answer[:16])) or sys.maxsize):
        return deadline
    return min(deadline, clock.monotonic() + BEHIND_BLOCK_S)


class SocketStream:
    """Bytes in and out of one connection; used by the line's own work.

    Raises:
        OSError: when made over a socket that is not connected after all.
    """

    def __init__(self, connection: socket.socket, wake: Wake, clock: Clock) -> None:
        self._connection = connection
        self._wake = wake
        self._clock = clock
        # Came in and was not asked for yet.
        self.buffer = bytearray()
        failure = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            raise OSError(failure, os.strerror(failure))
        connection.getpeername()
        connection.setblocking(False)
        self._watch = wake.watch(connection)

    def write(self, data: bytes, timeout_s: float) -> None:
        """``Link.write``; raises ``LinkTimeout``, ``LinkPreempted`` or ``LinkLost`` half-way."""
        rest, deadline = memoryview(data), 0.0
        self._wake.check()
        while rest:
            try:
                rest = rest[self._connection.send(rest) :]
            except BlockingIOError:
                # Nearly all is taken at once.
                deadline = deadline or self._clock.monotonic() + timeout_s
                self._wait(selectors.EVENT_WRITE, deadline)
            except OSError as error:
                raise LinkLost(f"writing failed: {error}") from error

    def send(self, data: bytes, deadline: float) -> None:
        """The same until a moment."""
        self.write(data, deadline - self._clock.monotonic())

    def receive(self, deadline: float) -> None:
        """Wait for bytes and add them to the buffer."""
        self._wait(selectors.EVENT_READ, deadline)
        try:
            data = self._connection.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise LinkLost(f"reading failed: {error}") from error
        if not data:
            raise LinkLost("the instrument closed the connection")
        self.buffer += data

    def take(self, count: int, deadline: float) -> bytes:
        """Exactly ``count`` bytes."""
        while len(self.buffer) < count:
            self.receive(deadline)
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def read_message(self, terminator: bytes, timeout_s: float) -> bytes:
        """What comes before ``terminator``, which is dropped; a block needs none behind it."""
        deadline = self._clock.monotonic() + timeout_s
        buffer = self.buffer
        searched = 0
        while True:
            end = buffer.find(terminator, searched)
            if end >= 0:
                message = bytes(buffer[:end])
                del buffer[: end + len(terminator)]
                return message
            if len(buffer) > MAX_MESSAGE_BYTES:
                raise LinkOverlong(f"{len(buffer)} bytes came without a line end")
            searched = max(0, len(buffer) - len(terminator) + 1)
            try:
                self.receive(line_end_by(buffer, deadline, self._clock) if buffer else deadline)
            except (LinkTimeout, LinkLost) as ended:
                ended.came = bytes(buffer)
                raise

    def fill(self) -> None:
        """Take in what has come already; never waits.

        Raises:
            LinkLost: the peer has closed or reset the connection.
        """
        self.buffer += self.drain()

    def is_quiet(self) -> bool:
        """Whether ``fill`` would find nothing, not even an end; any thread may ask."""
        try:
            self._connection.recv(1, PEEK)
        except BlockingIOError:
            return not self.buffer
        except OSError:
            return False
        return False

    def drain(self) -> bytes:
        """What has come unasked, taken out; never waits. Raises like ``fill``."""
        buffer = self.buffer
        for _ in range(MAX_PENDING_READS):
            try:
                data = self._connection.recv(RECEIVE_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                raise self._lost(f"the connection broke: {error}") from error
            if not data:
                raise self._lost("the instrument closed the connection")
            buffer += data
        unasked = bytes(buffer)
        buffer.clear()
        return unasked

    def _lost(self, text: str) -> LinkLost:
        lost = LinkLost(text)
        lost.came = bytes(self.buffer)
        return lost

    def close(self) -> None:
        """Stop watching; the socket itself is the channel's to close."""
        self._watch.close()

    def _wait(self, events: int, deadline: float) -> None:
        """Wait until the socket is ready for ``events``.

        Raises:
            LinkTimeout, LinkPreempted: it was not, before that.
        """
        while True:
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                raise LinkTimeout("nothing came before the time limit")
            is_ready, is_called = self._watch.wait(events, left_s)
            if is_called:
                self._wake.heard()
            if is_ready:
                return


class TcpChannel:
    """Connected when made, until ``close``. ``stream`` moves its bytes.

    A channel over sockets of another kind overrides ``place_of`` and ``make_socket``.
    """

    def __init__(
        self,
        address: str,
        *,
        wake: Wake,
        clock: Clock,
        timeout_s: float,
        called: str = "",
        waits_by: Wake | None = None,
    ) -> None:
        """Connect to ``TCPIP::<host>::<port>::SOCKET``, hearing a pre-emption meanwhile.

        Args:
            called: what errors call it, where nobody has typed this address.
            waits_by: what wakes the waits of ``stream``, where that is not ``wake``.

        Raises:
            LinkError: it cannot be reached, or work was pre-empted.
        """
        name = called or address
        wake.check()
        deadline = clock.monotonic() + timeout_s
        with translated(f"opening {name}"):
            place = self.place_of(address, wake)
        with translated(f"connecting to {name}"):
            self._connection = self.make_socket()
            try:
                if not _is_answered(self._connection, place, wake, clock, deadline):
                    _tell_silent(name)
                self.stream = SocketStream(self._connection, waits_by or wake, clock)
            except BaseException:
                self._connection.close()
                raise

    def place_of(self, address: str, wake: Wake) -> Any:
        """What ``connect`` of the socket takes."""
        _, host, port, *_ = address.split("::")
        return _number_of(host, wake), int(port)

    def make_socket(self) -> socket.socket:
        """A socket with its options, not connected."""
        # pyvisa-py looks for no other kind of address, either.
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE:
            option = TCP_OPTIONS.get(name)
            if option is not None:
                made.setsockopt(socket.IPPROTO_TCP, option, value)
        return made

    def close(self) -> None:
        """Let go of it; never waits."""
        self.stream.close()
        self._connection.close()


def _number_of(host: str, wake: Wake) -> str:
    """The IPv4 address of a host; raises ``OSError`` where its name is not known."""
    try:
        socket.inet_pton(socket.AF_INET, host)
    except OSError:
        # What looks names up cannot be woken.
        return wake.apart(partial(socket.gethostbyname, host))
    return host


def _tell_silent(name: str) -> NoReturn:
    raise LinkLost(f"{name} cannot be reached", NO_CONNECTION)


def _is_answered(
    connection: socket.socket, place: Any, wake: Wake, clock: Clock, deadline: float
) -> bool:
    """Connect; whether there was an answer in time, be it a refusal, which ``SO_ERROR`` has then.

    Raises:
        OSError: there is no way to it.
        LinkPreempted: meanwhile.
    """
    connection.setblocking(False)
    failure = connection.connect_ex(place)
    if failure not in UNDER_WAY:
        raise OSError(failure, os.strerror(failure))
    watch = wake.watch(connection)
    try:
        while failure and (left_s := deadline - clock.monotonic()) > 0:
            is_answered, is_called = watch.wait(selectors.EVENT_WRITE, left_s)
            if is_called:
                wake.heard()
            if is_answered:
                return True
    finally:
        watch.close()
    return not failure


UNDER_WAY: Final = frozenset({0, errno.EINPROGRESS, errno.EWOULDBLOCK})
"""What a connect that does not wait says; Windows the last."""
NO_CONNECTION: Final = "nothing answers there (connecting took too long)"
MOST_ATTEMPTS: Final = 3
"""Attempts that may still hang behind one line; more would be one thread for each retry."""


class Opener:
    """Opens the sessions of one line, one after the other."""

    def __init__(self, address: str, open_resource: OpenResource, wake: Wake, clock: Clock) -> None:
        self._address = address
        self._open_resource = open_resource
        self._wake = wake
        self._clock = clock
        self._attempts: list[_Attempt] = []

    def open(self, timeout_s: float) -> Any:
        """An opened PyVISA resource.

        Raises:
            LinkTimeout: it was not opened in time, or several attempts hang already.
            LinkError: it cannot be opened; ``LinkPreempted``.
        """
        deadline = self._clock.monotonic() + timeout_s
        self._attempts = [attempt for attempt in self._attempts if not attempt.has_ended]
        while len(self._attempts) >= MOST_ATTEMPTS:
            self._wait(deadline)
            self._attempts = [attempt for attempt in self._attempts if not attempt.has_ended]
        attempt = _Attempt(self._address, self._open_resource, timeout_s, self._wake)
        self._attempts.append(attempt)
        attempt.start()
        try:
            while not attempt.has_ended:
                self._wait(deadline)
        except LinkError:
            attempt.abandon()
            raise
        return attempt.result()

    def _wait(self, deadline: float) -> None:
        left_s = deadline - self._clock.monotonic()
        if left_s <= 0:
            raise LinkTimeout(f"opening {self._address} took too long")
        self._wake.listen(left_s)


class _Attempt:
    """One try on its own thread. ``_lock`` guards who closes what was opened too late."""

    def __init__(
        self, address: str, open_resource: OpenResource, timeout_s: float, wake: Wake
    ) -> None:
        self._address = address
        self._open_resource = open_resource
        self._timeout_s = timeout_s
        self._wake = wake
        self._lock = threading.Lock()
        self._resource: Any = None
        self._error: LinkError | None = None
        self._is_abandoned = False
        self.has_ended = False

    def start(self) -> None:
        threading.Thread(
            target=self._run, name=f"edged-open-{self._address}"[:64], daemon=True
        ).start()

    def abandon(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            self._is_abandoned = True
            resource, self._resource = self._resource, None
        _close(resource)

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._resource

    def _run(self) -> None:
        resource, error = None, None
        try:
            with translated(f"opening {self._address}"):
                resource = self._open_resource(self._address, self._timeout_s)
        except LinkError as failure:
            error = failure
        with self._lock:
            if not self._is_abandoned:
                self._resource, self._error = resource, error
                resource = None
            self.has_ended = True
        _close(resource)
        self._wake.stir()


def _close(resource: Any) -> None:
    if resource is not None:
        with contextlib.suppress(LinkError), translated("closing"):
            resource.close()


def vxi11_error(number: int) -> str:
    """A device error (VXI-11, table B.2) in words."""
    return f"{VXI11.get(number, 'it reports an error of its own')} (VXI-11 error {number})"


def rpc_refusal(status: int) -> str:
    """Why a remote procedure was not even tried (RFC 5531, accept_stat) in words."""
    return f"{RPC.get(status, 'it does not say why')} (RPC status {status})"


def hislip_error(number: int, text: str, *, is_fatal: bool) -> str:
    """An Error or FatalError message (IVI-6.1, 6.2 and 6.3) in words; ``text`` is the server's."""
    known = HISLIP_FATAL if is_fatal else HISLIP
    meaning = known.get(number, "it reports an error of its own")
    said = f', "{text}"' if text else ""
    return f"{meaning} (HiSLIP {'fatal error' if is_fatal else 'error'} {number}{said})"


VXI11: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "it does not understand the call (syntax error): its VXI-11 server may be of another "
        "version",
        3: "the device is not accessible: check the device name in its address, such as inst0 or "
        "gpib0,5, and that the device behind a gateway is on",
        4: "it does not know this link any more (invalid link identifier): it has restarted or "
        "ended the link",
        5: "it takes no such parameter (parameter error): check the device name in its address",
        6: "its channel is not established: it has ended the link",
        8: "it does not do this (operation not supported)",
        9: "it is out of resources: close other programs' links to it, or switch it off and on",
        11: "another link has locked it: end the program that holds the lock",
        12: "no lock is held by this link",
        15: "its own time limit passed (I/O timeout)",
        17: "its input or output failed (I/O error): look at the cable of the device behind the "
        "gateway",
        21: "the address is invalid: check the device name, such as inst0 or gpib0,5",
        23: "the call was aborted",
        29: "the channel is established already: another program may hold it",
    }
)
RPC: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "it offers no VXI-11 at this port: leave the port out of its address",
        2: "its VXI-11 server is of another version",
        3: "it does not know this procedure",
        4: "it could not read the arguments",
        5: "an error of its own: switch its LAN interface off and on",
    }
)
HISLIP_FATAL: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "it ended the session and does not say why",
        1: "it could not read a message's header",
        2: "the connection was used before both channels were there",
        3: "it takes no such beginning of a session: check the port, and the name in the address, "
        "such as hislip0",
        4: "it takes no more clients: close another program's session to it",
        5: "a secure connection failed: switch encryption off at the instrument",
    }
)
HISLIP: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "it refused a message and does not say why",
        1: "it does not know this type of message",
        2: "it does not know this control code",
        3: "it does not know this vendor's message",
        4: "the message was too large for it: send shorter lines or blocks",
        5: "it rejected how the client authenticates: switch that off at the instrument",
    }
)
