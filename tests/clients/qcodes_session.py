"""Unchanged drivers of QCoDeS, each doing a measurement of its kind through ``@edged``.

``python qcodes_session.py URL`` prints JSON: what each of them measured.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

from qcodes.instrument_drivers.Keithley import Keithley2400
from qcodes.instrument_drivers.Keysight import Keysight34465A
from qcodes.instrument_drivers.rigol import RigolDP832
from qcodes.instrument_drivers.yokogawa import YokogawaGS200

LIBRARY = f"{sys.argv[1]}@edged"


def keithley_2400() -> Any:
    smu = Keithley2400("smu", "smu", visalib=LIBRARY)
    smu.mode("VOLT")
    smu.sense("CURR")
    smu.compliancei(0.1)
    smu.volt(2.0)
    smu.output(1)
    found = smu.curr()
    smu.output(0)
    return {"idn": smu.get_idn(), "current": found}


def keysight_34465a() -> Any:
    dmm = Keysight34465A("dmm", "kdmm", visalib=LIBRARY)
    return {"idn": dmm.get_idn(), "voltage": dmm.volt()}


def rigol_dp832() -> Any:
    psu = RigolDP832("dp", "dp", visalib=LIBRARY)
    psu.ch1.set_voltage(3.0)
    psu.ch1.set_current(0.5)
    psu.ch1.state("on")
    time.sleep(0.3)  # noqa: TID251 - the output settles
    found = psu.ch1.voltage()
    psu.ch1.state("off")
    return {"idn": psu.get_idn(), "voltage": found}


def yokogawa_gs200() -> Any:
    source = YokogawaGS200("gs", "gs", visalib=LIBRARY)
    source.source_mode("VOLT")
    source.voltage_range(10)
    source.voltage(1.5)
    source.on()
    found = source.voltage()
    source.off()
    return {"idn": source.get_idn(), "level": found}


DRIVERS = (
    keithley_2400,
    keysight_34465a,
    rigol_dp832,
    yokogawa_gs200,
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
