"""The issuer's public keys: fetched, kept for 24 hours, and asked for anew with great restraint.

Whoever floods us with bad tokens must not make us flood the issuer: after a fetch the first token
that does not verify may cause another at once, and so may each of eight key ids that nobody has
seen since (an issuer that changes its keys begins with one); further ones at most one a minute, and
all who wait share one request. The cached keys are used until their 24 hours are over, unless an
answer with at least one usable key leaves them out: an answer without any changes nothing. They are
kept on disk, so that a restart needs no issuer either. Lives on the event loop.

Nobody learns from the time of a refusal whether a fetch was made: a token that does not verify is
refused after a fixed time (``verifier``), and the fetch goes on behind it.

Source: docs/promises.md section 9; RFC 7517.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

# By name: its client is imported now, and not on the event loop with the first fetch.
from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, StreamReader

from edged.auth.signature import PublicKey, read_keys
from edged.clock import Clock
from edged.errors import ErrorCode, Failed
from edged.files import read_bytes, write_atomically
from edged.record import record

KEEP_MS: Final = 24 * 3600 * 1000
AHEAD_MS: Final = 3600 * 1000
"""How long before their end keys are fetched anew if somebody uses them."""
AGAIN_S: Final = 60.0
NEW_KIDS: Final = 8
"""How many key ids are worth a fetch at once; one that was found is not counted any more."""
EMPTY_AGAIN_S: Final = 5.0
"""After a failed fetch when there is no key at all: nobody can call until one succeeds."""
FETCH_WITHIN_S: Final = 3.0
KEEP_WITHIN_S: Final = 0.5
"""How long the file of keys is waited for: a disk may hang, and the keys are there."""
MAX_BYTES: Final = 256 * 1024
JWKS_FILE: Final = "jwks.json"


class JwksError(Exception):
    """The key set could not be had; the text says why."""


class JwksSource(Protocol):
    """Where key sets come from."""

    async def fetch(self) -> bytes:
        """The key set's JSON, bounded in time and size.

        Raises:
            JwksError: it cannot be had.
        """
        ...


class HttpJwksSource:
    """The issuer's JWKS endpoint.

    Args:
        url: RELAY_JWKS_URL; the configuration allows http to loopback addresses only.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    async def fetch(self) -> bytes:
        """See ``JwksSource``. Follows no redirect: the issuer's host is the only one trusted."""
        timeout = ClientTimeout(total=FETCH_WITHIN_S)
        try:
            # A deadline of our own besides: closing a connection may take long too.
            async with (
                asyncio.timeout(FETCH_WITHIN_S),
                ClientSession(
                    timeout=timeout, trust_env=False, cookie_jar=DummyCookieJar()
                ) as session,
                session.get(
                    self._url, allow_redirects=False, headers={"Accept-Encoding": "identity"}
                ) as answer,
            ):
                if answer.status != 200:
                    raise JwksError(f"It answered {answer.status}.")
                return await _read_bounded(answer.content)
        except TimeoutError as error:
            raise JwksError(f"It did not answer within {FETCH_WITHIN_S:g} s.") from error
        except (ClientError, OSError, ValueError) as error:
            raise JwksError(f"It cannot be reached: {error}.") from error


async def _read_bounded(content: StreamReader) -> bytes:
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if len(body) > MAX_BYTES:
            raise JwksError(f"Its answer is over {MAX_BYTES} bytes.")
    return bytes(body)


@record
class KeySet:
    """The keys as of one fetch.

    Attributes:
        generation: another number for each fetch; what was verified counts for its own only. 0
            where there are no keys, because none could be had.
        fetched_ms: Unix epoch milliseconds.
    """

    keys: Mapping[str, PublicKey]
    generation: int
    fetched_ms: int


NO_KEYS: Final = KeySet(keys={}, generation=0, fetched_ms=0)


