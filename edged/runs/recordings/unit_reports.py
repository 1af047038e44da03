"""The units of a run in the files that test systems read: JUnit XML and openhtf's JSON. Pure.

Both keep the difference between a value outside of its limits (a failure), a check that never ran
(a failure, too: *incomplete* is never a pass) and a check that says nothing (an error).

Source: openhtf 1.6 core/test_record.py, core/measurements.py, output/callbacks/json_factory.py; the
JUnit schema of the Jenkins xUnit plugin.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from xml.etree import ElementTree as ET

from edged.runs.recordings.checks import Check, Limits, UnitResult, UnitVerdict

NO_CHECK: Final = "No check ran."
ITSELF: Final = "(unit)"
"""The name of the case that stands for a unit, where it was aborted or failed by itself."""
FAILURES: Final = (UnitVerdict.NONE, UnitVerdict.INCOMPLETE, UnitVerdict.FAIL)
ERRORS: Final = (UnitVerdict.ABORTED, UnitVerdict.ERROR)
COUNTED: Final = {
    "tests": "testcase",
    "failures": "testcase/failure",
    "errors": "testcase/error",
}
"""Of a suite: attribute → the elements that it counts."""
_NOT_OF_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
UNITS: Final[Mapping[str, tuple[str, str]]] = {
    "V": ("volt", "VLT"),
    "A": ("ampere", "AMP"),
    "W": ("watt", "WTT"),
    "Ω": ("ohm", "OHM"),
    "Hz": ("hertz", "HTZ"),
    "K": ("kelvin", "KEL"),
    "F": ("farad", "FAR"),
    "H": ("henry", "81"),
    "°C": ("degree Celsius", "CEL"),
    "s": ("second [unit of time]", "SEC"),
    "dB": ("decibel", "2N"),
}
"""Unit → the name and the UNECE code that openhtf has for it; others have no code."""


def junit(meta: Mapping[str, Any], results: Sequence[UnitResult]) -> str:
    """One suite for each unit and try, one case for each check."""
    top = ET.Element("testsuites", name=_xml(f"{meta.get('command_name')} {meta.get('run_id')}"))
    suites = [_suite(meta, result) for result in results]
    for key in COUNTED:
        top.set(key, str(sum(int(suite.get(key, "0")) for suite in suites)))
    top.extend(suites)
    ET.indent(top)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(top, encoding="unicode")}\n'


def _suite(meta: Mapping[str, Any], result: UnitResult) -> ET.Element:
    name = unit_name(meta, result)
    suite = ET.Element("testsuite", name=_xml(name))
    known = {
        "run_id": str(meta.get("run_id")),
        "unit": result.unit,
        "try": result.try_number,
        "verdict": result.verdict.value,
    }
    _add_properties(suite, known)
    for check, started_ms in _cases(result):
        case = ET.SubElement(
            suite,
            "testcase",
            classname=_xml(name),
            name=_xml(check.name or ITSELF),
            time=_seconds(check.time_ms - started_ms),
        )
        _fill(case, check)
    for key, path in COUNTED.items():
        suite.set(key, str(len(suite.findall(path))))
    suite.set("skipped", "0")
    suite.set("time", _seconds(result.ended_ms - result.began_ms))
    began = datetime.fromtimestamp(result.began_ms / 1000, UTC)
    suite.set("timestamp", began.strftime("%Y-%m-%dT%H:%M:%S"))
    return suite


def _add_properties(element: ET.Element, known: Mapping[str, Any]) -> None:
    properties = ET.SubElement(element, "properties")
    for key, value in known.items():
        if value is not None:
            ET.SubElement(properties, "property", name=key, value=_xml(str(value)))


def unit_name(meta: Mapping[str, Any], result: UnitResult) -> str:
    """The name of a unit at a try; the run's own where it has none."""
    name = result.unit or str(meta.get("run_id"))
    return name if result.try_number == 1 else f"{name} (try {result.try_number})"


def _cases(result: UnitResult) -> Iterator[tuple[Check, int]]:
    """Each check and when it began; then the unit itself, if it says more than its checks."""
    before_ms = result.began_ms
    for check in result.checks:
        yield check, min(before_ms, check.time_ms)
        before_ms = check.time_ms
    if result.own is not UnitVerdict.NONE or not result.checks:
        message = " ".join(result.messages)
        yield (
            Check(
                verdict=result.own,
                time_ms=result.ended_ms,
                message=message or ("" if result.checks else NO_CHECK),
            ),
            before_ms,
        )


def _fill(case: ET.Element, check: Check) -> None:
    limits = check.limits
    known = {
        "value": check.value,
        "unit_of_measure": limits.unit or None,
        "min": limits.least,
        "max": limits.most,
        "near": limits.near,
        "verdict": check.verdict.value,
    }
    _add_properties(case, known)
    if check.verdict in (*FAILURES, *ERRORS):
        kind = "failure" if check.verdict in FAILURES else "error"
        is_none = check.verdict is UnitVerdict.NONE
        ET.SubElement(
            case,
            kind,
            type=UnitVerdict.INCOMPLETE.value if is_none else check.verdict.value,
            message=_xml(sentence(check)),
        )


