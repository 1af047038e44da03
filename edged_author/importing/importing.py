"""A tree of drivers → drafts of profiles, and what was left out. Pure: text in, text out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from edged.errors import Invalid
from edged.profiles.loading import parse_profile
from edged.record import record
from edged_author.importing.declarations import DriverReader, LeftOut, Members
from edged_author.importing.drafting import Draft, draft_of
from edged_author.importing.source import (
    ClassSource,
    SourceTree,
    UnreadableError,
    calls_that_declare,
)

MOST_DRAFTS: Final = 1_000


@record
class Imported:
    """What came of a tree.

    Attributes:
        declared: how many calls that declare something stand in the files that were read.
        arrived: how many of them are a command of some draft.
    """

    drafts: tuple[Draft, ...]
    left_out: tuple[LeftOut, ...]
    declared: int
    arrived: int


def import_tree(
    paths: Collection[str],
    read: Callable[[str], str],
    *,
    only: Sequence[str] = (),
    class_name: str = "",
    taken: Collection[str] = (),
    origin: str = "",
) -> Imported:
    """Every instrument class of a tree as a draft.

    Args:
        paths: all Python files of it, with ``/``.
        read: gives the text of one; raises ``UnreadableError`` where there is none.
        only: the files whose classes are wanted; empty: all.
        class_name: the one class that is wanted; empty: all.
        taken: profile keys that are another's.
        origin: what the tree is, for ``source``.
    """
    tree = SourceTree(paths, read)
    reader = DriverReader(tree)
    keys = set(taken)
    drafts: list[Draft] = []
    left_out: list[LeftOut] = []
    wanted = sorted(only or paths)
    for members in _instruments(tree, reader, wanted, class_name, left_out):
        if len(drafts) >= MOST_DRAFTS:
            of = members.of
            reason = f"there are {MOST_DRAFTS} drafts already"
            left_out.append(LeftOut(path=of.path, line=of.line, what=of.name, reason=reason))
            continue
        draft = draft_of(members, reader, keys, origin)
        left_out += draft.left_out
        if not draft.entries:
            continue
        try:
            parse_profile(draft.text, f"{draft.key}.yaml")
        except Invalid as error:
            of = members.of
            reason = f"its draft would be no profile: {error.message}"
            left_out.append(LeftOut(path=of.path, line=of.line, what=of.name, reason=reason))
            continue
        keys.add(draft.key)
        drafts.append(draft)
    return _told(tree, wanted if not class_name else [], drafts, left_out)


def _instruments(
    tree: SourceTree,
    reader: DriverReader,
    wanted: Sequence[str],
    class_name: str,
    left_out: list[LeftOut],
) -> Iterator[Members]:
    """The instrument classes of the files, each with what it inherits."""
    for path in wanted:
        try:
            module = tree.module(path)
        except UnreadableError as why:
            left_out.append(LeftOut(path=path, line=1, what="the file", reason=str(why)))
            continue
        for name, of in module.classes.items():
            if class_name and name != class_name:
                continue
            members = _members(reader, of, left_out)
            if members is None:
                continue
            if members.is_instrument:
                yield members
            elif any(calls_that_declare(of.node)):
                left_out += members.left_out


def _members(reader: DriverReader, of: ClassSource, left_out: list[LeftOut]) -> Members | None:
    try:
        return reader.members(of)
    except RecursionError:
        reason = "it is nested too deeply"
        left_out.append(LeftOut(path=of.path, line=of.line, what=of.name, reason=reason))
        return None


def _told(
    tree: SourceTree, wanted: Sequence[str], drafts: list[Draft], left_out: list[LeftOut]
) -> Imported:
    """The result; every declaration that neither arrived nor was listed is listed now."""
    arrived = {(entry.path, entry.line) for draft in drafts for entry in draft.entries}
    listed = {(one.path, one.line) for one in left_out} | arrived
    declared = 0
    for path in wanted:
        try:
            lines = tree.module(path).declaring
        except UnreadableError:
            continue
        declared += len(lines)
        for line in lines:
            if (path, line) not in listed:
                reason = "no instrument of this tree is known to have it"
                what = "a declaration"
                left_out.append(LeftOut(path=path, line=line, what=what, reason=reason))
    unique = dict.fromkeys(left_out)
    ordered = sorted(unique, key=lambda one: (one.path, one.line, one.what, one.reason))
    return Imported(
        drafts=tuple(drafts),
        left_out=tuple(ordered),
        declared=declared,
        arrived=len(arrived),
    )
