"""From the profiles in force to those read anew: whatever is broken now leaves the old in force.

Only what was read and understood replaces anything. A file that is gone is no broken one: its
profile goes with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from edged.profiles.library import ProfileLibrary
from edged.profiles.model import Profile

__all__ = ["files_of", "succeeded"]


def succeeded(
    before: ProfileLibrary, after: ProfileLibrary
) -> tuple[ProfileLibrary, tuple[str, ...]]:
    """The library in force from now on, and the keys whose old profile stays in it.

    Args:
        before: what is in force.
        after: what was read; its complaints stay in the result.
    """
    broken = {complaint.path for complaint in after.complaints}
    kept: dict[str, Profile] = {
        key: profile
        for key, profile in before.profiles.items()
        if key not in after.profiles and _is_broken(key, profile, broken)
    }
    profiles: Mapping[str, Profile] = {**after.profiles, **kept}
    return ProfileLibrary(profiles=profiles, complaints=after.complaints), tuple(sorted(kept))


def files_of(profile: Profile) -> frozenset[str]:
    """Every file that a line of the profile stands in: its own, and its family's."""
    return frozenset({profile.source_path, *(mark.path for mark in profile.marks.values())})


def _is_broken(key: str, profile: Profile, broken: set[str]) -> bool:
    """Its own file, its family's, their directory, or a new file that was to override it."""
    files = files_of(profile)
    directories = {str(Path(path).parent) for path in files}
    return bool(broken & (files | directories)) or key in {Path(path).stem for path in broken}
