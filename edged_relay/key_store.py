"""A bucket of NATS JetStream's key-value store, over the link that there is; knows nats as well.

The bucket is made with its first use. What is asked of the server is what docs/relay.md lists as
permissions: its stream's information and making, a consumer to read all of it, and its keys.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

from nats.errors import Error as NatsError
from nats.js.api import KeyValueConfig
from nats.js.errors import BucketNotFoundError

from edged.relay.link import NatsLink, cancellable

WITHIN_S: Final = 5.0


class KeyStore:
    """One bucket.

    Args:
        link: the connection.
        bucket: its name.
        ttl_s: how long a value is kept that is not put again.
        most_bytes: of one value.
    """

    def __init__(self, link: NatsLink, *, bucket: str, ttl_s: float, most_bytes: int) -> None:
        self._link = link
        self._config = KeyValueConfig(
            bucket=bucket, history=1, ttl=ttl_s, max_value_size=most_bytes
        )
        self._bucket: Any = None

    async def read_all(self) -> dict[str, bytes]:
        """Every key and its value.

        Raises:
            ConnectionError: the server is away, has no JetStream, or does not let us.
        """
        try:
            return await cancellable(self._read_all())
        except (NatsError, TimeoutError) as error:
            self._bucket = None
            raise ConnectionError(_words(error)) from error

    async def _read_all(self) -> dict[str, bytes]:
        bucket = await self._open()
        left = (await bucket.status()).values
        if not left:
            return {}
        watcher = await bucket.watchall()
        found = {}
        try:
            # nats-py (2.16) may say that it was all before the first has come: it is counted.
            while left > 0:
                entry = await watcher.updates(WITHIN_S)
                if entry is None:
                    continue
                left -= 1
                if entry.operation is None and entry.value is not None:
                    found[entry.key] = entry.value
        finally:
            with contextlib.suppress(NatsError):
                await watcher.stop()
        return found

    async def put(self, key: str, value: bytes) -> None:
        """Keep a value.

        Raises:
            ConnectionError: as for ``read_all``.
        """
        try:
            await cancellable(self._put(key, value))
        except (NatsError, TimeoutError) as error:
            self._bucket = None
            raise ConnectionError(_words(error)) from error

    async def _put(self, key: str, value: bytes) -> None:
        await (await self._open()).put(key, value)

    async def _open(self) -> Any:
        """The bucket; looked for anew after a failure, for the server may have lost it."""
        if self._bucket is None:
            context = self._link.jetstream(WITHIN_S)
            try:
                self._bucket = await context.key_value(self._config.bucket)
            except BucketNotFoundError:
                self._bucket = await context.create_key_value(self._config)
        return self._bucket


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
