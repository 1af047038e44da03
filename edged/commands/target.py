"""What an action is aimed at, once its names have been looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from edged.errors import Fault
from edged.instruments.instrument import Instrument
from edged.profiles.model import Command, Scalar, Sequence
from edged.profiles.schema import ParameterCheck
from edged.sdk.specs import WrapperSpec

__all__ = ["MayGo", "Target"]

MayGo = Callable[[], None]
"""Raises ``EdgedError`` if a write that was judged must not be sent any more; from any thread."""


@dataclass(slots=True, kw_only=True)
class Target:
    """The thing behind the names of an action. Made for every one, so not frozen.

    Attributes:
        is_dangerous: it, or something inside it, is marked dangerous (raw SCPI always is).
        is_write: bytes may go out that change something, so the intent is recorded first.
        is_safe: it makes things safe; nothing holds it back.
        is_let_through: raw, and yet it only reads or makes safe: a lockout does not hold it back.
        is_one_command: raw, and one command of the profile at most: it is known what answers it.
        check: of the command's or sequence's own parameters.
        values: the parameters after ``check``, defaults filled in.
        lines: the SCPI that will be sent, where it is known beforehand.
        spec: one tool of an SDK wrapper, where that is what was called.
        inner: what else it will run, chosen by the caller: a sweep's measures.
        may_go: asked again before each line of a write goes out; see ``recall.py``.
    """

    instrument: Instrument | None = None
    command: Command | None = None
    sequence: Sequence | None = None
    is_dangerous: bool = False
    is_write: bool = False
    is_safe: bool = False
    is_let_through: bool = False
    is_one_command: bool = False
    check: ParameterCheck | None = None
    values: Mapping[str, Scalar] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    spec: WrapperSpec | None = None
    inner: tuple[Target, ...] = ()
    may_go: MayGo | None = None

    @property
    def is_aimed(self) -> bool:
        """There is something that it could be held back from: an instrument, or a wrapper."""
        return self.instrument is not None or self.spec is not None

    @property
    def instrument_id(self) -> str:
        """The instrument's or wrapper's id, or empty."""
        if self.instrument:
            return self.instrument.id
        return self.spec.wrapper_id if self.spec else ""

    @property
    def command_name(self) -> str:
        """The command's, wrapper tool's or sequence's name, or empty."""
        if self.command:
            return self.command.name
        if self.spec:
            return self.spec.name
        return self.sequence.name if self.sequence else ""

    def aimed_instrument(self) -> Instrument:
        """The instrument; resolving has put one there for every action that needs one."""
        if self.instrument is None:
            raise Fault("An action reached its executor without an instrument.")
        return self.instrument

    def aimed_command(self) -> tuple[Instrument, Command]:
        """The instrument and the command."""
        if self.command is None:
            raise Fault("An action reached its executor without a command.")
        return self.aimed_instrument(), self.command

    def aimed_spec(self) -> WrapperSpec:
        """The tool of an SDK wrapper."""
        if self.spec is None:
            raise Fault("An action reached its executor without a wrapper's tool.")
        return self.spec

    def aimed_sequence(self) -> Sequence:
        """The sequence."""
        if self.sequence is None:
            raise Fault("An action reached its executor without a sequence.")
        return self.sequence
