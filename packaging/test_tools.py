"""The part of the development lock that runs the tests: pytest, its plugins, hypothesis.

    python packaging/test_tools.py requirements-dev.lock > tools.txt

They go behind Debian's modules, so what is tested is Debian's.
"""

import re
import sys
from pathlib import Path

NAMES = frozenset(
    {
        "pytest",
        "pytest-aiohttp",
        "pytest-asyncio",
        "pytest-randomly",
        "pytest-timeout",
        "pytest-xdist",
        "execnet",
        "hypothesis",
        "iniconfig",
        "packaging",
        "pluggy",
        "sortedcontainers",
        "pygments",
    }
)


def main(words: list[str]) -> int:
    blocks = re.split(r"\n(?=[a-z])", Path(words[0]).read_text())
    print("\n".join(block.rstrip() for block in blocks if block.split("==")[0] in NAMES))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
