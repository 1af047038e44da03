"""Who of the server's clients holds which lock of one unit: the standard's table, pure.

An exclusive lock and one shared by all who know its string exist side by side: whoever holds the
shared one may have the exclusive one besides.

Source: IVI-6.1, HiSLIP 1.0, 6.5 (AsyncLock) and its table of lock states.
"""

from __future__ import annotations

from collections.abc import Hashable

from edged.protocol.hislip import LockResult


class LockBook:
    """The locks of one unit.

    Attributes:
        key: the shared lock's string while somebody holds it; else empty.
    """

    def __init__(self) -> None:
        self.key = ""
        self._exclusive: Hashable | None = None
        self._shared: set[Hashable] = set()

    def request(self, client: Hashable, key: str) -> LockResult:
        """Grant a lock if it is free now; a failure may be asked again when something changed.

        Args:
            client: who asks.
            key: the shared lock's string; empty for the exclusive lock.
        """
        if not key:
            return self._request_exclusive(client)
        if client in self._shared or self._exclusive == client:
            return LockResult.ERROR
        if self._shared:
            # Whoever knows the string may share, though one of them holds the exclusive lock.
            if key != self.key:
                return LockResult.FAILURE
        elif self._exclusive is not None:
            return LockResult.FAILURE
        self.key = key
        self._shared.add(client)
        return LockResult.SUCCESS

    def _request_exclusive(self, client: Hashable) -> LockResult:
        if self._exclusive == client:
            return LockResult.ERROR
        if self._exclusive is not None or (self._shared and client not in self._shared):
            return LockResult.FAILURE
        self._exclusive = client
        return LockResult.SUCCESS

    def release(self, client: Hashable) -> LockResult:
        """Give one lock back; of two the exclusive one first."""
        if self._exclusive == client:
            self._exclusive = None
            return LockResult.SUCCESS
        if client in self._shared:
            self._shared.discard(client)
            if not self._shared:
                self.key = ""
            return LockResult.SHARED_RELEASED
        return LockResult.ERROR

    def leave(self, client: Hashable) -> bool:
        """The client is gone, and its locks with it; whether it had any."""
        had = False
        while self.release(client) is not LockResult.ERROR:
            had = True
        return had

    def holds(self, client: Hashable) -> bool:
        """Whether this client has any lock."""
        return self._exclusive == client or client in self._shared

    def is_shut_out(self, client: Hashable) -> bool:
        """Whether another client's lock keeps this one from writing."""
        if self._exclusive is not None:
            return self._exclusive != client
        return bool(self._shared) and client not in self._shared

    @property
    def is_exclusive(self) -> bool:
        """Whether somebody holds the exclusive lock."""
        return self._exclusive is not None

    @property
    def holder_count(self) -> int:
        """Clients that hold locks; who holds both counts once."""
        others = 0 if self._exclusive is None or self._exclusive in self._shared else 1
        return len(self._shared) + others
