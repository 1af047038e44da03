"""``edged sim``: a simulated bench on loopback sockets, by itself.

It prints one line of JSON when it is ready (where each instrument listens, and the control port),
and ends with SIGTERM or when its standard input closes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from edged.errors import Invalid
from edged.processes import sim

__all__ = ["run"]


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    parser = argparse.ArgumentParser(prog="edged sim", description=__doc__)
    sim.add_arguments(parser)
    parsed = parser.parse_args(arguments)
    try:
        options = sim.options_from(parsed)
    except Invalid as error:
        parser.error(str(error))
    return sim.run(options)
