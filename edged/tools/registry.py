"""The present set of tools, and the memory of names that meant something before.

Listens to the instrument pool; computes the names of everything seen in this life of the daemon
anew on each arrival and departure (``profiles.naming``), and publishes that the set has changed,
once for each change. Lives on the event loop; nothing here waits.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from edged.actions.tool import Tool
from edged.changes import RULES
from edged.commands.target import Catalog
from edged.errors import ErrorCode, NotFound
from edged.instruments.instrument import Instrument
from edged.instruments.pool import InstrumentPool
from edged.profiles.model import Profile
from edged.profiles.naming import (
    NAME_LENGTH,
    KnownInstrument,
    Namer,
    listed_names,
    loose_name,
    strict_name,
)
from edged.profiles.unit_rules import ASK_THE_OWNER
from edged.record import record
from edged.sdk.executor import WrapperExecutor
from edged.tools.dynamic import instrument_tools, withheld_name, wrapper_tools

MOST_COMPARED: Final = 200
MOST_COMPARED_CHARS: Final = 64
MOST_NAME_CHARS: Final = 1_024
"""Far more than any tool's name has; no longer one is compared with them."""
OTHER_ROADS: Final = "execute_command and execute_sequence reach it."


@record(kw_only=False)
class _Made:
    """The tools of one instrument, with what they were made from."""

    suffix: str
    profile: Profile
    label: tuple[str, str]
    tools: tuple[Tool, ...]


