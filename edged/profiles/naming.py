"""Names of tools: which instance of a profile carries which suffix, and what names look like.

With ``TOOL_NAMES: alias`` the suffix is what the owner calls a unit, for every unit that has an
alias; the same rules hold for it.

``book`` is one pure function from every instrument ever seen in this life of the daemon, in order
of arrival, to the names in force. It replays the arrivals, so that the rule can be held that
matters most: **a name never comes to drive another instrument.** A name once given is never given
to another, even when its first owner was renamed or has left.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from edged.record import record

SHORT_LENGTH: Final = 8
STRICT_LENGTH: Final = 64
"""What the strictest clients and model APIs take; longer names make them drop the whole list."""
LONGEST_PREFIX: Final = "mcp__edged__"
"""What a client that `edged connect` has configured puts before each name (Claude Code)."""
NAME_LENGTH: Final = STRICT_LENGTH - len(LONGEST_PREFIX)
_STRANGE: Final = re.compile(r"[^A-Za-z0-9_.-]")
_DIGEST_LENGTH: Final = 8
ALIAS_LENGTH: Final = 24
_STRANGE_IN_ALIAS: Final = re.compile(r"[^A-Za-z0-9-]+")


@record
class KnownInstrument:
    """One instrument that has been here, under the profile and the alias it had."""

    instrument_id: str
    profile_key: str
    alias: str = ""


@record
class NameBook:
    """Who is called what.

    Attributes:
        suffixes: instrument id → suffix; "" is unsuffixed.
        former: (profile key, suffix that is no longer in force) → the instrument that had it.
        notes: sentences about ids that could not be told apart by the rule alone.
    """

    suffixes: Mapping[str, str]
    former: Mapping[tuple[str, str], str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def book(known: Sequence[KnownInstrument], *, uses_aliases: bool = False) -> NameBook:
    """The names in force after these arrivals.

    Args:
        known: everything ever seen in this life of the daemon, in order of arrival; an instrument
            that came again may stand there again. One whose profile changed stands there once for
            each; its latest profile decides its suffix.
        uses_aliases: see ``Namer``.
    """
    namer = Namer(uses_aliases=uses_aliases)
    for entry in known:
        namer.arrive(entry)
    return namer.book()


class Namer:
    """``book``, one arrival at a time: for whoever has hundreds of instruments to name.

    Args:
        uses_aliases: an alias is the suffix of whoever has one.
    """

    def __init__(self, *, uses_aliases: bool = False) -> None:
        self._uses_aliases = uses_aliases
        self._families: dict[str, _Family] = {}
        self._latest: dict[str, str] = {}
        # Alias as names have it, in lower case → the first unit that was called so, for good.
        self._alias_owners: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self._notes: dict[str, str] = {}

    def arrive(self, entry: KnownInstrument) -> None:
        """One more arrival; names that it changes are changed for good."""
        family = self._families.setdefault(entry.profile_key, _Family(entry.profile_key))
        family.arrive(entry.instrument_id)
        self._latest[entry.instrument_id] = entry.profile_key
        if self._uses_aliases:
            self._call(entry, family)

    def suffix(self, instrument_id: str) -> str:
        """The suffix in force; "" is unsuffixed. The instrument must have arrived."""
        alias = self._aliases.get(instrument_id)
        return alias or self._families[self._latest[instrument_id]].suffixes[instrument_id]

    def note(self, instrument_id: str) -> str:
        """Why a unit that has an alias is not called by it; empty where it is, or has none."""
        return self._notes.get(instrument_id, "")

    def _call(self, entry: KnownInstrument, family: _Family) -> None:
        """Let a unit be called by its alias, unless that was ever another's name."""
        id_ = entry.instrument_id
        self._aliases.pop(id_, None)
        self._notes.pop(id_, None)
        if not entry.alias:
            return
        alias = clean_alias(entry.alias)
        owner = self._alias_owners.get(alias.lower(), id_)
        if not _is_usable(alias):
            why = f"{alias!r} can be no name"
        elif owner != id_:
            why = f"{owner} was called so before it; the name is free again after a restart"
        elif not family.claim(id_, alias):
            why = "that is another unit's short id"
        else:
            self._alias_owners[alias.lower()] = id_
            self._aliases[id_] = alias
            return
        self._notes[id_] = f'Its tools are not called by its alias "{entry.alias}": {why}.'

    def book(self) -> NameBook:
        """Every name in force now."""
        families = self._families.values()
        suffixes = {id_: self.suffix(id_) for id_ in self._latest}
        former = {
            (family.key, suffix): owner
            for family in families
            for suffix, owner in family.given.items()
            if suffixes[owner] != suffix
        }
        notes = tuple(note for family in families for note in family.notes)
        notes += tuple(self._notes.values())
        return NameBook(suffixes=suffixes, former=former, notes=notes)