class KeyBook:
    """The keys that tokens are verified with.

    Args:
        source: where they come from.
        url: what they are kept under; a file of another issuer is not used.
        state_dir: where they are kept; ``None`` keeps them in memory only.
        clock: for ages and limits.
    """

    def __init__(
        self, source: JwksSource, *, url: str, state_dir: Path | None, clock: Clock
    ) -> None:
        self._source = source
        self._url = url
        self._file = state_dir / JWKS_FILE if state_dir is not None else None
        self._clock = clock
        self._log = structlog.get_logger("edged.auth")
        self._set = NO_KEYS
        self._is_loaded = False
        self._fetch: asyncio.Task[bool] | None = None
        self._missed_s: float | None = None
        # Key ids that a fetch was made for and did not bring.
        self._tried: set[str] = set()
        self._failed_s: float | None = None
        self.last_error = ""

    async def current(self) -> KeySet:
        """The keys in force; fetched first if there are none.

        Keys that expire soon are fetched in the background.
        """
        if not self._is_loaded:
            self._is_loaded = True
            await self._load()
        age_ms = self._age_ms()
        if age_ms is None:
            if self._may_retry(EMPTY_AGAIN_S):
                await asyncio.wait({self._begin()})
        elif age_ms > KEEP_MS - AHEAD_MS and self._may_retry(AGAIN_S):
            self._begin()
        return self._set if self._age_ms() is not None else NO_KEYS

    async def after_miss(self, seen: KeySet, kid: str, until: asyncio.Future[None]) -> KeySet:
        """A token did not verify with ``seen``: the keys in force now, anew if that is allowed.

        Args:
            kid: the id of the key that the token claims to be signed with.
            until: a fetch is waited for until this is done; then it goes on by itself.
        """
        if self._set.generation == seen.generation:
            if self._fetch is None and not self._may_miss(kid):
                return seen
            if self._fetch is None:
                self._missed_s = self._clock.monotonic()
                if self._is_new(kid):
                    self._tried.add(kid)
            either: set[asyncio.Future[Any]] = {self._begin(is_after_miss=True), until}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return self._set if self._age_ms() is not None else NO_KEYS

    async def fetch_now(self) -> dict[str, Any]:
        """Fetch at the owner's wish, however recently that was done; gives ``status``.

        Raises:
            Failed: NO_KEYS, the issuer gave no usable key; the cached ones stay in force.
        """
        if self._fetch is not None:
            # Its answer may have been made before the owner withdrew a key.
            await asyncio.wait({self._fetch})
        await asyncio.wait({self._begin()})
        if self._failed_s is not None:
            kept = self.status()["keys"]
            raise Failed(
                f"The keys could not be fetched from {self._url}: {self.last_error} "
                f"{kept} cached keys stay in force.",
                code=ErrorCode.NO_KEYS,
                remedy="Check the issuer's server and RELAY_JWKS_URL.",
            )
        return self.status()

    def status(self) -> dict[str, Any]:
        """For get_status and doctor: how many keys, how old, the last error."""
        age_ms = self._age_ms()
        return {
            "keys": len(self._set.keys) if age_ms is not None else 0,
            "age_s": round(age_ms / 1000) if age_ms is not None else None,
            "error": self.last_error,
        }

    async def close(self) -> None:
        """End a fetch under way."""
        if self._fetch is not None:
            self._fetch.cancel()
            await asyncio.gather(self._fetch, return_exceptions=True)

    def _age_ms(self) -> int | None:
        """Age of the keys, ``None`` if they count no longer (or a clock was set back)."""
        age_ms = self._clock.wall_ms() - self._set.fetched_ms
        return age_ms if self._set is not NO_KEYS and 0 <= age_ms < KEEP_MS else None

    def _may_retry(self, after_s: float) -> bool:
        if self._fetch is not None:
            return True
        return self._failed_s is None or self._clock.monotonic() - self._failed_s >= after_s

    def _may_miss(self, kid: str) -> bool:
        if self._missed_s is None or self._clock.monotonic() - self._missed_s >= AGAIN_S:
            return True
        return self._is_new(kid)

    def _is_new(self, kid: str) -> bool:
        """Whether this key id may be one that the issuer has begun to use."""
        is_known = kid in self._set.keys or kid in self._tried
        return not is_known and len(self._tried) < NEW_KIDS

    def _begin(self, *, is_after_miss: bool = False) -> asyncio.Task[bool]:
        """The fetch under way, started here if there is none. No caller's end ends it."""
        if self._fetch is None:
            self._fetch = asyncio.create_task(self._fetch_once(is_after_miss), name="jwks fetch")
            self._fetch.add_done_callback(self._fetch_ended)
        return self._fetch

    def _fetch_ended(self, task: asyncio.Task[bool]) -> None:
        self._fetch = None
        bug = None if task.cancelled() else task.exception()
        if bug is not None:
            self._log.error("jwks_fault", exc_info=bug)

    async def _fetch_once(self, is_after_miss: bool) -> bool:
        try:
            body = await self._source.fetch()
            keys = read_keys(body)
        except (JwksError, ValueError) as error:
            self._failed_s = self._clock.monotonic()
            self.last_error = str(error)
            self._log.warning("jwks_not_fetched", url=self._url, reason=str(error))
            return False
        self._failed_s = None
        self.last_error = ""
        if not is_after_miss:
            self._missed_s = None
            self._tried.clear()
        self._tried.difference_update(keys)
        fetched_ms = self._clock.wall_ms()
        self._take(keys, fetched_ms)
        self._log.info("jwks_fetched", url=self._url, keys=len(keys))
        await self._off_loop(lambda: self._keep(body, fetched_ms))
        return True

    def _take(self, keys: Mapping[str, PublicKey], fetched_ms: int) -> None:
        self._set = KeySet(keys=keys, generation=self._set.generation + 1, fetched_ms=fetched_ms)

    async def _off_loop(self, work: Callable[[], None]) -> None:
        """Have it done by another thread; callers wait for keys, and not for a disk that hangs."""
        keeping = asyncio.ensure_future(asyncio.to_thread(work))
        keeping.add_done_callback(self._tell_kept)
        await asyncio.wait({keeping}, timeout=KEEP_WITHIN_S)

    def _tell_kept(self, keeping: asyncio.Future[None]) -> None:
        if keeping.cancelled():
            return
        error = keeping.exception()
        if isinstance(error, OSError):
            self._log.warning("jwks_not_kept", reason=str(error))
        elif error is not None:
            self._log.error("jwks_not_kept", exc_info=error)

    def _keep(self, body: bytes, fetched_ms: int) -> None:
        if self._file is not None:
            kept = {"url": self._url, "fetched_ms": fetched_ms, "jwks": json.loads(body)}
            write_atomically(self._file, json.dumps(kept))

    async def _load(self) -> None:
        """Take what an earlier life of the daemon kept, if it is of this issuer."""
        if self._file is None or not self._file.exists():
            return
        try:
            text = await asyncio.to_thread(read_bytes, self._file)
            kept = json.loads(text[: 2 * MAX_BYTES])
            if kept["url"] != self._url or not isinstance(kept["fetched_ms"], int):
                return
            if self._set is NO_KEYS:
                self._take(read_keys(json.dumps(kept["jwks"]).encode()), kept["fetched_ms"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            self._log.warning("jwks_file_refused", reason=str(error))
