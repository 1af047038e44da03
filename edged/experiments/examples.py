"""Plans to begin with, which pass the check on the simulated bench that their first line starts.

``edged experiment new`` prints them; the first is the example of the grammar for agents.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

_MAP: Final = """\
# edged engine --sim --instruments smu1=keithley_2400,smu2=keithley_2400 --transistor smu1=smu2
format: 1
experiment: transistor_map
roles: {gate: smu1, drain: smu2}
parameters:
  v_max: {type: float, min: 0.1, max: 5, default: 1, unit: V}
steps:
  - {command: gate.source_voltage, parameters: {voltage: 0, current_limit: 1.0e-6}}
  - {command: drain.source_voltage, parameters: {voltage: 0, current_limit: 0.02}}
  - {command: gate.output_on}
  - {command: drain.output_on}
  - for: v_g
    in: {lin: [0, "{v_max}", 5]}
    set: gate.set_voltage
    rate: 2
    steps:
      - for: v_d
        in: {lin: [0, 5, 11]}
        set: drain.set_voltage
        rate: 10
        snake: true
        steps:
          - measure: {i_d: drain.measure.current, i_g: gate.measure.current}
          - {if: "i_d > 0.015", then: [{leave: v_d}]}
finally:
  - {ramp: drain.set_voltage, to: 0, rate: 10}
  - {ramp: gate.set_voltage, to: 0, rate: 2}
  - {command: drain.output_off}
  - {command: gate.output_off}
plots: [{map: i_d, x: v_d, y: v_g}]
"""
_TEST: Final = """\
# edged engine --sim --instruments psu1=rigol_dp832,dmm1=keysight_34461a
format: 1
experiment: board_test
roles: {supply: psu1, meter: dmm1}
with: {supply: {channel: 1}}
parameters:
  boards: {type: int, min: 1, max: 200, default: 2}
part: {number: REG-33, revision: C}
steps:
  - for: board
    in: {count: "{boards}"}
    unit: "{serial}"
    steps:
      - ask: serial
        text: "Serial number of board {board + 1} of {boards}?"
        type: text
        timeout_s: 3600
        on_timeout: end
      - {command: supply.set_voltage_and_current, parameters: {voltage: 12, current: 0.2}}
      - {command: supply.output_on}
      - {wait_s: 0.5}
      - {measure: {i_idle: supply.measure_current, v_out: meter.measure_dc_voltage}}
      - {check: idle current, value: "{i_idle}", min: 0.1, max: 0.3, unit: A, on_fail: end_unit}
      - {check: output voltage, value: "{v_out}", min: 1.5, max: 2.5, near: 0.01, unit: V}
      - {ask: led, text: "Is the green LED on?", type: pass_fail, timeout_s: 60}
    finally: [{command: supply.output_off}]
report: {per: unit, formats: [html, junit]}
"""
_LOG: Final = """\
# edged engine --sim
format: 1
experiment: warm_up
roles: {supply: psu1, meter: dmm1}
with: {supply: {channel: 1}}
parameters:
  minutes: {type: float, min: 0.05, max: 600, default: 10, unit: min}
watch:
  - {read: supply.measure_current, must: "value < 1", every_s: 5, else: abort}
log:
  i_supply: {command: supply.measure_current, every_s: 5}
steps:
  - {command: supply.set_voltage_and_current, parameters: {voltage: 5, current: 1}}
  - {command: supply.output_on}
  - for: second
    in: {count: "{round(60 * minutes)}"}
    steps:
      - {measure: {v_out: meter.measure_dc_voltage}}
      - {wait_s: 1}
finally: [{command: supply.output_off}]
plots: [{line: v_out}]
"""

EXAMPLES: Final = MappingProxyType({"map": _MAP, "test": _TEST, "log": _LOG})
