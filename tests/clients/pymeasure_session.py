"""Unchanged drivers of PyMeasure, each doing a measurement of its kind through ``@edged``.

``python pymeasure_session.py URL`` prints JSON: what each of them measured.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

from pymeasure.adapters import VISAAdapter
from pymeasure.instruments.keithley import Keithley2400, Keithley2450, KeithleyDMM6500
from pymeasure.instruments.keysight import KeysightE36312A
from pymeasure.instruments.rohdeschwarz.hmp import HMP4040
from pymeasure.instruments.yokogawa import YokogawaGS200

LIBRARY = f"{sys.argv[1]}@edged"


def keithley_2400() -> Any:
    smu = Keithley2400(VISAAdapter("smu", visa_library=LIBRARY))
    smu.reset()
    smu.apply_voltage(voltage_range=20, compliance_current=0.1)
    smu.source_voltage = 2.0
    smu.enable_source()
    smu.measure_current(nplc=1, current=0.1, auto_range=True)
    found = smu.current
    smu.shutdown()
    return {"id": smu.id, "current": found}


def keithley_2450() -> Any:
    smu = Keithley2450(VISAAdapter("smu2", visa_library=LIBRARY))
    smu.reset()
    smu.apply_voltage(voltage_range=20, compliance_current=0.1)
    smu.source_voltage = 2.0
    smu.enable_source()
    smu.measure_current(nplc=1, current=0.1, auto_range=True)
    found = smu.current
    smu.shutdown()
    return {"id": smu.id, "current": found}


def keithley_dmm6500() -> Any:
    dmm = KeithleyDMM6500(VISAAdapter("dmm", visa_library=LIBRARY))
    dmm.mode = "voltage"
    return {"id": dmm.id, "voltage": dmm.voltage}


def keysight_e36312a() -> Any:
    psu = KeysightE36312A(VISAAdapter("psu", visa_library=LIBRARY))
    psu.ch_1.voltage_setpoint = 3.0
    psu.ch_1.current_limit = 0.5
    psu.ch_1.output_enabled = True
    time.sleep(0.2)  # noqa: TID251 - the output settles
    found = psu.ch_1.voltage
    psu.ch_1.output_enabled = False
    return {"id": psu.id, "voltage": found}


def yokogawa_gs200() -> Any:
    source = YokogawaGS200(VISAAdapter("gs", visa_library=LIBRARY))
    source.source_mode = "voltage"
    source.source_range = 10
    source.source_level = 1.5
    source.source_enabled = True
    found = source.source_level
    source.source_enabled = False
    return {"id": source.id, "level": found}


def rohdeschwarz_hmp4040() -> Any:
    psu = HMP4040(VISAAdapter("hmp", visa_library=LIBRARY))
    psu.selected_channel = 1
    psu.voltage = 4.0
    psu.current = 0.3
    return {"id": psu.id, "voltage": psu.voltage, "current": psu.current}


DRIVERS = (
    keithley_2400,
    keithley_2450,
    keithley_dmm6500,
    keysight_e36312a,
    yokogawa_gs200,
    rohdeschwarz_hmp4040,
)


def main() -> int:
    warnings.simplefilter("ignore")
    told = {}
    for measure in DRIVERS:
        told[measure.__name__] = measure()
    print(json.dumps(told))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
