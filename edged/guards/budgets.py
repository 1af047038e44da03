"""How often a command may be sent: what was spent within the hour, and what is reserved. Pure.

What is about to be sent is reserved, spent when its bytes go out, and given back if they never
do. An open reservation may be spent at any moment, so it counts as if that were now.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from edged.profiles.budget import MOST_PER_HOUR, Budget
from edged.record import record
from edged.sharing.leases import Moment

HOUR_S: Final = 3600.0
Key = tuple[str, str]
"""A unit and a command."""


@record(kw_only=False)
class SpentBudget:
    """What is kept on disk of one command.

    Attributes:
        spent: when it went out, oldest first.
        reserved: how many were about to.
    """

    spent: tuple[Moment, ...] = ()
    reserved: int = 0


@record(frozen=False, kw_only=False)
class _Account:
    spent: deque[Moment] = field(default_factory=lambda: deque(maxlen=MOST_PER_HOUR))
    reserved: set[int] = field(default_factory=set)


class Ledger:
    """What was spent and is reserved of each command of each unit.

    Within one life of the daemon only the monotonic clock counts, so that nobody wins a budget by
    setting the time.
    """

    def __init__(self) -> None:
        self._accounts: dict[Key, _Account] = {}
        self._keys: dict[int, Key] = {}
        self._last = 0

    def reserve(self, key: Key, budget: Budget, now: Moment) -> int | None:
        """Take one of the budget: what ``spend`` or ``give_back`` want; ``None``: it is used up."""
        if self.wait_s(key, budget, now) > 0:
            return None
        self._last += 1
        self._accounts.setdefault(key, _Account()).reserved.add(self._last)
        self._keys[self._last] = key
        return self._last

    def spend(self, reservation: int, now: Moment) -> Key | None:
        """Its bytes go out; gives what it was of. Said again, it is nothing new: ``None``."""
        key = self._keys.pop(reservation, None)
        if key is not None:
            account = self._accounts[key]
            account.reserved.discard(reservation)
            account.spent.append(now)
        return key

    def give_back(self, reservation: int) -> Key | None:
        """It was never sent; gives what it was of. Of what was spent nothing comes back."""
        key = self._keys.pop(reservation, None)
        if key is not None:
            self._accounts[key].reserved.discard(reservation)
            self._drop_if_empty(key)
        return key

    def times_s(self, key: Key, now: Moment) -> list[float]:
        """When the last ones went out, in seconds from now, oldest first."""
        self.spent(key, now)
        account = self._accounts.get(key)
        if account is None:
            return []
        times = [one.monotonic_s - now.monotonic_s for one in account.spent]
        return [*times, *[0.0] * len(account.reserved)]

    def spent(self, key: Key, now: Moment) -> int:
        """How many went out within the last hour, or are about to."""
        account = self._accounts.get(key)
        if account is None:
            return 0
        while account.spent and now.monotonic_s - account.spent[0].monotonic_s >= HOUR_S:
            account.spent.popleft()
        count = len(account.spent) + len(account.reserved)
        self._drop_if_empty(key)
        return count

    def wait_s(self, key: Key, budget: Budget, now: Moment) -> float:
        """How long until the next is allowed; 0: now. What is reserved counts as spent now."""
        count = self.spent(key, now)
        if not count:
            return 0.0
        account = self._accounts[key]
        times = [one.monotonic_s for one in account.spent]
        times += [now.monotonic_s] * len(account.reserved)
        waits = [0.0]
        if budget.min_interval_s is not None:
            waits.append(times[-1] + budget.min_interval_s - now.monotonic_s)
        if budget.per_hour is not None and count >= budget.per_hour:
            waits.append(times[count - budget.per_hour] + HOUR_S - now.monotonic_s)
        return max(waits)

    def left(self) -> Mapping[Key, SpentBudget]:
        """All of it, for the disk."""
        return {
            key: SpentBudget(tuple(account.spent), len(account.reserved))
            for key, account in self._accounts.items()
        }

    def restore(self, left: Mapping[Key, SpentBudget], now: Moment) -> None:
        """What a former life left: what it had reserved may have gone out until just now."""
        for key, kept in left.items():
            ages = sorted((one.age_s(now) for one in kept.spent), reverse=True)
            self._accounts[key] = _Account(spent=_stamps((*ages, *[0.0] * kept.reserved), now))
            self.spent(key, now)

    def _drop_if_empty(self, key: Key) -> None:
        account = self._accounts[key]
        if not account.spent and not account.reserved:
            del self._accounts[key]


def _stamps(ages_s: Iterable[float], now: Moment) -> deque[Moment]:
    return deque(
        (Moment(now.monotonic_s - age_s, now.wall_ms - round(age_s * 1000)) for age_s in ages_s),
        maxlen=MOST_PER_HOUR,
    )
