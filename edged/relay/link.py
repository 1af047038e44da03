"""The connection to a NATS server, which comes back by itself; the one module that imports nats."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError

from edged.clock import Clock
from edged.errors import ErrorCode, Invalid

__all__ = ["LinkSettings", "Message", "NatsLink"]

AGAIN_S: Final = 0.5
CONNECT_WITHIN_S: Final = 2
PING_EVERY_S: Final = 5
"""So that a connection whose other end vanished is noticed within ten seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """Where the server is, and who we are there.

    Attributes:
        credentials: a NATS credentials file, or a file with one line ``user:password``.
        ca_file: the authority of the server's certificate, where the system does not know it.
    """

    url: str
    credentials: Path | None = None
    ca_file: Path | None = None
    name: str = "edged"


@dataclass(frozen=True, slots=True)
class Message:
    """What arrived; ``is_nobody``: the server says that nobody hears what was published."""

    subject: str
    data: bytes
    is_nobody: bool


class NatsLink:
    """One connection.

    Args:
        settings: see there.
        clock: for the pause between attempts.
    """

    def __init__(self, settings: LinkSettings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._client = Client()
        self._log = structlog.get_logger("edged.relay")
        self._subscriptions: list[tuple[str, Callable[[Message], Awaitable[None]]]] = []
        self.last_error = ""

    @property
    def is_connected(self) -> bool:
        """Whether messages go out at once."""
        return bool(self._client.is_connected)

    @property
    def pending_bytes(self) -> int:
        """What has been published and is not on the wire yet."""
        return int(self._client.pending_data_size)

    async def open(self) -> None:
        """Connect, however long the server is away.

        Raises:
            Invalid: the credentials or the authority cannot be used.
        """
        options = _options(self._settings)
        while True:
            try:
                await self._client.connect(
                    servers=[self._settings.url],
                    name=self._settings.name,
                    connect_timeout=CONNECT_WITHIN_S,
                    reconnect_time_wait=AGAIN_S,  # type: ignore[arg-type] # takes fractions
                    max_reconnect_attempts=-1,
                    ping_interval=PING_EVERY_S,
                    max_outstanding_pings=1,
                    error_cb=self._note_error,
                    disconnected_cb=self._disconnected,
                    reconnected_cb=self._reconnected,
                    allow_reconnect=True,
                    **options,
                )
                break
            except (NatsError, OSError, TimeoutError) as error:
                await self._note_error(error)
                with contextlib.suppress(NatsError, OSError):
                    await self._client.close()
                self._client = Client()
                await self._clock.sleep(AGAIN_S)
        for subject, heard in self._subscriptions:
            await self._subscribe(subject, heard)
        self._log.info("relay_connected", url=self._settings.url.rpartition("@")[2])

    async def subscribe(self, subject: str, heard: Callable[[Message], Awaitable[None]]) -> None:
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
        """Wait until what was published is on the wire.

        Raises:
            ConnectionError: the server is away.
        """
        try:
            await self._client.flush(CONNECT_WITHIN_S)
        except (NatsError, TimeoutError) as error:
            raise ConnectionError(str(error)) from error

    async def close(self) -> None:
        """End it."""
        with contextlib.suppress(NatsError, OSError, asyncio.TimeoutError):
            await self._client.close()

    async def _subscribe(self, subject: str, heard: Callable[[Message], Awaitable[None]]) -> None:
        async def deliver(message: Any) -> None:
            headers = message.headers or {}
            await heard(Message(message.subject, message.data, headers.get("Status") == "503"))

        await self._client.subscribe(subject, cb=deliver)

    async def _note_error(self, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if text != self.last_error:
            self._log.warning("relay_trouble", reason=text)
        self.last_error = text

    async def _disconnected(self) -> None:
        self._log.warning("relay_disconnected")

    async def _reconnected(self) -> None:
        self.last_error = ""
        self._log.info("relay_reconnected")


def _options(settings: LinkSettings) -> dict[str, Any]:
    options: dict[str, Any] = {}
    try:
        if settings.url.startswith(("tls://", "wss://")) or settings.ca_file is not None:
            cafile = str(settings.ca_file) if settings.ca_file is not None else None
            options["tls"] = ssl.create_default_context(cafile=cafile)
        if settings.credentials is not None:
            text = settings.credentials.read_text(encoding="utf-8").strip()
            if "BEGIN NATS USER JWT" in text:
                options["user_credentials"] = str(settings.credentials)
            else:
                options["user"], _, options["password"] = text.partition(":")
    except (OSError, ValueError) as error:
        raise Invalid(
            f"RELAY_CREDENTIALS or RELAY_CA_FILE cannot be used: {error}.",
            code=ErrorCode.BAD_CONFIG,
        ) from error
    return options
