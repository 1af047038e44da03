"""The map by PyMeasure: a ``Procedure`` that its own worker runs, through ``@edged``.

``python pymeasure_map.py URL FOLDER`` prints the points as JSON: [gate V, drain V, drain A].
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from time import sleep  # noqa: TID251 - as its user would
from typing import Any

import numpy
from map_grid import DRAIN, DRAIN_LIMIT_A, GATE, GATE_LIMIT_A, SETTLES_S
from pymeasure.adapters import VISAAdapter
from pymeasure.experiment import Procedure, Results, Worker
from pymeasure.instruments.keithley import Keithley2400

TOOK_S = 25.0


def source_meter(address: str, limit_a: float) -> Any:
    smu = Keithley2400(VISAAdapter(address, visa_library=f"{sys.argv[1]}@edged"))
    smu.apply_voltage(voltage_range=20, compliance_current=limit_a)
    smu.source_voltage = 0
    smu.measure_current(nplc=1, current=limit_a, auto_range=True)
    smu.enable_source()
    return smu


class TransistorMap(Procedure):
    DATA_COLUMNS = ["v_g", "v_d", "i_d"]  # noqa: RUF012 - as PyMeasure has it

    def startup(self) -> None:
        self.gate = source_meter("smu1", GATE_LIMIT_A)
        self.drain = source_meter("smu2", DRAIN_LIMIT_A)

    def execute(self) -> None:
        for v_g in numpy.linspace(*GATE):
            self.gate.source_voltage = v_g
            sleep(SETTLES_S)
            for v_d in numpy.linspace(*DRAIN):
                self.drain.source_voltage = v_d
                sleep(SETTLES_S)
                self.emit("results", {"v_g": v_g, "v_d": v_d, "i_d": self.drain.current})
                if self.should_stop():
                    return

    def shutdown(self) -> None:
        for smu in (self.drain, self.gate):
            smu.source_voltage = 0
            smu.disable_source()


def main() -> int:
    warnings.simplefilter("ignore")
    results = Results(TransistorMap(), str(Path(sys.argv[2]) / "peers.csv"))
    worker = Worker(results)
    worker.start()
    worker.join(TOOK_S)
    print(json.dumps(results.data.values.tolist()))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
