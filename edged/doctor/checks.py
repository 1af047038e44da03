"""``CHECKS``: what doctor looks at, in the order of its report. One function, one line.

A check never raises: what it cannot see it says. None asks an instrument anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import structlog

from edged.doctor.bench_checks import (
    check_attention,
    check_bench_file,
    check_budget,
    check_clock,
    check_discovery,
    check_imported,
    check_interlocks,
    check_lines,
    check_lockouts,
    check_profiles,
    check_set_aside,
    check_tool_list,
    check_unprofiled,
    check_wrappers,
)
from edged.doctor.facts import Facts
from edged.doctor.machine_checks import (
    check_config,
    check_database,
    check_state_dir,
    check_usb,
    check_visa,
)
from edged.doctor.port_checks import (
    check_engine,
    check_hislip,
    check_mcp,
    check_reach,
    check_relay,
    check_rpc,
    check_telemetry,
)
from edged.doctor.report import CheckLine, fail

CHECKS: Final[Mapping[str, Callable[[Facts], CheckLine]]] = MappingProxyType(
    {
        "configuration": check_config,
        "state directory": check_state_dir,
        "database": check_database,
        "engine": check_engine,
        "MCP listener": check_mcp,
        "HiSLIP listener": check_hislip,
        "RPC": check_rpc,
        "who can reach it": check_reach,
        "USB permissions": check_usb,
        "VISA backends": check_visa,
        "profiles": check_profiles,
        "imported profiles": check_imported,
        "without a profile": check_unprofiled,
        "bench file": check_bench_file,
        "tool list": check_tool_list,
        "discovery": check_discovery,
        "lines": check_lines,
        "set aside": check_set_aside,
        "SDK wrappers": check_wrappers,
        "needs attention": check_attention,
        "lockouts": check_lockouts,
        "interlocks": check_interlocks,
        "relay": check_relay,
        "telemetry": check_telemetry,
        "recorded data": check_budget,
        "clock": check_clock,
    }
)


def run_checks(facts: Facts) -> list[tuple[str, CheckLine]]:
    """Every check and its line."""
    return [(name, _run(name, check, facts)) for name, check in CHECKS.items()]


def _run(name: str, check: Callable[[Facts], CheckLine], facts: Facts) -> CheckLine:
    try:
        return check(facts)
    except Exception as bug:  # noqa: BLE001 - one check that stumbles must not cost the others
        structlog.get_logger("edged.doctor").error("check_failed", check=name, exc_info=bug)
        return fail(
            f"The check itself failed: {type(bug).__name__}: {bug}.", "Please report this as a bug."
        )
