"""What holds an action back although it is allowed and well formed.

A hold is a function from (action, target) that raises or lets pass; the path asks all of them, in
order, before it validates. Safe commands are held back by nothing, nor is what is aimed at no
instrument.

The second part is about calling writes back: a write that was judged is asked again before each
line of it goes out.

Between its judgement and its bytes it may wait for the disk, for its turn, for a line that comes
back. Meanwhile everything may have been stopped, its instrument locked out, or the owner's bench
file written anew: whoever has been told that must not see an earlier write take effect. What has
gone out is not taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeVar

from edged.actions.action import Action, Purpose, RunCommand, SendLines, SendScpi, StartSweep
from edged.commands.target import MayGo, Target
from edged.errors import ErrorCode, Failed, Invalid, Refused
from edged.instruments.conversation import Ask, AskBlock, Conversation, Send
from edged.instruments.instrument import Instrument
from edged.profiles.owner_rules import ASK_THE_OWNER
from edged.profiles.template import render_lines
from edged.runs.sweeps.conflicts import SweepClaims
from edged.store.lockouts import Lockout

__all__ = [
    "Hold",
    "Recalls",
    "hold_denied",
    "hold_swept",
    "hold_unswept",
    "locked_out",
    "recallable",
]

Hold = Callable[[Action, Target], None]
# What ends work that runs already must get through: a lockout begins by stopping it.
ENDS_WORK: Final = frozenset({Purpose.FINALLY_STEP, Purpose.ABORT})


def locked_out(
    find: Callable[[Instrument], Lockout | None],
    find_wrapper: Callable[[str], Lockout | None] = lambda _wrapper_id: None,
) -> Hold:
    """The hold of lockouts: every write is refused with the reason, reads pass.

    Args:
        find: the lockout of an instrument, if it has one.
        find_wrapper: the same of an SDK wrapper, by its id.
    """

    def hold(action: Action, target: Target) -> None:
        if not target.is_write or target.is_let_through:
            return
        if isinstance(action, RunCommand | SendScpi | SendLines) and action.purpose in ENDS_WORK:
            return
        lockout = None
        if target.instrument is not None:
            lockout = find(target.instrument)
        elif target.spec is not None:
            lockout = find_wrapper(target.spec.wrapper_id)
        if lockout is None:
            return
        raise Refused(
            f"{target.instrument_id} is locked out by {lockout.by}: {lockout.reason.rstrip('.')}.",
            code=ErrorCode.LOCKED_OUT,
            data=lockout.to_json(),
            remedy="Reads and safe commands still work. Who locked it out lifts it, at the edge "
            "itself, by `edged lockout --clear`.",
        )

    return hold


def hold_denied(_action: Action, target: Target) -> None:
    """The owner's bench file says no to a command or a sequence.

    Raises:
        Refused: DENIED_BY_OWNER.
    """
    name = target.command_name
    if target.instrument is not None and name and name in target.instrument.rules.deny:
        raise Refused(
            f"The owner of this bench denies {name} on {target.instrument.id}.",
            code=ErrorCode.DENIED_BY_OWNER,
            data={"command": name},
            remedy=ASK_THE_OWNER,
        )


def hold_unswept(action: Action, target: Target) -> None:
    """A command that may only be ramped is sent by a sweep and by nothing else.

    Raises:
        Refused: REQUIRES_SWEEP.
    """
    command = target.command
    if command is None or not command.requires_sweep:
        return
    if isinstance(action, StartSweep):
        return
    if isinstance(action, RunCommand) and action.purpose is Purpose.SWEEP_STEP:
        return
    raise Refused(
        f"{command.name} may only be ramped, not set at once.",
        code=ErrorCode.REQUIRES_SWEEP,
        data={"command": command.name},
        remedy=f"Call start_sweep with command_name {command.name!r}, target_value and sweep_rate.",
    )


def hold_swept(claims: SweepClaims) -> Hold:
    """A hold for what sweeps hold: one sweep a parameter of an instrument, and no other writer."""

    def hold(action: Action, target: Target) -> None:
        """Raises ``Conflict`` SWEEP_CONFLICT with the sweep's id."""
        instrument = target.instrument
        if instrument is None or not isinstance(action, RunCommand | SendScpi):
            return
        if target.is_write and claims.holds_on(instrument.id):
            lines = _lines(action, target)
            claims.refuse_writer(
                instrument.id,
                lines,
                action.caller.on_behalf_of,
                is_raw=isinstance(action, SendScpi),
            )

    return hold


def _lines(action: Action, target: Target) -> tuple[str, ...]:
    """What it would send; nothing if that is not well formed, which is judged after the holds."""
    if not isinstance(action, RunCommand) or target.command is None or target.check is None:
        return target.lines
    try:
        return render_lines(target.command, target.check.validate(action.parameters))
    except Invalid:
        return ()


T = TypeVar("T")


def _nothing_holds(_action: Action, _target: Target) -> None:
    return


class Recalls:
    """What calls writes back.

    Args:
        locked_out: the hold of lockouts; any thread may ask it.
        owner_allows: judges again by the owner's present word; asked only where that was changed,
            by any thread.
    """

    def __init__(
        self, locked_out: Hold = _nothing_holds, owner_allows: Hold = _nothing_holds
    ) -> None:
        self._locked_out = locked_out
        self._owner_allows = owner_allows
        self._stops = 0
        self._is_closed = False

    def stop(self) -> None:
        """Everything is being stopped: nothing that was judged before this is begun any more."""
        self._stops += 1

    def close(self) -> None:
        """The daemon stops: from now on nothing is begun but what makes safe.

        What runs has been ended then, and nobody would end what came after it.
        """
        self._is_closed = True

    def watch(self, action: Action, target: Target) -> MayGo | None:
        """From now on: what says whether this write may still go; ``None``: nothing recalls it."""
        if not target.is_write or target.is_safe or getattr(action, "purpose", None) in ENDS_WORK:
            return None
        stops = self._stops
        instrument = target.instrument
        rules = instrument.rules if instrument is not None else None

        def may_go() -> None:
            if self._is_closed:
                raise Failed(
                    f"The daemon is stopping: {target.command_name or action.tool} was not begun.",
                    code=ErrorCode.CANCELLED,
                )
            if self._stops != stops:
                raise Failed(
                    f"Everything was stopped before {target.command_name or action.tool} was sent.",
                    code=ErrorCode.PREEMPTED,
                    remedy="If it is still wanted, call it again.",
                )
            self._locked_out(action, target)
            if instrument is not None and instrument.rules is not rules:
                self._owner_allows(action, target)

        return may_go


def recallable(
    conversation: Conversation[T], lines: Collection[str], may_go: MayGo | None
) -> Conversation[T]:
    """The same conversation, which asks ``may_go`` before each of the write's own ``lines``."""
    return conversation if may_go is None else _asking(conversation, lines, may_go)


def _asking(
    conversation: Conversation[T], lines: Collection[str], may_go: MayGo
) -> Conversation[T]:
    answer, has_begun = None, False
    try:
        while True:
            step = conversation.send(answer)
            if isinstance(step, Send | Ask | AskBlock) and step.text in lines:
                _ask(may_go, has_begun=has_begun)
                has_begun = True
            answer = yield step
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        conversation.close()


def _ask(may_go: MayGo, *, has_begun: bool) -> None:
    try:
        may_go()
    except (Refused, Invalid) as refused:
        if not has_begun:
            raise
        # Part of it is in the instrument: that is no refusal, and what went is told.
        raise Failed(
            refused.message, code=refused.code, data=refused.data, remedy=refused.remedy
        ) from refused
