"""From the profiles in force to those read anew: whatever is broken now leaves the old in force.

Only what was read and understood replaces anything. A file that is gone is no broken one: its
profile goes with it.
"""

from __future__ import annotations

from pathlib import Path

from edged.profiles.head import ProfileHead
from edged.profiles.library import ProfileLibrary

__all__ = ["succeeded"]


def succeeded(
    before: ProfileLibrary, after: ProfileLibrary
) -> tuple[ProfileLibrary, tuple[str, ...]]:
    """The library in force from now on, and the keys whose old profile stays in it.

    Args:
        before: what is in force.
        after: what was read; its complaints stay in the result.
    """
    broken = {complaint.path for complaint in after.complaints}
    kept = [
        key
        for key, head in before.heads.items()
        if key not in after.profiles and _is_broken(head, broken)
    ]
    library = after.with_more({key: before.profiles[key] for key in kept}) if kept else after
    return library, tuple(sorted(kept))


def _is_broken(head: ProfileHead, broken: set[str]) -> bool:
    """Its own file, its family's, their directory, or a new file that was to override it."""
    directories = {str(Path(path).parent) for path in head.files}
    is_named = head.key in {Path(path).stem for path in broken}
    return is_named or bool(broken & (head.files | directories))
