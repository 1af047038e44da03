"""``edged sim``: a simulated bench on loopback, by itself; ``edged sim fault …`` works one.

It prints one line of JSON when it is ready (where each instrument listens, and the control port),
and ends with SIGTERM or when its standard input closes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from edged.cli import sim_control
from edged.errors import Invalid

__all__ = ["run"]


def run(arguments: Sequence[str]) -> int:
    """Run the verb; returns the exit status."""
    if arguments and arguments[0] in sim_control.ORDERS:
        return sim_control.run(arguments)
    # Imported late: what works a running bench needs none of it.
    from edged.sim import program as sim

    parser = argparse.ArgumentParser(prog="edged sim", description=__doc__)
    sim.add_arguments(parser)
    parsed = parser.parse_args(arguments)
    try:
        options = sim.options_from(parsed)
    except Invalid as error:
        parser.error(str(error))
    return sim.run(options)