def sentence(check: Check) -> str:
    """What a check came to, in words: "i_idle = 0.4 A is not within 0.1 A to 0.3 A"."""
    if not check.name:
        return check.message or f"The unit is {check.verdict.value}."
    unit = f" {check.limits.unit}" if check.limits.unit else ""
    value = "no value" if check.value is None else f"{_shown(check.value)}{unit}"
    within = _within(check.limits, unit)
    match check.verdict:
        case UnitVerdict.FAIL:
            said = f"{check.name}: {value}{f', not {within}' if within else ''}"
        case UnitVerdict.INCOMPLETE:
            said = f"{check.name} is incomplete"
        case _:
            said = f"{check.name}: {value}, {check.verdict.value}"
    return f"{said}. {check.message}".strip() if check.message else f"{said}."


def _within(limits: Limits, unit: str) -> str:
    match limits.least, limits.most:
        case None, None:
            return ""
        case least, None:
            return f"at least {least:g}{unit}"
        case None, most:
            return f"at most {most:g}{unit}"
        case least, most:
            return f"within {least:g}{unit} to {most:g}{unit}"


def _shown(value: object) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _seconds(milliseconds: int) -> str:
    return f"{max(0, milliseconds) / 1000:.3f}"


def _xml(text: str) -> str:
    """The text without the characters that XML does not have."""
    return _NOT_OF_XML.sub("?", text)


OPENHTF: Final[Mapping[UnitVerdict, tuple[str, str, str]]] = {
    UnitVerdict.NONE: ("FAIL", "ERROR", "UNSET"),
    UnitVerdict.PASS: ("PASS", "PASS", "PASS"),
    UnitVerdict.MARGINAL: ("PASS", "PASS", "PASS"),
    UnitVerdict.INCOMPLETE: ("FAIL", "FAIL", "UNSET"),
    UnitVerdict.FAIL: ("FAIL", "FAIL", "FAIL"),
    UnitVerdict.ABORTED: ("ABORTED", "ERROR", "UNSET"),
    UnitVerdict.ERROR: ("ERROR", "ERROR", "UNSET"),
}
"""UnitVerdict → the outcome of a unit, of a phase and of a measurement."""
UNUSED: Final = (
    "subtests", "branches", "checkpoints", "diagnosers", "diagnoses", "log_records",
)  # fmt: skip
"""What a record of openhtf has, and a run of edged has not."""
NO_CODE: Final = {"name": "", "docstring": None, "sourcecode": ""}


def openhtf(meta: Mapping[str, Any], result: UnitResult) -> dict[str, Any]:
    """The record of one unit at one try, as openhtf's ``json_factory`` writes it."""
    verdict = result.verdict
    details = [
        {"code": check.verdict.value, "description": sentence(check)}
        for check, _ in _cases(result)
        if check.verdict in (*FAILURES, *ERRORS)
    ]
    metadata = meta.get("details") or {}
    return {
        "dut_id": result.unit or str(meta.get("run_id")),
        "station_id": str(meta.get("host")),
        "start_time_millis": result.began_ms,
        "end_time_millis": result.ended_ms,
        "outcome": OPENHTF[verdict][0],
        "outcome_details": details,
        "marginal": verdict is UnitVerdict.MARGINAL,
        "metadata": {
            "test_name": str(meta.get("command_name")),
            "run_id": meta.get("run_id"),
            "try": result.try_number,
            "verdict": verdict.value,
            "part": metadata.get("part"),
            "parameters": meta.get("parameters"),
            "edged_version": meta.get("edged_version"),
            "config": {},
        },
        "phases": list(_phases(result)),
        **{name: [] for name in UNUSED},
        "code_info": NO_CODE,
    }


def _phases(result: UnitResult) -> Iterator[dict[str, Any]]:
    seen: Counter[str] = Counter()
    for number, (check, began_ms) in enumerate(_cases(result)):
        name = check.name or ITSELF
        seen[name] += 1
        called = name if seen[name] == 1 else f"{name} #{seen[name]}"
        yield {
            "measurements": {called: _measurement(called, check)} if check.name else {},
            "options": {},
            "diagnosers": [],
            "subtest_name": None,
            "start_time_millis": began_ms,
            "end_time_millis": check.time_ms,
            "attachments": {},
            "diagnosis_results": [],
            "failure_diagnosis_results": [],
            "result": {"phase_result": "CONTINUE"},
            "outcome": OPENHTF[check.verdict][1],
            "marginal": check.verdict is UnitVerdict.MARGINAL,
            "descriptor_id": number,
            "name": called,
            "codeinfo": NO_CODE,
        }


def _measurement(name: str, check: Check) -> dict[str, Any]:
    limits, value = check.limits, check.value
    outcome = OPENHTF[check.verdict][2]
    made: dict[str, Any] = {"name": name, "outcome": outcome}
    if validator := "x == True" if isinstance(value, bool) else _validator(limits):
        made["validators"] = [validator]
    if limits.unit:
        called, code = UNITS.get(limits.unit, (limits.unit, ""))
        made["units"] = {"name": called, "code": code, "suffix": limits.unit}
    if check.message:
        made["docstring"] = check.message
    if outcome != "UNSET" and not (isinstance(value, float) and not math.isfinite(value)):
        made["measured_value"] = value
    return made


def _validator(limits: Limits) -> str:
    """The limits as openhtf's ``InRange`` writes them."""
    least, most = limits.least, limits.most
    if least is None and most is None:
        return ""
    if least == most:
        return f"x == {least}"
    inner_least, inner_most = limits.inner if limits.near else (None, None)
    parts = [
        f"{least}" if least is not None else "",
        f"Marginal:{inner_least}" if inner_least is not None else "",
        "x",
        f"Marginal:{inner_most}" if inner_most is not None else "",
        f"{most}" if most is not None else "",
    ]
    return " <= ".join(filter(None, parts))
