"""Reads JUnit files with junitparser, and openhtf's records with openhtf; prints them as JSON.

A record becomes openhtf's own TestRecord, which is written by its own ``json_factory`` and
converted into what is uploaded to its own inspector. It has no reader of its own files: their
objects are made here by the names of the keys.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import junitparser
from openhtf.core import measurements, test_record
from openhtf.core.phase_descriptor import PhaseOptions
from openhtf.output.callbacks import json_factory
from openhtf.output.proto import mfg_event_converter, mfg_event_pb2, test_runs_pb2
from openhtf.util import units, validators


def junit(path: str) -> Any:
    return [
        {
            "name": suite.name,
            "counts": [suite.tests, suite.failures, suite.errors],
            "time": suite.time,
            "cases": [
                {
                    "name": case.name,
                    "time": case.time,
                    "results": [[type(one).__name__, one.type, one.message] for one in case.result],
                    "properties": {
                        one.name: one.value
                        for part in case.iterchildren(junitparser.Properties)
                        for one in part
                    },
                }
                for case in suite
            ],
        }
        for suite in junitparser.JUnitXml.fromfile(path)
    ]


def in_range(text: str) -> validators.InRange:
    """The validator whose text this is."""
    if text.startswith("x == "):
        one = text == "x == True" or float(text.removeprefix("x == "))
        return validators.InRange(one, one)
    parts = text.split(" <= ")
    at = parts.index("x")
    sides = []
    for side in (parts[:at], parts[at + 1 :]):
        inner = [one.removeprefix("Marginal:") for one in side if one.startswith("Marginal:")]
        outer = [one for one in side if not one.startswith("Marginal:")]
        sides.append([float(one[0]) if one else None for one in (outer, inner)])
    (least, inner_least), (most, inner_most) = sides
    return validators.InRange(least, most, inner_least, inner_most)


def measurement(told: dict[str, Any]) -> measurements.Measurement:
    made = measurements.Measurement(told["name"])
    if told.get("docstring"):
        made = made.doc(told["docstring"])
    for text in told.get("validators", ()):
        made = made.with_validator(in_range(text))
        assert str(made.validators[-1]) == text, text
    if unit := told.get("units"):
        made = made.with_units(units.UnitDescriptor(unit["name"], unit["code"], unit["suffix"]))
        if unit["code"]:
            known = {one.code: one for one in units.UNITS_BY_NAME.values()}[unit["code"]]
            assert (known.name, known.suffix) == (unit["name"], unit["suffix"]), known
    if "measured_value" in told:
        made.measured_value.set(told["measured_value"])
        made.validate()
        assert made.outcome.name == told["outcome"], told
    return made


def phase(told: dict[str, Any]) -> test_record.PhaseRecord:
    made = test_record.PhaseRecord(
        descriptor_id=told["descriptor_id"],
        name=told["name"],
        codeinfo=test_record.CodeInfo(**told["codeinfo"]),
    )
    made.measurements = {name: measurement(one) for name, one in told["measurements"].items()}
    made.options = PhaseOptions()
    made.start_time_millis = told["start_time_millis"]
    made.end_time_millis = told["end_time_millis"]
    made.outcome = test_record.PhaseOutcome[told["outcome"]]
    made.marginal = told["marginal"]
    for one in made.measurements.values():
        if one.outcome is measurements.Outcome.PASS:
            assert one.marginal == told["marginal"], told
    return made


def record(told: dict[str, Any]) -> test_record.TestRecord:
    made = test_record.TestRecord(
        dut_id=told["dut_id"],
        station_id=told["station_id"],
        code_info=test_record.CodeInfo(**told["code_info"]),
        metadata=told["metadata"],
    )
    made.start_time_millis = told["start_time_millis"]
    made.end_time_millis = told["end_time_millis"]
    made.outcome = test_record.Outcome[told["outcome"]]
    made.marginal = told["marginal"]
    for one in told["outcome_details"]:
        made.add_outcome_details(one["code"], one["description"])
    for one in told["phases"]:
        made.add_phase_record(phase(one))
    return made


def openhtf(path: str) -> Any:
    told = json.loads(Path(path).read_text(encoding="utf-8"))
    written = json_factory.convert_test_record_to_json(record(told))
    event = mfg_event_converter.mfg_event_from_test_record(record(told))
    again = mfg_event_pb2.MfgEvent.FromString(event.SerializeToString())
    return {
        "keys": sorted(written),
        "phase_keys": sorted(written["phases"][0]),
        "measurements": [one["measurements"] for one in written["phases"]],
        "outcome": written["outcome"],
        "details": written["outcome_details"],
        "uploaded": {
            "serial": again.dut_serial,
            "status": test_runs_pb2.Status.Name(again.test_status),
            "measurements": {
                one.name: [
                    one.numeric_value,
                    one.numeric_minimum,
                    one.numeric_maximum,
                    test_runs_pb2.Status.Name(one.status),
                ]
                for one in again.measurement
            },
            "codes": [[one.code, one.details] for one in again.failure_codes],
        },
    }


for kind, name in (line.split(maxsplit=1) for line in sys.stdin):
    found = junit(name.strip()) if kind == "junit" else openhtf(name.strip())
    sys.stdout.write(json.dumps(found, default=str) + "\n")
