"""What is known of every profile: enough to find the one that fits, and to list them.

A library has dozens of profiles and a bench a few; the rest of a profile is its better part by far.
"""

from __future__ import annotations

from dataclasses import dataclass

from edged.profiles.model import Match, Profile

__all__ = ["ProfileHead", "head_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileHead:
    """Of one profile; ``files`` are all in which a line of it stands: its own, and its family's."""

    key: str
    version: int
    manufacturer: str
    model: str
    instrument_class: str
    match: Match
    command_count: int
    sequence_count: int
    files: frozenset[str]


def head_of(profile: Profile) -> ProfileHead:
    """The head of a whole profile."""
    return ProfileHead(
        key=profile.key,
        version=profile.version,
        manufacturer=profile.manufacturer,
        model=profile.model,
        instrument_class=profile.instrument_class,
        match=profile.match,
        command_count=len(profile.commands),
        sequence_count=len(profile.sequences),
        files=frozenset({profile.source_path, *(mark.path for mark in profile.marks.values())}),
    )