class _Family:
    """The instances of one profile, while their arrivals are replayed."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.suffixes: dict[str, str] = {}
        self.given: dict[str, str] = {}
        """Every suffix that was ever in force → its one owner."""
        self.notes: list[str] = []
        self._length = SHORT_LENGTH
        self._short: dict[str, str] = {}
        self._numbers: dict[str, str] = {}
        """For an id that equals an earlier one when stripped: what tells it apart."""
        self._owners: dict[str, str] = {}
        """Stripped id → the first instrument with it."""

    def arrive(self, instrument_id: str) -> None:
        if instrument_id in self.suffixes:
            return
        stripped = _STRANGE.sub("", instrument_id)
        self._short[instrument_id] = stripped
        if stripped in self._owners:
            self._number(instrument_id, stripped)
        self._owners.setdefault(stripped, instrument_id)
        if not self.suffixes:
            self._give({instrument_id: ""})
            return
        suffixes = self._suffixes_of(self._length)
        while not self._is_free(suffixes) and self._length < self._longest():
            self._length += 1
            suffixes = self._suffixes_of(self._length)
        if not self._is_free(suffixes):
            suffixes = self._forced(suffixes)
        self._give(suffixes)

    def claim(self, instrument_id: str, suffix: str) -> bool:
        """Reserve a suffix that its owner chose, for good; whether it was free."""
        return self.given.setdefault(suffix, instrument_id) == instrument_id

    def _number(self, instrument_id: str, stripped: str) -> None:
        count = sum(1 for other in self._short.values() if other == stripped)
        self._numbers[instrument_id] = f"-{count}"
        self.notes.append(
            f'"{instrument_id}" and "{self._owners[stripped]}" differ only in characters that '
            f'names cannot hold; the later one is numbered "-{count}".'
        )

    def _longest(self) -> int:
        return max(len(stripped) for stripped in self._short.values())

    def _suffixes_of(self, length: int) -> dict[str, str]:
        return {
            id_: stripped[-length:] + self._numbers.get(id_, "")
            for id_, stripped in self._short.items()
        }

    def _is_free(self, suffixes: Mapping[str, str]) -> bool:
        """Whether these differ, and none of them is or was another instrument's."""
        if len(set(suffixes.values())) < len(suffixes):
            return False
        given = self.given
        return all(
            given.get(suffix, id_) == id_ and _is_usable(suffix) for id_, suffix in suffixes.items()
        )

    def _forced(self, suffixes: Mapping[str, str]) -> dict[str, str]:
        """Numbers where even whole ids give no free name; who has one keeps it."""
        found: dict[str, str] = {}
        taken: set[str] = set()
        for id_, suffix in suffixes.items():
            wanted, number = suffix, 1
            while not _is_usable(wanted) or wanted in taken or self.given.get(wanted, id_) != id_:
                number += 1
                wanted = f"{suffix}-{number}"
            found[id_] = wanted
            taken.add(wanted)
        return found

    def _give(self, suffixes: Mapping[str, str]) -> None:
        for id_, suffix in suffixes.items():
            self.suffixes[id_] = suffix
            self.given[suffix] = id_


def _is_usable(suffix: str) -> bool:
    """A suffix that reads as the word between key and sequence would make two tools one."""
    return suffix not in ("", "sequence") and not suffix.endswith("__sequence")


def clean_alias(alias: str) -> str:
    """What a name can hold of an alias: letters, digits, single ``_`` and ``-``, at most 24.

    Empty where nothing is left.
    """
    return _STRANGE_IN_ALIAS.sub("_", alias).strip("_")[:ALIAS_LENGTH].strip("_")


def tool_name(profile_key: str, suffix: str, command: str) -> str:
    """``<profile_key>__<command>``, with the suffix between them where there is one."""
    return "__".join([profile_key, suffix, command] if suffix else [profile_key, command])


def sequence_tool_name(profile_key: str, suffix: str, sequence: str) -> str:
    """``<profile_key>__sequence__<sequence>``, with the suffix after the key."""
    return tool_name(profile_key, suffix, f"sequence__{sequence}")


def wrapper_tool_name(stem: str, spec: str) -> str:
    """``<wrapper_stem>__<spec_name>``."""
    return f"{stem}__{spec}"


def loose_name(name: str) -> str:
    """What is left of a name when case and what stands between its words mean nothing."""
    return re.sub("[^a-z0-9]+", "_", name.lower()).strip("_")


def strict_name(name: str) -> str:
    """The spelling that every client takes: ``_`` for dots, and short beside any prefix."""
    return short_name(name.replace(".", "_"))


def short_name(name: str) -> str:
    """The name, at most ``NAME_LENGTH`` characters of it.

    One that is too long keeps its beginning and gets a digest of the whole, which is the same after
    each start, and for both spellings.
    """
    return name if len(name) <= NAME_LENGTH else _with_digest(name, name.replace(".", "_"))


def listed_names(names: Iterable[str], *, is_strict: bool = False) -> dict[str, str]:
    """Each name → what it is listed as; those that would come to the same get longer digests."""
    spelled = strict_name if is_strict else short_name
    found = {name: spelled(name) for name in names}
    length = _DIGEST_LENGTH
    while len(set(found.values())) < len(found):
        owners: dict[str, list[str]] = {}
        for name, listed in found.items():
            owners.setdefault(listed, []).append(name)
        for listed, clashing in owners.items():
            if len(clashing) > 1:
                found |= {n: _with_digest(listed, n, length) for n in clashing if n != listed}
        length += 1
    return found


def _with_digest(spelled: str, name: str, length: int = _DIGEST_LENGTH) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:length]
    return f"{spelled[: NAME_LENGTH - length - 1]}_{digest}"
