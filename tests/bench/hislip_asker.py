"""A program that asks numbered questions over HiSLIP, in a process of its own.

Run as ``python -m tests.bench.hislip_asker PORT NAME UNIT FIRST COUNT [--lock]``: prints what came
of it as one JSON object. With COUNT 0 it says ``ready`` once its first question was answered, and
asks until it is ended.
"""

from __future__ import annotations

import itertools
import json
import sys

from edged.protocol.hislip import LockResult
from tests.bench.hislip_program import HislipProgram
from tests.bench.numbered import value_of


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(words: list[str]) -> int:
    port, name, unit, first, count = int(words[0]), words[1], *map(int, words[2:5])
    asked = wrong = 0
    examples: list[str] = []
    with HislipProgram.open(port, name) as program:
        if "--lock" in words and program.lock() is not LockResult.SUCCESS:
            return 1
        for number in itertools.islice(itertools.count(first), count or None):
            answer = program.query(f"READ? {number}")
            asked += 1
            if float(answer) != value_of(unit, number):
                wrong += 1
                examples.append(f"{number}: {answer}")
            if not count and asked == 1:
                tell("ready")
    tell(json.dumps({"asked": asked, "wrong": wrong, "examples": examples[:3]}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
