"""Checks of the bench: profiles, tools, instruments, lockouts, recordings, the clock.

The check of SDK wrappers: loaded or not, why not, and what to install.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from edged.clock import RELEASED_MS, SystemClock
from edged.doctor.facts import Facts
from edged.doctor.report import CheckLine, fail, passed, skip, warn
from edged.errors import Invalid
from edged.host import clock_state
from edged.profiles.abort import ANYTHING
from edged.profiles.authoring.lint import lint_profile
from edged.profiles.bench_file import unseen_keys
from edged.profiles.library import ProfileLibrary
from edged.profiles.library_cache import read_library
from edged.store.bench_copy import BenchCopy

SHOWN: Final = 3
NEARLY_FULL: Final = 0.9


def check_profiles(facts: Facts) -> CheckLine:
    """Whether every profile could be loaded, and what lint has to say."""
    directories = facts.config.profile_dirs
    library = _library(facts)
    count = len(library.profiles)
    if library.complaints:
        complaint = library.complaints[0]
        return warn(
            f"{count} profiles; {len(library.complaints)} could not be loaded, first: "
            f"{complaint.sentence}",
            _remedy_for_broken(facts),
        )
    if not count:
        told = ", ".join(map(str, directories)) or "nowhere"
        return warn(f"There is no profile in {told}.", "Set PROFILE_DIRS.")
    findings = [
        finding
        for profile in library.profiles.values()
        if not profile.is_imported
        for finding in lint_profile(profile, library)
    ]
    if findings:
        first = findings[0]
        return warn(
            f"{count} profiles; lint has {len(findings)} findings, first: "
            f"{first.path}:{first.line}: {first.message}",
            first.suggestion or "See docs/profiles.md.",
        )
    return passed(f"{count} profiles, all clean.")


def check_imported(facts: Facts) -> CheckLine:
    """Which profiles nobody has held against the manual; those of this bench by their units."""
    imported = sorted(key for key, head in _library(facts).heads.items() if head.is_imported)
    if not imported:
        return passed("None is imported.")
    more = len(imported) - SHOWN
    named = ", ".join(imported[:SHOWN]) + (f" and {more} more" if more > 0 else "")
    return warn(
        f"{len(imported)} profiles are imported and not yet compared with a manual: {named}. Raw "
        "SCPI is judged as known by them, and whatever may switch an output on is dangerous.",
        "Compare what you use with its manual (`edged profile docs KEY`), then write status: "
        "reviewed.",
    )


def check_unprofiled(facts: Facts) -> CheckLine:
    """Instruments that no profile fits: they have no tools, and no abort is known for them."""
    if not facts.is_answering:
        return skip("No engine answers.")
    bare = [one for one in facts.instruments if not one["profile_name"]]
    if not bare:
        return passed("Every instrument has a profile.")
    named = "; ".join(_called({**one, "instrument_id": one["id"]}) for one in bare[:SHOWN])
    more = f" and {len(bare) - SHOWN} more" if len(bare) > SHOWN else ""
    return warn(
        f"Without a profile, and so without tools and an abort of its own: {named}{more}.",
        f"`edged profile new --from {bare[0]['address']}` drafts one "
        "(docs/add-your-instrument.md).",
    )


def _library(facts: Facts) -> ProfileLibrary:
    return facts.library or read_library(facts.config.profile_dirs, facts.config.state_dir)


def _remedy_for_broken(facts: Facts) -> str:
    kept = facts.status.get("profiles", {}).get("kept", [])
    if kept:
        return f"Correct them: the engine goes on with the earlier versions of {', '.join(kept)}."
    return "Correct them: the instruments that they describe have no tools."


def check_bench_file(facts: Facts) -> CheckLine:
    """What the owner wrote, and whether the engine goes by it."""
    engine = facts.engine if facts.is_answering else None
    path = (engine.bench_file if engine is not None else None) or facts.config.bench_file
    engines = facts.status.get("profiles", {})
    refused = engines.get("bench_error", "")
    if refused:
        return fail(
            f"The engine uses an older version of it{_since(engines['bench_error_since_ms'])}, "
            f"because: {refused}",
            "Correct it; the engine reads it again by itself.",
        )
    copy = BenchCopy(path, facts.config.state_dir)
    try:
        reading = copy.read(_library(facts), seen=facts.seen or ())
    except Invalid as error:
        return fail(f"{error}", "Correct it; an engine does not start with it.")
    if reading.fault:
        return fail(
            f"An engine uses an older version of it{_since(copy.faulty_since())}, which is kept "
            f"in {copy.copy}, because: {reading.fault}",
            "Correct it; an engine reads it again by itself.",
        )
    if engines.get("bench_copy_error"):
        return warn(
            f"The engine could not keep a copy of {path}: {engines['bench_copy_error']}",
            "Without it the limits are lost if the file is missing at the next start.",
        )
    if not reading.bench.units:
        there = f"{path} has no entries" if path.exists() else f"There is no {path}"
        return passed(f"{there}: the limits of the profiles apply.")
    unseen = unseen_keys(reading.bench.units, facts.seen) if facts.seen is not None else ()
    if unseen:
        more = len(unseen) - SHOWN
        told = " ".join(key.sentence for key in unseen[:SHOWN])
        return warn(
            told + (f" And {more} more." if more > 0 else ""),
            "Correct the key if the unit is on; list_instruments has each serial number. If it is "
            "off or was taken away, its entry holds from when it answers.",
        )
    return passed(f"Units that {path} has entries for: {len(reading.bench.units)}.")


def _since(since_ms: int | None) -> str:
    """``since`` as the clause of a sentence; empty where nobody knows."""
    if since_ms is None:
        return ""
    moment = datetime.fromtimestamp(since_ms / 1000, tz=UTC).astimezone()
    return f" since {moment.isoformat(sep=' ', timespec='seconds')}"


def check_tool_list(facts: Facts) -> CheckLine:
    """Whether clients can take the list: its length, and the names."""
    if not facts.is_answering:
        return skip("No engine answers.")
    names = [str(tool["name"]) for tool in facts.tools]
    size = facts.status["mcp"]["listed"]
    told = f"{size['tools']} tools, {size['kib']} KiB."
    warning = facts.status["mcp"]["warning"]
    if warning:
        return warn(
            f"{told} {warning}",
            "Give clients that URL (edged connect --tools essential), or set TOOLS: essential; "
            "execute_command and bench__find_tools reach everything.",
        )
    dotted = [name for name in names if "." in name]
    if dotted:
        return warn(
            f"{told} Some clients refuse names with dots: {', '.join(dotted[:SHOWN])}.",
            "Set TOOL_NAMES: strict.",
        )
    return passed(told)


def check_discovery(facts: Facts) -> CheckLine:
    """How buses are looked at, and instruments that two profiles claim equally."""
    if not facts.is_answering:
        return skip("No engine answers.")
    known = facts.status.get("discovery", {})
    ties = known.get("ties", [])
    if ties:
        told = "; ".join(f"{_called(t)}: {', '.join(t['profiles'])}" for t in ties[:SHOWN])
        return warn(
            f"Several profiles fit equally well: {told}. The first is used.",
            "Name the right one in INSTRUMENTS, or make its match more specific.",
        )
    twins = known.get("twins", [])
    if twins:
        told = "; ".join(
            f"{_called(t)} tells {t['serial']} as {', '.join(t['addresses'][:SHOWN])} do"
            for t in twins[:SHOWN]
        )
        return warn(
            f"{len(twins)} instruments have the same serial number as another: {told}.",
            "Give each unit its own name in INSTRUMENTS, or the same name to all addresses of one "
            "unit.",
        )
    warnings = known.get("warnings", [])
    if warnings:
        told = "; ".join(f"{_called(w)}: {w['warning']}" for w in warnings[:SHOWN])
        return warn(
            f"{len(warnings)} instruments work with a restriction: {told}",
            "Correct `errors` in the profile or in INSTRUMENTS, then start edged again.",
        )
    remarks = [bus["remark"] for bus in known.get("buses", []) if bus["remark"]]
    if remarks:
        return warn(" ".join(remarks), "See docs/discovery.md; take a bus out of DISCOVERY.")
    buses = ", ".join(f"{bus['name']} {bus['found']}" for bus in known.get("buses", []))
    monitor = known.get("hotplug", {}).get("monitor", "none")
    return passed(f"Looked at: {buses or 'nothing but INSTRUMENTS'}; hot-plug monitor: {monitor}.")


def check_lines(facts: Facts) -> CheckLine:
    """How the known instruments are, and which of them are in trouble."""
    if not facts.is_answering:
        return skip("No engine answers.")
    states = facts.status.get("instruments_by_state", {})
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"
    troubled = facts.status.get("troubled_lines", [])
    if not troubled:
        return passed(f"Instruments: {told}.")
    which = "; ".join(
        f"{_called(line)} is {line['state']}: {line['reason']}" for line in troubled[:SHOWN]
    )
    remedies = " / ".join(dict.fromkeys(line["remedy"] for line in troubled[:SHOWN]))
    return warn(f"Instruments: {told}. {which}.", f"{remedies} `edged trace ADDRESS` shows it.")


def _called(unit: Mapping[str, Any]) -> str:
    """What people call it, and its id."""
    alias, instrument_id = unit.get("alias"), str(unit["instrument_id"])
    return f"{alias} ({instrument_id})" if alias else instrument_id


def check_set_aside(facts: Facts) -> CheckLine:
    """Addresses at which nobody answered."""
    if not facts.is_answering:
        return skip("No engine answers.")
    silent = facts.status.get("set_aside", [])
    if not silent:
        return passed(f"{facts.status.get('instrument_count', 0)} instruments; none set aside.")
    told = "; ".join(f"{place['address']}: {place['reason']}" for place in silent[:SHOWN])
    return warn(
        f"{len(silent)} addresses are not in use: {told}",
        " / ".join(dict.fromkeys(place["remedy"] for place in silent[:SHOWN])),
    )


def _may_be_on(facts: Facts) -> CheckLine | None:
    """What the previous run of the engine left on, and outputs whose state is not known."""
    found, left_on, remedies = [], [], []
    for unit in facts.status.get("told_on", []):
        called = _called({"alias": _aliases(facts).get(unit["instrument_id"], ""), **unit})
        left = [one for one in unit.get("left", ()) if one not in unit["off"]]
        if left:
            named = ", ".join("an output" if one == ANYTHING else one for one in left)
            left_on.append(f"{called} ({named})")
        elif ANYTHING in unit["outputs"] and ANYTHING not in unit["off"]:
            why = unit.get("why") or "something was sent that can change any output"
            found.append(f"The state of the outputs of {called} is not known: {why}.")
    if left_on:
        found.insert(0, f"The previous run of the engine left on: {', '.join(left_on)}.")
        remedies.append(
            "`edged stop` switches it off and confirms that; ON_EXIT: safe does so at each exit."
        )
    if len(found) > bool(left_on):
        remedies.append(
            "`edged call bench__check` queries each output, and `edged stop` switches them off. If "
            "neither can, look at the instrument, then `edged stop --seen-off INSTRUMENT`."
        )
    return warn(" ".join(found), " ".join(remedies)) if found else None


def check_attention(facts: Facts) -> CheckLine:
    """Stops and aborts that were not confirmed, dead-men that switched off, what may be on."""
    if not facts.is_answering:
        return skip("No engine answers.")
    dead_men = [one for one in facts.status.get("dead_man", []) if one["state"] == "tripped"]
    if dead_men:
        told = ", ".join(map(_called, dead_men))
        return warn(
            f"The dead-man of {told} switched the outputs off.",
            "A person has to look at it, and to clear it: "
            f"{'; '.join(dict.fromkeys(one['clear'] for one in dead_men))}.",
        )
    stopping = [
        _called({"instrument_id": one, "alias": _aliases(facts).get(one, "")})
        for one in facts.status.get("stopping", [])
    ]
    if stopping:
        return warn(
            f"The stop of {', '.join(stopping)} is not confirmed yet, and is repeated; the output "
            "may be on.",
            "Look at the instrument, its power and its cable; make it safe there.",
        )
    # Those of this life of the daemon, and what a former one left in the journal.
    found = [*facts.status.get("sweeps", []), *facts.status.get("needs_attention", [])]
    needy = {sweep["sweep_id"]: _called(sweep) for sweep in found if sweep.get("needs_attention")}
    if not needy:
        return _may_be_on(facts) or passed("No sweep has left an output as it is.")
    told = ", ".join(f"{sweep_id} on {instrument}" for sweep_id, instrument in needy.items())
    return warn(
        f"The abort of {told} was not confirmed; the output may be on.",
        "Look at the instrument; make it safe there, or with `edged call bench__stop_all`.",
    )


def _aliases(facts: Facts) -> dict[str, str]:
    return {one["id"]: one["alias"] for one in facts.instruments}


def check_lockouts(facts: Facts) -> CheckLine:
    """What is locked out."""
    if not facts.is_answering:
        return skip("No engine answers.")
    locked = facts.status.get("lockouts", [])
    if not locked:
        return passed("Nothing is locked out.")
    told = "; ".join(f"{_called(lock)} by {lock['by']}: {lock['reason']}" for lock in locked)
    return warn(
        f"Locked out: {told.rstrip('.')}.",
        "When the work is done: `edged lockout INSTRUMENT --clear`.",
    )


def check_interlocks(facts: Facts) -> CheckLine:
    """Which have tripped, and which name what is not there."""
    if not facts.is_answering:
        return skip("No engine answers.")
    rules = facts.status.get("interlocks", [])
    if not rules:
        return passed("There are none.")
    for rule in rules:
        if rule["reason"]:
            return warn(
                f"{rule['name']} has tripped: {rule['reason'].rstrip('.')}.",
                "Correct what it read; this is shown until a guarded write finds a good reading "
                "(docs/guards.md).",
            )
    for rule in rules:
        if rule["unknown"]:
            return warn(
                f"{rule['name']} names {', '.join(rule['unknown'])}, and nothing on the bench is "
                "called so: it guards nothing or every write, or refuses what it guards.",
                "list_instruments has the aliases and serial numbers.",
            )
    return passed(f"Interlocks that hold: {len(rules)}.")


def check_budget(facts: Facts) -> CheckLine:
    """Space for recordings."""
    if not facts.is_answering:
        return skip("No engine answers.")
    told = facts.status.get("recordings", {})
    used, budget = told.get("used_mb", 0), told.get("budget_mb", 0)
    found = f"{used:g} of {budget} MiB of recordings in {told.get('path')}."
    if told.get("error"):
        return fail(f"{found} {told['error']}", "Look at the disk that holds DATA_DIR.")
    if told.get("is_full"):
        return warn(
            f"{found} New recordings are refused.", "Move old runs away, or raise DATA_BUDGET_MB."
        )
    if budget and used > NEARLY_FULL * budget:
        return warn(found, "Move old runs away soon, or raise DATA_BUDGET_MB.")
    return passed(found)


def check_clock(_facts: Facts) -> CheckLine:
    """Whether the times in records mean anything."""
    now_ms = SystemClock().wall_ms()
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    if now_ms < RELEASED_MS:
        return fail(f"The clock says {now:%Y-%m-%d}.", "Set it; tokens and records depend on it.")
    told = f"{now:%Y-%m-%d %H:%M:%S} UTC."
    match clock_state()["is_synchronized"]:
        case True:
            return passed(f"{told} A time service (NTP) sets it.")
        case False:
            return warn(
                f"{told} No time service sets it.", "Enable NTP (systemd-timesyncd, chrony)."
            )
        case _:
            return passed(f"{told} This machine does not tell whether a time service sets it.")


DOCUMENTED: Final = "See docs/sdk-wrappers.md."


def check_wrappers(facts: Facts) -> CheckLine:
    """What the engine tells of its wrappers; none of them is asked anything."""
    if not facts.is_answering:
        return skip("No engine answers.")
    sdk = facts.status.get("sdk", {})
    wrappers = sdk.get("wrappers", [])
    # Those that were loaded before and are about to be again are at work, not at fault.
    bad = [one for one in wrappers if one["is_seen"] and not one["is_usable"]]
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
    if not wrapper["is_seen"]:
        return f"{wrapper['wrapper']} (no such device was seen)"
    has_none = wrapper["state"] == "ready" and not wrapper["tools"]
    return f"{wrapper['wrapper']} " + (
        "(no tools declared)" if has_none else f"with {wrapper['tools']} tools"
    )
