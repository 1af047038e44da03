"""A program that knows VISA, on a computer with Debian's PyVISA and the backend, and no edged.

Run by `deb_test` in such a system, beside a bench with a simulated supply.
"""

import importlib.util

import pyvisa

if importlib.util.find_spec("edged") is not None:
    raise SystemExit("edged is here")
rm = pyvisa.ResourceManager("http://127.0.0.1:8767/mcp@edged")
names = rm.list_resources()
supply = rm.open_resource("psu1", read_termination="\n")
print(f"PyVISA {pyvisa.__version__}:", *names, supply.query("*IDN?"))
supply.write(":SOUR1:VOLT 3")
if float(supply.query(":SOUR1:VOLT?")) != 3:
    raise SystemExit("3 V were not set")
try:
    supply.write(":SOUR1:VOLT 99")
except pyvisa.VisaIOError as refused:
    print(refused)
else:
    raise SystemExit("99 V were not refused")
if not (entry := supply.query("SYST:ERR?")).startswith("-222,"):
    raise SystemExit(f"the refusal is not in the program's error queue: {entry}")
rm.close()
