"""A program of PyVISA's that asks a unit numbered questions through ``@edged``.

``python -m tests.bench.visa_asker URL NAME COUNT FIRST`` prints JSON: how many answers were right,
and the first that were another question's.
"""

from __future__ import annotations

import json
import sys

import pyvisa
from pyvisa.resources import MessageBasedResource


def main(url: str, name: str, count: int, first: int) -> int:
    rm = pyvisa.ResourceManager(f"{url}@edged")
    unit = rm.open_resource(name, read_termination="\n", timeout=30_000)
    assert isinstance(unit, MessageBasedResource)
    crossed = []
    for number in range(first, first + count):
        if number % 7 == 0:
            # Between its two halves anybody may try.
            unit.write(f"ECHO? {number}")
            answer = unit.read()
        else:
            answer = unit.query(f"ECHO? {number}")
        if answer != str(number):
            crossed.append([number, answer])
    rm.close()
    print(json.dumps({"right": count - len(crossed), "crossed": crossed[:5]}))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
