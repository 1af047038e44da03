"""What reading the profile directories gives: the profiles, and what was wrong with the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edged.profiles.model import Profile

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
    """Every profile that could be loaded, by key, and what was wrong with the others."""

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    complaints: tuple[Complaint, ...] = ()
