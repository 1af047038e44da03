"""The map by QCoDeS: ``dond`` over two source meters with their own driver, through ``@edged``.

``python qcodes_map.py URL FOLDER`` prints the points as JSON: [gate V, drain V, drain A].
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from map_grid import DRAIN, DRAIN_LIMIT_A, GATE, GATE_LIMIT_A, SETTLES_S
from qcodes.dataset import (
    LinSweep,
    dond,
    initialise_or_create_database_at,
    load_or_create_experiment,
)
from qcodes.instrument_drivers.Keithley import Keithley2400


def source_meter(name: str, address: str, limit_a: float) -> Any:
    smu = Keithley2400(name, address, visalib=f"{sys.argv[1]}@edged")
    smu.mode("VOLT")
    smu.sense("CURR")
    smu.compliancei(limit_a)
    smu.volt(0)
    smu.output(1)
    return smu


def main() -> int:
    warnings.simplefilter("ignore")
    initialise_or_create_database_at(Path(sys.argv[2]) / "peers.db")
    load_or_create_experiment("peers", sample_name="transistor")
    gate = source_meter("gate", "smu1", GATE_LIMIT_A)
    drain = source_meter("drain", "smu2", DRAIN_LIMIT_A)
    data, *_ = dond(
        LinSweep(gate.volt, *GATE, SETTLES_S),
        LinSweep(drain.volt, *DRAIN, SETTLES_S),
        drain.curr,
        show_progress=False,
    )
    for smu in (drain, gate):
        smu.volt(0)
        smu.output(0)
    found = data.get_parameter_data()["drain_curr"]
    columns = (found[name].ravel().tolist() for name in ("gate_volt", "drain_volt", "drain_curr"))
    print(json.dumps(list(zip(*columns, strict=True))))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
