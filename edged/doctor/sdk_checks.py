"""The check of SDK wrappers: loaded or not, why not, and what to install."""

from __future__ import annotations

from typing import Final

from edged.doctor.facts import Facts
from edged.doctor.report import Line, passed, skip, warn

__all__ = ["check_wrappers"]

SHOWN: Final = 3
DOCUMENTED: Final = "See docs/sdk-wrappers.md."


def check_wrappers(facts: Facts) -> Line:
    """What the engine tells of its wrappers; none of them is asked anything."""
    if not facts.is_answering:
        return skip("No engine answers.")
    sdk = facts.status.get("sdk", {})
    wrappers = sdk.get("wrappers", [])
    # Those that were loaded before and are about to be again are at work, not at fault.
    bad = [one for one in wrappers if not one["is_usable"]]
    complaints = [f"{one['wrapper']} ({one['state']}): {one['problem']}" for one in bad]
    complaints += sdk.get("complaints", [])
    if complaints:
        more = len(complaints) - SHOWN
        told = " / ".join(complaints[:SHOWN])
        remedies = dict.fromkeys(one["remedy"] for one in bad[:SHOWN] if one["remedy"])
        return warn(
            f"{told} / {more} more: see `edged status`." if more > 0 else told,
            " / ".join(remedies) or DOCUMENTED,
        )
    if not wrappers:
        return passed("There is no SDK wrapper.")
    told = ", ".join(f"{one['wrapper']} with {one['tools']} tools" for one in wrappers)
    return passed(f"{told}.")
