"""The connection to a NATS server, which comes back by itself.

RELAY_CREDENTIALS holds, as NATS wants it, a password, a key of one's own, or a signed pass. Keys
and passes (nkeys, `.creds` files) never travel: the server sends a number, and gets it back signed.
The signing is done here with ``cryptography``, which tokens need anyway; nats-py would want one
more package for it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import enum
import re
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError

from edged.clock import Clock
from edged.config.load import Config
from edged.errors import ErrorCode, Invalid
from edged.record import part, record

log = structlog.get_logger("edged.relay")

Result = TypeVar("Result")

AGAIN_S: Final = 0.5
CANCEL_AGAIN_S: Final = 0.1
CONNECT_WITHIN_S: Final = 2
PING_EVERY_S: Final = 5
"""So that a connection whose other end vanished is noticed within ten seconds."""
SEED: Final = 18 << 3
USER: Final = 20 << 3
SEED_BYTES: Final = 36
PASS: Final = re.compile(r"-{3,}BEGIN NATS USER JWT-{3,}\s+(\S+)\s+-{3,}END NATS USER JWT-{3,}")
PASS_SEED: Final = re.compile(r"-{3,}BEGIN USER NKEY SEED-{3,}\s+(\S+)\s")

Sign = Callable[[str], bytes]
"""The server's number → its signature in base64."""


@record
class LinkSettings:
    """Where the server is, and who we are there.

    Attributes:
        credentials: see ``read_credentials``; read anew for each connection, so that a
            pass that was renewed is found.
        ca_file: the authority of the server's certificate, where the system does not know it.
    """

    url: str
    credentials: Path | None = None
    ca_file: Path | None = None
    name: str = "edged"


@record(kw_only=False)
class RelayMessage:
    """What arrived; ``is_nobody``: the server says that nobody hears what was published."""

    subject: str
    data: bytes
    is_nobody: bool


class LinkState(enum.StrEnum):
    """How the connection is. OFF: not wanted, or it cannot be tried as it is configured."""

    OFF = "off"
    RECONNECTING = "reconnecting"
    CONNECTED = "connected"


@record
class LinkStatus:
    """How the connection is, for people.

    Attributes:
        since_ms: Unix epoch milliseconds.
        last_error: the newest trouble, kept when it is over; empty when there was none.
        last_error_ms: when that was; 0 when there was none.
    """

    state: LinkState = LinkState.OFF
    since_ms: int = 0
    last_error: str = ""
    last_error_ms: int = 0


def link_settings(config: Config, name: str) -> LinkSettings:
    """The NATS connection as configured.

    Raises:
        Invalid: RELAY_NATS_URL is not set.
    """
    if config.relay_nats_url is None:
        raise Invalid("RELAY_NATS_URL is not set.", code=ErrorCode.BAD_CONFIG)
    return LinkSettings(
        url=config.relay_nats_url,
        credentials=config.relay_credentials,
        ca_file=config.relay_ca_file,
        name=name,
    )


async def cancellable(call: Coroutine[Any, Any, Result]) -> Result:
    """What a call of nats-py returns; a cancellation is repeated until the call has ended.

    nats-py waits with asyncio.wait_for, which before Python 3.12 loses a cancellation that comes in
    the turn in which its wait ends (python/cpython#86296), and then tries again for ever.
    """
    calling = asyncio.create_task(call, name="nats call")
    try:
        await asyncio.wait({calling})
    finally:
        while not calling.done():
            calling.cancel()
            await asyncio.wait({calling}, timeout=CANCEL_AGAIN_S)
    return calling.result()


