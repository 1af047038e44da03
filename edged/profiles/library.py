"""What reading the profile directories gives: the profiles, and what was wrong with the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edged.profiles.complaints import nearest
from edged.profiles.head import ProfileHead, head_of
from edged.profiles.model import Profile
from edged.profiles.packed import PackedProfiles

__all__ = ["Complaint", "ProfileLibrary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """Why a file was not loaded, and where to look."""

    path: str
    line: int
    column: int
    message: str
    remedy: str = ""

    @property
    def sentence(self) -> str:
        """All of it, as a compiler writes it."""
        return f"{self.path}:{self.line}:{self.column}: {self.message} {self.remedy}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileLibrary:
    """Every profile that could be loaded, by key, and what was wrong with the others.

    ``known`` are their heads, where somebody has them already.
    """

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    complaints: tuple[Complaint, ...] = ()
    known: Mapping[str, ProfileHead] | None = field(default=None, compare=False, repr=False)

    @property
    def heads(self) -> Mapping[str, ProfileHead]:
        """What is known of each profile without unpacking it."""
        if self.known is not None:
            return self.known
        return {key: head_of(profile) for key, profile in self.profiles.items()}

    def with_more(self, more: Mapping[str, Profile]) -> ProfileLibrary:
        """This library and other profiles, which go before its own."""
        own = self.profiles
        return ProfileLibrary(
            profiles=own.with_more(more) if isinstance(own, PackedProfiles) else {**own, **more},
            complaints=self.complaints,
            known={**self.heads, **{key: head_of(profile) for key, profile in more.items()}},
        )

    def chosen(self, key: str) -> Profile | None:
        """The profile by which an instrument is to be worked; all of one model share it."""
        if isinstance(self.profiles, PackedProfiles) and key in self.profiles:
            return self.profiles.kept(key)
        return self.profiles.get(key)

    def missing(self, key: str) -> str:
        """What to tell of an entry of INSTRUMENTS that names no profile; empty where it does."""
        if key in self.profiles:
            return ""
        hint = nearest(key, self.profiles)
        return f"INSTRUMENTS names the profile {key}, which does not exist. {hint}".strip()