class ToolRegistry:
    """All tools by name.

    Args:
        static: the tools that are always there, in listing order.
        pool: where instruments come and go.
        catalog: the compiled checks of their commands.
        bench: the tools that are listed while any instrument is registered, or a wrapper has
            tools; those that answer alone can be called without.
        wrappers: the SDK wrappers that have tools.
        is_strict: TOOL_NAMES: strict; names are shown with ``_`` for ``.``. In each mode a name
            that is too long for some clients is shown shortened, and can be called by both.
        lists_absent: SDK_TOOLS: all; tools of wrappers are listed, though not among the essential
            ones, before their device was seen.
        uses_aliases: TOOL_NAMES: alias; a unit's alias stands for its short id.
    """

    def __init__(
        self,
        *,
        static: Iterable[Tool],
        pool: InstrumentPool,
        catalog: Catalog,
        bench: Iterable[Tool] = (),
        wrappers: Callable[[], Iterable[WrapperExecutor]] = tuple,
        is_strict: bool = False,
        uses_aliases: bool = False,
        lists_absent: bool = True,
    ) -> None:
        self._lists_absent = lists_absent
        self._static = tuple(static)
        self._bench = tuple(bench)
        self._wrappers = wrappers
        self._wrapper_tools: dict[str, tuple[str, tuple[Tool, ...]]] = {}
        self._pool = pool
        self._catalog = catalog
        self._is_strict = is_strict
        self._namer = Namer(uses_aliases=uses_aliases)
        # Who was named, as what: by instrument id.
        self._known: dict[str, KnownInstrument] = {}
        self._made: dict[str, _Made] = {}
        self._by_name: dict[str, Tool] = {}
        # Made when it is first needed: few clients spell names so.
        self._strict_spelling: dict[str, Tool] | None = None
        self._loose_spelling: tuple[str, ...] | None = None
        self._former: dict[str, tuple[str, str]] = {}
        self._tools: tuple[Tool, ...] = ()
        self._unlisted_names: tuple[str, ...] = ()
        # Of wrappers whose device nobody has seen, and the others.
        self._absent: tuple[Tool, ...] = ()
        self._here: tuple[Tool, ...] = ()
        self._listeners: list[Callable[[], None]] = []
        self.generation = 0
        self._rebuild()
        self._unsubscribe = pool.subscribe(lambda _event: self.refresh())

    def close(self) -> None:
        """Stop listening to the pool."""
        self._unsubscribe()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` after each change of the set; returns how to end that."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    def tools(self) -> tuple[Tool, ...]:
        """Every tool in listing order: static ones, then by profile, instrument and command."""
        return self._tools

    def usable(self) -> tuple[Tool, ...]:
        """Those of them whose device is not known to be absent."""
        return self._here

    def find(self, name: str) -> Tool:
        """The tool that this name means now, in either spelling.

        Raises:
            NotFound: UNKNOWN_TOOL; RENAMED_TOOL with the new name, if the name meant an instrument
                that is now called otherwise; UNKNOWN_INSTRUMENT or UNKNOWN_COMMAND, if it meant
                something that is gone.
        """
        if len(name) > MOST_NAME_CHARS:
            raise self._unknown(name[:128])
        tool = self._by_name.get(name) or self._spelled_strictly(name)
        if tool is not None:
            return tool
        withheld = self._withheld(name)
        if withheld is not None:
            raise withheld
        former = self._former.get(strict_name(name))
        if former is None:
            raise self._unknown(name[:128])
        raise self._renamed(name, *former)

    def _unknown(self, name: str) -> NotFound:
        """The error for a name that means nothing; it offers what is nearest in the same group.

        A group are the tools of one instrument, and those that belong to none; before these come
        the tools of a command that is called just so, and what is only spelled otherwise.
        """
        start, mark, rest = name.partition("__")
        group = start + mark if mark else ""
        siblings = [
            tool.name.removeprefix(group)
            for tool in self._tools
            if (tool.name.startswith(group) if mark else "__" not in tool.name)
        ]
        # difflib takes a while: hundreds of siblings are no help, and would keep others waiting,
        # and so would what all of them begin with.
        meant = (rest if mark else name)[:MOST_COMPARED_CHARS]
        near = difflib.get_close_matches(meant, siblings[:MOST_COMPARED], n=3)
        near = [group + one for one in near]
        near = list(dict.fromkeys([*self._meant(name, is_bare=not mark), *near]))[:3]
        remedy = "tools/list has the present names; list_instruments says what is connected."
        return NotFound(
            f"There is no tool {name!r}.",
            code=ErrorCode.UNKNOWN_TOOL,
            data={"tool": name, "near": near} if near else {"tool": name},
            remedy=f"Did you mean {', '.join(near)}? {remedy}" if near else remedy,
        )

    def _meant(self, name: str, *, is_bare: bool) -> list[str]:
        """Tools of a command of that bare name, and the one whose name is only spelled so."""
        if self._loose_spelling is None:
            self._loose_spelling = tuple(f"_{loose_name(tool.name)}" for tool in self._tools)
        spelled = f"_{loose_name(name)}"
        return [
            tool.name
            for tool, loose in zip(self._tools, self._loose_spelling, strict=True)
            if spelled.endswith(loose) or (is_bare and tool.name.endswith(f"__{name}"))
        ]

    def plain_name(self, name: str) -> str:
        """The unsuffixed name of a present tool; empty where it has or is none."""
        tool = self._by_name.get(name)
        return tool.plain_name if tool is not None else ""

    def present_name(self, instrument_id: str, plain_name: str) -> str:
        """The name that an instrument's tool has now; empty when it has none."""
        for tool in self._tools:
            if tool.instrument_id == instrument_id and tool.plain_name == plain_name:
                return tool.name
        return ""

    def names_of(self, instrument_id: str) -> dict[str, str]:
        """The unsuffixed name of each tool of an instrument → the name that it has now."""
        return {
            tool.plain_name: tool.name
            for tool in self._tools
            if tool.instrument_id == instrument_id
        }

    def refresh(self) -> None:
        """Compute the set anew; publishes if it changed."""
        if self._rebuild():
            self.generation += 1
            for listener in tuple(self._listeners):
                listener()

    def _spelled_strictly(self, name: str) -> Tool | None:
        if self._strict_spelling is None:
            self._strict_spelling = {strict_name(tool.name): tool for tool in self._tools}
        return self._strict_spelling.get(strict_name(name))

    def _withheld(self, name: str) -> NotFound | None:
        """The error for what an instrument here could do, if its owner offered it as a tool."""
        for instrument in self._pool.all():
            made = self._made.get(instrument.id) if instrument.is_offered else None
            short = withheld_name(name, made.profile, made.suffix) if made else None
            if short is None:
                continue
            is_denied = short in instrument.rules.deny
            what = "denies" if is_denied else "offers no tool for"
            return NotFound(
                f"The owner of this bench {what} {short} on {instrument.called}.",
                code=ErrorCode.UNKNOWN_TOOL,
                data={"tool": name, "instrument_id": instrument.id},
                remedy=ASK_THE_OWNER if is_denied else OTHER_ROADS,
            )
        return None

    def _renamed(self, name: str, instrument_id: str, plain_name: str) -> NotFound:
        now = next(
            (
                tool.name
                for tool in self._tools
                if tool.instrument_id == instrument_id and tool.plain_name == plain_name
            ),
            None,
        )
        if now is None and any(tool.instrument_id == instrument_id for tool in self._tools):
            return NotFound(
                f"The tool {name!r} is gone: the profile of {instrument_id} was changed.",
                code=ErrorCode.UNKNOWN_COMMAND,
                data={"tool": name, "instrument_id": instrument_id},
                remedy="tools/list has its present tools.",
            )
        if now is None:
            return NotFound(
                f"The tool {name!r} is of {instrument_id}, which has no tools now: it is not "
                "connected, or no profile fits it any more.",
                code=ErrorCode.UNKNOWN_INSTRUMENT,
                data={"tool": name, "instrument_id": instrument_id},
                remedy="list_instruments shows whether it is connected; if it is not, connect it.",
            )
        return NotFound(
            f"The tool {name!r} is now called {now!r}: another instrument of the same profile was "
            "connected, or its owner has changed an alias.",
            code=ErrorCode.RENAMED_TOOL,
            data={"tool": name, "renamed_to": now},
            remedy=f"Call {now!r}; {OTHER_ROADS}",
        )

    def _rebuild(self) -> bool:
        """Returns whether the set is another than before."""
        present = [i for i in self._pool.all() if i.is_offered and i.profile is not None]
        for instrument in present:
            self._note(instrument)
        tools = list(self._static)
        absent: list[Tool] = []
        wrappers = tuple(self._wrappers())
        if self._pool.all() or any(wrapper.is_seen for wrapper in wrappers):
            tools.extend(self._bench)
        for instrument in sorted(present, key=_listing_order):
            tools.extend(self._tools_of(instrument, self._namer.suffix(instrument.id)))
        taken = {i.profile.key for i in present if i.profile is not None}
        for wrapper in wrappers:
            # A profile of that name that came later: two tools under one name help nobody.
            if wrapper.stem not in taken:
                its = self._tools_of_wrapper(wrapper)
                (tools if wrapper.is_seen else absent).extend(its)
        tools, absent = self._as_listed(tools), self._as_listed(absent)
        before, was_absent = self._tools, self._absent
        self._here, self._absent = tuple(tools), tuple(absent)
        # A short list has none of what cannot be used.
        shown = [replace(tool, is_essential=False) for tool in absent if self._lists_absent]
        self._tools = (*self._here, *shown)
        if self._tools == before and self._absent == was_absent:
            return False
        self._remember(before)
        self._by_name = {tool.name: tool for tool in (*self._unlisted(), *self._tools)}
        self._strict_spelling = None
        self._loose_spelling = None
        listed = {tool.name for tool in self._tools}
        self._unlisted_names = tuple(
            tool.name for tool in self._unlisted() if tool.name not in listed
        )
        RULES.note()
        return True

    def _unlisted(self) -> tuple[Tool, ...]:
        """What can be called though it is not listed now."""
        return (*self._absent, *(tool for tool in self._bench if tool.answers_alone))

    def unlisted_names(self) -> tuple[str, ...]:
        """The same by name; empty while they are listed."""
        return self._unlisted_names

    def _as_listed(self, tools: list[Tool]) -> list[Tool]:
        """The same tools under names that every client takes; one that has such a name stays."""
        if not self._is_strict and all(len(tool.name) <= NAME_LENGTH for tool in tools):
            return tools
        listed = listed_names((tool.name for tool in tools), is_strict=self._is_strict)
        return [
            tool if listed[tool.name] == tool.name else replace(tool, name=listed[tool.name])
            for tool in tools
        ]

    def _note(self, instrument: Instrument) -> None:
        """Remember that this unit has been seen in this life of the daemon."""
        if instrument.profile is None:
            return
        entry = KnownInstrument(
            instrument_id=instrument.id,
            profile_key=instrument.profile.key,
            alias=instrument.alias,
        )
        if self._known.get(instrument.id) != entry:
            self._known[instrument.id] = entry
            self._namer.arrive(entry)
            instrument.naming_warning = self._namer.note(instrument.id)

    def _tools_of(self, instrument: Instrument, suffix: str) -> tuple[Tool, ...]:
        profile = instrument.profile
        if profile is None:
            return ()
        label = (instrument.alias, instrument.location)
        made = self._made.get(instrument.id)
        if (
            made is None
            or made.suffix != suffix
            or made.profile is not profile
            or made.label != label
        ):
            tools = instrument_tools(instrument, suffix, self._catalog)
            made = self._made[instrument.id] = _Made(suffix, profile, label, tools)
        return made.tools

    def _tools_of_wrapper(self, wrapper: WrapperExecutor) -> tuple[Tool, ...]:
        """Made anew only where its specifications have changed."""
        digest, tools = self._wrapper_tools.get(wrapper.stem, ("", ()))
        if digest != wrapper.digest:
            tools = wrapper_tools(wrapper)
            self._wrapper_tools[wrapper.stem] = (wrapper.digest, tools)
        return tools

    def _remember(self, before: tuple[Tool, ...]) -> None:
        """Names that are gone keep pointing at the instrument that they meant."""
        names = {tool.name for tool in self._tools}
        for tool in before:
            if tool.instrument_id and tool.name not in names:
                former = (tool.instrument_id, tool.plain_name)
                self._former[strict_name(tool.name)] = former
        for name in names.difference(tool.name for tool in before):
            self._former.pop(strict_name(name), None)


def _listing_order(instrument: Instrument) -> tuple[str, str]:
    return (instrument.profile.key if instrument.profile else "", instrument.id)
