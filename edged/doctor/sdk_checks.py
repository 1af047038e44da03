"""The check of SDK wrappers: loaded or not, why not, and what to install."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
    return passed(f"{', '.join(map(_with_tools, wrappers))}.")


def _with_tools(wrapper: Mapping[str, Any]) -> str:
    """A module without MCP_TOOL_SPECS may be there to help others."""
    has_none = wrapper["state"] == "ready" and not wrapper["tools"]
    return f"{wrapper['wrapper']} " + (
        "(no tools declared)" if has_none else f"with {wrapper['tools']} tools"
    )