@part
class NatsLink:
    """One connection.

    Attributes:
        settings: see there.
        clock: for the pause between attempts, and times.
        changed: is called when ``status`` has changed.
        status: how it is.
    """

    settings: LinkSettings
    clock: Clock
    changed: Callable[[], None] = lambda: None
    _client: Client = field(default_factory=Client)
    _subscriptions: list[tuple[str, Callable[[RelayMessage], Awaitable[None]]]] = field(
        default_factory=list
    )
    # A connection was made, and nobody has asked to close it.
    _is_wanted: bool = False
    _reopening: asyncio.Task[None] | None = None
    # What was logged since the last connection: it fails twice a second.
    _logged: str = ""
    status: LinkStatus = field(default_factory=LinkStatus)

    @property
    def is_connected(self) -> bool:
        """Whether messages go out at once."""
        return bool(self._client.is_connected)

    async def open(self) -> None:
        """Connect, however long the server is away.

        Raises:
            Invalid: the credentials or the authority cannot be used.
        """
        self._move(LinkState.RECONNECTING)
        while True:
            try:
                await self._connect()
                break
            except Invalid as error:
                await self._note_error(error)
                self._move(LinkState.OFF)
                raise
            except (NatsError, OSError, TimeoutError) as error:
                await self._note_error(error)
                with contextlib.suppress(NatsError, OSError):
                    await cancellable(self._client.close())
                await self.clock.sleep(AGAIN_S)
        self._is_wanted = True
        for subject, heard in self._subscriptions:
            await self._subscribe(subject, heard)
        self._logged = ""
        self._move(LinkState.CONNECTED)
        log.info("relay_connected", url=self.settings.url.rpartition("@")[2])

    async def _connect(self) -> None:
        credentials = _credentials(self.settings)
        self._client = Client()
        if isinstance(credentials, Nkey):
            # nats-py reads a key without a pass from a file only, with one more package.
            self._client._public_nkey = credentials.public  # noqa: SLF001
        connecting = self._client.connect(
            servers=[self.settings.url],
            name=self.settings.name,
            connect_timeout=CONNECT_WITHIN_S,
            reconnect_time_wait=AGAIN_S,  # type: ignore[arg-type] # takes fractions
            max_reconnect_attempts=-1,
            ping_interval=PING_EVERY_S,
            max_outstanding_pings=1,
            error_cb=self._note_error,
            disconnected_cb=self._disconnected,
            reconnected_cb=self._reconnected,
            closed_cb=self._closed,
            allow_reconnect=True,
            **_tls(self.settings),
            **_proof(credentials),
        )
        await cancellable(connecting)

    async def subscribe(
        self, subject: str, heard: Callable[[RelayMessage], Awaitable[None]]
    ) -> None:
        """Hear a subject from now on, over every reconnection; ``heard`` must not wait long."""
        self._subscriptions.append((subject, heard))
        if self._client.is_connected:
            await self._subscribe(subject, heard)

    async def publish(self, subject: str, data: bytes, *, reply: str = "") -> None:
        """Send; what is sent while the server is away may be lost.

        Raises:
            ConnectionError: too much waits for the server already, or there is none yet.
        """
        try:
            await self._client.publish(subject, data, reply=reply)
        except NatsError as error:
            raise ConnectionError(str(error)) from error

    async def flush(self) -> None:
        """Wait until the server has what was published and subscribed.

        Raises:
            ConnectionError: the server is away.
        """
        try:
            # nats-py (2.16) writes its PING past what still waits for its flusher, so the answer
            # may come before that is on the wire; while it is waited for, the flusher has run.
            await cancellable(self._client.flush(CONNECT_WITHIN_S))
            await cancellable(self._client.flush(CONNECT_WITHIN_S))
        except (NatsError, TimeoutError) as error:
            raise ConnectionError(str(error)) from error

    def jetstream(self, within_s: float) -> Any:
        """JetStream of the server that this is a connection to now; for ``key_store``."""
        return self._client.jetstream(timeout=within_s)

    async def close(self) -> None:
        """End it."""
        self._is_wanted = False
        if self._reopening is not None:
            self._reopening.cancel()
            await asyncio.gather(self._reopening, return_exceptions=True)
        with contextlib.suppress(NatsError, OSError, asyncio.TimeoutError):
            await cancellable(self._client.close())
        self._move(LinkState.OFF)

    async def _subscribe(
        self, subject: str, heard: Callable[[RelayMessage], Awaitable[None]]
    ) -> None:
        async def deliver(message: Any) -> None:
            headers = message.headers or {}
            await heard(RelayMessage(message.subject, message.data, headers.get("Status") == "503"))

        await cancellable(self._client.subscribe(subject, cb=deliver))

    async def _note_error(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if text != self._logged:
            log.warning("relay_trouble", reason=text)
        is_news = text != self.status.last_error
        self._logged = text
        self.status = replace(self.status, last_error=text, last_error_ms=self.clock.wall_ms())
        if is_news:
            self.changed()

    async def _disconnected(self) -> None:
        if self._is_wanted:
            log.warning("relay_disconnected")
            self._move(LinkState.RECONNECTING)

    async def _reconnected(self) -> None:
        self._logged = ""
        log.info("relay_reconnected")
        self._move(LinkState.CONNECTED)

    async def _closed(self) -> None:
        """nats-py gives up where the server sends an error (a pass that ran out): we do not."""
        if self._is_wanted:
            self._is_wanted = False
            if self._client.last_error is not None:
                await self._note_error(self._client.last_error)
            self._reopening = asyncio.create_task(self._reopen(), name="relay reconnect")

    async def _reopen(self) -> None:
        while not self._is_wanted:
            await self.clock.sleep(AGAIN_S)
            with contextlib.suppress(Invalid):
                await self.open()

    def _move(self, state: LinkState) -> None:
        if state is not self.status.state:
            self.status = replace(self.status, state=state, since_ms=self.clock.wall_ms())
            self.changed()


def _tls(settings: LinkSettings) -> dict[str, Any]:
    if not settings.url.startswith(("tls://", "wss://")) and settings.ca_file is None:
        return {}
    cafile = str(settings.ca_file) if settings.ca_file is not None else None
    try:
        return {"tls": ssl.create_default_context(cafile=cafile)}
    except (OSError, ValueError) as error:
        raise Invalid(
            f"RELAY_CA_FILE cannot be used: {error}.", code=ErrorCode.BAD_CONFIG
        ) from error


def _credentials(settings: LinkSettings) -> Password | Nkey | Pass | None:
    if settings.credentials is None:
        return None
    try:
        text = settings.credentials.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise Invalid(
            f"RELAY_CREDENTIALS cannot be read: {error}.", code=ErrorCode.BAD_CONFIG
        ) from error
    return read_credentials(text)


def _proof(credentials: Password | Nkey | Pass | None) -> dict[str, Any]:
    """How to show the server who we are, in nats-py's words."""
    match credentials:
        case None:
            return {}
        case Password(user=user, password=password):
            return {"user": user, "password": password}
        case Nkey(sign=sign):
            return {"signature_cb": sign}
        case Pass(jwt=jwt, sign=sign):
            return {"signature_cb": sign, "user_jwt_cb": lambda: jwt.encode("ascii")}


@record(kw_only=False)
class Password:
    """A user and a password."""

    user: str
    password: str


@record(kw_only=False)
class Nkey:
    """A key that the server knows by its public half."""

    public: str
    sign: Sign


@record(kw_only=False)
class Pass:
    """A pass (JWT) that an account signed, and the key that it was made out to."""

    jwt: str
    sign: Sign


def read_credentials(text: str) -> Password | Nkey | Pass:
    """Whatever the file holds.

    Raises:
        Invalid: BAD_CONFIG, it is none of the three; nothing of it is quoted.
    """
    text = text.strip()
    if "BEGIN NATS USER JWT" in text:
        found, seed = PASS.search(text), PASS_SEED.search(text + "\n")
        if found is None or seed is None:
            raise _bad("holds a pass without its key, or the other way round")
        return Pass(found[1], _signer(_seed_of(seed[1])))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    if len(lines) == 1 and re.fullmatch(r"SU[A-Z2-7]{56}", lines[0]):
        seed_bytes = _seed_of(lines[0])
        return Nkey(public_nkey(seed_bytes), _signer(seed_bytes))
    user, colon, password = lines[0].partition(":") if len(lines) == 1 else ("", "", "")
    if not colon or not user:
        raise _bad("is neither one line user:password, nor a user's nkey seed, nor a .creds file")
    return Password(user, password)


def public_nkey(seed: bytes) -> str:
    """The public half of a user's key, as the server's configuration names it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = Ed25519PrivateKey.from_private_bytes(seed).public_key()
    # public_bytes_raw is younger than the cryptography of Debian bookworm.
    public = key.public_bytes(Encoding.Raw, PublicFormat.Raw)
    body = bytes([USER]) + public
    return base64.b32encode(body + _checksum(body)).decode("ascii").rstrip("=")


def _seed_of(text: str) -> bytes:
    """The 32 secret bytes of a user's seed: two bytes of kind, the secret, a checksum."""
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError):
        raise _bad("holds a key that is not an nkey seed") from None
    is_seed = len(raw) == SEED_BYTES and raw[0] & 0xF8 == SEED
    is_user = is_seed and ((raw[0] & 7) << 5 | raw[1] >> 3) == USER
    if not is_user or _checksum(raw[:-2]) != raw[-2:]:
        raise _bad("holds a key that is not a user's nkey seed")
    return raw[2:-2]


def _signer(seed: bytes) -> Sign:
    # Loaded where it is needed: a password needs none of it.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(seed)
    return lambda number: base64.b64encode(key.sign(number.encode()))


def _checksum(data: bytes) -> bytes:
    """CRC-16/XMODEM, low byte first."""
    return binascii.crc_hqx(data, 0).to_bytes(2, "little")


def _bad(how: str) -> Invalid:
    return Invalid(
        f"The file of RELAY_CREDENTIALS {how}.",
        code=ErrorCode.BAD_CONFIG,
        remedy="docs/relay.md shows the three forms.",
    )
