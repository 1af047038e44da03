"""Calling writes back: one that was judged is asked again before each line of it goes out.

Between its judgement and its bytes a write may wait for the disk, for its turn, for a line that
comes back. Meanwhile everything may have been stopped, its instrument locked out, or the owner's
bench file written anew: whoever has been told that must not see an earlier write take effect. What
has gone out is not taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

from edged.actions.action import ENDS_WORK, Action
from edged.actions.cause import ENGINE_STOPPED, Cause
from edged.commands.preconditions import Leased
from edged.commands.target import Precondition, SendGuard, Target
from edged.errors import Conflict, ErrorCode, Failed, Invalid, NotFound, Refused
from edged.instruments.conversation import Ask, AskBlock, Conversation, Send
from edged.record import part

T = TypeVar("T")


BY_CODE: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {ErrorCode.LOCKED_OUT: " by lockout", ErrorCode.LEASED: " by the end of its lease"}
)
"""What ended a write in the middle; others name it in their own message."""

Interlocked = Callable[[Action, Target], SendGuard | None]


@part
class SendGuards:
    """Gives each write its guard.

    Attributes:
        locked_out: the precondition of lockouts; any thread may ask it.
        check_again: the policy's, by the owner's present word; asked only where that was changed,
            by any thread.
        leased: the precondition of leases; the same.
        interlocked: gives what interlocks ask once more, of a write that is guarded by any.
    """

    locked_out: Precondition
    check_again: Precondition
    leased: Leased
    interlocked: Interlocked
    _is_closed: bool = False
    _stops: int = 0
    _stopped_by: Cause = ENGINE_STOPPED

    def stop(self, cause: Cause) -> None:
        """Everything is being stopped: nothing that was judged before this is begun any more."""
        self._stops, self._stopped_by = self._stops + 1, cause

    def close(self) -> None:
        """The daemon stops: from now on nothing is begun but what makes safe.

        What runs has been ended then, and nobody would end what came after it.
        """
        self._is_closed = True

    def recalled(self, target: Target) -> SendGuard:
        """From now on: what raises once everything was stopped, or the daemon stops."""
        return partial(self._recall, target, self._stops)

    def _recall(self, target: Target, stops: int) -> None:
        if self._is_closed:
            raise Failed(_recalled(target, ENGINE_STOPPED), code=ErrorCode.CANCELLED)
        if self._stops != stops:
            raise Failed(
                _recalled(target, self._stopped_by),
                code=ErrorCode.PREEMPTED,
                remedy="If it is still wanted, call it again.",
            )

    def of(
        self, action: Action, target: Target, passing: SendGuard | None = None
    ) -> SendGuard | None:
        """From now on: what says whether this write may still go; ``None``: nothing recalls it.

        Args:
            passing: told where a line may go, right before it does.
        """
        if not target.is_write or target.is_safe or getattr(action, "purpose", None) in ENDS_WORK:
            return None
        stops, leased = self._stops, self.leased
        held = self.interlocked(action, target)
        permit = leased.permit(action, target)
        instrument = target.instrument
        rules = instrument.rules if instrument is not None else None

        def guard() -> None:
            if self._is_closed or self._stops != stops:
                self._recall(target, stops)
            self.locked_out(action, target)
            leased.check_again(action, target, permit)
            if held is not None:
                held()
            if instrument is not None and instrument.rules is not rules:
                self.check_again(action, target)
            if passing is not None:
                passing()

        return guard


def _recalled(target: Target, cause: Cause) -> str:
    return f"{target.command_name or 'The call'} was ended {cause.clause} before it was sent."


def guarded(
    conversation: Conversation[T], lines: Collection[str], guard: SendGuard | None
) -> Conversation[T]:
    """The same conversation, which asks ``guard`` before each of the write's own ``lines``."""
    return conversation if guard is None else _guarded(conversation, lines, guard)


def _guarded(
    conversation: Conversation[T], lines: Collection[str], guard: SendGuard
) -> Conversation[T]:
    answer, has_begun = None, False
    try:
        while True:
            step = conversation.send(answer)
            if isinstance(step, Send | Ask | AskBlock) and step.text in lines:
                _ask(guard, has_begun=has_begun)
                has_begun = True
            answer = yield step
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        conversation.close()


def _ask(guard: SendGuard, *, has_begun: bool) -> None:
    try:
        guard()
    except (Refused, Conflict, NotFound, Invalid) as refused:
        if not has_begun:
            raise
        # Part of it is in the instrument: that is no refusal, and what went is told.
        raise Failed(
            f"The call was ended{BY_CODE.get(refused.code, '')} after a part of it was sent: "
            f"{refused.message}",
            code=refused.code,
            data=refused.data,
            remedy=refused.remedy,
        ) from refused
